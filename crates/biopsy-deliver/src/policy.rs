//! What the machine that is asked allows: a file of its own, which caps what any request may ask, whoever signed it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::link::Link;
use crate::recipe::Kind;
use crate::request::Request;
use crate::state::hexadecimal;

/// What may be asked for. What is left out is not capped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Policy {
    /// Addresses of labs, as they are in links.
    #[serde(default)]
    pub labs: Option<Vec<String>>,
    /// Fingerprints of who may sign requests, as they are in links and shown before anything is sent.
    #[serde(default)]
    pub signers: Option<Vec<String>>,
    /// Keys that what is sent may be readable by (`age1...`), and no others: a vendor's own, whose lab has none (sealed mode).
    #[serde(default)]
    pub readers: Option<Vec<String>>,
    /// Kinds of evidence.
    #[serde(default)]
    pub kinds: Option<Vec<Kind>>,
    /// Processes that may be recorded, as they are named to `biopsy capture`.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// Longest recording.
    #[serde(default)]
    pub most_seconds: Option<u64>,
    /// Most days that what is sent may be kept.
    #[serde(default)]
    pub most_days_kept: Option<u32>,
}

/// A policy, with what it is known by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// What it says.
    pub policy: Policy,
    /// Where it was read, for people.
    pub name: String,
    /// SHA-256 of its text.
    pub sha256: String,
}

/// Why a policy is not understood. Then nothing is allowed.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is no policy: {source}")]
pub struct PolicyError {
    /// Where it was read.
    name: String,
    /// What is wrong.
    #[source]
    source: serde_json::Error,
}

impl InForce {
    /// From the text of a file that nobody else may write; that is the caller's to see to.
    ///
    /// # Errors
    /// It is none, or has a field that is not known: a cap that is not understood must not be passed over.
    pub fn parse(name: &str, text: &str) -> Result<Self, PolicyError> {
        let failed = |source| PolicyError { name: name.to_owned(), source };
        // A list would be taken for the fields in their order, and an empty one for a policy without caps.
        if !text.trim_start().starts_with('{') {
            return Err(failed(serde::de::Error::custom("it is no object")));
        }
        let policy = serde_json::from_str(text).map_err(failed)?;
        let sha256 = hexadecimal(&Sha256::digest(text.as_bytes()));
        Ok(Self { policy, name: name.to_owned(), sha256 })
    }

    /// A line for what is agreed to.
    #[must_use]
    pub fn line(&self) -> String {
        format!("allowed by    `{}` (sha256 {})", self.name, self.sha256)
    }
}

impl Policy {
    /// What of a link it does not allow, in words: with that, the lab need not be spoken with.
    #[must_use]
    pub fn refuses_link(&self, link: &Link) -> Vec<String> {
        let mut why = Vec::new();
        if !is_in(self.labs.as_deref(), &link.lab) {
            why.push(format!("the lab {} is not one of those that are allowed", link.lab));
        }
        if !is_in(self.signers.as_deref(), &link.signer.to_string()) {
            why.push(format!("requests signed by {} are not allowed", link.signer));
        }
        why
    }

    /// What of a request it does not allow, in words; empty: all of it is allowed. `target`: the process that would be recorded. `is_report`: the
    /// report on a file is sent, and not the file.
    #[must_use]
    pub fn refuses(
        &self,
        link: &Link,
        request: &Request,
        target: Option<&str>,
        is_report: bool,
    ) -> Vec<String> {
        let mut why = self.refuses_link(link);
        // What is done, where a file was asked for and its report is sent: less than was asked.
        let kind = match request.recipe.kind {
            Kind::File if is_report => Kind::Report,
            kind => kind,
        };
        if self.kinds.as_ref().is_some_and(|kinds| !kinds.contains(&kind)) {
            why.push(format!("requests for `{}` are not allowed", kind.name()));
        }
        if let Some(target) = target.filter(|target| !is_in(self.targets.as_deref(), target)) {
            why.push(format!("`{target}` may not be recorded for a request"));
        }
        for reader in request.readers.iter().filter(|reader| !is_in(self.readers.as_deref(), &reader.key)) {
            why.push(format!("what is sent may not be readable by {}", reader.key));
        }
        let seconds = request.recipe.seconds();
        if let Some(most) = self.most_seconds.filter(|most| *most < seconds) {
            why.push(format!("it asks for {seconds} s, and {most} s are allowed"));
        }
        if let Some(most) = self.most_days_kept.filter(|most| *most < request.kept_days) {
            why.push(format!("it would be kept for {} days, and {most} are allowed", request.kept_days));
        }
        why
    }
}

