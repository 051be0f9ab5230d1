//! Logging in at the company's own provider (OpenID Connect, the code flow with PKCE): the provider says who somebody is, the settings of the lab
//! say what he may do, by his groups.
//!
//! ```text
//! browser ─► /login/provider ─► provider: state, nonce, challenge        (kept in a sealed cookie: the lab writes nothing down for strangers)
//!         ◄─ code, state ◄───── provider
//!         ─► /login/provider/back: the same browser? once? ─► code and verifier for an ID token, over TLS ─► `id_token` ─► `enter`
//! ```

mod attempt;
mod enter;
mod id_token;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use biopsy_deliver::http::{Patience, call, config};
use biopsy_deliver::link::is_private;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::error::LabError;
use crate::people::role::{Role, Roles};

pub use attempt::{Attempt, GOOD_FOR};
pub use enter::enter;
use id_token::{Expected, Key};

/// For how long is believed what the provider says of itself.
const FRESH: Duration = Duration::from_secs(3600);
/// Keys are asked for again because of an unknown one, however new those are that are known, and no more often.
const AGAIN: Duration = Duration::from_secs(60);
/// Conversations with the provider at once: each code that somebody brings begins one.
const AT_ONCE: usize = 4;

/// How people log in there, and as what here.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The provider, as it names itself: `https://login.example/realms/vendor`.
    pub issuer: String,
    /// The lab, as the provider knows it.
    pub client: String,
    /// What the lab proves that with. `None`: it is a public client, PKCE alone.
    pub secret: Option<Zeroizing<String>>,
    /// The lab, as people reach it; the provider leads back there.
    pub address: String,
    /// The claim that has the groups: `groups`, or a way into one: `realm_access.roles`.
    pub claim: String,
    /// What is asked for beside `openid` and `profile`.
    pub scopes: Vec<String>,
    /// Which group has which role.
    pub roles: Vec<(String, Role)>,
    /// What people call it.
    pub name: String,
}

/// A provider.
#[derive(Debug)]
pub struct Provider {
    settings: Settings,
    known: Mutex<Known>,
    /// When keys were asked for again. It is held while they are.
    again: Mutex<Option<Instant>>,
    places: Semaphore,
}

/// What it said of itself, and when.
#[derive(Debug, Default)]
struct Known {
    document: Option<(Instant, Arc<Document>)>,
    keys: Option<(Instant, Arc<Vec<Key>>)>,
}

/// What is in `/.well-known/openid-configuration`.
#[derive(Debug, Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    end_session_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Why somebody is not logged in.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It was begun in another browser, too long ago, or used.
    #[error("it was begun elsewhere or too long ago, or has ended already")]
    NotBegunHere,
    /// The provider says no: the error of the standard.
    #[error("the provider answers `{0}`")]
    ByProvider(String),
    /// The provider cannot be reached, or does not speak as it should.
    #[error("the provider `{issuer}`: {why}")]
    Trouble {
        /// Which.
        issuer: String,
        /// In words.
        why: String,
    },
    /// What it says of somebody cannot be believed.
    #[error("its ID token is not believed: {0}")]
    NotBelieved(&'static str),
}

/// Who somebody is, by his provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The provider.
    pub issuer: String,
    /// Its own name for him, which is never given to another.
    pub subject: String,
    /// How people call him.
    pub label: String,
    /// What his groups may do here.
    pub roles: Roles,
}

