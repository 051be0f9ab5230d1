//! Masks in XML and HTML stay between its tags: whatever a rule took for a value, the elements, comments and attributes around it are those
//! that were there before.
//!
//! Only what is written as XML demands it is taken for markup, so that a password with a `<` in it is one value.

use std::ops::Range;

use crate::scan::Span;

/// Longest tag, in bytes.
const TAG_MAX: usize = 8 << 10;
/// Longest entity, in bytes: `&#x1f980;`.
const ENTITY_MAX: usize = 10;
/// Most elements that are open at once.
const OPEN_MAX: usize = 256;

/// How comments, sections of text and instructions begin and end.
const FRAMES: [(&[u8], &[u8]); 3] = [(b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>")];

/// Cuts what is markup out of spans, which are sorted and do not overlap.
pub(crate) fn between_tags(text: &[u8], spans: Vec<Span>) -> Vec<Span> {
    if memchr::memchr(b'<', text).is_none() {
        return spans;
    }
    let markup = markup_of(text);
    if markup.is_empty() {
        return spans;
    }
    let mut kept: Vec<Span> = Vec::with_capacity(spans.len());
    let mut first = 0;
    for span in spans {
        if span.wide.is_some() || span.wrap.is_some() {
            kept.push(span);
            continue;
        }
        while markup.get(first).is_some_and(|tag| tag.range.end <= span.range.start) {
            first += 1;
        }
        let floor = kept.last().map_or(0, |last| last.range.end);
        let whole = whole_entities(text, &span.range, floor);
        let tags = markup[first..].iter().take_while(|tag| tag.range.start < whole.end);
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut start = whole.start;
        let (mut is_inside, mut is_certain) = (false, true);
        for tag in tags {
            is_certain &= tag.is_certain;
            let tag = &tag.range;
            is_inside |= tag.start < whole.start && whole.end < tag.end;
            pieces.push(start..tag.start.clamp(start, whole.end));
            start = tag.end.max(start);
        }
        // A secret that is the name of an element is masked whatever becomes of the element.
        if is_inside {
            kept.push(span);
            continue;
        }
        let is_whole = pieces.is_empty();
        pieces.push(start..whole.end.max(start));
        let says_something = |piece: &Range<usize>| {
            is_whole || text[piece.clone()].iter().any(|b| b.is_ascii_alphanumeric() || *b >= 0x80)
        };
        pieces.retain(|piece| !piece.is_empty() && says_something(piece));
        // A value behind a name ends with its element; a key over several lines may have tags between them. What may be a part of the
        // value stays in it.
        let ends_here = is_certain
            && span.learn
            && span.rule.is_some()
            && memchr::memchr(b'\n', &text[span.range.clone()]).is_none();
        let most = if ends_here { 1 } else { pieces.len() };
        let is_cut = pieces.len() > 1 || pieces.first() != Some(&span.range);
        kept.extend(pieces.into_iter().take(most).map(|range| Span {
            open: span.open && range.end == text.len(),
            pseudonym: span.pseudonym.filter(|_| !is_cut),
            range,
            ..span.clone()
        }));
    }
    kept
}

/// A part of what is markup.
struct Markup {
    range: Range<usize>,
    /// It is of an element that is whole. An end without a beginning, or `<?` and `?>` far apart, may stand in any text.
    is_certain: bool,
}

/// Tags without the values of their attributes, and the beginnings and ends of comments and the like, in their order.
fn markup_of(text: &[u8]) -> Vec<Markup> {
    let mut found: Vec<Markup> = Vec::new();
    // Elements by where they stand in `found`: without attributes they are some when they are closed.
    let mut open: Vec<(usize, &[u8])> = Vec::new();
    let mut is_markup: Vec<bool> = Vec::new();
    let mut at = 0;
    // What does not end behind one place ends behind none that follows, and is not looked for again.
    let mut framed = FRAMES.to_vec();
    while let Some(next) = memchr::memchr(b'<', &text[at..]) {
        let start = at + next;
        at = start + 1;
        let rest = &text[start..];
        if let Some(kind) = framed.iter().position(|(begin, _)| rest.starts_with(begin)) {
            let (begin, end) = framed[kind];
            let Some(length) = memchr::memmem::find(&rest[begin.len()..], end) else {
                framed.remove(kind);
                continue;
            };
            let behind = start + begin.len() + length;
            let both = [start..start + begin.len(), behind..behind + end.len()];
            found.extend(both.map(|range| Markup { range, is_certain: false }));
            is_markup.extend([true, true]);
            at = behind + end.len();
            continue;
        }
        let Some(tag) = read_tag(text, start) else { continue };
        at = tag.end;
        if tag.closes {
            let depth = open.iter().rposition(|(_, name)| *name == tag.name);
            if let Some(depth) = depth {
                let begin = open[depth].0;
                is_markup[begin] = true;
                found[begin].is_certain = true;
                open.truncate(depth);
            }
            found.push(Markup { range: start..tag.end, is_certain: depth.is_some() });
            is_markup.push(true);
            continue;
        }
        let is_sure = tag.is_empty || !tag.values.is_empty();
        if !tag.is_empty && open.len() < OPEN_MAX {
            open.push((found.len(), tag.name));
        }
        let mut from = start;
        for value in tag.values {
            found.push(Markup { range: from..value.start, is_certain: is_sure });
            is_markup.push(is_sure);
            from = value.end;
        }
        found.push(Markup { range: from..tag.end, is_certain: is_sure });
        is_markup.push(is_sure);
    }
    let mut is_markup = is_markup.into_iter();
    found.retain(|_| is_markup.next().unwrap_or(false));
    found
}

/// A tag.
struct Tag<'t> {
    name: &'t [u8],
    end: usize,
    closes: bool,
    is_empty: bool,
    /// Of its attributes, without quotes.
    values: Vec<Range<usize>>,
}

/// The tag at `start`, if it is one as XML writes it.
fn read_tag(text: &[u8], start: usize) -> Option<Tag<'_>> {
    let limit = text.len().min(start + TAG_MAX);
    let closes = text.get(start + 1) == Some(&b'/');
    let from = start + 1 + usize::from(closes);
    let name = name_at(text, from, limit)?;
    let mut at = name.end;
    let name = &text[name];
    let mut values = Vec::new();
    loop {
        let blanks = text[at..limit].iter().take_while(|b| b.is_ascii_whitespace()).count();
        at += blanks;
        match text[at..limit] {
            [b'>', ..] => return Some(Tag { name, end: at + 1, closes, is_empty: false, values }),
            [b'/', b'>', ..] if !closes => {
                return Some(Tag { name, end: at + 2, closes, is_empty: true, values });
            }
            _ if closes || blanks == 0 => return None,
            _ => {}
        }
        at = name_at(text, at, limit)?.end;
        let quote = match text[at..limit] {
            [b'=', quote @ (b'"' | b'\''), ..] => quote,
            _ => return None,
        };
        let value = at + 2;
        at = value
            + memchr::memchr2(quote, b'<', &text[value..limit]).filter(|end| text[value + end] == quote)?;
        values.push(value..at);
        at += 1;
    }
}

