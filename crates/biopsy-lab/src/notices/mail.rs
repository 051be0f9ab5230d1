//! Mail: to the lab's people and, where a customer asked for it, to whoever sent something. Written down with what happened, like webhooks; what was
//! sent is forgotten.

use std::time::Duration;

use biopsy_deliver::{encode, random};
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::{Address, Message, SmtpTransport, Transport as _};
use sqlx::{Any, Transaction};

use super::again::pause_after;
use super::words::{Reader, words};
use crate::error::{LabError, in_words};
use crate::place::{Lab, now};

/// Longest address that there is.
const LONGEST: usize = 254;

/// How mail is sent.
#[derive(Clone, Debug)]
pub struct Mailer {
    /// `smtps://HOST` or `smtp://HOST:PORT?tls=required`.
    url: String,
    from: Mailbox,
    login: Option<(String, zeroize::Zeroizing<String>)>,
}

impl Mailer {
    /// To a server, from an address; with a name and a password, if it wants them.
    ///
    /// # Errors
    /// It is no address, or mail would go in clear over a network.
    pub fn new(
        url: &str,
        from: &str,
        login: Option<(String, zeroize::Zeroizing<String>)>,
    ) -> Result<Self, LabError> {
        let refuse = |why: String| Err(LabError::Usage(why));
        let Ok(from) = from.parse() else { return refuse(format!("`{from}` is no address of mail")) };
        let host = url.split("://").nth(1).unwrap_or_default().rsplit('@').next().unwrap_or_default();
        let host = host.split(['/', '?']).next().unwrap_or_default();
        let is_near = ["localhost", "127.0.0.1", "[::1]"]
            .iter()
            .any(|near| host.strip_prefix(near).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')));
        let is_private = url.starts_with("smtps://") || url.contains("tls=required");
        if !(is_private || (is_near && url.starts_with("smtp://"))) {
            let why = "mail goes by `smtps://HOST`, or `smtp://HOST:587?tls=required`; in clear to this machine alone";
            return refuse(why.to_owned());
        }
        let mailer = Self { url: url.to_owned(), from, login };
        match mailer.transport() {
            Ok(_) => Ok(mailer),
            Err(why) => refuse(format!("`{url}` is no mail server: {why}")),
        }
    }

    fn transport(&self) -> Result<SmtpTransport, String> {
        let mut builder = SmtpTransport::from_url(&self.url).map_err(|error| in_words(&error))?;
        if let Some((name, password)) = &self.login {
            builder = builder.credentials(Credentials::new(name.clone(), password.to_string()));
        }
        Ok(builder.timeout(Some(Duration::from_secs(20))).build())
    }

    fn send(&self, one: &Waiting) -> Result<(), String> {
        let to: Address = one.recipient.parse().map_err(|_| "it is no address".to_owned())?;
        let text = SinglePart::plain(format!("{}\n\n(biopsy lab; nobody reads answers to this)\n", one.body));
        let builder = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            // The same at each try: who gets it twice sees it once.
            .message_id(Some(format!("<{}@{}>", one.id, self.from.email.domain())))
            .subject(one.subject.clone());
        let message = match &one.attached {
            Some(certificate) => {
                let json = ContentType::parse("application/json").map_err(|error| error.to_string())?;
                let file = Attachment::new("certificate.json".to_owned())
                    .body(certificate.clone().into_bytes(), json);
                builder.multipart(MultiPart::mixed().singlepart(text).singlepart(file))
            }
            None => builder.singlepart(text),
        };
        let message = message.map_err(|error| in_words(&error))?;
        self.transport()?.send(&message).map(drop).map_err(|error| in_words(&error))
    }
}

/// Whether mail can be sent there.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.len() <= LONGEST && text.parse::<Address>().is_ok()
}

