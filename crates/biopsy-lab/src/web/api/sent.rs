//! What was sent for a case that the lab cannot read, as the customer sealed it: for whoever has a key.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use tokio::sync::mpsc;

use super::caller::{Problem, Program, Refused};
use crate::people::Right;
use crate::place::Lab;
use crate::sealed::{self, AsSent};

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// What was sent last for a sealed case, as the customer sealed it; from a place on, where `Range: bytes=N-` says so. The log, and the certificate,
/// say that it was fetched.
#[utoipa::path(get, path = "/lab/v1/cases/{case}/sent", security(("token" = [])), params(("case" = String, Path)), responses(
    (status = 200, description = "the sealed file; its SHA-256 is the `etag`", content_type = "application/octet-stream"),
    (status = 206, description = "the rest of it", content_type = "application/octet-stream"), (status = 400, body = Problem),
    (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 410, body = Problem)))]
pub(super) async fn sent(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    program: Program,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    program.must(Right::Read)?;
    let file = sealed::as_sent(&lab, &id, &program.name).await?;
    let (bytes, tag) = (file.bytes, format!("\"{}\"", file.sha256));
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // Another file than the one that was begun: all of it.
    let is_same = text(header::IF_RANGE).is_none_or(|wanted| wanted == tag);
    let from = text(header::RANGE).filter(|_| is_same).and_then(|range| from(range, bytes)).unwrap_or(0);
    let (sender, pieces) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || read(file, from, &sender));
    let mut answer = Body::new(Pieces(pieces)).into_response();
    let own = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, (bytes - from).to_string()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    if from > 0 {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {from}-{}/{bytes}", bytes - 1);
        return Ok((own, [(header::CONTENT_RANGE, range)], answer).into_response());
    }
    Ok((own, answer).into_response())
}

/// `bytes=N-`, where there is something from there on. Any other range is all of it, as the standard allows.
fn from(range: &str, bytes: u64) -> Option<u64> {
    let from = range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()?;
    (from < bytes).then_some(from)
}

/// Beside the server: opening the outer seal takes time. Whoever hangs up ends it.
fn read(mut file: AsSent, from: u64, to: &mpsc::Sender<io::Result<Bytes>>) {
    if let Err(error) = file.go_to(from) {
        let _ = to.blocking_send(Err(error));
        return;
    }
    loop {
        match file.piece(PIECE) {
            Ok(piece) if piece.is_empty() => return,
            Ok(piece) => {
                if to.blocking_send(Ok(piece.into())).is_err() {
                    return;
                }
            }
            Err(error) => {
                let _ = to.blocking_send(Err(error));
                return;
            }
        }
    }
}

/// What is read, as a body.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::from;

    #[test]
    fn the_rest_is_asked_for_by_where_it_begins() {
        for (range, of, wanted) in [
            ("bytes=5-", 10, Some(5)),
            ("bytes=0-", 10, Some(0)),
            ("bytes=10-", 10, None),
            ("bytes=5-7", 10, None),
            ("bytes=-5", 10, None),
            ("bytes=x-", 10, None),
            ("pages=5-", 10, None),
        ] {
            assert_eq!(from(range, of), wanted, "{range}");
        }
    }
}
