//! Plain cores in files: pages of zeros become holes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// What a hole is made of.
const PAGE: usize = 4096;

/// Only one thread writes at a time: writers of one file wait for each other in the kernel anyway, and spin while they do.
static WRITING: Mutex<()> = Mutex::new(());

/// Writes `bytes` at `offset`, but for pages of zeros, and returns how many bytes were written. The file is new, so
/// it reads as zeros there, or will once it has its size.
pub(super) fn write_sparse(file: &File, offset: u64, bytes: &[u8]) -> io::Result<u64> {
    let mut written = 0;
    let runs: Vec<Range<usize>> = data_runs(bytes).collect();
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    for run in runs {
        let data = bytes.get(run.clone()).unwrap_or_default();
        file.write_all_at(data, offset + run.start as u64)?;
        written += data.len() as u64;
    }
    Ok(written)
}

/// Runs of pages that are not all zeros.
fn data_runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut pages = bytes.chunks(PAGE).enumerate().filter(|(_, page)| !is_zero(page)).map(|(at, page)| {
        let start = at * PAGE;
        start..start + page.len()
    });
    let mut held: Option<Range<usize>> = None;
    std::iter::from_fn(move || {
        loop {
            match (pages.next(), &mut held) {
                (Some(page), Some(run)) if run.end == page.start => run.end = page.end,
                (Some(page), held) => {
                    if let Some(run) = held.replace(page) {
                        return Some(run);
                    }
                }
                (None, held) => return held.take(),
            }
        }
    })
}

/// Whether all bytes are zero.
fn is_zero(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
        && rest.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_data_leave_out_pages_of_zeros() {
        let mut bytes = vec![0; 5 * PAGE + 100];
        assert_eq!(data_runs(&bytes).count(), 0);
        for at in [PAGE, 2 * PAGE + 7, 4 * PAGE - 1 + PAGE, 5 * PAGE + 99] {
            bytes[at] = 1;
        }
        let runs: Vec<_> = data_runs(&bytes).collect();
        assert_eq!(runs, [PAGE..3 * PAGE, 4 * PAGE..5 * PAGE + 100]);
    }
}
