//! The page: self-contained, small, and deaf to whatever a recording holds.

mod synthetic;

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

fn page() -> String {
    let capture = synthetic::capture();
    biopsy_report::render_html(&synthetic::diagnose(&capture, &synthetic::analysis(&capture)), None)
}

/// Between the first `from` and the next `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no `{from}`")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no `{to}`")).0
}

fn data(html: &str) -> &str {
    between(html, "<script type=\"application/json\" id=\"data\">", "</script>")
}

#[test]
fn nothing_comes_from_elsewhere() {
    let html = page();
    for forbidden in
        ["src=", "href=\"http", "url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "import("]
    {
        // An arrow's head is in the page itself.
        assert!(!html.replace("url(#", "").contains(forbidden), "`{forbidden}` in the page");
    }
    let policy = between(&html, "Content-Security-Policy\" content=\"", "\">");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("http"), "{policy}");
}

#[test]
fn the_policy_runs_this_script_and_no_other() {
    let html = page();
    let script =
        html.rsplit_once("<script>").expect("a script").1.split_once("</script>").expect("its end").0;
    let policy = between(&html, "script-src '", "'");
    // By the tool that everybody has would be: openssl dgst -sha256 -binary | base64.
    let digest = Sha256::digest(script.as_bytes());
    let decoded = base64(policy.strip_prefix("sha256-").expect("a hash"));
    assert_eq!(decoded, digest.as_slice());
    assert!(!html.contains("script-src 'unsafe-inline'"));
}

/// Decodes base64, another way than the page's code encodes it.
fn base64(text: &str) -> Vec<u8> {
    let mut bits = 0u32;
    let mut count = 0;
    let mut bytes = Vec::new();
    for char in text.bytes().filter(|byte| *byte != b'=') {
        let value = match char {
            b'A'..=b'Z' => char - b'A',
            b'a'..=b'z' => char - b'a' + 26,
            b'0'..=b'9' => char - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("not base64: {other}"),
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

#[test]
fn hostile_names_are_text() {
    for seed in 0..40 {
        let mut capture = synthetic::hostile(seed);
        capture.header.target_name = "</title><script>alert(0)</script>".into();
        let html = biopsy_report::render_html(
            &synthetic::diagnose(&capture, &biopsy_analyze::analyze(&capture)),
            None,
        );
        assert_eq!(html.matches("<script").count(), 2, "seed {seed}");
        assert_eq!(html.matches("</script").count(), 2, "seed {seed}");
        assert_eq!(html.matches("<title>").count(), 1, "seed {seed}");
        assert_eq!(html.matches("<noscript>").count(), 1, "seed {seed}");
        assert!(!html.contains("<img"), "seed {seed}");
        assert!(!html.contains('\0'), "seed {seed}");
        let json = data(&html);
        assert!(!json.contains(['<', '>', '&']), "seed {seed}");
        serde_json::from_str::<Value>(json).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Only what cannot be seen, and could turn a line around, is written out.
#[test]
fn names_arrive_as_they_are() {
    let mut capture = synthetic::capture();
    let name = "</script>&lt;\u{2028}\"'\\\n<b>";
    capture.processes[0].name = name.into();
    let html =
        biopsy_report::render_html(&synthetic::diagnose(&capture, &synthetic::analysis(&capture)), None);
    let page: Value = serde_json::from_str(data(&html)).expect("it is JSON");
    assert_eq!(page["report"]["processes"][0]["name"], name.replace('\u{2028}', "\\u{2028}"));
}

#[test]
fn the_page_of_a_normal_recording_is_small() {
    let html = page();
    assert!(html.len() < 300_000, "{} bytes", html.len());
}

#[test]
fn charts_have_a_point_for_each_reading_and_a_place_for_each_source() {
    let html = page();
    let page: Value = serde_json::from_str(data(&html)).expect("it is JSON");
    let charts = page["charts"]["charts"].as_array().expect("charts");
    let grids = page["charts"]["grids"].as_array().expect("grids");
    let ids: Vec<&str> = charts.iter().map(|chart| chart["id"].as_str().expect("an id")).collect();
    for id in
        ["trace-cpu", "trace-states", "system-cpu", "throttled", "pressure", "disk-busy", "process-memory"]
    {
        assert!(ids.contains(&id), "no chart `{id}` in {ids:?}");
    }
    for line in charts.iter().flat_map(|chart| chart["lines"].as_array().expect("lines")) {
        let grid = grids[line["grid"].as_u64().expect("a grid") as usize].as_array().expect("times");
        assert_eq!(line["values"].as_array().expect("values").len(), grid.len(), "{}", line["label"]);
    }
    let quiet = page["charts"]["quiet"].as_array().expect("quiet charts");
    assert!(quiet.iter().any(|title| title == "Swapping"), "{quiet:?}");
}

#[test]
fn flame_trees_keep_their_sums() {
    let html = page();
    let page: Value = serde_json::from_str(data(&html)).expect("it is JSON");
    for flame in page["flames"].as_array().expect("flames") {
        for tree in [&flame["cpu"], &flame["waiting"]] {
            let numbers = |name: &str| -> Vec<i64> {
                let column = tree[name].as_array().expect("a column");
                column.iter().map(|value| value.as_f64().expect("a number") as i64).collect()
            };
            let (functions, depths, totals) = (numbers("functions"), numbers("depths"), numbers("totals"));
            assert_eq!((functions.len(), depths.len()), (totals.len(), totals.len()));
            for (node, depth) in depths.iter().enumerate() {
                let below = (node + 1..depths.len()).take_while(|other| depths[*other] > *depth);
                let children: i64 =
                    below.filter(|other| depths[*other] == depth + 1).map(|other| totals[other]).sum();
                // Each child is rounded to a microsecond.
                assert!(children <= totals[node] + 500, "{} > {}", children, totals[node]);
            }
        }
    }
}

#[test]
fn a_long_recording_is_thinned_out() {
    let mut capture = synthetic::capture();
    for table in &mut capture.metrics {
        let rows = table.rows.clone();
        for hour in 1..60 {
            table.rows.extend(rows.iter().cloned().map(|mut row| {
                row.time.0 += hour * 60_000_000_000;
                row
            }));
        }
    }
    let html =
        biopsy_report::render_html(&synthetic::diagnose(&capture, &synthetic::analysis(&capture)), None);
    assert!(html.len() < 600_000, "{} bytes", html.len());
    let page: Value = serde_json::from_str(data(&html)).expect("it is JSON");
    for grid in page["charts"]["grids"].as_array().expect("grids") {
        assert!(grid.as_array().expect("times").len() <= 601);
    }
}

#[test]
fn a_runtime_has_lanes_charts_and_tables() {
    let capture = synthetic::dotnet();
    let html =
        biopsy_report::render_html(&synthetic::diagnose(&capture, &biopsy_analyze::analyze(&capture)), None);
    assert!(html.len() < 500_000, "{} bytes", html.len());
    let page: Value = serde_json::from_str(data(&html)).expect("it is JSON");
    let titles = |value: &Value| -> Vec<String> {
        let rows = value.as_array().expect("a list");
        rows.iter().map(|row| row["title"].as_str().expect("a title").to_owned()).collect()
    };
    let lanes = titles(&page["lanes"]);
    for lane in ["GC pauses", "Pool starves", "Lock waits", "Exceptions", "Slow requests", "App errors"] {
        assert!(lanes.iter().any(|title| title == lane), "no lane `{lane}` in {lanes:?}");
    }
    let charts = titles(&page["charts"]["charts"]);
    for chart in ["Slowest request", "Requests served", "Managed heap", "Thread pool", "Exceptions"] {
        assert!(charts.iter().any(|title| title == chart), "no chart `{chart}` in {charts:?}");
    }
    assert_eq!(page["report"]["runtimes"][0]["label"], ".NET 10.0.12");
    let leads = page["report"]["findings"].as_array().expect("findings").iter().flat_map(|finding| {
        finding["evidence"]
            .as_array()
            .expect("evidence")
            .iter()
            .filter(|e| e["reference"]["kind"] == "runtime")
    });
    assert!(leads.count() > 3, "evidence leads to the tables");
}

/// As many and as long names as the limits of the recorder let through, in as many processes.
#[test]
fn too_much_of_a_runtime_is_cut() {
    let mut capture = synthetic::dotnet();
    let trace = &mut capture.runtimes[0];
    let long = "x".repeat(4_000);
    for function in &mut trace.functions {
        function.name.push_str(&long);
    }
    trace.stacks = vec![(0..14).cycle().take(512).collect(); 5];
    let mut group = trace.exception_groups[0].clone();
    for number in 0..2_000 {
        group.type_name = format!("{long}{number}");
        trace.exception_groups.push(group.clone());
    }
    let mut group = trace.request_groups[0].clone();
    for number in 0..2_000 {
        group.route = format!("/{number}{long}");
        trace.request_groups.push(group.clone());
    }
    capture.runtimes = vec![capture.runtimes[0].clone(); 40];
    let analysis = biopsy_analyze::analyze(&capture);
    let html = biopsy_report::render_html(&synthetic::diagnose(&capture, &analysis), None);
    assert!(html.len() < 12_000_000, "{} bytes", html.len());
    assert!(biopsy_report::render_markdown(&synthetic::diagnose(&capture, &analysis), None).len() < 200_000);
    assert!(
        biopsy_report::render_text(
            &synthetic::diagnose(&capture, &analysis),
            0,
            biopsy_report::TextOptions::default()
        )
        .len()
            < 20_000
    );
}

#[test]
fn little_or_nothing_gives_a_page_too() {
    let empty = synthetic::empty();
    let html =
        biopsy_report::render_html(&synthetic::diagnose(&empty, &biopsy_analyze::Analysis::default()), None);
    let page: Value = serde_json::from_str(data(&html)).expect("it is JSON");
    assert_eq!(page["report"]["completeness"]["partial"], true);
    assert_eq!(page["charts"]["charts"].as_array().map(Vec::len), Some(0));
}

fn ui() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui")
}

/// `ui/dist` is built from `ui/src`: `npm ci && npm run build` in `ui/` makes this pass.
#[test]
fn built_assets_are_current() {
    let mut names: Vec<String> = fs::read_dir(ui().join("src"))
        .expect("ui/src")
        .map(|entry| format!("src/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .collect();
    names.sort();
    names.extend(["build.mjs", "package.json", "dist/report.js", "dist/report.css"].map(String::from));
    let mut hash = Sha256::new();
    for name in &names {
        let content = fs::read(ui().join(name)).expect("a source");
        hash.update(format!("{name} {}\n", content.len()));
        hash.update(content);
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let noted = fs::read_to_string(ui().join("dist/digest")).expect("ui/dist/digest");
    assert_eq!(
        noted.trim(),
        digest,
        "ui/dist is not built from ui/src: run `npm ci && npm run build` in ui/"
    );
}

#[test]
fn built_assets_are_small() {
    let size = |name: &str| fs::metadata(ui().join("dist").join(name)).expect("an asset").len();
    assert!(size("report.js") + size("report.css") < 120 * 1024);
}

/// The script never makes markup from text, nor code from text.
#[test]
fn the_script_only_sets_text() {
    for entry in fs::read_dir(ui().join("src")).expect("ui/src") {
        let path = entry.expect("an entry").path();
        let source = fs::read_to_string(&path).expect("a source");
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "srcdoc",
        ] {
            assert!(!source.contains(forbidden), "`{forbidden}` in {}", path.display());
        }
    }
    // The bundle goes into a script element as it is.
    let script = fs::read_to_string(ui().join("dist/report.js")).expect("the script");
    assert!(!script.contains("</script") && !script.contains("<!--"));
    let style = fs::read_to_string(ui().join("dist/report.css")).expect("the style");
    assert!(!style.contains("</style"));
}
