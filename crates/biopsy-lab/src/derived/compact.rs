//! Small segments become larger ones, so that there are few files.
//!
//! Sixteen of a size become one of the next: of 1 to 15 reports, of 16 to 255, of 256 to 4,095. From 4,096 reports on, or 48 MiB in memory, a segment stays
//! as it is: larger ones would make a deletion slow, which writes each again that has rows of the case. So a million reports are in some 250 segments and at
//! most 45 small ones.

use std::collections::BTreeMap;

use crate::derived::segments::{is_there, replace, together};
use crate::error::LabError;
use crate::place::{Lab, now};

/// So many of a size become one.
const TOGETHER: usize = 16;
/// The size from which on a segment stays.
const LARGEST: u32 = 3;
/// Most reports of what is put together, and most bytes of memory.
const MOST_REPORTS: i64 = 8192;
const MOST_MEMORY: i64 = 96 << 20;
/// From so many bytes on it stays.
const STAYS: i64 = 48 << 20;
/// A query that runs may still read the files of what was replaced for so many seconds.
const STILL_READ: i64 = 600;
/// Most that one call does.
const MOST_ROUNDS: usize = 8;

/// A segment: its name, reports, and bytes of memory.
type Size = (String, i64, i64);

/// 0 to [`LARGEST`].
fn size(reports: i64, memory: i64) -> u32 {
    let of_reports = u64::try_from(reports).unwrap_or(0).max(1).ilog(16);
    if memory >= STAYS { LARGEST } else { of_reports.min(LARGEST) }
}

/// Which are to be put together next.
fn choose(mut all: Vec<Size>) -> Option<Vec<String>> {
    all.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
    let mut by_size: BTreeMap<u32, Vec<Size>> = BTreeMap::new();
    for one in all {
        by_size.entry(size(one.1, one.2)).or_default().push(one);
    }
    let many = by_size.into_iter().find(|(size, all)| *size < LARGEST && all.len() >= TOGETHER)?.1;
    let (mut chosen, mut reports, mut memory) = (Vec::new(), 0, 0);
    for (id, its_reports, its_memory) in many.into_iter().take(TOGETHER) {
        if reports + its_reports > MOST_REPORTS || memory + its_memory > MOST_MEMORY {
            break;
        }
        reports += its_reports;
        memory += its_memory;
        chosen.push(id);
    }
    (chosen.len() > 1).then_some(chosen)
}

/// Puts segments together, as long as there are many of a size. Several processes may do it: whoever is later has done it for nothing.
///
/// # Errors
/// The storage or the database refuses.
pub async fn compact(lab: &Lab) -> Result<(), LabError> {
    'rounds: for _ in 0..MOST_ROUNDS {
        let all: Vec<Size> =
            sqlx::query_as("SELECT id, reports, memory FROM segments").fetch_all(lab.store.pool()).await?;
        let Some(chosen) = choose(all) else { return Ok(()) };
        let made = match together(lab, &chosen, None).await {
            Ok(made) => made,
            Err(error) => {
                // A case was deleted meanwhile, and its files with it: there are others now.
                for segment in &chosen {
                    if !is_there(lab, segment).await? {
                        continue 'rounds;
                    }
                }
                return Err(error);
            }
        };
        let mut within = lab.store.begin().await?;
        if replace(lab, &mut within, &chosen, Some(&made), now() + STILL_READ).await? {
            within.commit().await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What many reports, one after the other, leave behind.
    #[test]
    fn there_are_few_segments_and_none_is_large() {
        let mut segments: Vec<Size> = Vec::new();
        for number in 0..40_000_i64 {
            segments.push((format!("{number:07}"), 1, 3000));
            while let Some(chosen) = choose(segments.clone()) {
                let (old, rest): (Vec<Size>, Vec<Size>) =
                    segments.into_iter().partition(|one| chosen.contains(&one.0));
                segments = rest;
                let sum = |of: fn(&Size) -> i64| old.iter().map(of).sum::<i64>();
                segments.push((format!("m{number:07}"), sum(|one| one.1), sum(|one| one.2)));
            }
        }
        assert_eq!(segments.iter().map(|one| one.1).sum::<i64>(), 40_000);
        assert!(segments.iter().all(|one| one.1 <= MOST_REPORTS));
        assert!(segments.len() <= 40_000 / 4096 + 3 * (TOGETHER - 1), "{}", segments.len());
    }

    #[test]
    fn what_is_heavy_stays_and_what_shrank_is_put_together_again() {
        let heavy = (0..100).map(|at| (at.to_string(), 1, STAYS)).collect();
        assert_eq!(choose(heavy), None);
        let shrunk: Vec<Size> = (0..16).map(|at| (at.to_string(), 3000, 1 << 20)).collect();
        assert_eq!(choose(shrunk).map(|chosen| chosen.len()), Some(2));
        assert_eq!(choose(Vec::new()), None);
    }
}
