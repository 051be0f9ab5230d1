//! Telling others: what happened is written down with what happened, in one transaction, and sent from there until it is taken. Notices are
//! thin: which case, what, how much; never content. Form: Standard Webhooks (<https://www.standardwebhooks.com>).

mod again;
mod dial;
mod due;
pub mod mail;
mod words;

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use biopsy_deliver::http::{Patience, call, config};
use biopsy_deliver::{encode, random};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use sqlx::{Any, Transaction};

use crate::error::LabError;
use crate::place::{Lab, now};

use again::pause_after;
pub use due::watch;
pub use mail::Mailer;

/// In which form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Standard Webhooks, signed.
    Standard,
    /// A sentence, as Slack, Mattermost and their like take it.
    Chat,
}

/// Where notices go.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The address.
    pub url: String,
    /// It may be on this machine or in a private network.
    pub is_private_allowed: bool,
    /// In which form.
    pub form: Form,
}

#[derive(Serialize, Deserialize)]
struct Body<'a> {
    #[serde(rename = "type", borrow)]
    event: Cow<'a, str>,
    timestamp: String,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Serialize, Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    case: Cow<'a, str>,
    bytes: i64,
}

/// Writes a notice down, with what it is about.
pub(crate) async fn put(
    within: &mut Transaction<'static, Any>,
    event: &str,
    case: &str,
    bytes: i64,
) -> Result<(), LabError> {
    let data = Data { case: case.into(), bytes };
    let body = Body { event: event.into(), timestamp: Timestamp::now().to_string(), data };
    let body = serde_json::to_string(&body).map_err(|_| LabError::Damaged { what: "a notice" })?;
    sqlx::query(
        "INSERT INTO outbox (id, event, body, created, not_before, tries, state) VALUES ($1, $2, $3, $4, 0, 0, 'waiting')",
    )
    .bind(format!("msg_{}", encode(random::<16>())))
    .bind(event)
    .bind(body)
    .bind(now())
    .execute(&mut **within)
    .await?;
    mail::put(within, event, case, bytes).await
}

#[derive(Debug, sqlx::FromRow)]
struct Waiting {
    id: String,
    body: String,
    tries: i64,
}

/// Who is told, and how.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// A program.
    pub hook: Option<Hook>,
    /// People.
    pub mailer: Option<Mailer>,
}

/// Sends what waits; gives how much there was.
///
/// # Errors
/// The database refuses.
pub async fn send_waiting(lab: &Lab, ways: &Ways) -> Result<usize, LabError> {
    let hooks = call_hook(lab, ways.hook.as_ref()).await?;
    Ok(hooks + mail::send_waiting(lab, ways.mailer.as_ref()).await?)
}

/// Without a hook nothing waits for one that comes later.
async fn call_hook(lab: &Lab, hook: Option<&Hook>) -> Result<usize, LabError> {
    let Some(hook) = hook else {
        sqlx::query("UPDATE outbox SET state = 'unsent' WHERE state = 'waiting'")
            .execute(lab.store.pool())
            .await?;
        return Ok(0);
    };
    let waiting: Vec<Waiting> = sqlx::query_as(
        "SELECT id, body, tries FROM outbox WHERE state = 'waiting' AND not_before <= $1 ORDER BY created LIMIT 50",
    )
    .bind(now())
    .fetch_all(lab.store.pool())
    .await?;
    let secret = lab.webhook_secret()?;
    let count = waiting.len();
    for one in waiting {
        let (hook, tries) = (hook.clone(), one.tries + 1);
        let id = one.id.clone();
        let sent = tokio::task::spawn_blocking(move || deliver(&hook, &secret, &one)).await;
        let ((state, pause), error) = match sent.unwrap_or_else(|_| Err("it was not sent".to_owned())) {
            Ok(()) => (("sent", 0), None),
            Err(error) => (pause_after(tries), Some(error)),
        };
        sqlx::query("UPDATE outbox SET state = $1, tries = $2, not_before = $3, error = $4 WHERE id = $5")
            .bind(state)
            .bind(tries)
            .bind(now() + pause)
            .bind(error)
            .bind(id)
            .execute(lab.store.pool())
            .await?;
    }
    Ok(count)
}

fn deliver(hook: &Hook, secret: &[u8; 32], one: &Waiting) -> Result<(), String> {
    let is_allowed =
        hook.url.starts_with("https://") || (hook.is_private_allowed && hook.url.starts_with("http://"));
    if !is_allowed {
        return Err("notices go by https".to_owned());
    }
    let short = Duration::from_secs(10);
    // No proxy: what is dialled is what was looked at.
    let config = config(&Patience { connect: short, send: short, answer: short }).proxy(None).build();
    let agent = dial::agent(config, hook.is_private_allowed);
    let time = now().to_string();
    let body = match hook.form {
        Form::Standard => one.body.clone(),
        Form::Chat => match sentence(&one.body) {
            Some(body) => body,
            // Programs want to hear of it, people do not.
            None => return Ok(()),
        },
    };
    let signature = signature(secret, &one.id, &time, &body);
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", one.id.as_str()),
        ("webhook-timestamp", time.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    match call(&agent, "POST", &hook.url, &headers, Some(body.as_bytes())) {
        Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
        // What it answers is nobody's business here: it may be another's page.
        Ok(answer) => Err(format!("answered {}", answer.status)),
        Err(error) => Err(error.to_string()),
    }
}

/// A notice as a chat takes it; `None`: it is not told to people.
fn sentence(body: &str) -> Option<String> {
    let body: Body<'_> = serde_json::from_str(body).ok()?;
    let (subject, text) = words::words(words::Reader::Vendor, &body.event, &body.data.case, body.data.bytes)?;
    // What these three mean there.
    let text = format!("*{subject}*\n{text}").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Some(serde_json::json!({ "text": text }).to_string())
}

/// `v1,` and an HMAC of id, time and body.
fn signature(secret: &[u8; 32], id: &str, time: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// The secret as receivers are given it.
#[must_use]
pub fn shown_secret(secret: &[u8; 32]) -> String {
    format!("whsec_{}", STANDARD.encode(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_gets_a_sentence_that_calls_nobody() {
        let body = r#"{"type":"upload.completed","timestamp":"","data":{"case":"<!here>","bytes":5}}"#;
        let text = sentence(body).unwrap();
        assert!(text.contains("5 bytes arrived for case &lt;!here&gt;") && !text.contains('<'), "{text}");
        assert_eq!(sentence(&body.replace("completed", "started")), None);
    }

    #[test]
    fn a_notice_is_signed_as_the_standard_says() {
        // Computed with Python's hmac: key of 32 bytes 0 to 31.
        let secret: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        assert_eq!(
            signature(&secret, "msg_1", "1700000000", "{}"),
            "v1,fhksJF5ElKjlPoT/jtefCO5XjQPvhf7Dhf/8R1ad9yU="
        );
        assert_eq!(shown_secret(&secret), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    }
}
