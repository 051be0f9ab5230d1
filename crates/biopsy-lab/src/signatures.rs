//! Equal crashes and equal causes meet across cases: by their signatures, and by findings at one place.
//!
//! Their texts stay in the sealed report. The database has digests of them under a key that is in neither database nor storage:
//! equals are found by it, and a back-up does not give away what a case was about that was deleted since.

use std::collections::BTreeSet;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;
use sqlx::{Any, Transaction};

use crate::error::LabError;
use crate::place::{Lab, now};

/// Most signatures that one report may have: it was made by a process that read a hostile file.
const MOST: usize = 64;
/// Most that are named.
const MOST_NAMED: i64 = 20;

/// What is the same in two cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Same {
    /// They crashed the same way.
    Crash,
    /// They have a finding at the same place.
    Cause,
}

/// What a report is read for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Thin {
    dumps: Vec<ThinDump>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThinFindings {
    findings: Vec<ThinFinding>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThinFinding {
    id: String,
    severity: String,
    evidence: Vec<ThinEvidence>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThinEvidence {
    reference: Option<ThinReference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThinReference {
    kind: String,
    name: String,
    module: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThinDump {
    signature: Option<ThinSignature>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThinSignature {
    text: String,
    version: u32,
    coarse: bool,
}

/// Other cases with a signature that this one has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Others {
    /// How many.
    pub count: i64,
    /// When the first of them was analysed.
    pub since: i64,
    /// The newest of them.
    pub newest: Vec<String>,
}

/// Digests of the signatures in a report. Rules of different versions give different ones. One that names no function is left out: crashes that have
/// nothing to do with each other have it (`abort`, in a C library without symbols).
#[must_use]
pub fn digests(report: &str, key: &[u8; 32]) -> BTreeSet<Vec<u8>> {
    let thin: Thin = serde_json::from_str(report).unwrap_or_default();
    let signatures = thin.dumps.into_iter().filter_map(|dump| dump.signature);
    signatures
        .filter(|signature| !signature.text.is_empty() && !signature.coarse)
        .take(MOST)
        .map(|signature| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
            mac.update(&signature.version.to_le_bytes());
            mac.update(signature.text.as_bytes());
            mac.finalize().into_bytes().to_vec()
        })
        .collect()
}

/// Digests of the causes in a report: of each finding that is a warning or worse and names a function, its id and the first function. What has no
/// place (memory is short, say) is in every other case, and says nothing.
#[must_use]
pub fn causes(report: &str, key: &[u8; 32]) -> BTreeSet<Vec<u8>> {
    let thin: ThinFindings = serde_json::from_str(report).unwrap_or_default();
    let grave =
        thin.findings.into_iter().filter(|one| ["warning", "critical"].contains(&one.severity.as_str()));
    let placed = grave.filter_map(|finding| {
        let references = finding.evidence.into_iter().filter_map(|evidence| evidence.reference);
        let place = references.into_iter().find(|one| one.kind == "function" && !one.name.is_empty())?;
        Some((finding.id, place))
    });
    placed
        .take(MOST)
        .map(|(id, place)| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
            for field in ["cause", &id, &place.name, &place.module] {
                mac.update(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_le_bytes());
                mac.update(field.as_bytes());
            }
            mac.finalize().into_bytes().to_vec()
        })
        .collect()
}

/// Statements on the table of one kind.
macro_rules! on {
    ($same:expr, $before:literal, $after:literal) => {
        match $same {
            Same::Crash => concat!($before, "signatures", $after),
            Same::Cause => concat!($before, "causes", $after),
        }
    };
    ($same:expr, $before:literal, $between:literal, $after:literal) => {
        match $same {
            Same::Crash => concat!($before, "signatures", $between, "signatures", $after),
            Same::Cause => concat!($before, "causes", $between, "causes", $after),
        }
    };
}

/// Writes down what the signatures, or causes, in a case's report are.
///
/// # Errors
/// The database refuses.
pub async fn note(
    within: &mut Transaction<'static, Any>,
    case: &str,
    same: Same,
    digests: BTreeSet<Vec<u8>>,
) -> Result<(), LabError> {
    for digest in digests {
        sqlx::query(on!(
            same,
            "INSERT INTO ",
            " (digest, case_id, seen) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
        ))
        .bind(digest)
        .bind(case)
        .bind(now())
        .execute(&mut **within)
        .await?;
    }
    Ok(())
}

/// Which other cases have a signature, or a cause, that this one has; `None`: none has.
///
/// # Errors
/// The database refuses.
pub async fn others(lab: &Lab, case: &str, same: Same) -> Result<Option<Others>, LabError> {
    let (count, since): (i64, Option<i64>) = sqlx::query_as(on!(
        same,
        "SELECT COUNT(DISTINCT m.case_id), MIN(m.seen) FROM ",
        " own JOIN ",
        " m ON m.digest = own.digest WHERE own.case_id = $1 AND m.case_id <> own.case_id"
    ))
    .bind(case)
    .fetch_one(lab.store.pool())
    .await?;
    let Some(since) = since else { return Ok(None) };
    let newest: Vec<(String,)> = sqlx::query_as(on!(
        same,
        "SELECT m.case_id FROM ",
        " own JOIN ",
        " m ON m.digest = own.digest WHERE own.case_id = $1 AND m.case_id <> own.case_id
         GROUP BY m.case_id ORDER BY MAX(m.seen) DESC, m.case_id LIMIT $2"
    ))
    .bind(case)
    .bind(MOST_NAMED)
    .fetch_all(lab.store.pool())
    .await?;
    Ok(Some(Others { count, since, newest: newest.into_iter().map(|(id,)| id).collect() }))
}

/// A case that is deleted has none.
pub(crate) async fn forget(within: &mut Transaction<'static, Any>, case: &str) -> Result<(), LabError> {
    for same in [Same::Crash, Same::Cause] {
        sqlx::query(on!(same, "DELETE FROM ", " WHERE case_id = $1"))
            .bind(case)
            .execute(&mut **within)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str, version: u32) -> String {
        format!(
            r#"{{"dumps": [{{"signature": {{"text": "{text}", "version": {version}, "frames": []}}}}, {{}}]}}"#
        )
    }

    #[test]
    fn equal_signatures_of_one_version_under_one_key_are_equal() {
        let digests_of = |text, version, key| digests(&report(text, version), &[key; 32]);
        let one = digests_of("raise | abort", 1, 0);
        assert_eq!(one.len(), 1);
        assert_eq!(one, digests_of("raise | abort", 1, 0));
        for other in
            [digests_of("raise", 1, 0), digests_of("raise | abort", 2, 0), digests_of("raise | abort", 1, 1)]
        {
            assert!(one.is_disjoint(&other));
        }
    }

    #[test]
    fn equal_findings_at_one_place_are_equal_and_what_has_no_place_is_no_cause() {
        let of = |id: &str, severity: &str, kind: &str, name: &str, module: &str| {
            let report = format!(
                r#"{{"findings": [{{"id": "{id}", "severity": "{severity}", "evidence": [{{"reference": {{"kind": "thread", "tid": 1}}}},
                   {{"reference": {{"kind": "{kind}", "name": "{name}", "module": "{module}"}}}}]}}]}}"#
            );
            causes(&report, &[0; 32])
        };
        let one = of("hot-function", "warning", "function", "sort", "db.so");
        assert_eq!(one.len(), 1);
        assert_eq!(one, of("hot-function", "critical", "function", "sort", "db.so"));
        for other in [
            of("slow-function", "warning", "function", "sort", "db.so"),
            of("hot-function", "warning", "function", "sor", "tdb.so"),
            of("hot-function", "warning", "function", "sort", ""),
        ] {
            assert_eq!(other.len(), 1);
            assert!(one.is_disjoint(&other));
        }
        for none in [
            of("hot-function", "notice", "function", "sort", "db.so"),
            of("hot-function", "warning", "metric", "sort", "db.so"),
            of("hot-function", "warning", "function", "", "db.so"),
        ] {
            assert!(none.is_empty());
        }
    }

    #[test]
    fn a_report_without_any_has_none() {
        let coarse = r#"{"dumps": [{"signature": {"text": "libc.so.6", "version": 1, "coarse": true}}]}"#;
        for text in ["", "{}", "[]", r#"{"dumps": 3}"#, r#"{"findings": 3}"#, &report("", 1), coarse] {
            assert!(digests(text, &[0; 32]).is_empty(), "{text}");
            assert!(causes(text, &[0; 32]).is_empty(), "{text}");
        }
        let many = vec![r#"{"signature": {"text": "a"}}"#; 1000].join(",");
        assert_eq!(digests(&format!(r#"{{"dumps": [{many}]}}"#), &[0; 32]).len(), 1);
    }
}