/// Says which of the lab's people are told by mail.
///
/// # Errors
/// One is no address, or the database refuses.
pub async fn tell(lab: &Lab, addresses: &[String]) -> Result<(), LabError> {
    if let Some(wrong) = addresses.iter().find(|one| !is_address(one)) {
        return Err(LabError::Usage(format!("`{wrong}` is no address of mail")));
    }
    sqlx::query(
        "INSERT INTO lab (name, value) VALUES ('mail-to', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(addresses.join(","))
    .execute(lab.store.pool())
    .await?;
    Ok(())
}

/// Writes mails down, with what they are about.
pub(super) async fn put(
    within: &mut Transaction<'static, Any>,
    event: &str,
    case: &str,
    bytes: i64,
) -> Result<(), LabError> {
    let ours: Option<(String,)> =
        sqlx::query_as("SELECT value FROM lab WHERE name = 'mail-to'").fetch_optional(&mut **within).await?;
    let theirs: Vec<(String,)> = sqlx::query_as("SELECT DISTINCT mail FROM contacts WHERE case_id = $1")
        .bind(case)
        .fetch_all(&mut **within)
        .await?;
    let ours = ours.map(|(list,)| list).unwrap_or_default();
    let ours = ours.split(',').filter(|one| !one.is_empty()).map(|one| (Reader::Vendor, one.to_owned()));
    let theirs = theirs.into_iter().map(|(one,)| (Reader::Customer, one));
    let is_deleted = event == "case.deleted";
    for (reader, recipient) in ours.chain(theirs).collect::<Vec<_>>() {
        let Some((subject, body)) = words(reader, event, case, bytes) else { continue };
        sqlx::query(
            "INSERT INTO mails (id, recipient, subject, body, attached, created, not_before, tries, state)
             VALUES ($1, $2, $3, $4, CASE WHEN $5 = 1 THEN (SELECT certificate FROM cases WHERE id = $6) END, $7, 0, 0, 'waiting')",
        )
        .bind(encode(random::<16>()))
        .bind(recipient)
        .bind(subject)
        .bind(body)
        .bind(i64::from(is_deleted))
        .bind(case)
        .bind(now())
        .execute(&mut **within)
        .await?;
    }
    if is_deleted {
        sqlx::query("DELETE FROM contacts WHERE case_id = $1").bind(case).execute(&mut **within).await?;
    }
    Ok(())
}

#[derive(Debug, sqlx::FromRow)]
struct Waiting {
    id: String,
    recipient: String,
    subject: String,
    body: String,
    attached: Option<String>,
    tries: i64,
}

/// Sends what waits. Without a mailer nothing is kept for one that comes later.
///
/// # Errors
/// The database refuses.
pub(super) async fn send_waiting(lab: &Lab, mailer: Option<&Mailer>) -> Result<usize, LabError> {
    let Some(mailer) = mailer else {
        sqlx::query("DELETE FROM mails").execute(lab.store.pool()).await?;
        return Ok(0);
    };
    let waiting: Vec<Waiting> = sqlx::query_as(
        "SELECT id, recipient, subject, body, attached, tries FROM mails WHERE state = 'waiting' AND not_before <= $1 ORDER BY created LIMIT 20",
    )
    .bind(now())
    .fetch_all(lab.store.pool())
    .await?;
    let count = waiting.len();
    for one in waiting {
        let (mailer, id, tries) = (mailer.clone(), one.id.clone(), one.tries + 1);
        let sent = tokio::task::spawn_blocking(move || mailer.send(&one)).await;
        let Err(error) = sent.unwrap_or_else(|_| Err("it was not sent".to_owned())) else {
            sqlx::query("DELETE FROM mails WHERE id = $1").bind(id).execute(lab.store.pool()).await?;
            continue;
        };
        let (state, pause) = pause_after(tries);
        sqlx::query("UPDATE mails SET state = $1, tries = $2, not_before = $3, error = $4 WHERE id = $5")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_goes_in_clear_to_this_machine_alone() {
        for (url, is_taken) in [
            ("smtps://mail.example", true),
            ("smtp://mail.example:587?tls=required", true),
            ("smtp://localhost:2525", true),
            ("smtp://127.0.0.1:2525", true),
            ("smtp://mail.example", false),
            ("smtp://mail.example?tls=opportunistic", false),
            ("smtp://127.0.0.1@mail.example", false),
            ("smtp://localhost.elsewhere.example", false),
            ("http://localhost", false),
        ] {
            assert_eq!(Mailer::new(url, "lab@lab.example", None).is_ok(), is_taken, "{url}");
        }
        assert!(Mailer::new("smtps://mail.example", "nobody", None).is_err());
    }

    #[test]
    fn an_address_is_one_and_brings_no_lines_of_its_own() {
        for (text, is) in [
            ("ada@customer.example", true),
            ("nobody", false),
            ("a@b.example\r\nBcc: c@d.example", false),
            ("a@b.example, c@d.example", false),
            ("", false),
        ] {
            assert_eq!(is_address(text), is, "{text:?}");
        }
        assert!(!is_address(&format!("{}@b.example", "a".repeat(300))));
    }
}
