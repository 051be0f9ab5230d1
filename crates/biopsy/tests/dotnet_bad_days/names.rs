//! Very many methods, and names that would do harm where they are shown as they are.

use std::process::Command;

use biopsy_testkit::{Privilege, Survival, dotnet_with_many_methods, machine_to_myself, require_all};

use crate::support::{biopsy, capture, succeed};

/// What must be in no text for people: the bell, the beginning of an escape sequence, a change of direction, what cannot be seen.
const NEVER: [&str; 8] =
    ["\u{7}", "\u{1b}", "\u{202e}", "\u{2066}", "\u{200b}", "\u{200d}", "\u{feff}", "\nERROR: forged"];

#[test]
fn very_many_methods_and_names_with_every_trick() {
    if !require_all(&[Privilege::Perf, Privilege::Bpf, Privilege::DotNet31]) {
        return;
    }
    let _machine = machine_to_myself();
    // .NET 3.1 has to tell them all itself, which takes it long.
    for (runtime, methods) in [("3.1", 10_000), ("net10.0", 100_000)] {
        let Some((mut target, _files)) = dotnet_with_many_methods(runtime, methods) else { continue };
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
        let captured = capture(target.pid(), 2, &[]);
        survival.assert_unharmed();
        target.stop();

        let functions = captured.report["functions"].to_string();
        let all = || format!("{runtime}: {}\n{functions}\n{}", captured.warnings(), captured.said);
        for name in ["Many.Program.Burn", "Odd.<script>alert(1)</script>", "ERROR: forged", "semi;colon 7"] {
            let escaped = serde_json::Value::from(name).to_string();
            assert!(functions.contains(escaped.trim_matches('"')), "`{name}` is missing: {}", all());
        }
        let text = succeed(biopsy(&["analyze"]).arg(&captured.file));
        let markdown = succeed(biopsy(&["analyze", "--markdown"]).arg(&captured.file));
        let mut unzip = Command::new("unzip");
        let page = unzip.arg("-p").arg(&captured.file).arg("report.html").output().unwrap();
        let page = String::from_utf8(page.stdout).expect("the page is UTF-8");
        assert!(page.contains("forged"), "the names are in the page: {}", all());
        assert!(!page.contains("<script>alert") && !page.contains("<img src=x"), "{runtime}");
        for shown in
            [String::from_utf8(text.stdout).unwrap(), String::from_utf8(markdown.stdout).unwrap(), page]
        {
            for never in NEVER {
                assert!(!shown.contains(never), "{runtime}: {never:?} is shown");
            }
        }
    }
}
