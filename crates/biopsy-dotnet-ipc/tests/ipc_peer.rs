//! What listens at the socket of a process and answers otherwise than any runtime that is known: nothing hangs, nothing panics, and
//! each answer has its error. No runtime is needed: this process plays one for itself.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use biopsy_dotnet::nettrace::{Limits, Reader};
use biopsy_dotnet_ipc::{Client, EventLevel, IpcError, Provider, Rundown, SessionConfig, TimeLimits};
use biopsy_model::Pid;

/// Size, set, id and what follows, behind the name of the protocol.
fn answer(id: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"DOTNET_IPC_V1\0".to_vec();
    bytes.extend(u16::try_from(20 + payload.len()).unwrap().to_le_bytes());
    bytes.extend([0xff, id, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// The socket of this process; removed with the value.
struct Fake {
    path: PathBuf,
    says: Arc<Mutex<Vec<u8>>>,
    asked: Arc<Mutex<Vec<(u8, u8)>>>,
}

impl Fake {
    fn listen() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
        let name = format!("dotnet-diagnostic-{}-{start}-socket", std::process::id());
        // As it was when this process began: where the search looks.
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let (says, asked) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (saying, asking) = (Arc::clone(&says), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                serve(stream, &saying, &asking);
            }
        });
        Self { path, says, asked }
    }

    fn says(&self, bytes: &[u8]) {
        *self.says.lock().unwrap() = bytes.to_vec();
        self.asked.lock().unwrap().clear();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Takes one command and answers; nothing to say means silence with an open connection.
fn serve(mut stream: UnixStream, says: &Mutex<Vec<u8>>, asked: &Mutex<Vec<(u8, u8)>>) {
    let mut head = [0; 20];
    if stream.read_exact(&mut head).is_err() {
        return;
    }
    let rest = usize::from(u16::from_le_bytes([head[14], head[15]])) - head.len();
    if stream.read_exact(&mut vec![0; rest]).is_err() {
        return;
    }
    asked.lock().unwrap().push((head[16], head[17]));
    let bytes = says.lock().unwrap().clone();
    if bytes.is_empty() {
        std::thread::spawn(move || {
            let _ = stream.read(&mut [0]);
        });
        return;
    }
    let _ = stream.write_all(&bytes);
}

fn session() -> SessionConfig {
    SessionConfig {
        buffer_mb: 1,
        rundown: Rundown::None,
        stacks: false,
        providers: vec![Provider::new("System.Runtime", u64::MAX, EventLevel::Critical)],
    }
}

#[test]
fn every_strange_answer_is_an_error_with_words() {
    let fake = Fake::listen();
    let limits = TimeLimits { answer: Duration::from_secs(20), ..TimeLimits::default() };
    let client = Client::of(Pid(std::process::id())).unwrap().with_limits(limits);

    // Another version of the protocol.
    let mut newer = answer(0, &[0; 8]);
    newer[12] = b'2';
    fake.says(&newer);
    for error in [client.process_info().unwrap_err(), client.start_session(&session()).unwrap_err()] {
        assert!(matches!(error, IpcError::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains("something that is no answer"), "{error}");
    }

    // A runtime that knows none of the commands: each form is tried once, from the newest.
    fake.says(&answer(0xff, &0x8013_1385_u32.to_le_bytes()));
    let error = client.start_session(&session()).unwrap_err();
    assert!(error.is_unknown_command(), "{error:?}");
    let tried: Vec<_> = fake.asked.lock().unwrap().clone();
    assert_eq!(tried, [(2, 7), (2, 6), (2, 5), (2, 4), (2, 3), (2, 2)][6 - tried.len()..], "newest first");
    assert!(tried.len() >= 5, "{tried:?}");
    assert!(client.process_info().unwrap_err().is_unknown_command());

    // Refused for another reason: an error that names it, and no other form is tried.
    fake.says(&answer(0xff, &0x8013_1387_u32.to_le_bytes()));
    let error = client.start_session(&session()).unwrap_err();
    assert!(matches!(error, IpcError::Refused { .. }), "{error:?}");
    assert_eq!(fake.asked.lock().unwrap().len(), 1);

    // Good answers that are cut anywhere, and closed.
    let whole = answer(0, &[7; 8]);
    for length in 1..whole.len() {
        fake.says(&whole[..length]);
        let error = client.start_session(&session()).unwrap_err();
        assert!(matches!(error, IpcError::Closed { .. } | IpcError::Malformed { .. }), "{length}: {error:?}");
    }
    // An answer without the number that it should have, and texts that are longer than the answer.
    fake.says(&answer(0, &[7; 3]));
    let error = client.start_session(&session()).unwrap_err();
    assert!(matches!(error, IpcError::Malformed { .. }), "{error:?}");
    fake.says(&answer(0, &[0xff; 60]));
    let error = client.process_info().unwrap_err();
    assert!(matches!(error, IpcError::Malformed { .. }), "{error:?}");

    // Anything at all.
    let mut state = 0x9e37_79b9_u32;
    for length in 0..200 {
        let bytes: Vec<u8> = (0..=length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        fake.says(&bytes);
        assert!(client.process_info().is_err());
        // Behind a good head, too.
        fake.says(&answer(0, &bytes));
        if let Ok(info) = client.process_info() {
            assert!(info.command_line.len() < 100_000, "{info:?}");
        }
    }

    // A session that begins well and streams what is no stream, or a version that is not known.
    for (stream, word) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "nettrace"),
        (&b"Nettrace\x14\0\0\0!FastSerialization.9"[..], ""),
        (&b"Nettrace\0\0\0\0\x63\0\0\0\0\0\0\0"[..], "99"),
    ] {
        fake.says(&[&answer(0, &[7; 8])[..], stream].concat());
        let session = client.start_session(&session()).unwrap();
        let error = match Reader::new(session, &Limits::default()) {
            Err(error) => error.to_string(),
            Ok(mut reader) => reader.next_event().map(|event| event.is_some()).unwrap_err().to_string(),
        };
        assert!(error.to_lowercase().contains(word), "{error}");
    }

    // Silence.
    fake.says(&[]);
    let quick = TimeLimits { answer: Duration::from_millis(200), ..TimeLimits::default() };
    let error = client.with_limits(quick).process_info().unwrap_err();
    assert!(matches!(error, IpcError::Silent { .. }), "{error:?}");
}