impl Provider {
    /// Nothing is dialled yet: a lab starts where its provider does not.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn new(mut settings: Settings) -> Result<Self, LabError> {
        let refuse = |why: String| Err(LabError::Usage(why));
        for address in [&settings.issuer, &settings.address] {
            if !is_way(address) {
                return refuse(format!(
                    "`{address}` is no address for logging in: it begins with https://, or is on this machine"
                ));
            }
        }
        if settings.roles.is_empty() {
            return refuse(
                "without `--oidc-role GROUP=ROLE` nobody who logs in there may do anything".to_owned(),
            );
        }
        settings.address = settings.address.trim_end_matches('/').to_owned();
        Ok(Self {
            settings,
            known: Mutex::default(),
            again: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        })
    }

    /// What people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    fn back(&self) -> String {
        format!("{}/login/provider/back", self.settings.address)
    }

    /// Where to send somebody who begins.
    ///
    /// # Errors
    /// [`Refused::Trouble`].
    pub async fn way_in(self: &Arc<Self>, attempt: &Attempt) -> Result<String, Refused> {
        let document = self.ask(|this| this.document()).await?;
        let mut scope = "openid profile".to_owned();
        for one in &self.settings.scopes {
            scope.push(' ');
            scope.push_str(one);
        }
        Ok(with_query(
            &document.authorization_endpoint,
            &[
                ("response_type", "code"),
                ("client_id", self.settings.client.as_str()),
                ("redirect_uri", self.back().as_str()),
                ("scope", scope.as_str()),
                ("state", attempt.state.as_str()),
                ("nonce", attempt.nonce.as_str()),
                ("code_challenge", attempt.challenge().as_str()),
                ("code_challenge_method", "S256"),
            ],
        ))
    }

    /// Where somebody ends what he has open there, if it offers that.
    ///
    /// # Errors
    /// [`Refused::Trouble`].
    pub async fn way_out(self: &Arc<Self>) -> Result<Option<String>, Refused> {
        let document = self.ask(|this| this.document()).await?;
        let after = format!("{}/login", self.settings.address);
        let query = [("client_id", &*self.settings.client), ("post_logout_redirect_uri", &*after)];
        let end = document.end_session_endpoint.as_deref();
        Ok(end.filter(|end| is_way(end)).map(|end| with_query(end, &query)))
    }

    /// Who it is that came back with this code.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn who(
        self: &Arc<Self>,
        attempt: Attempt,
        code: String,
        issuer: Option<String>,
    ) -> Result<Identity, Refused> {
        let _place = self.places.acquire().await.map_err(|_| self.trouble("it is not asked any more"))?;
        self.ask(move |this| {
            let document = this.document()?;
            // RFC 9207: the answer is this provider's, and not another's that was mixed in.
            let is_its = match &issuer {
                Some(issuer) => *issuer == document.issuer,
                None => !document.authorization_response_iss_parameter_supported,
            };
            if !is_its {
                return Err(Refused::NotBelieved("the answer is another provider's"));
            }
            let token = this.exchange(&document, &code, &attempt.verifier)?;
            this.believe(&token, &attempt.nonce)
        })
        .await
    }

    /// Calls are blocking, and made beside what else goes on.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        what: impl FnOnce(&Self) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let this = Arc::clone(self);
        let asking = tokio::task::spawn_blocking(move || what(&this)).await;
        asking.unwrap_or_else(|_| Err(self.trouble("it was not asked")))
    }

    fn trouble(&self, why: impl Into<String>) -> Refused {
        Refused::Trouble { issuer: self.settings.issuer.clone(), why: why.into() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn document(&self) -> Result<Arc<Document>, Refused> {
        if let Some((when, document)) = &self.known().document
            && when.elapsed() < FRESH
        {
            return Ok(Arc::clone(document));
        }
        let issuer = &self.settings.issuer;
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document: Document = self.get(&place)?;
        if document.issuer != *issuer {
            return Err(self.trouble(format!("it calls itself `{}`", printable(&document.issuer))));
        }
        for place in [&document.authorization_endpoint, &document.token_endpoint, &document.jwks_uri] {
            if !is_way(place) {
                return Err(self.trouble(format!("`{}` is not https", printable(place))));
            }
        }
        let document = Arc::new(document);
        self.known().document = Some((Instant::now(), Arc::clone(&document)));
        Ok(document)
    }

    /// Its keys; `older` than that are asked for again.
    fn keys(&self, older: Duration) -> Result<Arc<Vec<Key>>, Refused> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        if let Some((when, keys)) = &self.known().keys
            && when.elapsed() < older
        {
            return Ok(Arc::clone(keys));
        }
        let set: Set = self.get(&self.document()?.jwks_uri)?;
        // Keys of kinds that are not known here are for others.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        let keys = Arc::new(keys);
        self.known().keys = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }

    /// Its keys as they are now: it signs with one that is not known, and may have changed them a moment ago. Whoever wants that meanwhile waits, and
    /// gets what was answered.
    fn keys_again(&self) -> Result<Arc<Vec<Key>>, Refused> {
        let mut last = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|when| when.elapsed() < AGAIN) {
            return self.keys(FRESH);
        }
        let keys = self.keys(Duration::ZERO)?;
        *last = Some(Instant::now());
        Ok(keys)
    }

    fn get<T: DeserializeOwned>(&self, place: &str) -> Result<T, Refused> {
        self.json("GET", place, &[("accept", "application/json")], None)
    }

    fn json<T: DeserializeOwned>(
        &self,
        method: &str,
        place: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<T, Refused> {
        /// The errors of OAuth.
        #[derive(Deserialize)]
        struct Error {
            error: String,
        }
        let short = Duration::from_secs(10);
        let agent: ureq::Agent =
            config(&Patience { connect: short, send: short, answer: short }).build().into();
        let answer =
            call(&agent, method, place, headers, body).map_err(|error| self.trouble(error.to_string()))?;
        if answer.status != 200 {
            let error: Option<Error> = serde_json::from_slice(&answer.body).ok();
            let error = error.map(|error| format!(": {}", printable(&error.error))).unwrap_or_default();
            return Err(self.trouble(format!("`{}` answers {}{error}", printable(place), answer.status)));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|error| self.trouble(format!("what `{}` answers: {error}", printable(place))))
    }

    /// The ID token for a code.
    fn exchange(
        &self,
        document: &Document,
        code: &str,
        verifier: &str,
    ) -> Result<Zeroizing<String>, Refused> {
        #[derive(Deserialize)]
        struct Tokens {
            id_token: String,
        }
        let (client, back) = (&self.settings.client, self.back());
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", back.as_str()),
            ("code_verifier", verifier),
        ];
        let mut headers =
            vec![("accept", "application/json"), ("content-type", "application/x-www-form-urlencoded")];
        let methods = &document.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.iter().any(|one| one == method);
        let basic;
        match &self.settings.secret {
            None => fields.push(("client_id", client.as_str())),
            // The standard's default, where nothing is said.
            Some(secret) if methods.is_empty() || takes("client_secret_basic") => {
                let both = Zeroizing::new(format!("{}:{}", encoded(client), encoded(secret)));
                basic = Zeroizing::new(format!("Basic {}", STANDARD.encode(both.as_bytes())));
                headers.push(("authorization", basic.as_str()));
            }
            Some(secret) => {
                fields.extend([("client_id", client.as_str()), ("client_secret", secret.as_str())])
            }
        }
        let body = Zeroizing::new(form(&fields));
        let tokens: Tokens = self.json("POST", &document.token_endpoint, &headers, Some(body.as_bytes()))?;
        Ok(Zeroizing::new(tokens.id_token))
    }

    fn believe(&self, token: &str, nonce: &str) -> Result<Identity, Refused> {
        let Settings { issuer, client, claim, .. } = &self.settings;
        let expected = Expected { issuer, client, nonce, now: crate::place::now() };
        let claims = match id_token::verify(token, &self.keys(FRESH)?, &expected) {
            // It may have new keys.
            Err(id_token::UNKNOWN_KEY) => id_token::verify(token, &self.keys_again()?, &expected),
            other => other,
        }
        .map_err(Refused::NotBelieved)?;
        let groups = claims.texts(claim);
        let roles: BTreeSet<Role> = self
            .settings
            .roles
            .iter()
            .filter(|(group, _)| groups.contains(&group.as_str()))
            .map(|(_, role)| *role)
            .collect();
        let label = ["preferred_username", "email"].iter().find_map(|name| claims.text(name));
        Ok(Identity {
            issuer: issuer.clone(),
            label: label.unwrap_or(&claims.subject).to_owned(),
            subject: claims.subject.clone(),
            roles: Roles(roles.into_iter().collect()),
        })
    }
}

