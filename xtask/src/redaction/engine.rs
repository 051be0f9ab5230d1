//! What is scored: something that masks bundles.

use std::sync::atomic::{AtomicUsize, Ordering};

use biopsy_redact::memory::{Literals, MemoryScanner};
use biopsy_redact::{BundleKey, Options, Redactor};

use super::case::{Bundle, Input};
use crate::run::Outcome;

/// What came out, one for each input; `None` where it does not know such inputs.
pub(super) type Masked = Option<Vec<Vec<u8>>>;

/// A redactor.
pub(super) trait Engine {
    /// Its name in the table.
    fn name(&self) -> &str;

    /// Masks bundles, each for itself.
    fn mask(&self, bundles: &[Bundle]) -> Outcome<Vec<Masked>>;
}

/// Times that what was written is gone over again because something was learned since: as a bundle is sealed.
const AGAIN_MAX: usize = 3;

/// Ours, through its public interface.
pub(super) struct Biopsy {
    redactor: Redactor,
}

impl Biopsy {
    /// With the built-in rules.
    pub(super) fn new() -> Outcome<Self> {
        let redactor = Redactor::new(Options::default()).map_err(|error| error.to_string())?;
        Ok(Self { redactor })
    }

    fn bundle(&self, bundle: &[Input], number: usize) -> Outcome<Vec<Vec<u8>>> {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        let redactor = self.redactor.for_bundle(BundleKey::from_bytes(key));
        let mut masked: Vec<Vec<u8>> = Vec::new();
        for input in bundle {
            masked.push(match input {
                Input::Text(bytes) => stream(&redactor, bytes)?,
                Input::Arguments(words) => redactor.command_line(words).args.join("\0").into_bytes(),
                Input::Variable { name, value } => redactor.env(name, value).text.into_bytes(),
                Input::Memory { environment, arguments, bytes } => {
                    memory(&redactor, environment, arguments, bytes)?
                }
            });
        }
        for _ in 0..AGAIN_MAX {
            let before = redactor.generation();
            for (input, output) in bundle.iter().zip(&mut masked) {
                if matches!(input, Input::Text(_)) {
                    *output = stream(&redactor, output)?;
                }
            }
            if redactor.generation() == before {
                break;
            }
        }
        Ok(masked)
    }
}

impl Engine for Biopsy {
    fn name(&self) -> &str {
        "biopsy"
    }

    fn mask(&self, bundles: &[Bundle]) -> Outcome<Vec<Masked>> {
        let next = AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let work = || -> Outcome<Vec<(usize, Masked)>> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(bundle) = bundles.get(number) else { return Ok(done) };
                done.push((number, Some(self.bundle(bundle, number)?)));
            }
        };
        let mut all = std::thread::scope(|scope| -> Outcome<Vec<(usize, Masked)>> {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().map_err(|_| "a thread of the redactor panicked".to_owned())??);
            }
            Ok(all)
        })?;
        all.sort_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, masked)| masked).collect())
    }
}

fn stream(redactor: &Redactor, bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut output = Vec::new();
    redactor.stream(bytes, &mut output).map_err(|error| error.to_string())?;
    Ok(output)
}

/// As a dump is scrubbed: what the process was started with is learned, then its memory is searched.
fn memory(
    redactor: &Redactor,
    environment: &[(String, String)],
    arguments: &[String],
    bytes: &[u8],
) -> Outcome<Vec<u8>> {
    for (name, value) in environment {
        let _ = redactor.env(name, value);
    }
    let _ = redactor.command_line(arguments);
    let scanner = MemoryScanner::new(&Literals::learned_by(redactor)).map_err(|error| error.to_string())?;
    let mut masked = bytes.to_vec();
    scanner.mask(&mut masked, 0..bytes.len(), |_, _| {});
    Ok(masked)
}
