//! The container: header, features, events, pipes; and what is cut, damaged or too much.

use std::path::PathBuf;

use biopsy_import::perf_data::{Options, read, read_bytes};
use biopsy_import::{ImportError, Limits};
use biopsy_model::timeline::TraceMethod;

use crate::build::{
    Event, File, Row, Side, bit, clock, codes, import, record, sample, text, timeline, try_import,
};

fn row(time: u64) -> Row {
    Row { time, pid: 100, tid: 100, ip: 0x1000, chain: vec![0x1000, 0x2000], period: 1, ..Row::default() }
}

/// Samples of `cpu-clock` at these times, and nothing else.
fn samples(times: &[u64]) -> File {
    let records: Vec<_> = times.iter().map(|time| sample(&clock(), &row(*time))).collect();
    File::new(&[clock()], &records)
}

fn times(file: &File) -> Vec<u64> {
    timeline(&import(file)).samples.iter().map(|sample| sample.time.0).collect()
}

#[test]
fn features_tell_who_and_where() {
    let mut file = samples(&[1_000, 3_000]);
    let list = [2_u32.to_le_bytes().to_vec(), text("perf"), text("record")].concat();
    file.features = vec![
        (3, text("vm")),
        (4, text("6.18.1")),
        (5, text("6.1.187")),
        (6, text("aarch64")),
        (7, [8_u32, 6].map(u32::to_le_bytes).concat()),
        (8, text("Neoverse N1")),
        (10, 2_048_u64.to_le_bytes().to_vec()),
        (11, list),
        // Version, clock, wall clock, and the same moment on perf's clock.
        (29, [1 | 1 << 32, 5_000_000, 2_000].map(u64::to_le_bytes).concat()),
    ];
    let header = import(&file).header;
    assert_eq!(
        (header.tool.as_str(), header.command),
        ("perf 6.1.187", vec!["perf".into(), "record".into()])
    );
    let host = header.host;
    assert_eq!(
        (host.hostname.as_str(), host.kernel.as_str(), host.architecture.as_str()),
        ("vm", "6.18.1", "aarch64")
    );
    assert_eq!((host.cpus, host.cpu_model.as_str(), host.memory), (6, "Neoverse N1", 2 << 20));
    assert_eq!(header.start.wall_unix_nanos, 5_000_000 - 2_000 + 1_000);
    assert_eq!(header.end.unwrap().wall_unix_nanos, 5_000_000 - 2_000 + 3_000);
}

#[test]
fn without_features_nothing_is_made_up() {
    let mut file = samples(&[1_000]);
    file.features.clear();
    let capture = import(&file);
    let header = capture.header;
    assert_eq!((header.tool.as_str(), header.command.len(), header.host.cpus), ("perf", 0, 0));
    assert_eq!(header.start.wall_unix_nanos, 1_000, "no wall clock: zero of perf's clock");
    assert!(header.end.is_some(), "whole all the same");
    assert_eq!(timeline(&import(&file)).settings.method, TraceMethod::Imported);
}

/// The file was written last when the recording ended.
#[test]
fn the_wall_clock_is_told_from_the_age_of_the_file() {
    let options = Options { modified_unix_nanos: Some(1_000_000), ..Options::closed() };
    let header = read_bytes(&samples(&[100, 400]).bytes(), &options, &Limits::default()).unwrap().header;
    assert_eq!((header.start.wall_unix_nanos, header.end.unwrap().wall_unix_nanos), (999_700, 1_000_000));
}

#[test]
fn features_that_are_damaged_are_as_good_as_absent() {
    for (feature, bytes) in [
        (5, vec![255, 255, 255, 127, 0]),
        (5, vec![]),
        (7, vec![1]),
        (10, vec![1, 2, 3]),
        (11, [u32::MAX.to_le_bytes().to_vec(), text("perf")].concat()),
        (12, vec![9; 40]),
        (2, vec![3; 30]),
        (29, vec![0; 9]),
    ] {
        let mut file = samples(&[10]);
        file.features = vec![(feature, bytes)];
        let capture = import(&file);
        assert_eq!(codes(&capture), [""; 0], "{feature}");
        assert_eq!(timeline(&capture).samples.len(), 1, "{feature}");
    }
}

#[test]
fn events_are_named_by_their_ids_or_by_their_order() {
    let raw = Event { kind: 4, config: 0x1234, name: "cpu-cycles:ppp", ..clock() };
    for ids in [vec![], vec![5, 6]] {
        let event = Event { ids, ..raw.clone() };
        let records = [sample(&event, &row(10))];
        let capture = import(&File::new(std::slice::from_ref(&event), &records));
        assert_eq!(timeline(&capture).settings.sampling_event.as_str(), "cpu-cycles", "{:?}", event.ids);
    }
    let nameless = Event { name: "", ..raw };
    let capture = import(&File::new(std::slice::from_ref(&nameless), &[sample(&nameless, &row(10))]));
    assert_eq!(codes(&capture), ["import.unused-events", "import.no-cpu-event"]);
    assert_eq!(capture.warnings[0].message, "1 samples of other events were not used: event 4:0x1234");
}

