//! Who calls: a token, and what it may do; and what a call without a result is answered with.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{LabError, in_words};
use crate::people::{Right, Roles, token};
use crate::place::Lab;

/// A program with a token. A cookie is worth nothing here, so that no page of another site can call.
#[derive(Debug)]
pub(super) struct Program {
    /// For the log.
    pub(super) name: String,
    roles: Roles,
}

impl Program {
    /// Whether it may.
    pub(super) fn must(&self, right: Right) -> Result<(), Refused> {
        if self.roles.may(right) { Ok(()) } else { Err(Refused::NotAllowed) }
    }
}

impl FromRequestParts<Lab> for Program {
    type Rejection = Refused;

    async fn from_request_parts(call: &mut Parts, lab: &Lab) -> Result<Self, Refused> {
        let given = call.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|text| text.strip_prefix("Bearer ")).ok_or(Refused::Nobody)?;
        let (name, roles) = token::of(lab, token.trim()).await?.ok_or(Refused::Nobody)?;
        Ok(Self { name, roles })
    }
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is no such token, or it is over.
    Nobody,
    /// None of its roles allows it.
    NotAllowed,
    /// What was sent cannot be read.
    Senseless(String),
    /// The lab says why.
    Lab(LabError),
}

/// What is said then.
#[derive(Serialize, ToSchema)]
pub(super) struct Problem {
    /// In words.
    error: String,
}

impl From<LabError> for Refused {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<JsonRejection> for Refused {
    fn from(error: JsonRejection) -> Self {
        Self::Senseless(error.body_text())
    }
}

impl From<QueryRejection> for Refused {
    fn from(error: QueryRejection) -> Self {
        Self::Senseless(error.body_text())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, error) = match self {
            Self::Nobody => (StatusCode::UNAUTHORIZED, "there is no such token, or it is over".to_owned()),
            Self::NotAllowed => (StatusCode::FORBIDDEN, "none of the token's roles allows that".to_owned()),
            Self::Senseless(why) => (StatusCode::BAD_REQUEST, why),
            Self::Lab(error) => {
                let status = match &error {
                    LabError::Usage(_) => StatusCode::BAD_REQUEST,
                    LabError::NoCase(_) => StatusCode::NOT_FOUND,
                    LabError::Deleted(_) => StatusCode::GONE,
                    LabError::Sealed(_) => StatusCode::CONFLICT,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                if status == StatusCode::INTERNAL_SERVER_ERROR {
                    // Files and queries of the lab are its own business.
                    biopsy_terminal::out::say(in_words(&error));
                    (status, "the lab has trouble".to_owned())
                } else {
                    (status, in_words(&error))
                }
            }
        };
        (status, Json(Problem { error })).into_response()
    }
}
