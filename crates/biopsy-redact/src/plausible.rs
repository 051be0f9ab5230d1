//! Is a value a secret at all? Placeholders, common words, source code and identifiers are not.

use crate::called::{is_called, is_number, is_path, is_release, is_version};
use crate::phrase;
use crate::pseudonym::mask_at;
use crate::reference::is_reference;
use crate::rules::{Strength, WordSet, Words};
use crate::scrambled::{bits_per_pair, is_no_name, is_scrambled, is_unspoken};

/// The word lists, ready to be asked.
#[derive(Debug)]
pub(crate) struct Lists {
    words: Words,
}

impl Lists {
    /// Takes over the lists.
    pub(crate) fn new(words: Words) -> Self {
        Self { words }
    }

    /// The lists themselves.
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// Is `value`, in any case and without its final punctuation, one of the common words?
    pub(crate) fn is_trivial(&self, value: &[u8]) -> bool {
        let bare = trim_end_punctuation(value);
        bare.is_empty() || contains(&self.words.trivial_values, bare)
    }

    /// Is it one of the words that are no secrets in running text?
    pub(crate) fn is_prose_word(&self, value: &[u8]) -> bool {
        contains(&self.words.prose_words, trim_end_punctuation(value))
    }

    /// Does this word behind a key make the name harmless?
    pub(crate) fn is_neutral_after(&self, word: &[u8]) -> bool {
        contains(&self.words.neutral_after, word)
    }

    /// `Password`, `Mot de passe`, `New password:`, `The password must have at least {0} characters`: the text of a user interface.
    pub(crate) fn is_label(&self, value: &[u8]) -> bool {
        let Some(text) = std::str::from_utf8(value).ok().filter(|text| text.len() <= 300) else {
            return false;
        };
        let text = text.trim().trim_end_matches([':', '.', '?', '!', '*', '…']).trim_end();
        let Some(first) = text.chars().next() else { return false };
        // Small letters alone are what somebody has chosen.
        if first.is_lowercase() {
            return false;
        }
        let lower = text.to_lowercase();
        if self.words.labels.contains(lower.as_str()) {
            return !text.chars().skip(1).any(char::is_uppercase);
        }
        let mut words = 0;
        let mut is_said = false;
        for word in lower.split_whitespace() {
            words += 1;
            let word = word.trim_matches(|c: char| "().,;:!?'\"*…{}".contains(c));
            if !word.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-' | '’'))
                && word.parse::<u32>().is_err()
            {
                return false;
            }
            is_said |=
                self.words.labels.contains(word) || words > 1 && self.words.sentence_words.contains(word);
        }
        words >= 2 && is_said
    }

    /// Is it a word in names of what identifies something, and opens nothing: `request`, `etag`?
    pub(crate) fn names_an_id(&self, word: &[u8]) -> bool {
        // `nanoid`, `requestId` in one piece
        let ends_so = word.len() > 3 && word[word.len() - 2..].eq_ignore_ascii_case(b"id");
        ends_so || contains(&self.words.names_of_ids, word)
    }

    /// Do such values begin so: `req_x1`?
    pub(crate) fn begins_an_id(&self, word: &[u8]) -> bool {
        contains(&self.words.beginnings_of_ids, word) || self.names_an_id(word)
    }

    /// Is it a word that only sentences have: `bitte`, `the`, `to`?
    pub(crate) fn is_of_sentence(&self, word: &[u8]) -> bool {
        contains(&self.words.sentence_words, trim_end_punctuation(word))
    }

    /// Is the value too common to be searched for everywhere?
    pub(crate) fn is_never_learned(&self, value: &[u8]) -> bool {
        self.is_trivial(value) || contains(&self.words.never_learn, value)
    }
}

/// Longest word of the lists, in bytes.
const WORD_MAX: usize = 32;

fn contains(set: &WordSet, word: &[u8]) -> bool {
    if !word.is_ascii() {
        let lower = std::str::from_utf8(word).map(str::to_lowercase);
        return word.len() <= WORD_MAX && lower.is_ok_and(|word| set.contains(word.as_str()));
    }
    let mut lower = [0; WORD_MAX];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).is_ok_and(|word| set.contains(word))
}

