//! The customer's program, for whoever has none: one file, its digest, and the signature that lies beside it.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use biopsy_deliver::state::hexadecimal;
use sha2::{Digest, Sha256};

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

    /// `/biopsy`, `/biopsy.sha256` and `/biopsy.sig`.
    pub(super) fn router(self) -> Router {
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
            .route("/biopsy", get(as_file(bytes)))
            .route("/biopsy.sha256", get(move || async move { line }));
        match signature {
            Some(signature) => router.route("/biopsy.sig", get(as_file(signature))),
            None => router,
        }
    }
}
