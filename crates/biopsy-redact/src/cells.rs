//! Values that stand in a cell of their own: beside their name (`key<tab>value`, `"key","value"`, `<td>key</td><td>value</td>`,
//! `put("key", "value")`), or below it in a table with a header (CSV, Markdown).

use std::ops::Range;

use crate::below;
use crate::numbered;
use crate::pairs;
use crate::plausible;
use crate::quote::Quote;
use crate::rows::line_at;
use crate::rules::Strength;
use crate::value::Value;

/// Most cells of a row.
const CELLS_MAX: usize = 256;
/// Rows below a header that are read.
const ROWS_MAX: usize = 8192;
/// Longest name of another column, in bytes.
const COLUMN_MAX: usize = 48;
/// Fewest blanks between two columns that are aligned.
const GAP_MIN: usize = 2;
/// Rows above a row in which its header is looked for.
const HEADER_ROWS_MAX: usize = 64;
/// What columns of names and of values are called.
const NAME_COLUMNS: [&[u8]; 8] =
    [b"name", b"key", b"setting", b"variable", b"property", b"parameter", b"option", b"field"];
const VALUE_COLUMNS: [&[u8]; 2] = [b"value", b"val"];
/// Longest value of a cell beside a name, in bytes.
const VALUE_MAX: usize = 4096;

/// The value in the cell behind the name.
pub(crate) fn beside(text: &[u8], name: &Range<usize>) -> Option<Value> {
    in_call_or_row(text, name)
        .or_else(|| pairs::find(text, name, path_start(text, name.start)))
        .or_else(|| in_row_of_two(text, name))
        .or_else(|| numbered::beside(text, name))
        .or_else(|| below_its_length(text, name))
        .or_else(|| behind_gap(text, name))
        .or_else(|| behind_separator(text, name, b'\t'))
        .or_else(|| behind_separator(text, name, b'|'))
        .or_else(|| in_box(text, name))
        .or_else(|| in_next_element(text, name))
        .filter(|value| value.range.len() <= VALUE_MAX)
}

/// `put("key", "value")`, and `"key","value"` at the start of a line.
fn in_call_or_row(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let (quote, length) = Quote::at(text, name.end)?;
    let Quote::Escaped { quote: character, backslashes } = quote else { return None };
    let begin = path_start(text, name.start);
    let outer = begin.checked_sub(1 + backslashes)?;
    if text[begin - 1] != character {
        return None;
    }
    let before = text[..outer].last().copied();
    let is_call = matches!(before, Some(b'(' | b'['));
    if !is_call && !matches!(before, None | Some(b'\n')) {
        return None;
    }
    let mut at = name.end + length;
    // `("key" . "value")`
    let is_pair = before == Some(b'(') && text[at..].starts_with(b" . ");
    if !is_pair && !matches!(text.get(at), Some(b',' | b';')) {
        return None;
    }
    at += if is_pair { 3 } else { 1 };
    at += text[at..].iter().take(4).take_while(|b| **b == b' ').count();
    let (again, length) = Quote::at(text, at)?;
    if again != quote {
        return None;
    }
    let start = at + length;
    let (end, open) = quote.close(text, start);
    let behind = text.get(end + backslashes + 1);
    let ends = match before {
        Some(b'(') => matches!(behind, Some(b')' | b',')),
        Some(b'[') => behind == Some(&b']'),
        _ => matches!(behind, None | Some(b',' | b';' | b'\r' | b'\n')),
    };
    ends.then_some(Value { range: start..end, quoted: true, open, wrap: None })
}

/// `key,value` as the two cells of a line, or `key      value` with a gap between them.
fn in_row_of_two(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let separator = *text.get(name.end).filter(|b| matches!(b, b',' | b';'))?;
    let line = line_at(text, name.start)?;
    let start = name.end + 1;
    let value = text.get(start..line.end)?.trim_ascii_end();
    // `key;"value"`
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let start = start + usize::from(bare.is_some());
    let value = bare.unwrap_or(value);
    let is_whole = path_start(text, name.start) == line.start
        && !value.is_empty()
        && !value.iter().any(|b| *b == separator || matches!(b, b' ' | b'"' | b'(' | b')' | b'{' | b'}'));
    is_whole.then_some(Value { range: start..start + value.len(), quoted: true, open: false, wrap: None })
}

