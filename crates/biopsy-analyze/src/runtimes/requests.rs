//! Requests served and sent, and commands to data bases, by kind.

use super::bounded::{cut, first};
use crate::ratio::ratio;
use biopsy_model::Nanos;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{CommandGroup, RequestGroup};
use std::cmp::Reverse;

/// Requests of one kind.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RequestRow {
    /// `GET` ...
    pub method: String,
    /// Route, or host and path.
    pub route: String,
    /// Ended.
    pub count: u64,
    /// Not answered before the end of the recording.
    pub unanswered: u64,
    /// Failed.
    pub failed: u64,
    /// Together.
    pub total: Nanos,
    /// Mean.
    pub mean: Nanos,
    /// Half took less. From a histogram whose steps double: the true value is in the same step.
    pub p50: Nanos,
    /// 95 of 100 took less.
    pub p95: Nanos,
    /// 99 of 100 took less.
    pub p99: Nanos,
    /// Longest.
    pub longest: Nanos,
    /// Commands and requests sent on behalf of one, on average.
    pub children_mean: f64,
    /// The most by one.
    pub children_most: u32,
}

/// Commands of one text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CommandRow {
    /// Text with literals replaced.
    pub text: String,
    /// Server and data base.
    pub source: String,
    /// Ended.
    pub count: u64,
    /// Failed.
    pub failed: u64,
    /// Together.
    pub total: Nanos,
    /// Mean.
    pub mean: Nanos,
    /// Longest.
    pub longest: Nanos,
    /// The most within one request.
    pub most_in_one_request: u32,
}

pub(super) fn groups(groups: &[RequestGroup]) -> Vec<RequestRow> {
    let mut rows: Vec<RequestRow> = groups
        .iter()
        .map(|group| RequestRow {
            method: cut(&group.method),
            route: cut(&group.route),
            count: group.count,
            unanswered: group.unanswered,
            failed: group.failed,
            total: group.total,
            mean: mean(group.total, group.count),
            p50: quantile(group, 0.5),
            p95: quantile(group, 0.95),
            p99: quantile(group, 0.99),
            longest: group.longest,
            children_mean: ratio(group.children.0, group.count),
            children_most: group.children.1,
        })
        .collect();
    rows.order_by(|a, b| {
        (Reverse(a.total), Reverse(a.unanswered), &a.route).cmp(&(
            Reverse(b.total),
            Reverse(b.unanswered),
            &b.route,
        ))
    });
    first(rows)
}

pub(super) fn commands(groups: &[CommandGroup]) -> Vec<CommandRow> {
    let mut rows: Vec<CommandRow> = groups
        .iter()
        .map(|group| CommandRow {
            text: cut(&group.text),
            source: cut(&group.source),
            count: group.count,
            failed: group.failed,
            total: group.total,
            mean: mean(group.total, group.count),
            longest: group.longest,
            most_in_one_request: group.most_in_one_request,
        })
        .collect();
    rows.order_by(|a, b| (Reverse(a.total), &a.text).cmp(&(Reverse(b.total), &b.text)));
    first(rows)
}

/// The time that a share of the requests stays below, read from the histogram: linear inside its steps.
#[expect(clippy::cast_precision_loss, reason = "counts of requests and microseconds, for people")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int `as` saturates")]
pub(crate) fn quantile(group: &RequestGroup, share: f64) -> Nanos {
    let all: u64 = group.durations.iter().map(|&count| u64::from(count)).sum();
    if all == 0 {
        return Nanos(0);
    }
    let wanted = share * all as f64;
    let mut below = 0.0;
    for (step, &count) in group.durations.iter().enumerate() {
        let count = f64::from(count);
        if count > 0.0 && below + count >= wanted {
            let from = if step == 0 { 0.0 } else { (1u64 << (step - 1)) as f64 };
            let to = (1u64 << step) as f64;
            let micros = from + (to - from) * ((wanted - below) / count).clamp(0.0, 1.0);
            return Nanos((micros * 1e3) as u64).min(group.longest.max(Nanos((from * 1e3) as u64)));
        }
        below += count;
    }
    group.longest
}

fn mean(total: Nanos, count: u64) -> Nanos {
    Nanos(total.0.checked_div(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(counts: &[(usize, u32)], longest_ms: u64) -> RequestGroup {
        let mut durations = [0; 40];
        for &(step, count) in counts {
            durations[step] = count;
        }
        RequestGroup {
            method: "GET".to_owned(),
            route: "/".to_owned(),
            count: 0,
            unanswered: 0,
            failed: 0,
            total: Nanos(0),
            longest: Nanos(longest_ms * 1_000_000),
            durations,
            children: (0, 0),
        }
    }

    #[test]
    fn quantiles_are_in_the_right_step() {
        // 90 requests of 1 to 2 ms, 10 of 0.5 to 1 s.
        let group = group(&[(11, 90), (20, 10)], 900);
        let ms = |share| quantile(&group, share).0 / 1_000_000;
        assert_eq!(ms(0.5), 1);
        assert!((524..=900).contains(&ms(0.95)), "{}", ms(0.95));
        assert!(ms(0.99) <= 900);
        assert_eq!(quantile(&self::group(&[], 0), 0.5), Nanos(0));
    }

    #[test]
    fn the_last_step_does_not_overflow() {
        assert!(quantile(&group(&[(39, u32::MAX)], u64::MAX / 1_000_000), 1.0).0 > 0);
    }
}
