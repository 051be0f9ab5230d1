//! Passphrases of several words, which are no sentences.

/// `rusty-comet-battery-staple`, `Amber glacier icicle oyster`: words that make no sentence, as passphrases have them.
pub(crate) fn is_phrase(value: &[u8]) -> bool {
    const OF_SENTENCES: [&[u8]; 24] = [
        b"the",
        b"your",
        b"for",
        b"and",
        b"not",
        b"with",
        b"this",
        b"that",
        b"from",
        b"are",
        b"was",
        b"has",
        b"have",
        b"been",
        b"must",
        b"should",
        b"could",
        b"will",
        b"when",
        b"com",
        b"org",
        b"net",
        b"password",
        b"key",
    ];
    if value.len() < 18 || value.len() > 200 {
        return false;
    }
    let Some(separator) = value.iter().find(|b| !b.is_ascii_alphabetic()).filter(|b| b" -.".contains(b))
    else {
        return false;
    };
    let is_word = |word: &[u8]| {
        (3..=10).contains(&word.len())
            && word[1..].iter().all(u8::is_ascii_lowercase)
            && word[0].is_ascii_alphabetic()
            && !OF_SENTENCES.iter().any(|known| known.eq_ignore_ascii_case(word))
    };
    value.iter().filter(|b| *b == separator).count() >= 3 && value.split(|b| b == separator).all(is_word)
        || value.len() >= 20 && value.iter().filter(|b| **b == b'-').count() >= 3 && !value.contains(&b' ')
}

/// The same with points or blanks between its words: names of code and files have hyphens.
pub(crate) fn is_spoken_phrase(value: &[u8]) -> bool {
    is_phrase(value) && !value.contains(&b'-')
}

/// `The tall clock always sings after midnight.`: a sentence that says nothing about a secret, as somebody has made one up to remember
/// it. Only where a name says that a phrase follows.
pub(crate) fn is_made_up_sentence(value: &[u8]) -> bool {
    const ABOUT: [&[u8]; 34] = [
        b"password",
        b"passphrase",
        b"phrase",
        b"key",
        b"keys",
        b"secret",
        b"value",
        b"file",
        b"user",
        b"used",
        b"use",
        b"must",
        b"should",
        b"can",
        b"is",
        b"are",
        b"be",
        b"was",
        b"not",
        b"no",
        b"see",
        b"if",
        b"to",
        b"for",
        b"this",
        b"that",
        b"you",
        b"your",
        b"will",
        b"has",
        b"have",
        b"please",
        b"required",
        b"given",
    ];
    let Some(words) = value.strip_suffix(b".") else { return false };
    let mut count = 0;
    let is_word = |word: &[u8]| {
        count += 1;
        (1..=14).contains(&word.len())
            && word.iter().all(u8::is_ascii_alphabetic)
            && !ABOUT.iter().any(|known| known.eq_ignore_ascii_case(word))
    };
    words.first().is_some_and(u8::is_ascii_uppercase)
        && words.split(|b| *b == b' ').all(is_word)
        && (5..=14).contains(&count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_somebody_has_made_up_say_nothing_about_secrets() {
        for (value, wanted) in [
            ("The tall clock always sings after midnight.", true),
            ("A green tower often waits after midnight.", true),
            ("The passphrase opens a private key.", false),
            ("Leave it empty if it is not needed.", false),
            ("the tall clock always sings after midnight.", false),
            ("The tall clock always sings after midnight", false),
            ("The clock sings.", false),
            ("", false),
        ] {
            assert_eq!(is_made_up_sentence(value.as_bytes()), wanted, "{value}");
        }
    }

    #[test]
    fn passphrases_are_no_sentences() {
        for phrase in
            ["Amber glacier icicle oyster", "cobalt.falcon.hammer.pepper", "rusty-comet-battery-staple"]
        {
            assert!(is_phrase(phrase.as_bytes()), "{phrase}");
        }
        for other in [
            "the password must not be empty",
            "org.apache.kafka.clients",
            "issue_new_refresh_tokens",
            "two words",
        ] {
            assert!(!is_phrase(other.as_bytes()), "{other}");
        }
    }
}