/// `  key        value` as the two words of a line.
fn behind_gap(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let gap = text[name.end..].iter().take(64).take_while(|b| **b == b' ').count();
    if gap < GAP_MIN {
        return None;
    }
    let line = line_at(text, name.start)?;
    let start = (name.end + gap).min(line.end);
    // Nothing else has a type of the registry beside it, whatever stands in front of the name.
    let is_of_registry = text[start..line.end].starts_with(b"REG_");
    let start = start + type_before(&text[start..line.end]);
    let value = text[start..line.end].trim_ascii_end();
    let before = &text[line.start..path_start(text, name.start)];
    let is_whole = (is_of_registry && before.ends_with(b"  ")
        || before.iter().all(|b| matches!(b, b' ' | b'\t')))
        && !value.is_empty()
        && !value.iter().any(|b| matches!(b, b' ' | b'"' | b'(' | b')' | b'{' | b'}' | b'|' | b'<'));
    is_whole.then_some(Value { range: start..start + value.len(), quoted: true, open: false, wrap: None })
}

/// `REG_SZ    x`, `string  x`: length of the cell that says of which type the next one is.
fn type_before(cells: &[u8]) -> usize {
    let word = cells.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(cells.len());
    let blanks = cells[word..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    if is_type(&cells[..word]) && blanks > 0 { word + blanks } else { 0 }
}

fn is_type(word: &[u8]) -> bool {
    const TYPES: [&[u8]; 6] = [b"string", b"securestring", b"text", b"varchar", b"opaque", b"(string)"];
    word.starts_with(b"REG_") || TYPES.iter().any(|kind| word.eq_ignore_ascii_case(kind))
}

/// `K 8`, the name, `V 16`, the value: each on a line of its own, as Subversion keeps them.
fn below_its_length(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let line_below = |end: usize| {
        let start = below::next_line(text, name.start, below::newline(text, end)?)?;
        Some(start + text.get(start..)?.iter().take(16).take_while(|b| matches!(b, b' ' | b'\t')).count())
    };
    let length = line_below(name.end)?;
    let digits = text[length..].strip_prefix(b"V ")?.iter().take_while(|b| b.is_ascii_digit()).count();
    let start = line_below(length + 2 + digits).filter(|_| digits > 0)?;
    let end = start + memchr::memchr2(b'\n', b'\r', &text[start..]).unwrap_or(text.len() - start);
    (start < end).then_some(Value { range: start..end, quoted: true, open: end == text.len(), wrap: None })
}

/// The value of a row that names its setting, below a header that says which column is the value: `scope,name,value`.
pub(crate) fn of_row(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let line = line_at(text, name.start)?;
    let separator =
        [b',', b';', b'\t'].into_iter().find(|separator| text[line.clone()].contains(separator))?;
    let is_around = |b: &u8| matches!(b, b' ' | b'"');
    let own = cells(text, &line, separator).filter(|own| own.len() >= 2)?;
    let at = own.iter().position(|cell| cell.start <= name.start && name.end <= cell.end)?;
    let path = path_start(text, name.start);
    let is_alone = text[own[at].start..path.max(own[at].start)].iter().all(is_around)
        && text[name.end..own[at].end.max(name.end)].iter().all(|b| is_around(b) || *b == b'\r');
    if !is_alone {
        return None;
    }
    // The first of the lines above that have as many cells.
    let mut header = None;
    let mut from = line.start;
    for _ in 0..HEADER_ROWS_MAX {
        let Some(row) = from.checked_sub(1).and_then(|end| line_at(text, end)) else { break };
        let Some(found) = cells(text, &row, separator).filter(|found| found.len() == own.len()) else {
            break;
        };
        from = row.start;
        header = Some(found);
    }
    let header = header?;
    let is_called = |cell: &Range<usize>, names: &[&[u8]]| {
        let cell = text[cell.clone()].trim_ascii();
        let cell = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell);
        names.iter().any(|name| cell.eq_ignore_ascii_case(name))
    };
    let column = header.iter().position(|cell| is_called(cell, &VALUE_COLUMNS))?;
    if column == at || !is_called(&header[at], &NAME_COLUMNS) {
        return None;
    }
    let cell = own[column].clone();
    let value = text[cell.clone()].trim_ascii();
    let start = cell.start + (cell.len() - text[cell].trim_ascii_start().len());
    let range = match value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) {
        Some(inner) => start + 1..start + 1 + inner.len(),
        None => start..start + value.len(),
    };
    (!range.is_empty() && range.len() <= VALUE_MAX).then_some(Value {
        range,
        quoted: true,
        open: false,
        wrap: None,
    })
}

