//! Units put together by hand: which stay, and that what is put away is read by nobody.

use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

use super::{not_needed, put_away};

const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0, // a unit: low_pc, high_pc as a size
    2, 0x11, 1, 0, 0, // one without code
    3, 0x2e, 0, 0x31, 0x10, 0, 0, // a function that is told elsewhere in the file
    4, 0x2e, 0, 0x31, 0x13, 0, 0, // a function that is told elsewhere in the unit
    5, 0x2e, 0, 0, 0, // a function without anything
    6, 0x11, 1, 0x10, 0x17, 0, 0, // a unit that says where its lines are
    0,
];

/// Line programs: of versions 4 and 5 with nothing behind their headers, of 4 with something.
const LINES: [&[u8]; 3] = [
    &[7, 0, 0, 0, 4, 0, 1, 0, 0, 0, 1],
    &[9, 0, 0, 0, 5, 0, 8, 0, 1, 0, 0, 0, 1],
    &[8, 0, 0, 0, 4, 0, 1, 0, 0, 0, 1, 1],
];

/// A unit of 256 bytes of code at `start`, with a function that is told at `elsewhere`.
fn unit(start: Option<u64>, elsewhere: Option<u32>) -> Vec<u8> {
    let mut info = vec![4, 0, 0, 0, 0, 0, 8];
    match start {
        Some(start) => {
            info.push(1);
            info.extend([start, 0x100].map(u64::to_le_bytes).concat());
        }
        None => info.push(2),
    }
    match elsewhere {
        Some(offset) => {
            info.push(3);
            info.extend(offset.to_le_bytes());
        }
        None => info.extend([4, 11, 0, 0, 0]),
    }
    info.extend([5, 5, 5, 5, 0]);
    [&(info.len() as u32).to_le_bytes()[..], &info].concat()
}

/// A unit that says nothing but where its lines are.
fn unit_with_lines(at: usize) -> Vec<u8> {
    let info = [&[4, 0, 0, 0, 0, 0, 8, 6][..], &(at as u32).to_le_bytes(), &[0]].concat();
    [&(info.len() as u32).to_le_bytes()[..], &info].concat()
}

fn dwarf(info: &[u8]) -> Dwarf<EndianSlice<'_, LittleEndian>> {
    dwarf_of(ABBREVIATIONS, info, &[])
}

fn dwarf_of<'a>(
    abbreviations: &'a [u8],
    info: &'a [u8],
    lines: &'a [u8],
) -> Dwarf<EndianSlice<'a, LittleEndian>> {
    let section = |id| {
        let bytes = match id {
            SectionId::DebugAbbrev => abbreviations,
            SectionId::DebugInfo => info,
            SectionId::DebugLine => lines,
            _ => &[],
        };
        Ok::<_, std::convert::Infallible>(EndianSlice::new(bytes, LittleEndian))
    };
    match Dwarf::load(section) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

/// Kinds and places of the units that a reader sees.
fn seen(info: &[u8]) -> Vec<(bool, usize)> {
    let dwarf = dwarf(info);
    let mut headers = dwarf.units();
    let mut seen = Vec::new();
    while let Some(header) = headers.next().expect("it can be read") {
        let is_type = matches!(header.type_(), gimli::UnitType::Type { .. });
        seen.push((is_type, header.debug_info_offset().expect("of .debug_info").0));
    }
    seen
}

#[test]
fn units_without_the_addresses_are_put_away_and_the_others_stay_where_they_are() {
    let units: Vec<Vec<u8>> = (1..=5).map(|at| unit(Some(at * 0x1000), None)).collect();
    let length = units[0].len();
    let mut info = units.concat();
    let whole = info.clone();
    let rows = not_needed(&dwarf(&info), &[0x3010, 0x30ff]);
    assert_eq!(rows, [0..2 * length, 3 * length..5 * length]);
    put_away(&mut info, &rows);
    assert_eq!(seen(&info), [(true, 0), (false, 2 * length), (true, 3 * length)]);
    assert_eq!(info[2 * length..3 * length], whole[2 * length..3 * length]);
    // The end of a range is not in it.
    assert!(not_needed(&dwarf(&whole), &[0x3100]).iter().eq(std::iter::once(&(0..5 * length))));
    assert_eq!(not_needed(&dwarf(&whole), &[0x1000, 0x20ff, 0x3000, 0x4000, 0x5000]), []);
}

