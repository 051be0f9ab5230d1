//! Calls over HTTP: one agent with limits in everything, and no trust in answers.

use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};

/// Most bytes of an answer that are read.
pub const MOST_ANSWER: u64 = 512 << 10;

/// How calls are made.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Until there is a connection.
    pub connect: Duration,
    /// Until a body is taken.
    pub send: Duration,
    /// Until the answer begins.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            send: Duration::from_secs(120),
            answer: Duration::from_secs(60),
        }
    }
}

/// What a configuration begins with: certificates that the system trusts, no redirects, an answer of any status is an answer.
#[must_use]
pub fn config(patience: &Patience) -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("biopsy/", env!("CARGO_PKG_VERSION")))
        .max_response_header_size(32 << 10)
        .timeout_connect(Some(patience.connect))
        .timeout_resolve(Some(patience.connect))
        .timeout_send_request(Some(patience.send))
        .timeout_send_body(Some(patience.send))
        .timeout_recv_response(Some(patience.answer))
        .timeout_recv_body(Some(patience.answer))
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    headers: ureq::http::HeaderMap,
    /// Its body, no more than [`MOST_ANSWER`].
    pub body: Vec<u8>,
}

impl Answer {
    /// A header, if there is one that is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The first line of the body, for messages.
    #[must_use]
    pub fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect()
    }
}

/// Makes one call.
///
/// # Errors
/// There was no answer, or one that is too large.
pub fn call(
    agent: &ureq::Agent,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<Answer, ureq::Error> {
    match body {
        Some(body) => call_with(agent, method, url, headers, body),
        None => call_with(agent, method, url, headers, ()),
    }
}

/// The same with any body. One that is read as it goes out is as long as its header `content-length` says.
///
/// # Errors
/// As of [`call`]; or the body could not be read.
pub(crate) fn call_with(
    agent: &ureq::Agent,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl ureq::AsSendBody,
) -> Result<Answer, ureq::Error> {
    let mut request = ureq::http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = agent.run(request.body(body)?)?;
    let status = answer.status().as_u16();
    let headers = answer.headers().clone();
    let body = answer.body_mut().with_config().limit(MOST_ANSWER).read_to_vec()?;
    Ok(Answer { status, headers, body })
}
