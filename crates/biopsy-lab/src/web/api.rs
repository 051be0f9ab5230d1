//! What programs of the vendor call: the same as the pages, as JSON, described by OpenAPI at `/lab/v1/openapi.json`.

mod caller;
mod calls;
mod sent;

use axum::Router;
use axum::routing::get;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::place::Lab;

/// The name of the one scheme of security.
const TOKEN: &str = "token";

/// The calls, and their description: what is described is what is routed.
pub(super) fn router(lab: Lab) -> Router {
    let info = InfoBuilder::new()
        .title("biopsy lab")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Cases, requests and the log, for programs. Each call has `Authorization: Bearer TOKEN`; `biopsy-lab token new` makes one. \
             Customers' calls, by which evidence is sent, are tus 1.0 and not described here.",
        ));
    let mut components = Components::new();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let empty = OpenApiBuilder::new().info(info.build()).components(Some(components)).build();
    let (routed, described) = OpenApiRouter::with_openapi(empty)
        .routes(routes!(calls::cases))
        .routes(routes!(calls::case, calls::delete))
        .routes(routes!(calls::report))
        .routes(routes!(sent::sent))
        .routes(routes!(calls::certificate))
        .routes(routes!(calls::requests, calls::ask))
        .routes(routes!(calls::revoke))
        .routes(routes!(calls::log))
        .with_state(lab)
        .split_for_parts();
    let text = described.to_json().unwrap_or_default();
    let document = move || async move { ([("content-type", "application/json")], text) };
    routed.route("/lab/v1/openapi.json", get(document))
}
