//! What makes texts equal that differ by ids only: paths, addresses, commands.

/// A path with numbers, ids and the like replaced by `{}`, without query and fragment.
pub(super) fn path_group(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut group = String::with_capacity(path.len());
    for (index, part) in path.split('/').enumerate() {
        if index > 0 {
            group.push('/');
        }
        group.push_str(if is_id(part) { "{}" } else { part });
    }
    group
}

/// Whether a part of a path is an id: it has digits, and is a number, a GUID, hexadecimal, or a word with a number
/// (`Releases-17`), or long and without vowels enough to be a word.
fn is_id(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 {
        // Tokens of base64.
        return part.len() >= 32;
    }
    let hex = part.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let after_dash = part.rsplit(['-', '_', ':']).next().unwrap_or_default();
    let numbered = !after_dash.is_empty() && after_dash.bytes().all(|byte| byte.is_ascii_digit());
    // `v1` and `oauth2` are names, `web-app.1.2.3.zip` and `x2f9c81ab` are not.
    digits == part.len() || (hex && part.len() >= 8) || numbered || digits * 2 >= part.len().max(4)
}

/// A URL without query, fragment and user.
pub(super) fn url_without_query(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// A command with its literals replaced by `?`: texts, numbers, hexadecimal numbers, and lists of them by one. White space is
/// one blank, comments are left out. Names in quotes (`"x"`, `[x]`, `` `x` ``) and parameters (`@p0`, `$1`, `:id`) stay.
pub(super) fn command_group(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(1024));
    let mut rest = text.chars().peekable();
    // The last character that is part of a name or number, so that `T1` keeps its digit.
    let mut before = ' ';
    while let Some(next) = rest.next() {
        match next {
            '\'' => {
                skip_quoted(&mut rest);
                // N'text', E'text', X'..': the letter belongs to the literal.
                if matches!(before, 'N' | 'n' | 'E' | 'e' | 'X' | 'x' | 'B' | 'b')
                    && ends_in_single_letter(&out)
                {
                    out.pop();
                }
                out.push('?');
                before = '?';
            }
            '"' | '`' | '[' => {
                let end = if next == '[' { ']' } else { next };
                out.push(next);
                for inner in rest.by_ref() {
                    out.push(inner);
                    if inner == end {
                        break;
                    }
                }
                before = end;
            }
            '-' if rest.peek() == Some(&'-') => {
                for inner in rest.by_ref() {
                    if inner == '\n' {
                        break;
                    }
                }
                blank(&mut out);
                before = ' ';
            }
            '/' if rest.peek() == Some(&'*') => {
                let mut last = ' ';
                rest.next();
                for inner in rest.by_ref() {
                    if last == '*' && inner == '/' {
                        break;
                    }
                    last = inner;
                }
                blank(&mut out);
                before = ' ';
            }
            digit if digit.is_ascii_digit() && !is_name(before) => {
                while rest.peek().is_some_and(|next| next.is_ascii_alphanumeric() || *next == '.') {
                    rest.next();
                }
                out.push('?');
                before = '?';
            }
            space if space.is_whitespace() => {
                blank(&mut out);
                before = ' ';
            }
            other => {
                out.push(other);
                before = other;
            }
        }
    }
    join_lists(out.trim())
}

fn is_name(before: char) -> bool {
    before.is_alphanumeric() || matches!(before, '_' | '@' | '$' | ':' | '#')
}

fn ends_in_single_letter(out: &str) -> bool {
    out.chars().rev().nth(1).is_none_or(|before| !is_name(before))
}

fn blank(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

/// Passes over a text in quotes; a doubled quote is one of the text.
fn skip_quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(inner) = rest.next() {
        if inner == '\'' && rest.next_if_eq(&'\'').is_none() {
            return;
        }
    }
}

/// `(?, ?, ?)` to `(?)`: how many values a list has makes no other command.
fn join_lists(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('?') {
        let (head, tail) = rest.split_at(at + 1);
        out.push_str(head);
        rest = tail;
        loop {
            let next = rest.trim_start();
            let Some(next) = next.strip_prefix(',').map(str::trim_start) else { break };
            let Some(next) = next.strip_prefix('?') else { break };
            rest = next;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::{command_group, path_group, url_without_query};

    #[test]
    fn ids_in_paths_are_replaced() {
        for (path, group) in [
            ("/api/releases/1", "/api/releases/{}"),
            ("/api/releases/1?take=5", "/api/releases/{}"),
            ("/api/v1/users/Users-17/keys", "/api/v1/users/{}/keys"),
            ("/x/6f9619ff-8b86-d011-b42d-00c04fc964ff", "/x/{}"),
            ("/healthz", "/healthz"),
            ("/oauth2/token", "/oauth2/token"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(path_group(path), group, "{path}");
        }
    }

    #[test]
    fn urls_lose_query_and_user() {
        assert_eq!(url_without_query("https://me:pw@h.test:8/a/b?x=1#y"), "https://h.test:8/a/b");
        assert_eq!(url_without_query("/a?b"), "/a");
    }

    #[test]
    fn commands_lose_their_literals() {
        for (text, group) in [
            ("SELECT * FROM T1 WHERE id = 42", "SELECT * FROM T1 WHERE id = ?"),
            ("select 'it''s secret',N'x' , 0x1F, 1.5e3", "select ?"),
            ("WHERE a IN (1, 2,3) AND b=@p0 AND c = $1", "WHERE a IN (?) AND b=@p0 AND c = $1"),
            (
                "UPDATE [Order 1] SET \"x 2\"='a' -- why 5\nWHERE /* 7 */ y=-3",
                "UPDATE [Order 1] SET \"x 2\"=? WHERE y=-?",
            ),
            ("INSERT INTO t VALUES ('unclosed", "INSERT INTO t VALUES (?"),
            ("", ""),
        ] {
            assert_eq!(command_group(text), group, "{text}");
        }
    }
}
