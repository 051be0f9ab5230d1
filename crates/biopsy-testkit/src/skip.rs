//! The one way to skip a test: with a printed reason, or not at all where that is demanded.

/// Fails tests that would skip for want of anything but .NET.
pub(crate) const REQUIRE_LIVE: &str = "BIOPSY_REQUIRE_LIVE";
/// Fails tests that would skip for want of the prebuilt .NET targets and the reference tools, which exist on few machines.
pub(crate) const REQUIRE_DOTNET: &str = "BIOPSY_REQUIRE_DOTNET";

/// What was looked for. Where it is absent, so is what the test would have seen: that is printed, or the test fails where the
/// variable demands it.
pub(crate) fn demand<T>(demanded: &str, what: &str, found: Option<T>) -> Option<T> {
    if found.is_none() {
        skip(demanded, &format!("needs {what}, which is not there"));
    }
    found
}

#[expect(clippy::print_stderr, reason = "the reason of a skipped test belongs on the terminal")]
pub(crate) fn skip(demanded: &str, reason: &str) {
    assert!(
        std::env::var_os(demanded).is_none_or(|value| value != "1"),
        "{demanded}=1, but the test {reason}"
    );
    let thread = std::thread::current();
    eprintln!("skipped {}: {reason}", thread.name().unwrap_or("test"));
}
