//! Equal crashes meet across cases, as long as the cases are there.

use biopsy_lab::delete;
use biopsy_lab::signatures::{self, Same};

use crate::support::{Running, send};

fn note(running: &Running, case: &str, signature: &str) {
    let key = running.lab.signature_key().unwrap();
    let report = format!(
        r#"{{"dumps": [{{"signature": {{"text": "{signature}", "version": 1}}}}],
            "findings": [{{"id": "crash", "severity": "critical",
                           "evidence": [{{"reference": {{"kind": "function", "name": "{signature}"}}}}]}}]}}"#
    );
    running.wait_for(async {
        let mut within = running.lab.store.begin().await.unwrap();
        signatures::note(&mut within, case, Same::Crash, signatures::digests(&report, &key)).await.unwrap();
        signatures::note(&mut within, case, Same::Cause, signatures::causes(&report, &key)).await.unwrap();
        within.commit().await.unwrap();
    });
}

#[test]
fn equal_crashes_are_named_until_their_case_is_deleted() {
    let running = Running::start();
    for (case, signature) in
        [("4711", "worker | abort"), ("4712", "worker | abort"), ("4713", "main | raise")]
    {
        let link = running.ask(case);
        send(&link, b"the evidence", &running.path(&format!("{case}.age"))).unwrap();
        note(&running, case, signature);
        // Analysed again: it is the same case.
        note(&running, case, signature);
    }
    let others = |case: &str| {
        let [crash, cause] = [Same::Crash, Same::Cause]
            .map(|same| running.wait_for(signatures::others(&running.lab, case, same)).unwrap());
        assert_eq!(crash, cause, "the same cases have both");
        crash
    };
    let found = others("4711").unwrap();
    assert_eq!((found.count, found.newest), (1, vec!["4712".to_owned()]));
    assert_eq!(others("4713"), None);

    let rows = |case: &'static str| -> Vec<(Vec<u8>,)> {
        let query = sqlx_rows(&running, case);
        running.wait_for(query)
    };
    assert!(rows("4712").iter().all(|(digest,)| digest.len() == 32), "digests, and no text");
    running.wait_for(delete::case(&running.lab, "4712", "test", "it has served")).unwrap();
    assert_eq!(others("4711"), None);
    assert!(rows("4712").is_empty());
}

async fn sqlx_rows(running: &Running, case: &str) -> Vec<(Vec<u8>,)> {
    sqlx::query_as(
        "SELECT digest FROM signatures WHERE case_id = $1 UNION SELECT digest FROM causes WHERE case_id = $2",
    )
    .bind(case)
    .bind(case)
    .fetch_all(running.lab.store.pool())
    .await
    .unwrap()
}