/// A name of XML.
fn name_at(text: &[u8], at: usize, limit: usize) -> Option<Range<usize>> {
    let name = text.get(at..limit)?;
    let is_first = |b: &u8| b.is_ascii_alphabetic() || *b == b'_' || *b >= 0x80;
    let is_more = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | 0x80..);
    let length = name.iter().take_while(|b| is_more(b)).count();
    name.first().is_some_and(is_first).then(|| at..at + length)
}

/// A range that cuts no entity in two.
fn whole_entities(text: &[u8], range: &Range<usize>, floor: usize) -> Range<usize> {
    let around = |at: usize, floor: usize| {
        let from = floor.max(at.saturating_sub(ENTITY_MAX));
        let start = from + memchr::memrchr(b'&', text.get(from..at)?)?;
        let length = entity_at(text, start)?;
        (start + length > at).then(|| start..start + length)
    };
    let start = around(range.start, floor).map_or(range.start, |entity| entity.start);
    let end = around(range.end, range.start).map_or(range.end, |entity| entity.end);
    start..end
}

/// Length of the entity at `start`.
fn entity_at(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start + 1..text.len().min(start + ENTITY_MAX))?;
    let name = rest.strip_prefix(b"#").unwrap_or(rest);
    let length = name.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    (length > 0 && name.get(length) == Some(&b';')).then(|| 2 + (rest.len() - name.len()) + length)
}

#[cfg(test)]
mod tests;