/// Without the punctuation that belongs to the sentence around it.
pub(crate) fn trim_end_punctuation(value: &[u8]) -> &[u8] {
    let end = value
        .iter()
        .rposition(|b| !matches!(b, b'.' | b',' | b';' | b':' | b'!' | b'?'))
        .map_or(0, |at| at + 1);
    &value[..end]
}

/// Empty, masked by somebody, or a name that stands for a value.
pub(crate) fn is_placeholder(value: &[u8], lists: &Lists) -> bool {
    let value = value.trim_ascii();
    // `=None):`, `=true)`: what closes a call of code around it.
    let bare = trim_end_punctuation(value);
    let inside = bare.iter().rposition(|b| *b != b')').map_or(bare, |last| &bare[..=last]);
    value.is_empty()
        || inside.len() < bare.len() && inside.iter().all(u8::is_ascii_alphabetic) && lists.is_trivial(inside)
        || mask_at(value, 0).is_some_and(|length| length == value.len())
        || is_blanked(value)
        || is_cut_off(value)
        || is_reference(value)
        || is_to_be_filled(value)
        || lists.is_trivial(value)
}

/// `YOUR_API_KEY`, `changeme-in-production`, `replace-this`: what whoever sets it up is to write there.
fn is_to_be_filled(value: &[u8]) -> bool {
    const STARTS: [&[u8]; 12] = [
        b"your",
        b"changeme",
        b"change-me",
        b"change_me",
        b"change-this",
        b"change_this",
        b"replace",
        b"insert",
        b"enter",
        b"dummy",
        b"placeholder",
        b"put-",
    ];
    let is_separator = |b: &u8| matches!(b, b'-' | b'_' | b'.' | b' ');
    let start = STARTS
        .iter()
        .find(|start| value.len() > start.len() && value[..start.len()].eq_ignore_ascii_case(start));
    // `xoxb-your-token`, and no phrase: `horse-your-battery`
    const YOURS: [&[u8]; 10] =
        [b"api", b"access", b"bot", b"app", b"key", b"token", b"secret", b"password", b"here", b"value"];
    let is_named = |word: &[u8]| YOURS.iter().any(|known| known.eq_ignore_ascii_case(word));
    let mut behind_yours =
        value.split(is_separator).skip_while(|word| !word.eq_ignore_ascii_case(b"your")).skip(1);
    let is_yours =
        !value.contains(&b' ') && behind_yours.next().is_some_and(is_named) && behind_yours.all(is_named);
    let starts_so =
        start.is_some_and(|start| is_separator(&value[start.len()]) || is_separator(&start[start.len() - 1]));
    (is_yours || starts_so) && value.iter().all(|b| b.is_ascii_alphabetic() || is_separator(b))
}

/// `sk-...`, `ghp_xxxxxxxxxxxx`, `SG.xxxxxx`: how a value begins, and what stands for the rest.
fn is_cut_off(value: &[u8]) -> bool {
    const REST_MIN: usize = 5;
    let is_beginning = |begin: &[u8]| {
        begin.len() <= 16 && begin.iter().all(|b| b.is_ascii_alphabetic() || b"-_.".contains(b))
    };
    let points = [&b"..."[..], "…".as_bytes()].iter().find_map(|points| value.strip_suffix(*points));
    let rest = value.iter().rev().take_while(|b| matches!(b, b'x' | b'X' | b'-')).count();
    // `base64:...`
    let is_encoding = |begin: &[u8]| {
        begin.len() <= 10
            && begin.strip_suffix(b":").is_some_and(|name| name.iter().all(u8::is_ascii_alphanumeric))
    };
    points.is_some_and(|begin| {
        is_encoding(begin) || is_beginning(begin) && begin.iter().any(|b| b"-_.".contains(b))
    }) || rest >= REST_MIN.max(value.len() / 2)
        && is_beginning(&value[..value.len() - rest])
        && value[..value.len() - rest].last().is_none_or(|b| b"-_.".contains(b))
}

