//! Pages for the vendor's people: cases, requests, people, the log. Few and plain; no script of ours runs but the report's own, in a frame that
//! may do nothing else.

mod api;
mod cases;
mod log;
mod login;
mod page;
mod people;
mod program;
mod provider;
mod requests;
mod send;
mod visitor;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Extension, Router};

use crate::people::provider::Provider;
use crate::place::Lab;

pub use program::Program;

/// The pages.
pub fn router(lab: Lab, program: Option<Program>, provider: Option<Arc<Provider>>) -> Router {
    let pages = Router::new()
        .route("/", get(cases::list))
        .route("/r/{id}", get(send::page))
        .route("/send.js", get(send::script))
        .route("/login", get(login::form).post(login::log_in))
        .route("/login/provider", get(provider::begin))
        .route("/login/provider/back", get(provider::back))
        .route("/login/provider/out", get(provider::out))
        .route("/logout", post(login::log_out))
        .route("/welcome/{word}", get(login::welcome).post(login::accept))
        .route("/case/{id}", get(cases::one))
        .route("/case/{id}/report", get(cases::report))
        .route("/case/{id}/delete", post(cases::remove))
        .route("/case/{id}/certificate", get(cases::certificate))
        .route("/requests", get(requests::list).post(requests::make))
        .route("/requests/{id}/revoke", post(requests::revoke))
        .route("/people", get(people::list).post(people::invite))
        .route("/people/remove", post(people::remove))
        .route("/log", get(log::lines))
        .layer(Extension(provider))
        .with_state(lab.clone())
        .merge(api::router(lab));
    match program {
        Some(program) => pages.merge(program.router()),
        None => pages.route("/program", get(program::none)),
    }
}