/// Where the path begins that a name ends: `Jwt:SigningKey`.
fn path_start(text: &[u8], name: usize) -> usize {
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'.' | b'-' | b'/');
    name - text[..name].iter().rev().take(64).take_while(is_path).count()
}

/// `key<tab>value` at the start of a line, `| key | value |`.
fn behind_separator(text: &[u8], name: &Range<usize>, separator: u8) -> Option<Value> {
    let is_table = separator == b'|';
    let blanks =
        |bytes: &[u8]| if is_table { bytes.iter().take(64).take_while(|b| **b == b' ').count() } else { 0 };
    let begin = path_start(text, name.start);
    // "| `key` | value |"
    let is_code = is_table && text[..begin].ends_with(b"`") && text[name.end..].starts_with(b"`");
    let (begin, name_end) = (begin - usize::from(is_code), name.end + usize::from(is_code));
    let at = name_end + blanks(&text[name_end..]);
    if text.get(at) != Some(&separator) {
        return None;
    }
    let before = &text[begin.saturating_sub(64)..begin];
    let line = &before[before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1)..];
    // `api key |value`, as tables are written that have no frame.
    let is_frameless = is_table && line.iter().all(|b| b.is_ascii_alphanumeric() || *b == b' ');
    let before = if is_table { before.trim_ascii_end() } else { before };
    let begins = match separator {
        b'|' => before.ends_with(b"|") || is_frameless,
        _ => begin == 0 || before.ends_with(b"\n"),
    };
    let mut start = at + 1 + blanks(&text[at + 1..]);
    // Of which type it is says a cell of its own.
    let cell = &text[start..text.len().min(start + COLUMN_MAX)];
    if let Some(end) =
        cell.iter().position(|b| *b == separator).filter(|end| is_type(cell[..*end].trim_ascii()))
    {
        start += end + 1 + blanks(&text[start + end + 1..]);
    }
    let line = &text[start..text.len().min(start + VALUE_MAX)];
    let end = line.iter().position(|b| *b == separator || matches!(b, b'\n' | b'\r'));
    let end = start
        + end.or_else(|| {
            ((!is_table || is_frameless) && start + line.len() == text.len()).then_some(line.len())
        })?;
    let end = start + text[start..end].trim_ascii_end().len();
    // What is code in Markdown may have blanks.
    let is_code = is_table && end > start + 2 && text[start] == b'`' && text[end - 1] == b'`';
    let (start, end) = if is_code { (start + 1, end - 1) } else { (start, end) };
    // A table has a cell behind it, and its cells are one word.
    let is_one = is_code || !text[start..end].contains(&b' ');
    (begins && is_one && start < end).then_some(Value {
        range: start..end,
        quoted: true,
        open: false,
        wrap: None,
    })
}