/// `****`, `xxxxx`, `......`, `•••`, `***hidden***`.
fn is_blanked(value: &[u8]) -> bool {
    let first = value[0];
    // `00000000-0000-0000-0000-000000000000`
    if value.len() >= 8 && value.iter().all(|b| matches!(b, b'0' | b'-')) {
        return true;
    }
    if value.starts_with(b"***") || value.len() < 16 && memchr::memmem::find(value, b"****").is_some() {
        return true;
    }
    let same = value.iter().all(|b| *b == first);
    if same && (!first.is_ascii_alphanumeric() || matches!(first, b'x' | b'X')) {
        return value.len() > 1 || !first.is_ascii_alphanumeric();
    }
    // Bullets are three bytes each in UTF-8.
    first >= 0xe2 && value.len() >= 3 && value.chunks(3).all(|bullet| bullet == &value[..3])
}

/// `493028`, `QX-4481`: one short word of letters, digits and hyphens with at least three digits, or half of them digits.
fn is_code_to_type(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    value.len() <= 64
        && (digits >= 3 || digits > 0 && digits * 2 >= value.len() && value.len() >= 4)
        && value.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
        && !is_pointer(value)
        && !is_date(value)
}

/// `2024-01-02`, and what begins so.
fn is_date(value: &[u8]) -> bool {
    value.len() >= 10
        && value[4] == b'-'
        && value[7] == b'-'
        && value[..10].iter().filter(|b| b.is_ascii_digit()).count() == 8
}

/// Has it a letter, and a digit or a symbol that words have not, and is it no version, size or name with a number behind it?
pub(crate) fn is_mixed(value: &[u8]) -> bool {
    let value = trim_end_punctuation(value);
    let has = |of: fn(&u8) -> bool| value.iter().any(of);
    let digits_from = value.iter().position(u8::is_ascii_digit).unwrap_or(value.len());
    let is_numbered = digits_from > 0
        && value[..digits_from].iter().all(u8::is_ascii_lowercase)
        && value[digits_from..].iter().all(|b| b.is_ascii_digit() || *b == b'.');
    has(u8::is_ascii_alphabetic)
        && has(|b| b.is_ascii_digit() || b"!@#$%^&*+~".contains(b))
        && !(is_numbered && value.len() < 8)
        || value.len() >= 8 && is_no_name(value)
}

/// Would nobody write it in a sentence: scrambled, or letters, digits and symbols together.
pub(crate) fn is_no_word(value: &[u8]) -> bool {
    let has = |of: fn(&u8) -> bool| value.iter().any(of);
    if is_release(value) {
        return false;
    }
    is_scrambled(value)
        || value.len() >= 10
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_uppercase)
            && is_unspoken(value)
        || value.len() >= 7
            && has(u8::is_ascii_alphabetic)
            && has(u8::is_ascii_digit)
            && has(|b| b"!#$%^&*~".contains(b))
            && !has(|b| b"()[]{}<>=;,\"'`\\|/:".contains(b))
}

