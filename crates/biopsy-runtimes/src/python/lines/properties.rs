//! Tables written as CPython's compilers write them, and read at every instruction.

use std::process::Command;

use proptest::prelude::*;

use super::{LineTable, Lines};

/// Stretches of code: length in bytes, which is even, and by how much the line changes where it begins.
type Stretches = Vec<(u32, i32)>;

/// `assemble_lnotab` of Python/compile.c, 3.8 and 3.9.
fn pairs(code: &Stretches) -> Vec<u8> {
    let (mut table, mut since) = (Vec::new(), 0);
    for (length, change) in code {
        let (mut bytes, mut lines) = (since, *change);
        while bytes > 255 {
            table.extend([255, 0]);
            bytes -= 255;
        }
        while !(-128..=127).contains(&lines) {
            let step = lines.clamp(-128, 127);
            table.extend([bytes as u8, (step as i8).cast_unsigned()]);
            (bytes, lines) = (0, lines - step);
        }
        table.extend([bytes as u8, (lines as i8).cast_unsigned()]);
        since = *length;
    }
    table
}

/// `assemble_line_range` of 3.10.
fn lengths(code: &Stretches) -> Vec<u8> {
    let mut table = Vec::new();
    for (length, change) in code {
        let (mut bytes, mut lines) = (*length, *change);
        while !(-127..=127).contains(&lines) {
            let step = lines.clamp(-127, 127);
            table.extend([0, (step as i8).cast_unsigned()]);
            lines -= step;
        }
        while bytes > 254 {
            table.extend([254, (lines as i8).cast_unsigned()]);
            (bytes, lines) = (bytes - 254, 0);
        }
        table.extend([bytes as u8, (lines as i8).cast_unsigned()]);
    }
    table
}

/// Entries without columns (`PY_CODE_LOCATION_INFO_NO_COLUMNS`), or of the one-line forms where these do, from 3.11 on.
fn locations(code: &Stretches) -> Vec<u8> {
    let mut table = Vec::new();
    for (length, change) in code {
        let (mut units, mut lines) = (length / 2, *change);
        while units > 0 {
            let now = units.min(8);
            if (0..=2).contains(&lines) {
                table.extend([0x80 | (10 + lines as u8) << 3 | (now - 1) as u8, 4, 9]);
            } else {
                table.push(0x80 | 13 << 3 | (now - 1) as u8);
                let mut rest = lines.unsigned_abs() << 1 | u32::from(lines < 0);
                while rest >= 64 {
                    table.push(64 | (rest & 63) as u8);
                    rest >>= 6;
                }
                table.push(rest as u8);
            }
            (units, lines) = (units - now, 0);
        }
    }
    table
}

proptest! {
    #[test]
    fn each_instruction_has_the_line_that_was_written(
        code in prop::collection::vec(((1..400_u32).prop_map(|units| units * 2), -1_000..1_000_i32), 1..200),
        first in 1..100_000_i32,
    ) {
        let tables = [
            (LineTable::Pairs, pairs(&code)),
            (LineTable::Lengths, lengths(&code)),
            (LineTable::Locations, locations(&code)),
        ]
        .map(|(kind, table)| (kind, Lines::new(kind, table, first)));
        let (mut offset, mut expected) = (0_i64, first);
        for (length, change) in &code {
            expected += change;
            let end = offset + i64::from(*length);
            for at in [offset, offset + 1, offset + i64::from(*length) / 2, end - 1] {
                for (kind, lines) in &tables {
                    prop_assert_eq!(lines.line(at), expected, "{:?} at {} of {:?}", kind, at, code);
                }
            }
            offset = end;
        }
    }
}

/// Compiles modules of the standard library, and says of each function: its first line, its table, and which instructions have which line.
const SAYS: &str = r"
import importlib.util, sys
def each(code):
    yield code
    for one in code.co_consts:
        if hasattr(one, 'co_code'):
            yield from each(one)
print(sys.version_info.minor)
for name in ['argparse', 'ast', 'json.decoder', 'typing', 'subprocess', 'tarfile', 'inspect', 'asyncio.base_events', 'dataclasses', 'enum']:
    source = open(importlib.util.find_spec(name).origin, encoding='utf-8').read()
    for code in each(compile(source, name, 'exec')):
        rows = ','.join(f'{a}:{b}:{0 if line is None else line}' for a, b, line in code.co_lines())
        print(code.co_firstlineno, code.co_linetable.hex() or '-', rows or '-')
";

/// Against the interpreter of this machine, with every kind of entry that its compiler writes: else a report names the wrong line.
#[test]
fn each_instruction_of_the_standard_library_has_the_line_that_the_interpreter_says() {
    let is_new_enough = "import sys; sys.exit(sys.version_info < (3, 10))";
    if !biopsy_testkit::require_program("python3", &["-c", is_new_enough]) {
        return;
    }
    let output = Command::new("python3").args(["-c", SAYS]).output().expect("it was there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut said = text.lines();
    let minor: u32 = said.next().and_then(|minor| minor.parse().ok()).expect("its version");
    let kind = if minor == 10 { LineTable::Lengths } else { LineTable::Locations };
    let mut compared = 0;
    for function in said {
        let fields: Vec<&str> = function.split(' ').collect();
        let [first, table, rows] = fields[..] else { panic!("{function}") };
        let bytes = |at: usize| table.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let table: Vec<u8> = (0..table.len()).step_by(2).map_while(bytes).collect();
        let lines = Lines::new(kind, table, first.parse().expect("a line"));
        for row in rows.split(',') {
            let numbers: Vec<i64> = row.split(':').map_while(|number| number.parse().ok()).collect();
            let [from, to, line] = numbers[..] else { continue };
            // Some instructions have none (0): what is said of these is the line before.
            if line == 0 {
                continue;
            }
            for offset in (from..to).step_by(2) {
                assert_eq!(i64::from(lines.line(offset)), line, "at {offset} of {function}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
}
