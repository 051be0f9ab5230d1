//! A lab on loopback, in this process, with a storage that is removed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use biopsy_deliver::state::State;
use biopsy_deliver::{Kind, Link, Progress, Receipt, Recipe, SendError, Sender, Signer};
use biopsy_lab::Lab;
use biopsy_lab::notices::Ways;
use biopsy_lab::people::provider::Provider;
use biopsy_lab::requests::{self, NewRequest};
use biopsy_lab::serve::{CONNECTIONS, SILENCE, Serving, serve};
use biopsy_lab::storage::Held;
use biopsy_lab::web::Program;
use biopsy_seal::{Recipient, seal_file};

use crate::back_ends;

/// A lab that listens.
pub(crate) struct Running {
    pub(crate) lab: Lab,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Running {
    /// Without workers: what arrives is analysed by tests that want it.
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), 0)
    }

    /// Without anybody who sends notices meanwhile: tests that look at them do.
    pub(crate) fn start_quiet() -> Self {
        Self::begin(tempfile::tempdir().unwrap(), 0, false, (SILENCE, CONNECTIONS), None)
    }

    /// With less patience than is usual.
    pub(crate) fn start_impatient(silence: Duration) -> Self {
        Self::begin(tempfile::tempdir().unwrap(), 0, true, (silence, CONNECTIONS), None)
    }

    /// With room for so many connections at once.
    pub(crate) fn start_with_room_for(connections: usize) -> Self {
        Self::begin(tempfile::tempdir().unwrap(), 0, true, (SILENCE, connections), None)
    }

    /// At the port that was used before, or at any.
    pub(crate) fn start_in(folder: tempfile::TempDir, port: u16) -> Self {
        Self::begin(folder, port, true, (SILENCE, CONNECTIONS), None)
    }

    /// Where people log in at a provider.
    pub(crate) fn start_with(provider: Provider) -> Self {
        Self::begin(tempfile::tempdir().unwrap(), 0, true, (SILENCE, CONNECTIONS), Some(Arc::new(provider)))
    }

    fn begin(
        folder: tempfile::TempDir,
        port: u16,
        is_telling: bool,
        (silence, connections): (Duration, usize),
        provider: Option<Arc<Provider>>,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (place, elsewhere) = (folder.path().join("lab"), back_ends::of(folder.path()));
        let lab = runtime.block_on(Lab::open_with(&place, None, &elsewhere)).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let ways = is_telling.then(Ways::default);
        let serving = Serving {
            listen: ([127, 0, 0, 1], port).into(),
            ways,
            workers: 0,
            program: None,
            provider,
            silence,
            connections,
        };
        // No biopsy, but a program.
        let file = folder.path().join("program");
        std::fs::write(&file, b"\x7fELF and so on").unwrap();
        let program = Some(Program::read(&file).unwrap());
        let serving = Serving { program, ..serving };
        let serving_lab = lab.clone();
        runtime.spawn(async move {
            // The port of a lab that was ended may be held for a moment.
            for _ in 0..100 {
                let tell = tell.clone();
                if serve(serving_lab.clone(), &serving, move |at| tell.send(at).unwrap()).await.is_ok() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        });
        let address = told.recv().unwrap();
        Self { lab, address, folder, runtime: Some(runtime) }
    }

    /// Ends it as a kill would: nothing is waited for, connections are cut.
    pub(crate) fn kill(mut self) -> (tempfile::TempDir, u16) {
        let (runtime, port) = (self.runtime.take().unwrap(), self.address.port());
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        runtime.shutdown_background();
        (folder, port)
    }

    pub(crate) fn wait_for<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(future)
    }

    /// What the storage has of this name, to read.
    pub(crate) fn held(&self, name: &str) -> Held {
        self.wait_for(self.lab.storage.fetch(name)).unwrap()
    }

    /// Whether the storage has something of this name.
    pub(crate) fn is_stored(&self, name: &str) -> bool {
        self.wait_for(self.lab.storage.fetch(name)).is_ok_and(|held| held.as_ref().is_file())
    }

    /// The same lab, as a second process has it.
    pub(crate) fn opened_again(&self) -> Lab {
        let elsewhere = back_ends::of(self.folder.path());
        self.wait_for(Lab::open_with(&self.path("lab"), None, &elsewhere)).unwrap()
    }

    pub(crate) fn stored(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.held(name)).unwrap()
    }

    pub(crate) fn ask(&self, case: &str) -> Link {
        self.ask_for(case, 3600, 64 << 20)
    }

    pub(crate) fn ask_for(&self, case: &str, valid_seconds: i64, max_bytes: u64) -> Link {
        let new = NewRequest {
            case: case.to_owned(),
            lab_name: "test lab".to_owned(),
            address: format!("http://{}", self.address),
            recipe: Recipe { kind: Kind::File, seconds: None, target: None },
            valid_seconds,
            max_bytes,
            kept_days: 1,
        };
        self.wait_for(requests::create(&self.lab, &new, "test")).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Bytes without a pattern.
pub(crate) fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

/// A sender that gives up soon.
pub(crate) fn sender(link: &Link) -> Sender<'_> {
    let mut sender = Sender::new(link, Signer::generate());
    sender.give_up_after = std::time::Duration::from_secs(60);
    sender
}

/// Seals and sends some bytes.
pub(crate) fn send(link: &Link, plain: &[u8], to: &Path) -> Result<Receipt, SendError> {
    let sender = sender(link);
    let mut go_on = |_: &Progress| true;
    let request = sender.request(&mut go_on)?;
    let recipients: Vec<Recipient> = request.recipients().unwrap();
    let sealed = seal_file(&mut &plain[..], to, &recipients).unwrap();
    let mut state = State::new(link, sender.signer(), sealed.bytes, sealed.sha256, vec!["agreed".to_owned()]);
    sender.send(to, &mut state, &mut go_on)
}
