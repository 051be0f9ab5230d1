//! The customer's program, for whoever has none: one file, its digest, and the signature that lies beside it.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use biopsy_deliver::state::hexadecimal;
use sha2::{Digest, Sha256};

use super::page::bare;
use crate::error::LabError;

/// Most bytes of a program: it is kept in memory.
const MOST: u64 = 64 << 20;

/// What is given to customers who have no biopsy.
#[derive(Clone, Debug)]
pub struct Program {
    bytes: Bytes,
    digest: String,
    signature: Option<Bytes>,
}

impl Program {
    /// Reads a file, and `FILE.sig` where there is one.
    ///
    /// # Errors
    /// It cannot be read, or is no program of Linux.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let length = std::fs::metadata(path).map_err(LabError::io("read", path))?.len();
        let bytes = if length > MOST {
            Vec::new()
        } else {
            std::fs::read(path).map_err(LabError::io("read", path))?
        };
        if !bytes.starts_with(b"\x7fELF") {
            return Err(LabError::Usage(format!("`{}` is no program to give to customers", path.display())));
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(".sig");
        let signature = std::fs::read(PathBuf::from(beside)).ok().map(Bytes::from);
        let digest = hexadecimal(&Sha256::digest(&bytes));
        Ok(Self { bytes: bytes.into(), digest, signature })
    }

    /// What its page says.
    #[must_use]
    pub fn page(&self) -> String {
        page(&self.digest, self.signature.is_some())
    }

    /// `/program`, `/biopsy`, `/biopsy.sha256` and `/biopsy.sig`.
    pub(super) fn router(self) -> Router {
        let page = self.page();
        let Self { bytes, digest, signature } = self;
        let as_file = |bytes: Bytes| {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            move || async move { (headers, bytes).into_response() }
        };
        let line = format!("{digest}  biopsy\n");
        let router = Router::new()
            .route("/program", get(move || async move { bare("the program", &page) }))
            .route("/biopsy", get(as_file(bytes)))
            .route("/biopsy.sha256", get(move || async move { line }));
        match signature {
            Some(signature) => router.route("/biopsy.sig", get(as_file(signature))),
            None => router,
        }
    }
}

/// Where there is none.
pub(super) async fn none() -> Response {
    let body = "<h1>This lab gives out no program</h1><p>Ask whoever gave you the link for one.</p>";
    (StatusCode::NOT_FOUND, bare("no program", body)).into_response()
}

/// How it is fetched and checked. What is typed is the same at each lab, so that nothing of the call is in the page.
fn page(digest: &str, is_signed: bool) -> String {
    let signed = match is_signed {
        true => {
            "<p>It is signed. Whoever made it has told you his key elsewhere, in his documents or by mail; with that:</p>\
             <pre>curl -fO LAB/biopsy.sig\nminisign -Vm biopsy -x biopsy.sig -P KEY</pre>"
        }
        false => "<p>There is no signature of it here.</p>",
    };
    format!(
        "<h1>The program</h1><p>One file, for Linux; nothing else is installed. With the address of this lab for LAB:</p>\
         <pre>curl -fO LAB/biopsy\ncurl -f LAB/biopsy.sha256 | sha256sum -c\nchmod +x biopsy</pre>\
         <p>Its SHA-256 is <code>{digest}</code>. A digest from here protects from a bad network, not from somebody who has taken over \
         this lab: compare it with one that you were told elsewhere.</p>{signed}"
    )
}
