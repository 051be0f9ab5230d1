//! What rules on requests share.

use crate::findings::dotnet::quoted;
use crate::runtimes::RequestRow;
use biopsy_model::MonoNanos;
use biopsy_model::runtime_trace::Request;

/// `GET /api/releases`, in backticks.
pub(super) fn name(row: &RequestRow) -> String {
    quoted(format!("{} {}", row.method, row.route).trim_start())
}

/// Time of requests that had not been answered at the end, of one kind of list.
pub(super) fn open_time(items: &[Request], end: MonoNanos) -> f64 {
    items.iter().filter(|item| item.duration.is_none()).map(|item| end.since(item.start).as_secs_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::Nanos;

    #[test]
    fn open_requests_count_until_the_end() {
        let request = |start: u64, duration: Option<u64>| Request {
            start: MonoNanos(start * 1_000_000_000),
            duration: duration.map(|s| Nanos(s * 1_000_000_000)),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            route: None,
            status: None,
            children: 0,
            trace_id: None,
        };
        let items = [request(1, None), request(2, Some(1)), request(4, None)];
        assert!((open_time(&items, MonoNanos(5_000_000_000)) - 5.0).abs() < 1e-9);
    }
}
