//! Analysis of what arrived: each in a process of its own, started anew, that has nothing but one sealed file and the key to it.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_cases::{About, Rows};
use biopsy_deliver::{encode, random};
use biopsy_seal::{Identity, Recipient, seal_file};
use biopsy_terminal::out;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::audit::{self, Entry};
use crate::cases;
use crate::derived::segments::Made;
use crate::error::{LabError, in_words};
use crate::notices;
use crate::place::{Lab, now};
use crate::signatures::{self, Same};

/// How long an analysis may take.
const LONGEST: Duration = Duration::from_secs(900);
/// After so long a job is taken for lost and done again.
const LEASE: i64 = 1200;
/// Tries of one job.
const MOST_TRIES: i64 = 3;
/// Most bytes of what an analysis says.
const MOST_ANSWER: u64 = 512 << 20;

/// What an analysis says; the form in which the worker writes it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reports {
    /// The page. `None`: it was made elsewhere, and is shown to nobody.
    pub html: Option<String>,
    /// For programs.
    pub json: Option<String>,
    /// To be read.
    pub markdown: String,
}

#[derive(Debug, sqlx::FromRow)]
struct Job {
    upload_id: String,
    case_id: String,
    tries: i64,
}

/// Does one job, if there is one that waits.
///
/// # Errors
/// The database refuses. An analysis that fails is a result.
pub async fn do_one(lab: &Lab) -> Result<bool, LabError> {
    let Some(job) = lease(lab).await? else { return Ok(false) };
    let analysed = analyse(lab, &job).await;
    match analysed {
        Ok(()) => {}
        Err(error) => give_back(lab, &job, &in_words(&error)).await?,
    }
    Ok(true)
}

async fn lease(lab: &Lab) -> Result<Option<Job>, LabError> {
    let mut within = lab.store.begin().await?;
    let job: Option<Job> = sqlx::query_as(
        "SELECT upload_id, case_id, tries FROM jobs WHERE state IN ('waiting', 'leased') AND not_before <= $1 ORDER BY not_before LIMIT 1",
    )
    .bind(now())
    .fetch_optional(&mut *within)
    .await?;
    if let Some(job) = &job {
        sqlx::query(
            "UPDATE jobs SET state = 'leased', tries = tries + 1, not_before = $1 WHERE upload_id = $2",
        )
        .bind(now() + LEASE)
        .bind(&job.upload_id)
        .execute(&mut *within)
        .await?;
    }
    within.commit().await?;
    Ok(job)
}

async fn give_back(lab: &Lab, job: &Job, error: &str) -> Result<(), LabError> {
    let is_last = job.tries + 1 >= MOST_TRIES;
    let mut within = lab.store.begin().await?;
    sqlx::query("UPDATE jobs SET state = $1, not_before = $2, error = $3 WHERE upload_id = $4")
        .bind(if is_last { "failed" } else { "waiting" })
        .bind(now() + 5 * (job.tries + 1))
        .bind(error)
        .bind(&job.upload_id)
        .execute(&mut *within)
        .await?;
    if is_last {
        sqlx::query("UPDATE cases SET state = 'failed' WHERE id = $1 AND state = 'received'")
            .bind(&job.case_id)
            .execute(&mut *within)
            .await?;
        audit::write(
            &mut within,
            Entry { who: "lab", what: "analysis failed", of: &job.case_id, detail: "" },
        )
        .await?;
        notices::put(&mut within, "analysis.failed", &job.case_id, 0).await?;
    }
    within.commit().await?;
    Ok(())
}

