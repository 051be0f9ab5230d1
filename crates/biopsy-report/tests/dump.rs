//! The report of a dump: readable by programs, safe whatever names say, and without what must not be in it.

use biopsy_analyze::dump::DumpFacts;
use biopsy_analyze::{Diagnosis, analyze_dump};
use biopsy_image::testing::{CoreBuilder, small_core};
use biopsy_image::{GeneralRegisters, Limits, open_bytes};
use biopsy_report::schema::{Report, Source};
use biopsy_report::{TextOptions, render_html, render_json, render_markdown, render_text};
use biopsy_stacks::image::{Options, walk};
use proptest::prelude::{ProptestConfig, any, prop, proptest};

const HEAP: u64 = 0x55_0000_0000;

fn analyze(core: &[u8]) -> Option<Diagnosis> {
    let opened = open_bytes("test", core.to_vec(), &Limits::default()).ok()?;
    let options = Options { frames_per_thread: 200, ..Options::default() };
    let stacks = walk(&*opened.image, &options);
    let analysis = analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened));
    Some(Diagnosis::new(None, vec![analysis], Vec::new()))
}

/// Two threads that wait for each other, one more behind them, with names that try to be something else.
fn deadlock() -> Diagnosis {
    let waits = |address| GeneralRegisters {
        orig_rax: 202,
        rax: (-512_i64).cast_unsigned(),
        rdi: address,
        rsi: 128,
        rdx: 2,
        rip: 0x40_1000,
        rsp: HEAP + 0x800,
        ..Default::default()
    };
    let mut heap = vec![0; 4096];
    for (offset, owner) in [(0x100, 12_u32), (0x200, 11)] {
        heap[offset] = 2;
        heap[offset + 8..offset + 12].copy_from_slice(&owner.to_le_bytes());
        heap[offset + 12] = 1;
    }
    heap[0x700..0x70e].copy_from_slice(b"hunter2-secret");
    let mut code = vec![0x90; 8192];
    code[0xffe..0x1000].copy_from_slice(&[0x0f, 0x05]);
    let core = CoreBuilder::new()
        .process(10, "<script>alert", "patient --password hunter2-secret")
        .thread(11, 0, &waits(HEAP + 0x100))
        .thread(12, 0, &waits(HEAP + 0x200))
        .thread(13, 0, &waits(HEAP + 0x200))
        .files(&[(0x40_0000, 0x40_2000, 0, b"/tmp/</script><img src=x onerror=alert(1)>")])
        .memory(0x40_0000, 5, code)
        .memory(HEAP, 6, heap);
    analyze(&core.build()).expect("the core opens")
}

#[test]
fn what_was_not_gone_over_for_secrets_is_said_in_every_form() {
    let diagnosis = deadlock();
    let report: Report = serde_json::from_str(&render_json(&diagnosis, None)).expect("the schema");
    let [memory] = report.not_searched.as_slice() else { panic!("{:?}", report.not_searched) };
    assert!(memory.what.starts_with("memory of ") && memory.what.ends_with("(pid 10)"), "{memory:?}");
    let markdown = render_markdown(&diagnosis, None);
    assert!(markdown.contains("## Privacy\n\nNot gone over, or in part:\n\n- memory of "), "{markdown}");
}

#[test]
fn json_follows_its_schema() {
    let analysis = deadlock();
    let json = render_json(&analysis, None);
    let report: Report = serde_json::from_str(&json).expect("the schema reads what it wrote");
    assert_eq!((report.schema.as_str(), report.version), ("biopsy-report", 2));
    assert_eq!(
        (report.findings[0].id.as_str(), report.findings[0].of),
        ("deadlock", Source::Dump { index: 0 })
    );
    let [dump] = report.dumps.as_slice() else { panic!("{} dumps", report.dumps.len()) };
    assert_eq!(dump.waits.cycles, [vec![11, 12]]);
    assert_eq!(dump.threads.len(), 3);
    assert_eq!(dump.threads[0].system_call.as_deref(), Some("futex"));
    assert_eq!(dump.threads[0].lock.as_ref().and_then(|lock| lock.owner), Some(12));
    let again = serde_json::to_value(Report { recorded: None, ..report }).expect("it serialises");
    let first: serde_json::Value = serde_json::from_str(&json).expect("json");
    assert_eq!(again, first, "nothing is lost on the way");
}

#[test]
fn the_page_holds_the_verdict_and_loads_nothing() {
    let html = render_html(&deadlock(), None);
    assert!(html.contains("Deadlock: thread 11 and thread 12 wait for each other"));
    assert!(html.contains("\"cycles\":[[11,12]]"), "what the picture is drawn from");
    assert!(html.contains("script-src 'sha256-") && !html.contains("script-src 'unsafe-inline'"));
    for address in ["https://", "src=\"", "@import", "url(h"] {
        assert!(!html.contains(address), "the page loads nothing: {address}");
    }
}

#[test]
fn a_mask_reaches_each_text_of_each_form() {
    let mask = |text: &str| text.replace("alert", "[gone]");
    let diagnosis = deadlock();
    for form in [render_html, render_json, render_markdown] {
        let masked = form(&diagnosis, Some(&mask));
        assert!(masked.contains("[gone]") && !masked.contains("alert"), "{masked}");
    }
    let json = render_json(&diagnosis, Some(&|_| "\"}".to_owned()));
    assert!(serde_json::from_str::<Report>(&json).is_ok(), "a mask cannot break what is around it");
}

#[test]
fn hostile_names_are_text() {
    let analysis = deadlock();
    let html = render_html(&analysis, None);
    assert!(!html.contains("<script>alert") && !html.contains("<img"));
    assert_eq!(html.matches("<script").count(), 2, "our data and our script");
    // Between back-ticks it is code; nowhere else.
    let markdown = render_markdown(&analysis, None);
    for (index, part) in markdown.split('`').enumerate() {
        assert!(index % 2 == 1 || !part.contains("<img"), "{part}");
    }
}

#[test]
fn neither_command_line_nor_memory_is_in_any_form() {
    let analysis = deadlock();
    let text = render_text(&analysis, 0, TextOptions::default());
    for form in
        [render_html(&analysis, None), render_json(&analysis, None), render_markdown(&analysis, None), text]
    {
        assert!(!form.contains("hunter2"), "a secret of the process is in the report");
    }
}

#[test]
fn the_text_names_the_verdict_and_the_stacks() {
    let text = render_text(&deadlock(), 0, TextOptions { width: Some(100), color: false });
    assert!(text.contains("critical    Deadlock: thread 11 and thread 12 wait for each other"), "{text}");
    assert!(text.contains("deadlocked: "), "{text}");
    assert!(!text.contains('\x1b'));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A core with some bytes changed and its end cut off.
    #[test]
    fn no_core_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..24),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut core = small_core().build();
        for (at, byte) in changes {
            let at = at.index(core.len());
            core[at] = byte;
        }
        core.truncate(core.len() - keep.index(core.len() / 4));
        if let Some(analysis) = analyze(&core) {
            assert!(render_html(&analysis, None).ends_with("</html>\n"));
            assert!(!render_markdown(&analysis, None).contains('\x1b'));
            assert!(!render_text(&analysis, 0, TextOptions::default()).contains('\x1b'));
            assert!(serde_json::from_str::<Report>(&render_json(&analysis, None)).is_ok());
        }
    }
}
