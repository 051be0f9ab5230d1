//! The report of a dump: readable by programs, safe whatever names say, and without what must not be in it.

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts};
use biopsy_image::testing::{CoreBuilder, small_core};
use biopsy_image::{GeneralRegisters, Limits, open_bytes};
use biopsy_report::dump::schema::DumpReport;
use biopsy_report::{
    TextOptions, render_dump_html, render_dump_json, render_dump_markdown, render_dump_text,
};
use biopsy_stacks::image::{Options, walk};
use proptest::prelude::{ProptestConfig, any, prop, proptest};

const HEAP: u64 = 0x55_0000_0000;

fn analyze(core: &[u8]) -> Option<DumpAnalysis> {
    let opened = open_bytes("test", core.to_vec(), &Limits::default()).ok()?;
    let options = Options { frames_per_thread: 200, ..Options::default() };
    let stacks = walk(&*opened.image, &options);
    Some(analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened)))
}

/// Two threads that wait for each other, one more behind them, with names that try to be something else.
fn deadlock() -> DumpAnalysis {
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
fn json_follows_its_schema() {
    let analysis = deadlock();
    let json = render_dump_json(&analysis);
    let report: DumpReport = serde_json::from_str(&json).expect("the schema reads what it wrote");
    assert_eq!((report.schema.as_str(), report.version), ("biopsy-dump-report", 1));
    assert_eq!(report.waits.cycles, [vec![11, 12]]);
    assert_eq!(report.findings[0].id.as_str(), "deadlock");
    assert_eq!(report.threads.len(), 3);
    assert_eq!(report.threads[0].system_call.as_deref(), Some("futex"));
    assert_eq!(report.threads[0].lock.as_ref().and_then(|lock| lock.owner), Some(12));
    let again = serde_json::to_value(&report).expect("it serialises");
    let first: serde_json::Value = serde_json::from_str(&json).expect("json");
    assert_eq!(again, first, "nothing is lost on the way");
}

#[test]
fn the_page_says_the_verdict_first_and_draws_the_circle() {
    let html = render_dump_html(&deadlock());
    let verdict = html.find("Deadlock: thread 11 and thread 12 wait for each other").expect("the verdict");
    assert!(verdict < html.find("id=\"threads\"").expect("threads"));
    assert!(html.contains("class=\"graph circle\""));
    assert!(html.contains("script-src 'sha256-") && !html.contains("script-src 'unsafe-inline'"));
    for address in ["http://", "https://", "src=\"", "@import", "url(h"] {
        assert!(!html.contains(address), "the page loads nothing: {address}");
    }
}

#[test]
fn hostile_names_are_text() {
    let analysis = deadlock();
    let html = render_dump_html(&analysis);
    assert!(!html.contains("<script>alert") && !html.contains("<img"));
    assert_eq!(html.matches("<script>").count(), 1, "one script: ours");
    // Between back-ticks it is code; nowhere else.
    let markdown = render_dump_markdown(&analysis);
    for (index, part) in markdown.split('`').enumerate() {
        assert!(index % 2 == 1 || !part.contains("<img"), "{part}");
    }
}

#[test]
fn neither_command_line_nor_memory_is_in_any_form() {
    let analysis = deadlock();
    let text = render_dump_text(&analysis, TextOptions::default());
    for form in
        [render_dump_html(&analysis), render_dump_json(&analysis), render_dump_markdown(&analysis), text]
    {
        assert!(!form.contains("hunter2"), "a secret of the process is in the report");
    }
}

#[test]
fn the_text_names_the_verdict_and_the_stacks() {
    let text = render_dump_text(&deadlock(), TextOptions { width: 100, color: false });
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
            assert!(render_dump_html(&analysis).ends_with("</html>\n"));
            assert!(!render_dump_markdown(&analysis).contains('\x1b'));
            assert!(!render_dump_text(&analysis, TextOptions::default()).contains('\x1b'));
            assert!(serde_json::from_str::<DumpReport>(&render_dump_json(&analysis)).is_ok());
        }
    }
}
