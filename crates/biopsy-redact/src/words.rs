//! The words of a name, in any style.

/// The words of a name: split at what is no letter or digit, and at capitals.
pub(crate) fn words_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < name.len() && !name[at].is_ascii_alphanumeric() {
            at += 1;
        }
        if at >= name.len() {
            return None;
        }
        let start = at;
        at += 1;
        while at < name.len() && name[at].is_ascii_alphanumeric() {
            let (last, next) = (name[at - 1], name[at]);
            let capital = next.is_ascii_uppercase() && !last.is_ascii_uppercase();
            let acronym_ends = last.is_ascii_uppercase()
                && next.is_ascii_uppercase()
                && name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            if capital || acronym_ends {
                break;
            }
            at += 1;
        }
        Some(&name[start..at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_words() {
        let words = |name: &str| {
            words_of(name.as_bytes()).map(|w| String::from_utf8_lossy(w).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("DbPasswordHash"), ["Db", "Password", "Hash"]);
        assert_eq!(words("_min_length"), ["min", "length"]);
        assert_eq!(words("HTTPToken"), ["HTTP", "Token"]);
        assert_eq!(words("__"), Vec::<String>::new());
    }
}