/// An expression of source code in the place of a value: `GetPassword()`, `process.env.X`, `System.String`.
pub(crate) fn is_code(value: &[u8], lists: &Lists) -> bool {
    let bare = value.trim_ascii_end().strip_suffix(b";").unwrap_or(value);
    if bare.ends_with(b"()") || bare.ends_with(b"(") {
        let name = bare.strip_suffix(b"()").or_else(|| bare.strip_suffix(b"(")).unwrap_or_default();
        if !name.is_empty() && name.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.')) {
            return true;
        }
    }
    // `alice.computeSecret(key)`: a call on something.
    if let Some(open) = memchr::memchr(b'(', bare) {
        let name = &bare[..open];
        // `configService.get<string>(`
        let is_called = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.' | b'<' | b'>');
        if name.contains(&b'.') && name.iter().all(is_called) {
            return true;
        }
    }
    // `$_POST["password"]`, `$config->secret`: a variable of PHP, Perl or a shell.
    if let Some(rest) = bare.strip_prefix(b"$") {
        let name = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let goes_on = rest.get(name..).unwrap_or_default();
        if name > 1 && (goes_on.starts_with(b"[") || goes_on.starts_with(b"->") || goes_on.starts_with(b"::"))
        {
            return true;
        }
    }
    // `{Password()}`: what a string of C# or Python is filled with.
    if bare.starts_with(b"{") && bare.ends_with(b")}") {
        return true;
    }
    // `{string | Buffer}`: a type.
    if bare
        .strip_prefix(b"{")
        .is_some_and(|name| !name.is_empty() && name.iter().all(u8::is_ascii_alphabetic))
    {
        return true;
    }
    // `required|min:8|confirmed`: what a value is checked for.
    let is_check = |word: &[u8]| {
        let name = word.iter().take_while(|b| b.is_ascii_lowercase() || **b == b'_').count();
        name >= 2 && (name == word.len() || word[name] == b':' && word.len() < 24)
    };
    let mut checks = bare.split(|b| *b == b'|');
    if checks.next().is_some_and(|first| lists.is_trivial(first))
        && bare.contains(&b'|')
        && checks.all(is_check)
    {
        return true;
    }
    // `true|false`: what may stand there.
    if bare.contains(&b'|') && bare.split(|b| *b == b'|').all(|word| lists.is_trivial(word)) {
        return true;
    }
    lists.words().code_roots.iter().any(|root| bare.len() >= root.len() && bare.starts_with(root.as_bytes()))
}

/// `0x7ffd5e8c`: an address in a back-trace.
pub(crate) fn is_pointer(value: &[u8]) -> bool {
    value.strip_prefix(b"0x").is_some_and(|hex| hex.len() <= 16 && hex.iter().all(u8::is_ascii_hexdigit))
}

/// Could it be the value of a name in the cell beside it? Lists of words have such neighbours too.
pub(crate) fn is_of_a_cell(value: &[u8]) -> bool {
    let has = |of: fn(&u8) -> bool| value.iter().any(of);
    let is_word = value.iter().all(|b| b.is_ascii_alphabetic() || b" _-./".contains(b));
    let is_number = value.iter().all(|b| b.is_ascii_digit() || b" .,:-/+".contains(b));
    let is_turned = has(u8::is_ascii_lowercase) && value.iter().skip(1).any(u8::is_ascii_uppercase);
    value.len() >= 6
        && !is_number
        && !is_path(value)
        && !is_release(value)
        && (!is_word
            || is_no_name(value)
            || is_turned && value.len() >= 12 && !value.contains(&b' ')
            || phrase::is_phrase(value)
            || is_unspoken(value))
        && (has(u8::is_ascii_digit) || has(|b| b"!@#$%^&*+~?".contains(b)) || is_word)
}

/// 8-4-4-4-12 hex digits, with or without braces.
pub(crate) fn is_uuid(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"{").and_then(|v| v.strip_suffix(b"}")).unwrap_or(value);
    value.len() == 36
        && value.iter().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Shannon entropy in bits per byte.
pub(crate) fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let total = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
}

/// Does the value look as the strength of its rule asks?
pub(crate) fn is_strong(value: &[u8], strength: Strength) -> bool {
    let value = trim_end_punctuation(value.trim_ascii());
    match strength {
        Strength::Any => !is_pointer(value),
        Strength::Mixed => {
            let short_number = is_number(value) && value.len() < 12;
            let short_date = is_date(value) && value.len() <= 20;
            !(short_number
                || short_date
                || is_version(value)
                || is_release(value)
                || is_pointer(value)
                || is_path(value))
        }
        Strength::Token => is_token(value),
        Strength::Random => is_random(value),
        Strength::Code => {
            is_code_to_type(value)
                || value.len() >= 16 && is_token(value)
                || value.len() >= 8 && is_no_word(value) && value.iter().any(u8::is_ascii_lowercase)
        }
    }
}