fn is_in(list: Option<&[String]>, text: &str) -> bool {
    list.is_none_or(|list| list.iter().any(|one| one == text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Secret;
    use crate::recipe::Recipe;
    use crate::request::Reader;
    use crate::signed::Fingerprint;

    fn asked(kind: Kind, seconds: Option<u64>) -> (Link, Request) {
        let link = Link {
            lab: "https://lab.example".to_owned(),
            id: crate::encode([1; 16]),
            secret: Secret::generate(),
            signer: Fingerprint::of("signer", &["a".to_owned()]),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        };
        let request = Request {
            id: link.id.clone(),
            lab: "Example".to_owned(),
            case: "4711".to_owned(),
            recipe: Recipe { kind, seconds, target: None },
            readers: vec![Reader { name: "them".to_owned(), key: "age1a".to_owned() }],
            expires: 0,
            max_bytes: 1,
            kept_days: 30,
        };
        (link, request)
    }

    fn policy(text: &str) -> Policy {
        InForce::parse("policy.json", text).unwrap().policy
    }

    #[test]
    fn each_cap_refuses_what_is_above_it_and_nothing_below() {
        let (link, request) = asked(Kind::Slow, Some(180));
        let signer = link.signer.to_string();
        for (text, refused) in [
            ("{}", false),
            (r#"{"labs":["https://lab.example"]}"#, false),
            (r#"{"labs":["https://lab.example.evil"]}"#, true),
            (r#"{"labs":[]}"#, true),
            (&format!(r#"{{"signers":["{signer}"]}}"#), false),
            (r#"{"signers":["AAAAAAAAAAAAAAAAAAAAAA"]}"#, true),
            (r#"{"readers":["age1b","age1a"]}"#, false),
            (r#"{"readers":["age1b"]}"#, true),
            (r#"{"kinds":["slow","hang"]}"#, false),
            (r#"{"kinds":["report"]}"#, true),
            (r#"{"targets":["Octopus.Server"]}"#, false),
            (r#"{"targets":["redis"]}"#, true),
            (r#"{"mostSeconds":180}"#, false),
            (r#"{"mostSeconds":179}"#, true),
            (r#"{"mostDaysKept":30}"#, false),
            (r#"{"mostDaysKept":29}"#, true),
        ] {
            let why = policy(text).refuses(&link, &request, Some("Octopus.Server"), false);
            assert_eq!(!why.is_empty(), refused, "{text}: {why:?}");
        }
        let all = policy(
            r#"{"labs":[],"signers":[],"readers":[],"kinds":[],"targets":[],"mostSeconds":1,"mostDaysKept":1}"#,
        );
        assert_eq!(all.refuses(&link, &request, Some("x"), false).len(), 7, "each is told");
    }

    #[test]
    fn a_length_that_is_left_out_is_the_usual_one_and_more_than_the_most_is_the_most() {
        let (link, request) = asked(Kind::Slow, None);
        assert_eq!(policy(r#"{"mostSeconds":100}"#).refuses(&link, &request, None, false).len(), 1);
        let (link, request) = asked(Kind::Slow, Some(u64::MAX));
        assert_eq!(policy(r#"{"mostSeconds":3600}"#).refuses(&link, &request, None, false), [""; 0]);
    }

    #[test]
    fn the_report_on_a_file_is_less_than_the_file() {
        let (link, request) = asked(Kind::File, None);
        let reports = policy(r#"{"kinds":["report"]}"#);
        assert_eq!(reports.refuses(&link, &request, None, false).len(), 1);
        assert_eq!(reports.refuses(&link, &request, None, true), [""; 0]);
    }

    #[test]
    fn what_is_not_understood_allows_nothing() {
        for text in
            ["", "[]", r#"{"mostSecond":1}"#, r#"{"kinds":["dump"]}"#, r#"{"mostSeconds":-1}"#, "{} x"]
        {
            assert!(InForce::parse("policy.json", text).is_err(), "{text}");
        }
    }
}
