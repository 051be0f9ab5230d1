//! Encrypted files: nothing of them is readable without their key, no byte can be changed, and one case can be taken out.

use biopsy_cases::{Key, SegmentFile, Table, export, merged};

use crate::support::{Lab, report, wait_for};

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn two_cases() -> Lab {
    let mut lab = Lab::default();
    lab.add(&[("4711", report("raise | settle", "settle")), ("4712", report("raise | refund", "refund"))]);
    lab
}

#[test]
fn nothing_of_a_file_is_readable_without_its_key() {
    let lab = two_cases();
    for (name, bytes) in lab.files.files.lock().unwrap().iter() {
        for text in ["4711", "settle", "shop", "signatures", "case_id", "biopsy"] {
            assert!(!holds(bytes, text), "{name} has `{text}` in clear");
        }
    }
    // With another key, as another table, or as of another segment it is not read.
    let (table, file) = lab.segments.iter().find(|(table, _)| *table == Table::Signatures).unwrap().clone();
    let read = |table, file| wait_for(merged(table, &lab.stored(), &[file], None));
    assert!(read(table, file.clone()).is_ok());
    assert!(read(table, SegmentFile { key: Key::new([9; 32]), ..file.clone() }).is_err());
    assert!(read(table, SegmentFile { segment: "s1".to_owned(), ..file.clone() }).is_err());
    assert!(read(Table::Findings, file).is_err());
}

#[test]
fn a_changed_byte_never_gives_other_rows() {
    let lab = two_cases();
    let (table, file) = lab.segments.iter().find(|(table, _)| *table == Table::Signatures).unwrap().clone();
    let before = wait_for(merged(table, &lab.stored(), std::slice::from_ref(&file), None)).unwrap();
    let bytes = lab.files.files.lock().unwrap()[&file.name].clone();
    let (mut tried, mut refused) = (0, 0);
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        lab.files.files.lock().unwrap().insert(file.name.clone(), changed);
        tried += 1;
        // Four bytes say that it is Parquet, and each piece has its length before it, which nobody needs; all else is authenticated.
        match wait_for(merged(table, &lab.stored(), std::slice::from_ref(&file), None)) {
            Ok(rows) => assert_eq!(rows, before, "the byte at {at}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused * 10 > tried * 9, "{refused} of {tried}");
}

#[test]
fn files_are_put_together_and_one_case_is_taken_out() {
    let mut lab = two_cases();
    lab.add(&[("4713", report("raise | settle", "settle"))]);
    for table in Table::ALL {
        let files: Vec<SegmentFile> =
            lab.segments.iter().filter(|(of, _)| *of == table).map(|(_, file)| file.clone()).collect();
        assert_eq!(files.len(), 2);
        let all = wait_for(merged(table, &lab.stored(), &files, None)).unwrap();
        let less = wait_for(merged(table, &lab.stored(), &files, Some("4712"))).unwrap();
        let none = wait_for(merged(table, &lab.stored(), &files[..1], Some("471"))).unwrap();
        assert_eq!(all.num_rows() * 2, less.num_rows() * 3, "{}", table.name());
        assert_eq!(none.num_rows() * 3, all.num_rows() * 2, "a name that others begin with is another name");
        let mut bytes = Vec::new();
        let key = Key::new([7; 32]);
        biopsy_cases::write(table, &less, &key, "new", &mut bytes).unwrap();
        let name = format!("new-{}", table.name());
        let file =
            SegmentFile { name: name.clone(), bytes: bytes.len() as u64, key, segment: "new".to_owned() };
        lab.files.files.lock().unwrap().insert(name, bytes);
        lab.segments.retain(|(of, _)| *of != table);
        lab.segments.push((table, file));
        assert_eq!(
            lab.ask(&format!("SELECT DISTINCT case_id FROM {} ORDER BY 1", table.name())),
            ["4711", "4713"]
        );
    }
}

#[test]
fn what_is_exported_is_plain_and_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = two_cases();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copy");
    let counts = wait_for(export::to(&to, &lab.stored(), &lab.segments)).unwrap();
    assert_eq!(counts.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [2, 4, 4, 2, 4]);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&to), 0o700);
    for table in Table::ALL {
        let path = to.join(format!("{}.parquet", table.name()));
        assert_eq!(mode(&path), 0o600);
        let bytes = std::fs::read(path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "as every engine reads it");
        assert!(holds(&bytes, "analysed_at"));
    }
    assert!(wait_for(export::to(&to, &lab.stored(), &lab.segments)).is_err(), "nothing is overwritten");
}
