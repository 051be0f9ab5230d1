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
/// Processes whose memory is scrubbed at once.
const PROCESSES: usize = 24;

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
        let redactor = self.fresh(number);
        let mut masked: Vec<Vec<u8>> = Vec::new();
        for input in bundle {
            masked.push(match input {
                Input::Text(bytes) => stream(&redactor, bytes)?,
                Input::Arguments(words) => redactor.command_line(words).args.join("\0").into_bytes(),
                Input::Variable { name, value } => redactor.env(name, value).text.into_bytes(),
                Input::Memory { .. } => return Err("memory is masked together".to_owned()),
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

    /// As dumps are scrubbed: what the processes were started with is learned, then their memory is searched. Several at
    /// once, because the rules for memory are compiled each time.
    fn memory(&self, bundles: &[(usize, &Bundle)]) -> Outcome<Vec<(usize, Masked)>> {
        let redactor = self.fresh(bundles[0].0);
        for input in bundles.iter().flat_map(|(_, bundle)| *bundle) {
            let Input::Memory { environment, arguments, .. } = input else { continue };
            for (name, value) in environment {
                let _ = redactor.env(name, value);
            }
            let _ = redactor.command_line(arguments);
        }
        let scanner =
            MemoryScanner::new(&Literals::of_process(&redactor)).map_err(|error| error.to_string())?;
        let mask = |input: &Input| {
            let mut masked = input.bytes();
            let all = 0..masked.len();
            scanner.mask(&mut masked, all, |_, _| {});
            masked
        };
        Ok(bundles
            .iter()
            .map(|(number, bundle)| (*number, Some(bundle.iter().map(mask).collect())))
            .collect())
    }

    fn fresh(&self, number: usize) -> Redactor {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        self.redactor.for_bundle(BundleKey::from_bytes(key))
    }
}

impl Engine for Biopsy {
    fn name(&self) -> &str {
        "biopsy"
    }

    fn mask(&self, bundles: &[Bundle]) -> Outcome<Vec<Masked>> {
        let (memories, texts): (Vec<_>, Vec<_>) =
            bundles.iter().enumerate().partition(|(_, bundle)| matches!(bundle[..], [Input::Memory { .. }]));
        let groups: Vec<&[(usize, &Bundle)]> = memories.chunks(PROCESSES).collect();
        let next = AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let work = || -> Outcome<Vec<(usize, Masked)>> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if let Some(group) = groups.get(number) {
                    done.extend(self.memory(group)?);
                } else if let Some((index, bundle)) = texts.get(number - groups.len()) {
                    done.push((*index, Some(self.bundle(bundle, *index)?)));
                } else {
                    return Ok(done);
                }
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