/// `│ key │ value │`, with the lines that Unicode has for boxes.
fn in_box(text: &[u8], name: &Range<usize>) -> Option<Value> {
    const LINES: [&[u8]; 4] = [b"\xe2\x94\x82", b"\xe2\x94\x83", b"\xe2\x95\x91", b"\xc2\xa6"];
    let blanks = |at: usize| text[at..].iter().take(64).take_while(|b| **b == b' ').count();
    let line = name.end + blanks(name.end);
    let line = LINES.iter().find_map(|sign| text[line..].starts_with(sign).then_some(line + sign.len()))?;
    let before = text[..path_start(text, name.start)].trim_ascii_end();
    let begins = LINES.iter().any(|sign| before.ends_with(sign));
    let start = line + blanks(line);
    let rest = &text[start..text.len().min(start + VALUE_MAX)];
    let rest = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    let end = LINES.iter().filter_map(|sign| memchr::memmem::find(rest, sign)).min()?;
    let value = rest[..end].trim_ascii_end();
    let is_one = begins && !value.is_empty() && !value.contains(&b' ');
    is_one.then_some(Value { range: start..start + value.len(), quoted: true, open: false, wrap: None })
}

/// `<name>key</name> <value>x</value>`: elements that say themselves what they hold.
pub(crate) fn of_elements(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let closing = &text[name.end..text.len().min(name.end + COLUMN_MAX)];
    let is_name = NAME_COLUMNS.iter().any(|column| {
        closing
            .strip_prefix(b"</")
            .is_some_and(|tag| tag.get(..column.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(column)))
    });
    let value = in_next_element(text, name).filter(|_| is_name)?;
    let open = memchr::memrchr(b'<', &text[..value.range.start])?;
    let tag = tag_name(&text[open + 1..value.range.start]);
    let is_value =
        VALUE_COLUMNS.iter().chain([&&b"string"[..]]).any(|column| tag.eq_ignore_ascii_case(column));
    (is_value && value.range.len() <= VALUE_MAX).then_some(value)
}

/// `<td>key</td><td>value</td>`, `<name>key</name> <value>value</value>`.
fn in_next_element(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let before = text[..path_start(text, name.start)].trim_ascii_end().strip_suffix(b">")?;
    let open = memchr::memrchr(b'<', &before[before.len().saturating_sub(128)..])?
        + before.len().saturating_sub(128);
    let tag = tag_name(&before[open + 1..]);
    let close = text[name.end..].trim_ascii_start();
    let close = close.strip_prefix(b"</")?.strip_prefix(tag)?.strip_prefix(b">")?;
    // The next line of a diff begins with a sign.
    let is_between = |b: &&u8| b.is_ascii_whitespace() || matches!(b, b'+' | b'-' | b'>' | b'|');
    let behind = text.len() - close.len();
    // In a log the next line begins behind what a logger wrote there.
    let line = below::newline(text, behind).and_then(|newline| below::next_line(text, open, newline));
    let skipped = line.map_or(0, |line| line - behind);
    let gap = skipped + close.get(skipped..)?.iter().take(64).take_while(is_between).count();
    let next = close[gap..].strip_prefix(b"<")?;
    let tag = tag_name(next);
    let end = memchr::memchr(b'>', &next[..next.len().min(128)])?;
    if tag.is_empty() || next[..end].ends_with(b"/") {
        return None;
    }
    let mut start = text.len() - next.len() + end + 1;
    let mut tag = tag;
    // `<value><string>x</string></value>`
    if text[start..].starts_with(b"<") && text.get(start + 1).is_some_and(u8::is_ascii_alphabetic) {
        tag = tag_name(&text[start + 1..]);
        start += 1 + tag.len();
        text[start..].strip_prefix(b">")?;
        start += 1;
    }
    let inside = &text[start..];
    let length = memchr::memchr(b'<', &inside[..inside.len().min(VALUE_MAX)])?;
    let is_closed = inside[length..].strip_prefix(b"</")?.starts_with(tag);
    let value = inside[..length].trim_ascii();
    let start = start + (inside[..length].len() - inside[..length].trim_ascii_start().len());
    (is_closed && !value.is_empty()).then_some(Value {
        range: start..start + value.len(),
        quoted: true,
        open: false,
        wrap: None,
    })
}

