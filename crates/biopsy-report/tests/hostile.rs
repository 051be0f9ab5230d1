//! Whatever a recording holds: every renderer and every export ends, without a panic.

mod synthetic;

use biopsy_report::export::{ExportError, Format, write};
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use std::io::{self, Write};

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_recording_makes_it_panic(seed in any::<u64>()) {
        let capture = synthetic::hostile(seed);
        let analysis = biopsy_analyze::analyze(&capture);
        prop_assert!(biopsy_report::render_html(&synthetic::diagnose(&capture, &analysis), None).ends_with("</html>\n"));
        prop_assert!(!biopsy_report::render_markdown(&synthetic::diagnose(&capture, &analysis), None).contains('\x1b'));
        prop_assert!(!biopsy_report::render_text(&synthetic::diagnose(&capture, &analysis), 0, biopsy_report::TextOptions::default()).contains('\x1b'));
        let json = biopsy_report::render_json(&synthetic::diagnose(&capture, &analysis), None);
        prop_assert!(serde_json::from_str::<biopsy_report::schema::Report>(&json).is_ok());
        for format in Format::ALL {
            match write(format, &capture, io::sink()) {
                Ok(()) | Err(ExportError::Nothing { .. }) => {}
                Err(error) => panic!("{}: {error}", format.name()),
            }
        }
    }
}

/// A disk that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let capture = synthetic::capture();
    for format in Format::ALL {
        for room in [0, 1, 1_000] {
            let result = write(format, &capture, Full(room));
            assert!(
                matches!(result, Err(ExportError::Write { .. })),
                "{} with room for {room}",
                format.name()
            );
        }
    }
}