/// No plain word or name, no plain number, no UUID, no path, no address, no date.
fn is_token(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let lower = value.iter().any(u8::is_ascii_lowercase);
    let upper = value.iter().any(u8::is_ascii_uppercase);
    let letters = lower || upper;
    let plain = value.iter().all(|b| {
        b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'+' | b'/'
                    | b'='
                    | b'_'
                    | b'-'
                    | b'.'
                    | b'~'
                    | b'%'
                    | b'!'
                    | b'@'
                    | b'#'
                    | b'$'
                    | b'^'
                    | b'*'
            )
    });
    let plain = plain
        || is_random_with_signs(value)
        || is_random_with_brackets(value)
        || has_letters_of_others(value);
    if !plain
        || !letters
        || is_uuid(value)
        || is_pointer(value)
        || is_path(value)
        || is_release(value)
        || is_called(value)
    {
        return false;
    }
    if digits >= 2 && digits * 20 >= value.len() || is_scrambled(value) || is_unspoken(value) {
        return true;
    }
    // Letters only: long, mixed, and not made of words.
    value.len() >= 20 && lower && upper && digits >= 1 && entropy(value) >= 3.5
}

/// `ÉléphantVert2642`: letters beyond ASCII, of scripts that have capital and small ones, and nothing else but letters, digits and signs
/// of passwords.
fn has_letters_of_others(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|value| {
        !value.is_ascii()
            && value.chars().all(|letter| {
                letter.is_ascii_alphanumeric()
                    || letter.is_lowercase()
                    || letter.is_uppercase()
                    || "-_.!#$%*+".contains(letter)
            })
    })
}

/// `Ys(7#>e*ky.wQeL9Q`: a password with the signs of code, in which no name of code stands.
pub(crate) fn is_random_with_brackets(value: &[u8]) -> bool {
    const SIGNS: &[u8] = b"()[]{}<>=;,|`";
    let rest: Vec<u8> = value.iter().copied().filter(|b| !SIGNS.contains(b)).collect();
    let has = |of: fn(&u8) -> bool| rest.iter().any(of);
    let is_expression =
        [&b"a-z"[..], b"A-Z", b"0-9", b"(?"].iter().any(|part| memchr::memmem::find(value, part).is_some());
    // `getPassword(a1,b2)`: a call by a name.
    let head = value.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let is_call = head >= 3
        && value.get(head).is_some_and(|b| b"([{<".contains(b))
        && (trim_end_punctuation(value).last().is_some_and(|b| b")]}>".contains(b))
            || head >= 5
                && value[..head].iter().all(u8::is_ascii_alphabetic)
                && value[head + 1..].iter().all(u8::is_ascii_alphanumeric))
        && !is_unspoken(&value[..head])
        && !is_scrambled(&value[..head]);
    value.len() <= 64
        && !is_expression
        && !is_call
        && rest.len() < value.len()
        && rest.len() >= 8
        && value.iter().all(u8::is_ascii_graphic)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && (has(u8::is_ascii_digit) && is_scrambled(&rest)
            || bits_per_pair(&rest).is_some_and(|bits| bits >= 5.25))
}

/// `oauth2:dba06b506389c94f2bfc010f`, `4nXYKv]mHDeom5esert30Ea7]`: signs that code has, too, around what nobody writes by hand.
fn is_random_with_signs(value: &[u8]) -> bool {
    value.iter().all(|b| b.is_ascii_graphic() && !b"\"'`<>(){},;=\\".contains(b))
        && memchr::memmem::find(value, b"://").is_none()
        && (has_random_run(value, 8) || value.len() >= 16 && is_no_word(value))
        && (has_random_run(value, 16) || is_no_word(value) || value.len() >= 20 && is_unspoken(value))
}

