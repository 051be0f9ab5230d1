//! What was typed: all of it, and the values that several commands take.

use std::time::Duration;

/// What the user typed, for the header of a recording.
pub(crate) fn typed() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// `90s`, `3m`, `1h30m`, `20ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration =
        text.parse().map_err(|_| "a duration looks like `60s`, `3m`, `1h30m` or `20ms`".to_owned())?;
    let duration = Duration::try_from(signed).map_err(|_| "a duration is not negative".to_owned())?;
    if duration.is_zero() { Err("a duration is not zero".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("3m"), Ok(Duration::from_secs(180)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert!(duration("60").is_err());
        assert!(duration("-5s").is_err());
        assert!(duration("0s").is_err());
    }
}