fn tag_name(tag: &[u8]) -> &[u8] {
    let length =
        tag.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_')).count();
    &tag[..length]
}

/// Values in the column below a name, if the name is a cell of a header.
pub(crate) fn below(text: &[u8], name: &Range<usize>) -> Vec<Value> {
    [b',', b';', b'\t', b'|']
        .into_iter()
        .find_map(|separator| column(text, name, separator).filter(|values| !values.is_empty()))
        .unwrap_or_default()
}

fn column(text: &[u8], name: &Range<usize>, separator: u8) -> Option<Vec<Value>> {
    // The name is all of its cell, on one side of it at least.
    let is_around = |b: &u8| matches!(b, b' ' | b'"' | b'*' | b'`');
    let behind = text[name.end..].iter().take(64).find(|b| !is_around(b)).copied();
    let before = text[..name.start].iter().rev().take(64).find(|b| !is_around(b)).copied();
    let is_edge = |b: Option<u8>| matches!(b, None | Some(b'\n' | b'\r')) || b == Some(separator);
    if !is_edge(behind) || (behind != Some(separator) && before != Some(separator)) {
        return None;
    }
    let mut line = line_at(text, name.start)?;
    // A table in a string begins behind its quote.
    if separator != b'|' && cells(text, &line, separator).is_none() {
        line.start = line.start.max(
            memchr::memrchr(b'"', &text[line.start..name.start]).map_or(0, |quote| line.start + quote + 1),
        );
    }
    // Prose has a blank behind each comma, and a table of Markdown a ruler below its header.
    let is_prose = separator == b',' && memchr::memmem::find(&text[line.clone()], b", ").is_some();
    if is_prose || separator == b'|' && !line_at(text, line.end + 1).is_some_and(|row| is_ruler(&text[row])) {
        return None;
    }
    let header: Vec<Range<usize>> = cells(text, &line, separator)?;
    // Source code is indented, and its columns are no table's.
    let is_indented = separator == b'\t' && header[0].is_empty();
    if header.len() < 2 || header.len() == 2 && separator == b'|' || is_indented {
        return None;
    }
    let is_among_rows = separator != b'|' && is_among_rows(text, line.start, separator, header.len());
    let at = header.iter().position(|cell| cell.start <= name.start && name.end <= cell.end)?;
    let is_first = |index: usize| index == 0 || index == 1 && separator == b'|';
    let is_name = |cell: &[u8]| {
        let cell = cell.trim_ascii();
        cell.len() <= COLUMN_MAX
            && cell.iter().any(|b| b.is_ascii_alphabetic() || *b >= 0x80)
            && cell.iter().all(|b| b.is_ascii_alphanumeric() || *b >= 0x80 || b" _-.()#\"/*`".contains(b))
            && !cell.first().is_some_and(u8::is_ascii_digit)
    };
    for (index, cell) in header.iter().enumerate() {
        let bytes = &text[cell.clone()];
        let is_empty_edge = separator == b'|' && bytes.trim_ascii().is_empty();
        // What a logger put in front of it is in its first cell.
        if !is_first(index) && !is_empty_edge && !is_name(bytes)
            || index == at && index > 1 && bytes.trim_ascii().len() > name.len() + 8
        {
            return None;
        }
    }
    let mut values = Vec::new();
    let mut from = line.end + 1;
    for _ in 0..ROWS_MAX {
        let Some(row) = line_at(text, from) else { break };
        if row.is_empty() {
            break;
        }
        from = row.end + 1;
        if separator == b'|' && is_ruler(&text[row.clone()]) {
            continue;
        }
        let whole = cells(text, &row, separator).or_else(|| {
            let end = memchr::memchr(b'"', &text[row.clone()])?;
            cells(text, &(row.start..row.start + end), separator)
        });
        let Some(found) = whole.filter(|found| found.len() == header.len()) else {
            break;
        };
        let cell = found[at].clone();
        let trimmed = text[cell.clone()].trim_ascii();
        let start = cell.start + (cell.len() - text[cell.clone()].trim_ascii_start().len());
        let inner = trimmed.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        let range = match inner {
            Some(inner) => start + 1..start + 1 + inner.len(),
            None => start..start + trimmed.len(),
        };
        let is_one_word = !text[range.clone()].contains(&b' ');
        if is_among_rows && !plausible::is_strong(&text[range.clone()], Strength::Token) {
            continue;
        }
        if !range.is_empty() && (is_one_word || !is_first(at) && separator != b'\t') {
            values.push(Value { range, quoted: true, open: row.end == text.len(), wrap: None });
        }
    }
    Some(values)
}

