//! Who did what.

use axum::extract::State;
use axum::response::Response;

use super::page::{escape, when};
use super::visitor::{Denied, Visitor};
use crate::audit;
use crate::people::Right;
use crate::place::Lab;

/// Lines on the page.
const SHOWN: u32 = 500;

/// `GET /log`
pub(super) async fn lines(State(lab): State<Lab>, visitor: Visitor) -> Result<Response, Denied> {
    visitor.must(Right::ReadLog)?;
    let whole = match audit::check(&lab.store).await? {
        Ok(count) => format!("<p>{count} lines, each as it was written.</p>"),
        Err(line) => format!("<p class=\"bad\" role=\"alert\">Line {line} is not as it was written.</p>"),
    };
    let rows: String = audit::newest(&lab.store, SHOWN)
        .await?
        .iter()
        .map(|line| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                line.number,
                when(line.time),
                escape(&line.who),
                escape(&line.what),
                escape(&line.of),
                escape(&line.detail)
            )
        })
        .collect();
    let body = format!(
        "<h1>Log</h1>{whole}<table><tr><th></th><th>When</th><th>Who</th><th>Did</th><th>To</th><th></th></tr>{rows}</table>"
    );
    Ok(visitor.page("log", &body))
}
