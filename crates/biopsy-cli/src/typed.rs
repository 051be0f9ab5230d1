//! What was typed: all of it, and the values that several commands take.

use std::time::Duration;

use biopsy_deliver::Link;

/// What the user typed, for the header of a recording; of links, not what opens them.
pub fn typed() -> Vec<String> {
    std::env::args_os().map(|word| without_secret(&word.to_string_lossy())).collect()
}

/// A word without the secret of a link that it is, or ends with.
fn without_secret(word: &str) -> String {
    let begin = word.find("http").unwrap_or(word.len());
    match word[begin..].parse::<Link>() {
        Ok(link) => format!("{}{}", &word[..begin], link.shown()),
        Err(_) => word.to_owned(),
    }
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
    fn the_secret_of_a_link_is_in_no_recording() {
        let link = format!(
            "https://lab.example/r/{}#{}.{}.{}",
            "A".repeat(22),
            "A".repeat(43),
            "A".repeat(22),
            "A".repeat(22)
        );
        for word in [link.clone(), format!("--request={link}")] {
            assert!(
                word.starts_with(&without_secret(&word)) && !without_secret(&word).contains('#'),
                "{word}"
            );
        }
        assert_eq!(without_secret("http-server#1"), "http-server#1");
    }

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