/// Do both lines above have as many cells? Names of columns stand above all rows: this is most likely one of them, of a list of words, tags
/// or keys, and what stands below is asked to look like a token. The names of a second table below a first one look so, too.
fn is_among_rows(text: &[u8], start: usize, separator: u8, columns: usize) -> bool {
    let above = |start: usize| {
        let row = line_at(text, start.checked_sub(1)?)?;
        (cells(text, &row, separator)?.len() == columns).then_some(row.start)
    };
    above(start).and_then(above).is_some()
}

/// `| --- | --- |`
fn is_ruler(line: &[u8]) -> bool {
    let ruler = line.iter().filter(|b| matches!(b, b'-' | b'|' | b':' | b' ' | b'+' | b'\r')).count();
    ruler * 2 >= line.len() && memchr::memmem::find(line, b"---").is_some()
}

/// The cells of a line; a separator in quotes separates nothing.
fn cells(text: &[u8], line: &Range<usize>, separator: u8) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let (mut start, mut quoted) = (line.start, false);
    for at in line.clone() {
        match text[at] {
            b'"' => quoted = !quoted,
            byte if byte == separator && !quoted => {
                found.push(start..at);
                start = at + 1;
                if found.len() >= CELLS_MAX {
                    return None;
                }
            }
            _ => {}
        }
    }
    found.push(start..line.end);
    (!quoted).then_some(found)
}