async fn analyse(lab: &Lab, job: &Job) -> Result<(), LabError> {
    let case = cases::find(lab, &job.case_id).await?;
    let (object,): (String,) = sqlx::query_as("SELECT object FROM uploads WHERE id = $1")
        .bind(&job.upload_id)
        .fetch_one(lab.store.pool())
        .await?;
    let recipient = case.recipient()?;
    let identity = cases::open(lab, &case.id, "lab", "analysis").await?;
    let held = lab.storage.fetch(&object).await?;
    let reports = tokio::task::spawn_blocking(move || run(held.as_ref(), &identity))
        .await
        .map_err(|_| LabError::Worker("it was ended".to_owned()))??;
    let key = lab.signature_key()?;
    let json = reports.json.as_deref();
    let crashes = json.map(|json| signatures::digests(json, &key)).unwrap_or_default();
    let causes = json.map(|json| signatures::causes(json, &key)).unwrap_or_default();
    let rows = match json {
        Some(json) => rows(lab, &case.id, &job.upload_id, json).await?,
        None => None,
    };
    let kinds =
        [("report.html", reports.html), ("report.json", reports.json), ("report.md", Some(reports.markdown))];
    let mut made = Vec::new();
    for (kind, text) in kinds {
        if let Some(text) = text {
            let (name, bytes) = keep(lab, text, &recipient).await?;
            made.push((kind, name, bytes));
        }
    }
    let mut within = lab.store.begin().await?;
    // The case may have been deleted while it was analysed.
    let done = sqlx::query(
        "UPDATE jobs SET state = 'done', error = NULL WHERE upload_id = $1 AND state = 'leased'
         AND EXISTS (SELECT 1 FROM cases WHERE id = jobs.case_id AND state <> 'deleted')",
    )
    .bind(&job.upload_id)
    .execute(&mut *within)
    .await?;
    if done.rows_affected() == 0 {
        for (_, name, _) in &made {
            lab.storage.remove(name).await?;
        }
        return Ok(());
    }
    for (kind, name, bytes) in made {
        sqlx::query(
            "INSERT INTO objects (name, case_id, upload_id, kind, bytes) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(name)
        .bind(&case.id)
        .bind(&job.upload_id)
        .bind(kind)
        .bind(bytes)
        .execute(&mut *within)
        .await?;
    }
    signatures::note(&mut within, &case.id, Same::Crash, crashes).await?;
    signatures::note(&mut within, &case.id, Same::Cause, causes).await?;
    if let Some(rows) = rows {
        rows.put(lab, &mut within, &[(&job.upload_id, &case.id)]).await?;
    }
    sqlx::query("UPDATE cases SET state = 'analysed' WHERE id = $1")
        .bind(&case.id)
        .execute(&mut *within)
        .await?;
    let detail = format!("upload {}", job.upload_id);
    audit::write(&mut within, Entry { who: "lab", what: "analysed", of: &case.id, detail: &detail }).await?;
    notices::put(&mut within, "analysis.completed", &case.id, 0).await?;
    within.commit().await?;
    Ok(())
}

/// What the report says, as rows among those of all cases. `None`: it is not of the form of a report. It was made by a process that read a hostile file;
/// that it can be read by people is not made to depend on it.
async fn rows(lab: &Lab, case: &str, upload: &str, report: &str) -> Result<Option<Made>, LabError> {
    let mut rows = Rows::default();
    if let Err(error) = rows.add(About { case, upload, analysed_at: now() }, report) {
        out::say(format!("case {case} is not among those that are asked over: {}", in_words(&error)));
        return Ok(None);
    }
    let mut made = Made::new();
    for (table, rows) in rows.finish()? {
        made.add(lab, table, rows).await?;
    }
    Ok(Some(made))
}

/// Seals a text to the case, into the storage.
async fn keep(lab: &Lab, text: String, recipient: &Recipient) -> Result<(String, i64), LabError> {
    let name = encode(random::<16>());
    let (path, recipient) = (lab.storage.place(&name), recipient.clone());
    let text = Zeroizing::new(text);
    let sealing = tokio::task::spawn_blocking(move || seal_file(&mut text.as_bytes(), &path, &[recipient]));
    let sealed = sealing.await.map_err(|_| LabError::Damaged { what: "a report" })??;
    lab.storage.keep(&name).await?;
    lab.storage.let_go(&name)?;
    Ok((name, i64::try_from(sealed.bytes).unwrap_or(i64::MAX)))
}

/// Runs the worker on one file, and ends it in time.
fn run(path: &std::path::Path, identity: &Identity) -> Result<Reports, LabError> {
    let failed = |error: std::io::Error| LabError::Worker(error.to_string());
    let path = std::path::absolute(path).map_err(failed)?;
    let mut child = Command::new("/proc/self/exe")
        .arg("worker")
        .arg(&path)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended already says why below.
        let _ = stdin.write_all(identity.secret_text().as_bytes());
    }
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(LabError::Worker("it has no output".to_owned()));
    };
    let answer = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.take(MOST_ANSWER).read_to_end(&mut bytes).map(|_| bytes)
    });
    let words = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.take(4096).read_to_end(&mut bytes);
        bytes
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if began.elapsed() > LONGEST => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(LabError::Worker(format!("it took more than {} s", LONGEST.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let words = words.join().unwrap_or_default();
    if !status.success() {
        // It has read a hostile file: what it says is text, and short.
        let words: String =
            String::from_utf8_lossy(&words).chars().filter(|c| !c.is_control()).take(500).collect();
        return Err(LabError::Worker(if words.is_empty() { status.to_string() } else { words }));
    }
    let bytes =
        answer.join().map_err(|_| LabError::Worker("its answer was lost".to_owned()))?.map_err(failed)?;
    serde_json::from_slice(&bytes).map_err(|error| LabError::Worker(error.to_string()))
}
