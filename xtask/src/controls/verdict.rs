//! What the output of the tests says of one that should fail.

use std::fmt;

use super::mutation::Mutation;

/// Of one control that was taken away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The test fails as it should: somebody would see that the control is gone.
    Falls,
    /// It fails, and says something else; this is the end of it.
    FallsOtherwise(String),
    /// It passes: nobody would see it.
    Stands,
    /// It fails with all controls in place too, and so says nothing.
    FailsAnyway,
    /// It did not run; the end of what was printed instead.
    NotRun(String),
}

/// What lines of cargo-nextest begin with that say what became of a test.
const ENDS: [&str; 7] = ["PASS", "FAIL", "LEAK", "TIMEOUT", "SIGABRT", "SIGSEGV", "SIGKILL"];
/// Characters of an output that are shown.
const SHOWN: usize = 1500;

impl Verdict {
    /// In a word or two.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Falls => "falls",
            Self::FallsOtherwise(_) => "FALLS FOR ANOTHER REASON",
            Self::Stands => "STANDS",
            Self::FailsAnyway => "FAILS ANYWAY",
            Self::NotRun(_) => "WAS NOT TRIED",
        }
    }

    pub(super) fn of(mutation: &Mutation, output: &str) -> Self {
        let Some((end, said)) = found(&mutation.test, output) else { return Self::NotRun(last(output)) };
        match end {
            "PASS" | "LEAK" => Self::Stands,
            _ if said.contains(&mutation.says) => Self::Falls,
            _ => Self::FallsOtherwise(last(&said)),
        }
    }
}

/// What a test printed when it failed; of one that did not run, what was printed instead.
pub(super) fn said(mutation: &Mutation, output: &str) -> String {
    found(&mutation.test, output).map_or_else(|| output.to_owned(), |(end, said)| format!("{end}\n{said}"))
}

/// What became of a test, and what it printed.
fn found<'a>(test: &str, output: &'a str) -> Option<(&'a str, String)> {
    let mut lines = output.lines();
    let named = format!(" {test}");
    let end = lines.by_ref().find_map(|line| {
        let is_it = line.strip_suffix(&named).is_some_and(|before| before.ends_with([')', ']']));
        if is_it { end_of(line) } else { None }
    })?;
    let is_its = |line: &&str| end_of(line).is_none() && !line.trim_start().starts_with("Summary");
    Some((end, lines.take_while(is_its).collect::<Vec<_>>().join("\n")))
}

/// What became of a test, if this line says that of one.
fn end_of(line: &str) -> Option<&str> {
    let word = line.split_whitespace().next()?;
    (ENDS.contains(&word) && line.contains('[')).then_some(word)
}

fn last(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(SHOWN);
    text.chars().skip(skipped).collect()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FallsOtherwise(said) | Self::NotRun(said) => writeln!(f, "{}: {said}", self.word()),
            Self::Falls | Self::Stands | Self::FailsAnyway => f.pad(self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mutation::Mutation;
    use super::*;

    const OUTPUT: &str = "    Finished `test` profile
        PASS [   0.012s] (1/3) biopsy-lab::lab intake::good
        FAIL [   0.034s] (2/3) biopsy-lab::lab intake::bad
  stdout ───
    running 1 test
  stderr ───
    thread 'intake::bad' panicked at crates/x.rs:1:1:
    assertion failed: it is locked
        FAIL [   0.034s] (3/3) biopsy-lab::lab intake::bad_too
    something else
────────────
     Summary [   0.1s] 3 tests run: 1 passed, 2 failed
        FAIL [   0.034s] (2/3) biopsy-lab::lab intake::bad
    it is locked, says the summary
";

    fn of(test: &str, says: &str) -> Verdict {
        let [threat, control, test, says] = ["1", "x", test, says].map(str::to_owned);
        Verdict::of(&Mutation { threat, control, test, says, edit: Vec::new() }, OUTPUT)
    }

    #[test]
    fn a_test_fails_for_the_reason_that_is_said_or_for_another() {
        assert_eq!(of("biopsy-lab::lab intake::bad", "it is locked"), Verdict::Falls);
        assert_eq!(of("biopsy-lab::lab intake::good", "it is locked"), Verdict::Stands);
        // What others print, and what is printed twice, is not its own.
        for says in ["something else", "says the summary"] {
            let other = of("biopsy-lab::lab intake::bad", says);
            assert!(
                matches!(&other, Verdict::FallsOtherwise(said) if said.contains("it is locked")),
                "{other:?}"
            );
        }
        let other = of("biopsy-lab::lab intake::bad_too", "it is locked");
        assert_eq!(other, Verdict::FallsOtherwise("    something else\n────────────".to_owned()));
    }

    #[test]
    fn a_test_that_did_not_run_is_not_taken_for_one_that_passed() {
        for test in ["biopsy-lab::lab intake::none", "lab intake::bad", "intake::good", ""] {
            assert!(matches!(of(test, "it is locked"), Verdict::NotRun(_)), "{test}");
        }
    }
}
