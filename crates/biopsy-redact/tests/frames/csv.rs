//! Tables of CSV.

use proptest::prelude::*;

use crate::content::{content, name};
use crate::{masked, outline};

/// Cells of each record, as RFC 4180 counts them; `None`: it is broken.
fn cells(text: &str, separator: char) -> Option<Vec<usize>> {
    let (mut records, mut cells) = (Vec::new(), 1);
    let mut letters = text.chars().peekable();
    let mut begins = true;
    while let Some(letter) = letters.next() {
        if begins && letter == '"' {
            loop {
                if letters.next()? == '"' && letters.next_if_eq(&'"').is_none() {
                    break;
                }
            }
            if letters.peek().is_some_and(|next| !['\r', '\n', separator].contains(next)) {
                return None;
            }
            begins = false;
            continue;
        }
        begins = letter == '\n' || letter == separator;
        match letter {
            '\n' => records.push(std::mem::replace(&mut cells, 1)),
            '"' => return None,
            letter if letter == separator => cells += 1,
            _ => {}
        }
    }
    Some(records)
}

fn cell(text: &str, separator: char, always: bool) -> String {
    if always || text.contains([separator, '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A table with a line of names, its separator, and whether each cell is in quotes.
fn table() -> impl Strategy<Value = (String, char, bool)> {
    let rows = prop::collection::vec(prop::collection::vec(content(), 5), 1..5);
    (
        prop::collection::vec(name(), 2..6),
        rows,
        prop::sample::select(vec![',', ';', '\t']),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(names, rows, separator, always, dos)| {
            let line = |cells: &[String]| {
                let cells: Vec<String> =
                    cells.iter().take(names.len()).map(|text| cell(text, separator, always)).collect();
                cells.join(&separator.to_string()) + if dos { "\r\n" } else { "\n" }
            };
            let rows: String = rows.iter().map(|row| line(row)).collect();
            (line(&names) + &rows, separator, always)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_keep_their_records_and_cells((text, separator, always) in table()) {
        let before = cells(&text, separator).expect("it was written so");
        let after = masked(&text);
        prop_assert_eq!(cells(&after, separator), Some(before.clone()), "{}\nbecame\n{}", text, after);
        // Where each cell is in quotes, and each record in one line, nobody has to say which columns there are.
        if always && text.lines().count() == before.len() {
            let (_, rows) = text.split_once('\n').expect("names are in one line");
            let after = masked(rows);
            prop_assert_eq!(cells(&after, separator), Some(before[1..].to_vec()), "{}\nbecame\n{}", rows, after);
        }
    }
}

/// Damage that was seen, of one kind each.
#[test]
fn a_value_takes_no_cell_with_it() {
    for (text, wanted) in [
        ("user;note;n\nann;password=Blau77kern;5\n", "user;note;n\nann;password=M;5\n"),
        ("user name,note,n\nann,token: Blau77kern9,5\n", "user name,note,n\nann,token: M,5\n"),
        ("\"ann\",\"password=Blau77kern9\",\"5\"\n", "\"ann\",\"password=M\",\"5\"\n"),
        ("user;note\nann;secret => Blau77kern9\nbob;x\n", "user;note\nann;secret => M\nbob;x\n"),
        // Two secrets in two cells of a row.
        ("a,b,n\npassword=Blau77kern9,token=Rot88kern7x,5\n", "a,b,n\npassword=M,token=M,5\n"),
        // A key of many lines in one cell.
        (
            "user,note\n\"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\",5\n",
            "user,note\n\"-----BEGIN PRIVATE KEY-----M-----END PRIVATE KEY-----\",5\n",
        ),
        // No table: a password may have a comma and a semicolon.
        ("password=Blau77,kern;9x\n", "password=M\n"),
    ] {
        assert_eq!(outline(&masked(text)), wanted, "{text}");
    }
}