/// The same where the alphabet has `-` and `_` in it: a run of so many, and a third more, with them left out.
pub(crate) fn is_random_between(value: &[u8], least: usize) -> bool {
    let run: Vec<u8> = value.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
    let separators = value.len() - run.len();
    run.len() >= least + least / 3
        && separators * 6 <= value.len()
        && has_random_run(&run, least)
        && is_scrambled(&run)
        && bits_per_pair(&run).is_some_and(|bits| bits >= 5.25)
}

/// Has it a run of so many letters and digits that no words, dates and counters make?
pub(crate) fn has_random_run(value: &[u8], least: usize) -> bool {
    value.split(|b| !b.is_ascii_alphanumeric()).any(|run| {
        let digits = run.iter().filter(|b| b.is_ascii_digit()).count();
        // How often letters and digits take turns: words with a number behind them do so once.
        let turns =
            run.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
        run.len() >= least
            && digits < run.len()
            && (digits >= 2 && turns >= 3 || is_scrambled(run))
            && entropy(run) >= 2.8
    })
}

/// `wdvnousa87acfxp9ioasrea4tbeasrfa`: small or capital letters and digits that are no hex and stand in no order of a language.
fn is_random_of_one_case(body: &[u8]) -> bool {
    let is_of_run = |run: &[u8]| {
        run.len() >= 20
            && has_random_run(run, 20)
            && !run.iter().all(u8::is_ascii_hexdigit)
            && bits_per_pair(run).is_some_and(|bits| bits >= 5.0)
    };
    let runs = || body.split(|b| !b.is_ascii_alphanumeric());
    body.len() >= 24
        && (body.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':'))
            && runs().any(is_of_run)
            || is_of_groups(body)
            || body.iter().all(u8::is_ascii_alphabetic) && is_no_name(body) && is_unspoken(body))
}

/// `2FTJTA1C-BXO0DV4J-HGTP9E62-QHQSILY1`: groups of one length, as keys of licences have them.
pub(crate) fn is_of_groups(body: &[u8]) -> bool {
    let mut groups = body.split(|b| *b == b'-');
    let first = groups.next().map_or(0, <[u8]>::len);
    let others = groups.clone().count();
    first >= 5
        && others >= 2
        && groups.all(|group| group.len() == first)
        && body.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'-')
        && body.iter().filter(|b| b.is_ascii_digit()).count() >= 4
        && !body.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-')
}

/// Hex of 32 digits or more, base64 that uses its alphabet, or long runs of one case.
fn is_random(value: &[u8]) -> bool {
    let body = value.strip_suffix(b"==").or_else(|| value.strip_suffix(b"=")).unwrap_or(value);
    let digits = body.iter().filter(|b| b.is_ascii_digit()).count();
    if body.len() >= 32 && body.iter().all(u8::is_ascii_hexdigit) {
        return digits >= 4 && digits < body.len() && entropy(body) >= 3.0;
    }
    let lower = body.iter().filter(|b| b.is_ascii_lowercase()).count();
    let upper = body.iter().filter(|b| b.is_ascii_uppercase()).count();
    let alphabet =
        body.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'_' | b'-' | b'.'));
    let separators = body.iter().filter(|b| matches!(b, b'/' | b'-' | b'_' | b'+' | b'.')).count();
    // Whole groups of base64 with their padding: two of its 64 signs are no letters and digits, by chance more.
    let is_padded = body.len() < value.len()
        && value.len() >= 40
        && value.len().is_multiple_of(4)
        && !body.iter().any(|b| matches!(b, b'-' | b'_' | b'.'));
    let separators = if is_padded { separators / 2 } else { separators };
    let has_sign = body.iter().any(|b| b"!@#$%^&*".contains(b));
    is_random_of_one_case(body)
        || has_sign && body.len() >= 24 && digits >= 2 && lower >= 3 && upper >= 3 && is_no_word(body)
        || alphabet
            && body.len() >= 20
            && digits >= 2
            && lower >= 3
            && upper >= 3
            && separators * 8 <= body.len()
            && entropy(body) >= 3.5
            // `TokenLifetimeMinutes15`
            && bits_per_pair(body).is_none_or(|bits| bits >= 4.5)
}

#[cfg(test)]
mod tests;