/// `PERF_RECORD_HEADER_BUILD_ID`: a header, pid, 20 bytes of id with its length, path.
#[test]
fn build_ids_of_the_file_belong_to_paths() {
    let long: Vec<u8> = (1..=20).collect();
    let padded = [vec![7; 16], vec![0; 4]].concat();
    for (what, misc, id, length, expected) in [
        ("of a length that is told", 1 << 15, &padded, 16, &padded[..16]),
        ("older perf: what is zero is padding", 0, &padded, 0, &padded[..16]),
        ("older perf, all of it", 0, &long, 0, &long[..]),
    ] {
        let body = [&100_u32.to_le_bytes()[..], id, &[length, 0, 0, 0], b"/bin/a\0\0"].concat();
        let mut file = samples(&[10]);
        let mapped = Side { event: clock() }.map(0, 100, [0, 0x10_0000, 0], "/bin/a");
        file.records = [mapped, file.records].concat();
        file.features = vec![(2, record(67, misc, &body))];
        let capture = import(&file);
        let modules = &timeline(&capture).modules;
        assert_eq!(modules[0].build_id.as_deref(), Some(expected), "{what}");
        assert_eq!(codes(&capture), ["import.not-opened"], "nothing was looked for: {what}");
    }
}

#[test]
fn a_pipe_says_the_same_as_a_file() {
    let clock = Event { ids: vec![1, 2], name: "cpu-clock", sample_type: bit::USUAL | bit::ID, ..clock() };
    let faults = Event { kind: 1, config: 2, ids: vec![3], name: "page-faults", ..clock.clone() };
    let records = [
        sample(&clock, &Row { id: 2, ..row(10) }),
        sample(&faults, &Row { id: 3, ..row(20) }),
        Side { event: clock.clone() }.comm(30, [100, 100], "server", true),
    ];
    let mut file = File::new(&[clock, faults], &records);
    file.features.push((5, text("6.1")));
    file.features.sort();
    let [of_file, of_pipe] = [file.bytes(), file.pipe()].map(|bytes| try_import(&bytes).unwrap());
    assert_eq!(of_file, of_pipe);
    assert_eq!(of_pipe.header.tool, "perf 6.1");
    assert_eq!(timeline(&of_pipe).samples.len(), 1);
}

#[test]
fn records_are_put_in_order_of_time() {
    assert_eq!(times(&samples(&[30, 10, 20])), [10, 20, 30]);
}

#[test]
fn what_is_not_known_is_skipped_with_all_that_belongs_to_it() {
    let mut file = samples(&[10, 20]);
    let half = file.records.len() / 2;
    let data = 3_u32.to_le_bytes().to_vec();
    for strange in [
        record(200, 0, &[1, 2, 3, 4]),               // perf's own, of tomorrow
        record(40, 0, &[1, 2, 3, 4, 5, 6, 7, 8]),    // the kernel's, of tomorrow
        record(68, 0, &[]),                          // a round is finished
        [record(66, 0, &data), vec![9; 8]].concat(), // tracing data, padded to 8 bytes
        [record(71, 0, &[5_u64.to_le_bytes(), [0; 8]].concat()), vec![9; 5]].concat(), // 5 bytes of a trace
    ] {
        let mut with = file.clone();
        with.records = [&file.records[..half], &strange, &file.records[half..]].concat();
        assert_eq!(times(&with), [10, 20], "{strange:?}");
    }
    // A record cannot be shorter than its header.
    file.records.splice(half..half, [9, 0, 0, 0, 0, 0, 7, 0]);
    let capture = import(&file);
    assert_eq!((codes(&capture), timeline(&capture).samples.len()), (vec!["import.cut-short"], 1));
    assert_eq!(capture.header.end, None);
}

#[test]
fn a_file_without_events_says_nothing() {
    for bytes in [File::default().bytes(), File::default().pipe(), b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec()] {
        let error = try_import(&bytes).unwrap_err();
        assert!(matches!(error, ImportError::NoEvents), "{error}");
    }
    let mut lost = samples(&[10]);
    lost.events.clear();
    assert!(matches!(try_import(&lost.bytes()), Err(ImportError::NoEvents)));
}