/// Fields of a log that names them in a line (`#Fields: date time cs(Cookie)`): the name and each value below it.
pub(crate) fn fields(text: &[u8], at: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let Some(line) = line_at(text, at) else { return Vec::new() };
    let Some(colon) = memchr::memchr(b':', &text[at..line.end]) else { return Vec::new() };
    let words = |range: Range<usize>| -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut start = range.start;
        let ends = text[range.clone()].iter().map(u8::is_ascii_whitespace).chain([true]);
        for (at, ends) in range.clone().chain([range.end]).zip(ends) {
            if ends {
                if start < at {
                    found.push(start..at);
                }
                start = at + 1;
            }
        }
        found
    };
    let names = words(at + colon + 1..line.end);
    if names.len() < 2 || names.len() > CELLS_MAX {
        return Vec::new();
    }
    let mut values = Vec::new();
    let mut from = line.end + 1;
    for _ in 0..ROWS_MAX {
        let Some(row) = line_at(text, from) else { break };
        from = row.end + 1;
        let cells = words(row);
        // Something may stand in front of each line: counted from its end.
        let Some(skip) = cells.len().checked_sub(names.len()) else { break };
        values.extend(names.iter().cloned().zip(cells[skip..].iter().cloned()));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let at = text.find(name).expect("the name");
        beside(text.as_bytes(), &(at..at + name.len())).map(|value| &text[value.range])
    }

    fn under<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
        let at = text.find(name).expect("the name");
        below(text.as_bytes(), &(at..at + name.len())).into_iter().map(|value| &text[value.range]).collect()
    }

    #[test]
    fn the_next_cell_is_the_value() {
        for (text, value) in [
            ("put(\"key\", \"v1\")", Some("v1")),
            ("define('key', 'v1');", Some("v1")),
            ("log(\\\"key\\\", \\\"v1\\\")", Some("v1")),
            ("a,b\n\"key\",\"v1\"\n", Some("v1")),
            ("key\tv1\t2026\n", Some("v1")),
            ("| key | v1 |\n", Some("v1")),
            ("| `key` | v1 |\n", Some("v1")),
            ("| `App:key` | `v 1` |\n", Some("v 1")),
            ("| key` | v1 |\n", None),
            ("key;v1\n", Some("v1")),
            ("key;\"v1\"\n", Some("v1")),
            ("key;\"v1\"x\"\n", None),
            ("1) \"key\"\n2) \"v1\"\n", Some("v1")),
            ("<tr><td>key</td><td>v1</td></tr>", Some("v1")),
            ("<td class=\"e\">key </td><td class=\"v\">v1 </td>", Some("v1")),
            ("<name>key</name>\n  <value> v1 </value>", Some("v1")),
            ("[[\"key\", \"v1\"]]", Some("v1")),
            ("[\"key\", \"v1\", \"x\"]", None),
            ("put(\"key\", v1)", None),
            ("the key\tv1\n", None),
            ("<b>key</b> v1", None),
        ] {
            assert_eq!(of(text, "key"), value, "{text}");
        }
    }

    #[test]
    fn values_stand_below_their_name() {
        assert_eq!(under("user,key,port\nann,v1,1\nbob,\"v,2\",2\n\nx,y,z", "key"), ["v1", "v,2"]);
        assert_eq!(under("Nr;User;key\n1;ann;v1\n", "key"), ["v1"]);
        assert_eq!(under("| host | key |\n| --- | --- |\n| a | v1 |\n", "key"), ["v1"]);
        assert_eq!(under("+ | host | key |\n+ | --- | --- |\n+ | a | v1 |\n", "key"), ["v1"]);
        assert_eq!(under("host,the key is wrong,x\na,b,c\n", "key"), Vec::<&str>::new());
        assert_eq!(under("a=1,key,2\nx,y,z\n", "key"), Vec::<&str>::new());
        assert_eq!(under("user,key\n", "key"), Vec::<&str>::new());
        // A list: what stands above names of columns is no row.
        assert_eq!(under("a\tb\nc\td\nkey\tv\ne\tv1\n", "key"), Vec::<&str>::new());
        let second = "a\tb\nc\td\nuser\tkey\nann\t9fKq2LxV7bTn4WsYc8EdPm\n";
        assert_eq!(under(second, "key"), ["9fKq2LxV7bTn4WsYc8EdPm"], "of another table");
        assert_eq!(under("#Fields\nuser\tkey\nann\tv1\n", "key"), ["v1"]);
        assert_eq!(under("x\ty\nuser\tkey\nann\tv1\n", "key"), ["v1"]);
    }

    #[test]
    fn fields_are_named_above() {
        let text = "x #Fields: date cs(Cookie) status\nx 2026 a=1 200\nx 2027 - 404\n";
        let found = fields(text.as_bytes(), 2);
        let cookies: Vec<&str> = found
            .iter()
            .filter(|(name, _)| &text[name.clone()] == "cs(Cookie)")
            .map(|(_, value)| &text[value.clone()])
            .collect();
        assert_eq!(cookies, ["a=1", "-"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[key,;\t|\"<>/td()\n a1]{0,60}") {
            for at in 0..text.len().saturating_sub(1) {
                for value in beside(text.as_bytes(), &(at..at + 1)).into_iter().chain(below(text.as_bytes(), &(at..at + 1))) {
                    proptest::prop_assert!(value.range.end <= text.len() && value.range.start <= value.range.end);
                }
                fields(text.as_bytes(), at);
            }
        }
    }

    #[test]
    fn tables_may_have_no_frame() {
        let text = "Variable name | Initial Value\napiKey |e9e0f062\nbaseUrl |https";
        assert_eq!(of(text, "apiKey"), Some("e9e0f062"));
        assert_eq!(of("courier auth token |hkCrESWv", "token"), Some("hkCrESWv"));
        assert_eq!(of("grep token |sort -u", "token"), None);
        assert_eq!(of("x = token |mask\n", "token"), None);
    }
}
