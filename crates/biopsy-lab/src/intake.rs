//! What customers reach: a request, uploads by tus 1.0, receipts. Nothing here gives out what was sent.

mod answer;
mod body;
mod caller;
pub mod complete;
mod locks;
pub(crate) mod running;
mod state;
mod uploads;
mod whole;

use std::time::Duration;

use axum::Router;
use axum::routing::{get, post, put};

use crate::place::Lab;

use locks::Locks;
use state::Intake;

/// The calls.
pub fn router(lab: Lab, silence: Duration) -> Router {
    let intake = Intake { lab, locks: Locks::default(), silence };
    Router::new()
        .route("/api/requests/{id}", get(uploads::request))
        .route("/api/requests/{id}/file", put(whole::put))
        .route("/api/uploads", post(uploads::create).options(uploads::options))
        .route(
            "/api/uploads/{id}",
            axum::routing::head(uploads::head)
                .patch(uploads::patch)
                .post(uploads::patch_by_post)
                .options(uploads::options),
        )
        .route("/api/uploads/{id}/receipt", get(uploads::receipt))
        .with_state(intake)
}
