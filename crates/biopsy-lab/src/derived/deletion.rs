//! A case less: the segments that hold rows of it are written again without them, under new keys.

use sqlx::{Any, Transaction};

use crate::derived::segments::{Made, is_there, replace, together};
use crate::error::LabError;
use crate::place::{Lab, now};

/// What segments with rows of a case become.
#[derive(Debug)]
pub(crate) struct Rewritten {
    segments: Vec<(String, Option<Made>)>,
    objects: Vec<String>,
}

/// Segments with rows of a case, and whether they have rows of others.
const OF_CASE: &str = "SELECT segment_id, SUM(CASE WHEN case_id = $1 THEN 0 ELSE 1 END) FROM segment_reports
     WHERE segment_id IN (SELECT segment_id FROM segment_reports WHERE case_id = $2) GROUP BY segment_id ORDER BY segment_id";

/// Writes them again without the case. The database knows nothing of it yet.
pub(crate) async fn rewrite(lab: &Lab, case: &str) -> Result<Rewritten, LabError> {
    let holding: Vec<(String, i64)> =
        sqlx::query_as(OF_CASE).bind(case).bind(case).fetch_all(lab.store.pool()).await?;
    let mut rewritten = Rewritten { segments: Vec::new(), objects: Vec::new() };
    for (segment, others) in holding {
        let objects: Vec<(String,)> =
            sqlx::query_as("SELECT object FROM segment_files WHERE segment_id = $1 ORDER BY object")
                .bind(&segment)
                .fetch_all(lab.store.pool())
                .await?;
        let made = match others {
            0 => None,
            _ => match together(lab, std::slice::from_ref(&segment), Some(case)).await {
                Ok(made) => Some(made),
                // Replaced meanwhile: `put` sees it, and it is done again.
                Err(_) if !is_there(lab, &segment).await? => None,
                Err(error) => return Err(error),
            },
        };
        rewritten.segments.push((segment, made));
        rewritten.objects.extend(objects.into_iter().map(|(object,)| object));
    }
    Ok(rewritten)
}

impl Rewritten {
    /// Puts them in the place of those with the case, whose files are to be removed at once. False: there are others by now, and nothing may be kept of
    /// this transaction.
    pub(crate) async fn put(
        &self,
        lab: &Lab,
        within: &mut Transaction<'static, Any>,
        case: &str,
    ) -> Result<bool, LabError> {
        let holding: Vec<(String, i64)> =
            sqlx::query_as(OF_CASE).bind(case).bind(case).fetch_all(&mut **within).await?;
        let known = self.segments.iter().map(|(segment, made)| (segment, made.is_some()));
        if !holding.iter().map(|(segment, others)| (segment, *others > 0)).eq(known) {
            return Ok(false);
        }
        sqlx::query("DELETE FROM segment_reports WHERE case_id = $1")
            .bind(case)
            .execute(&mut **within)
            .await?;
        for (segment, made) in &self.segments {
            if !replace(lab, within, std::slice::from_ref(segment), made.as_ref(), now()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The files that held rows of the case.
    pub(crate) fn objects(&self) -> &[String] {
        &self.objects
    }
}