#[test]
fn what_a_unit_refers_to_stays_with_it_and_what_that_refers_to() {
    let plain = |at| unit(Some(at), None);
    let length = plain(0).len();
    let of = |at: usize| Some((at * length + 30) as u32);
    let units =
        [plain(0x1000), unit(Some(0x2000), of(3)), plain(0x3000), unit(Some(0x4000), of(0)), plain(0x5000)];
    let info = units.concat();
    assert_eq!(not_needed(&dwarf(&info), &[0x2010]), [2 * length..3 * length, 4 * length..5 * length]);
    // A circle ends.
    let circle = [unit(Some(0x1000), of(1)), unit(Some(0x2000), of(0)), plain(0x3000)].concat();
    assert!(not_needed(&dwarf(&circle), &[0x1010]).iter().eq(std::iter::once(&(2 * length..3 * length))));
}

#[test]
fn a_unit_that_only_its_lines_tell_of_stays_if_it_has_some() {
    let lines = LINES.concat();
    let starts = [0, LINES[0].len(), LINES[0].len() + LINES[1].len()];
    // The last one is damaged.
    let units = [unit(None, None), unit_with_lines(starts[0]), unit_with_lines(starts[1])];
    let stay = [unit_with_lines(starts[2]), unit_with_lines(lines.len())];
    let gone: usize = units.iter().map(Vec::len).sum();
    let info = [units.concat(), stay.concat()].concat();
    let rows = not_needed(&dwarf_of(ABBREVIATIONS, &info, &lines), &[0x9000]);
    assert!(rows.iter().eq(std::iter::once(&(0..gone))), "{rows:?}");
}

#[test]
fn a_root_is_found_wherever_its_abbreviation_is_in_its_table() {
    // As many of others in front of it as GCC has there.
    let others: Vec<u8> = (7..120).flat_map(|code| [code, 0x2e, 0, 3, 0x0e, 0, 0]).collect();
    let table = [others.as_slice(), ABBREVIATIONS].concat();
    let info = [unit(Some(0x1000), None), unit(Some(0x2000), None)].concat();
    let rows = not_needed(&dwarf_of(&table, &info, &[]), &[0x1010]);
    assert!(rows.iter().eq(std::iter::once(&(info.len() / 2..info.len()))), "{rows:?}");
    // Tables that begin in one another are gone over only so often.
    let many: Vec<u8> = (0..400_u32)
        .flat_map(|at| {
            let mut unit = unit(Some(0x2000), None);
            unit[6..10].copy_from_slice(&(7 * (at % 100)).to_le_bytes());
            unit
        })
        .collect();
    let rows = not_needed(&dwarf_of(&table, &many, &[]), &[0x1010]);
    assert!(rows[0].len() < many.len(), "the last ones stay, because they were not looked at");
}

#[test]
fn what_cannot_be_read_stays_whole() {
    let info = [unit(Some(0x1000), None), unit(Some(0x2000), None)].concat();
    for cut in 0..info.len() {
        let rows = not_needed(&dwarf(&info[..cut]), &[0x1010]);
        let mut copy = info[..cut].to_vec();
        put_away(&mut copy, &rows);
        assert!(rows.iter().all(|row| row.end <= cut), "{cut}: {rows:?}");
    }
    for at in 0..info.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = info.clone();
            changed[at] = value;
            let rows = not_needed(&dwarf(&changed), &[0x1010]);
            put_away(&mut changed, &rows);
        }
    }
}
