//! What nobody does, and somebody should hear of: an upload that stands still, a case that will delete itself. Each is told once.

use sqlx::FromRow;

use super::put;
use crate::error::LabError;
use crate::place::{Lab, now};

/// An upload that got nothing for so long stands still: its sender may think that it is done.
const STALLED: i64 = 1800;
/// So long before a case deletes itself somebody is warned.
const WARNING: i64 = 3 * 24 * 3600;

#[derive(Debug, FromRow)]
struct Due {
    of: String,
    case_id: String,
    bytes: i64,
    at: i64,
}

/// Looks, and writes down what has to be told.
///
/// # Errors
/// The database refuses.
pub async fn watch(lab: &Lab) -> Result<(), LabError> {
    for (event, query, until) in [
        (
            "upload.stalled",
            "SELECT u.id AS of, u.case_id, u.at AS bytes, u.touched AS at FROM uploads u
             WHERE u.state = 'open' AND u.at < u.length AND u.touched <= $1 AND NOT EXISTS
             (SELECT 1 FROM told t WHERE t.event = 'upload.stalled' AND t.of = u.id AND t.at = u.touched)",
            now() - STALLED,
        ),
        (
            "retention.warning",
            "SELECT c.id AS of, c.id AS case_id, 0 AS bytes, c.kept_until AS at FROM cases c
             WHERE c.state <> 'deleted' AND c.kept_until <= $1 AND NOT EXISTS
             (SELECT 1 FROM told t WHERE t.event = 'retention.warning' AND t.of = c.id AND t.at = c.kept_until)",
            now() + WARNING,
        ),
    ] {
        let due: Vec<Due> = sqlx::query_as(query).bind(until).fetch_all(lab.store.pool()).await?;
        for one in due {
            let mut within = lab.store.begin().await?;
            let told = sqlx::query(
                "INSERT INTO told (event, of, at) VALUES ($1, $2, $3) ON CONFLICT (event, of, at) DO NOTHING",
            )
            .bind(event)
            .bind(&one.of)
            .bind(one.at)
            .execute(&mut *within)
            .await?;
            if told.rows_affected() == 1 {
                put(&mut within, event, &one.case_id, one.bytes).await?;
                within.commit().await?;
            }
        }
    }
    Ok(())
}