#[test]
fn errors_say_what_to_do_where_something_can_be_done() {
    let damaged = try_import(b"PERFILE2\x68\0").unwrap_err();
    assert!(matches!(damaged, ImportError::Damaged(_)), "{damaged}");
    let not = try_import(b"PK\x03\x04 and more").unwrap_err();
    assert_eq!(not.to_string(), "not a perf.data file: it begins with [50, 4b, 03, 04, 20, 61, 6e, 64]");
    let none =
        read(PathBuf::from("/nowhere/perf.data"), &Default::default(), &Limits::default()).unwrap_err();
    assert_eq!((none.to_string().as_str(), none.hint()), ("cannot read `/nowhere/perf.data`", None));
    let large = ImportError::TooLarge { path: PathBuf::from("p"), size: 9, limit: 8 };
    assert_eq!(large.to_string(), "`p` has 9 bytes, the limit is 8");
    for (error, hint) in [
        (damaged, "stop it with Ctrl-C"),
        (not, "reads `perf record`'s output"),
        (large, "--call-graph fp"),
        (ImportError::BigEndian, "on the machine it is from"),
        (ImportError::Ambiguous, "on the machine it is from"),
        (ImportError::NoEvents, "stop it with Ctrl-C"),
        (ImportError::Compressed { why: String::new() }, "stop it with Ctrl-C"),
    ] {
        assert!(error.hint().unwrap().contains(hint), "{error}");
    }
}

fn limited(file: &File, limits: &Limits) -> biopsy_model::capture::Capture {
    read_bytes(&file.bytes(), &Options::closed(), limits).unwrap()
}

#[test]
fn more_than_the_limits_is_left_out_and_said() {
    let file = samples(&[10, 20, 30, 40]);
    let few = limited(&file, &Limits { records: 3, ..Limits::default() });
    assert_eq!((codes(&few), timeline(&few).samples.len()), (vec!["import.over-limit"], 3));
    assert_eq!(few.warnings[0].message, "perf.data holds more than 3 records; the rest was not read");
    assert_eq!(few.header.end, None, "partial");
    let mut file = file;
    file.records = [Side { event: clock() }.map(0, 100, [0, 0x10_0000, 0], "//anon"), file.records].concat();
    assert_eq!(timeline(&import(&file)).stacks.len(), 2);
    let shallow = limited(&file, &Limits { depth: 1, ..Limits::default() });
    assert_eq!(timeline(&shallow).stacks.len(), 1);
    let narrow = limited(&file, &Limits { stacks: 1, ..Limits::default() });
    assert_eq!((codes(&narrow), timeline(&narrow).frames.len()), (vec!["import.over-limit"], 1));
    assert_eq!(timeline(&narrow).samples.len(), 4, "samples are what counts");
}

#[test]
fn more_threads_mappings_and_text_than_the_limits_are_left_out() {
    let side = Side { event: clock() };
    let mut records: Vec<_> =
        (0..4).map(|at| side.comm(0, [200 + at, 200 + at], "a long name", false)).collect();
    records.extend((0..3).map(|at| side.map(0, 100, [at << 20, 1 << 20, 0], "//anon")));
    records.push(side.fork(5, [300, 300], [100, 100]));
    records.push(sample(&clock(), &Row { ip: 0x20_1000, chain: vec![0x20_1000], ..row(10) }));
    let file = File::new(&[clock()], &records);
    let few = limited(&file, &Limits { threads: 2, text: 6, ..Limits::default() });
    let threads = &timeline(&few).threads;
    let names: Vec<_> = threads.iter().map(|life| (life.info.tid.0, life.info.name.as_str())).collect();
    assert_eq!(names, [(200, "a long"), (201, "a long")]);
    let few = limited(&file, &Limits { mappings: 2, ..Limits::default() });
    assert_eq!(codes(&few), ["import.over-limit"]);
    assert_eq!(timeline(&few).modules, [], "the third mapping is not kept");
}

/// Killed at any byte: an error, or a part that says so.
#[test]
fn a_file_that_is_cut_anywhere_is_an_error_or_a_part() {
    let file = samples(&[10, 20, 30]);
    for (bytes, is_pipe) in [(file.bytes(), false), (file.pipe(), true)] {
        let mut before = 0;
        for length in 0..=bytes.len() {
            let Ok(capture) = try_import(&bytes[..length]) else {
                assert_eq!(before, 0, "what was read once is read with more: {length}");
                continue;
            };
            let found = timeline(&capture).samples.len();
            assert!(found >= before, "{found} samples of {length} bytes, and {before} of fewer");
            before = found;
            // A pipe may end behind any record; a file ends with its features.
            let on_border = is_pipe && codes(&capture).is_empty();
            assert!(on_border || capture.header.end.is_none() || found == 3, "{length}: {capture:?}");
        }
        assert_eq!(before, 3);
    }
}
