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
    let Some(words) = value.strip_suffix(b".") else { return false };
    is_sentence_about_nothing(words, &[])
}

/// `Our old bicycle was in the garage 6!`: a sentence with a number and a sign at its end, as rules about passwords make people write it.
pub(crate) fn is_numbered_sentence(value: &[u8]) -> bool {
    const DIGITS_MAX: usize = 6;
    let Some(number) = value.strip_suffix(b"!").or_else(|| value.strip_suffix(b"?")) else { return false };
    let digits = number.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let words = number[..number.len() - digits].strip_suffix(b" ");
    (1..=DIGITS_MAX).contains(&digits)
        && words.is_some_and(|words| {
            is_sentence_about_nothing(words, &[b"is", b"are", b"was", b"has", b"have", b"to"])
        })
}

/// A capital, five words or more, and none that sentences about secrets have, but for those that are `allowed`.
fn is_sentence_about_nothing(words: &[u8], allowed: &[&[u8]]) -> bool {
    const ABOUT: [&[u8]; 40] = [
        b"least",
        b"letters",
        b"characters",
        b"attempt",
        b"attempts",
        b"line",
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
    let mut count = 0;
    let is_word = |word: &[u8]| {
        count += 1;
        (1..=14).contains(&word.len())
            && word.iter().all(u8::is_ascii_alphabetic)
            && (allowed.contains(&word) || !ABOUT.iter().any(|known| known.eq_ignore_ascii_case(word)))
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
        for (value, wanted) in [
            ("Our old bicycle was in the garage 6!", true),
            ("My new coffee machine is behind the cellar 2041?", true),
            ("Our old bicycle was in the garage", false),
            ("Our old bicycle was in the garage 6", false),
            ("The password must have more than 8!", false),
            ("It needs letters and at least 8!", false),
            ("Wrong in line 6!", false),
            ("6!", false),
            ("!", false),
        ] {
            assert_eq!(is_numbered_sentence(value.as_bytes()), wanted, "{value}");
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