/// Whether it is an address that is dialled for logging in: by https, or on this machine.
fn is_way(address: &str) -> bool {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    // No account in it: what is before an `@` is not where it leads.
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && !b"@\\#".contains(&byte));
    is_web && is_plain && is_private(address)
}

/// What others say, for one line of a terminal or page.
fn printable(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(200).collect()
}

/// For a form or an address: whatever is not plain, byte by byte.
fn encoded(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => all.push(char::from(byte)),
            _ => all.push_str(&format!("%{byte:02X}")),
        }
    }
    all
}

fn form(fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    fields.join("&")
}

fn with_query(place: &str, fields: &[(&str, &str)]) -> String {
    let joint = if place.contains('?') { '&' } else { '?' };
    format!("{place}{joint}{}", form(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_forms_are_made_of_plain_bytes() {
        assert_eq!(form(&[("a b", "ü&="), ("c", "-._~")]), "a%20b=%C3%BC%26%3D&c=-._~");
        assert_eq!(with_query("https://p/a?t=1", &[("x", "y")]), "https://p/a?t=1&x=y");
    }

    #[test]
    fn a_provider_is_reached_in_private_or_on_this_machine() {
        for (address, is) in [
            ("https://login.example/realms/v", true),
            ("http://127.0.0.1:80/x", true),
            ("http://localhost/x", true),
            ("http://login.example/x", false),
            ("http://127.0.0.1.login.example/x", false),
            ("http://127.0.0.1:80@login.example/", false),
            ("ftp://login.example", false),
            ("https://login.example/\u{1b}", false),
        ] {
            assert_eq!(is_way(address), is, "{address}");
        }
    }
}
