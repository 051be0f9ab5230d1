//! Words and numbers of a comparison that its forms share.

use crate::schema::comparison::{Comparison, Difference};

/// `1.23 ms` of a second or a request.
pub(super) fn rate(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths of time; negative ones are zero"
    )]
    crate::units::duration(biopsy_model::Nanos((seconds * 1e9) as u64))
}

/// `+12.3 %`; `new`, `gone`.
pub(super) fn change(one: &Difference) -> String {
    match one.change {
        None => "new".to_owned(),
        Some(_) if one.after == 0.0 => "gone".to_owned(),
        Some(change) => {
            // Nothing has no sign.
            let sign = if change > 0.0 {
                "+"
            } else if change < 0.0 {
                "−"
            } else {
                ""
            };
            format!("{sign}{}", crate::units::share(change.abs()))
        }
    }
}

/// The noise as a share of what was before.
pub(super) fn noise(one: &Difference) -> String {
    let of = one.before.max(one.after);
    if of > 0.0 { format!("±{}", crate::units::share(one.noise / of)) } else { String::new() }
}

/// What it is, in words: `CPU in f (module)`, `waits for a lock in f`.
pub(super) fn words(one: &Difference) -> String {
    let name = if one.name.is_empty() { "a place that is not known" } else { &one.name };
    match (&one.reason, one.module.as_str()) {
        (Some(reason), _) => format!("waiting for {reason} in `{name}`"),
        (None, _) if one.kind == "request" => format!("answering `{name}`"),
        (None, "") => format!("CPU in `{name}`"),
        (None, module) => format!("CPU in `{name}` ({module})"),
    }
}

/// What is said in place of differences where there are none.
pub(super) fn nothing(comparison: &Comparison) -> String {
    match &comparison.refused {
        Some(why) => format!("nothing is claimed: {why}"),
        None => format!("no difference above the noise, of {} quantities compared", comparison.compared),
    }
}
