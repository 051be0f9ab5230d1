//! What a runtime says of itself.

use biopsy_bytes::{Cursor, ReadError};

use crate::wire::read_string;

/// The answer to `ProcessInfo`, in any of its forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    /// Its pid as it sees it itself, which is another one in a container.
    pub own_pid: u64,
    /// Unique for each start of a runtime.
    pub cookie: [u8; 16],
    /// Command line, as one text. Not redacted.
    pub command_line: String,
    /// `Linux`.
    pub os: String,
    /// `x64`.
    pub arch: String,
    /// Name of the entry assembly; .NET 6 and later. Empty while the runtime starts.
    pub entry_assembly: Option<String>,
    /// Version of the runtime, `10.0.12`; .NET 6 and later.
    pub version: Option<String>,
    /// `linux-x64`; .NET 8 and later.
    pub runtime_identifier: Option<String>,
}

/// Parses an answer of form 1, 2 or 3. More that follows is of a later form, and left.
pub(crate) fn parse(form: u8, payload: &[u8]) -> Result<ProcessInfo, ReadError> {
    let mut cursor = Cursor::new(payload);
    if form >= 3 {
        cursor.u32("version of the answer")?;
    }
    let mut info = ProcessInfo {
        own_pid: cursor.u64("process id")?,
        cookie: cursor.array("runtime cookie")?,
        command_line: read_string(&mut cursor, "command line")?,
        os: read_string(&mut cursor, "operating system")?,
        arch: read_string(&mut cursor, "architecture")?,
        entry_assembly: None,
        version: None,
        runtime_identifier: None,
    };
    if form >= 2 {
        info.entry_assembly = Some(read_string(&mut cursor, "entry assembly")?);
        info.version = Some(read_string(&mut cursor, "runtime version")?);
    }
    if form >= 3 {
        info.runtime_identifier = Some(read_string(&mut cursor, "runtime identifier")?);
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Payload, encode};

    fn payload(form: u8) -> Vec<u8> {
        let mut payload = Payload::default();
        if form >= 3 {
            payload = payload.u32(1);
        }
        payload = payload.u64(17).u64(1).u64(2).string("dotnet App.dll").string("Linux").string("x64");
        if form >= 2 {
            payload = payload.string("App").string("10.0.12");
        }
        if form >= 3 {
            payload = payload.string("linux-x64").u32(99);
        }
        let command = crate::wire::commands::PROCESS_INFO_3;
        encode(command, &payload).unwrap()[20..].to_vec()
    }

    #[test]
    fn each_form() {
        let third = parse(3, &payload(3)).unwrap();
        assert_eq!(third.version.as_deref(), Some("10.0.12"));
        assert_eq!(third.runtime_identifier.as_deref(), Some("linux-x64"));
        let second = parse(2, &payload(2)).unwrap();
        assert_eq!(second.entry_assembly.as_deref(), Some("App"));
        let first = parse(1, &payload(1)).unwrap();
        assert_eq!((first.own_pid, first.version), (17, None));
        assert!(parse(2, &payload(1)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes(form in 1_u8..4, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(form, &bytes);
        }
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_refused() {
        for form in 1..=3 {
            let whole = payload(form);
            // What follows the third form is of a later one.
            let needed = whole.len() - if form == 3 { 4 } else { 0 };
            for cut in 0..needed {
                assert!(parse(form, &whole[..cut]).is_err(), "form {form}, {cut} bytes");
            }
            let info = parse(form, &whole[..needed]).unwrap();
            assert_eq!((info.own_pid, info.command_line.as_str()), (17, "dotnet App.dll"));
            assert_eq!((info.os.as_str(), info.arch.as_str()), ("Linux", "x64"));
            let mut cookie = [0; 16];
            (cookie[0], cookie[8]) = (1, 2);
            assert_eq!(info.cookie, cookie);
        }
    }
}
