//! What calls are answered with where they have no result.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::error::{LabError, in_words};

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is nothing for this caller: one answer for all reasons.
    Nothing,
    /// The call makes no sense.
    Senseless(&'static str),
    /// It is at another place than the call says.
    OtherPlace,
    /// More than is taken.
    TooLarge { most: i64 },
    /// The bytes are not those of the checksum.
    Checksum,
    /// The disk is nearly full.
    NoRoom,
    /// Somebody else writes it now.
    Locked,
    /// The body ended early or came too slowly.
    Cut,
    /// The lab's own trouble, which is its own business.
    Trouble(LabError),
}

impl From<LabError> for Refusal {
    fn from(error: LabError) -> Self {
        Self::Trouble(error)
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Trouble(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, words) = match &self {
            Self::Nothing => (404, "there is no such request, or it is over"),
            Self::Senseless(why) => (400, *why),
            Self::OtherPlace => (409, "the upload is at another place"),
            Self::TooLarge { .. } => (413, "more than is taken"),
            Self::Checksum => (460, "the checksum is another"),
            Self::NoRoom => (507, "the lab has no room now"),
            Self::Locked => (423, "the upload is being written"),
            Self::Cut => (408, "the body ended early"),
            Self::Trouble(error) => {
                biopsy_terminal::out::say(in_words(error));
                (500, "the lab has trouble")
            }
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = (status, format!("{words}\n")).into_response();
        let headers = answer.headers_mut();
        headers.insert("tus-resumable", HeaderValue::from_static("1.0.0"));
        if let Self::TooLarge { most } = self
            && let Ok(most) = HeaderValue::from_str(&most.to_string())
        {
            headers.insert("tus-max-size", most);
        }
        answer
    }
}
