//! From a time stamp as written to a moment: the missing year, date or zone is filled in.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::stamp::Stamp;

/// A day in nanoseconds.
const DAY: i128 = 86_400 * 1_000_000_000;

/// A file's newest stamp and its modification time fit when they are this close, in nanoseconds: a buffered
/// writer may be minutes behind.
const FITS: i128 = 5 * 60 * 1_000_000_000;

/// Fills in what stamps leave out: the zone, and the date that is nearest to the recording.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    zone: TimeZone,
    /// End of the recording, nanoseconds since 1970.
    near: i128,
}

impl Resolver {
    pub(crate) fn new(zone: TimeZone, near: i128) -> Resolver {
        Resolver { zone, near }
    }

    /// The moment in nanoseconds since 1970; `None`: it is outside of what can be counted.
    pub(crate) fn resolve(&self, stamp: Stamp) -> Option<i128> {
        match stamp {
            Stamp::Absolute(nanos) => Some(nanos),
            Stamp::Local(moment) => self.local(moment),
            Stamp::NoYear { month, day, time } => {
                let year = self.today()?.year();
                self.nearest((-1..=1).filter_map(|step| {
                    let date = Date::new(year.checked_add(step)?, month, day).ok()?;
                    self.local(date.to_datetime(time))
                }))
            }
            Stamp::TimeOnly(time) => {
                let today = self.today()?;
                self.nearest((-1_i64..=1).filter_map(|step| {
                    let date = today.checked_add(Span::new().days(step)).ok()?;
                    self.local(date.to_datetime(time))
                }))
            }
        }
    }

    /// A civil time in the zone. When the clocks go back it happens twice: the one nearer to the recording.
    fn local(&self, moment: DateTime) -> Option<i128> {
        let ambiguous = self.zone.to_ambiguous_timestamp(moment);
        let both = [ambiguous.earlier().ok(), ambiguous.later().ok()];
        self.nearest(both.into_iter().flatten().map(Timestamp::as_nanosecond))
    }

    fn nearest(&self, moments: impl Iterator<Item = i128>) -> Option<i128> {
        moments.min_by_key(|moment| (moment - self.near).unsigned_abs())
    }

    fn today(&self) -> Option<Date> {
        let near = Timestamp::from_nanosecond(self.near).ok()?;
        Some(near.to_zoned(self.zone.clone()).date())
    }
}

/// The zone that a file's stamps are in, and its name for the reader.
///
/// Nothing in the file says it. But the newest stamp was written when the file was last modified: if it does
/// not fit in the zone of the machine and does in UTC, the program writes UTC, as many do.
pub(crate) fn choose_zone(
    local: &TimeZone,
    local_name: &str,
    near: i128,
    newest: Option<Stamp>,
    modified: Option<i128>,
) -> (Resolver, String) {
    let resolver = Resolver::new(local.clone(), near);
    let Some((stamp, modified)) = newest.zip(modified) else { return (resolver, local_name.to_owned()) };
    if matches!(stamp, Stamp::Absolute(_)) {
        return (resolver, String::new());
    }
    let distance = |resolver: &Resolver| match resolver.resolve(stamp) {
        // Without a date, whole days say nothing.
        Some(moment) if matches!(stamp, Stamp::TimeOnly(_)) => {
            let apart = (moment - modified).rem_euclid(DAY);
            apart.min(DAY - apart)
        }
        Some(moment) => (moment - modified).abs(),
        None => i128::MAX,
    };
    if distance(&resolver) <= FITS {
        return (resolver, local_name.to_owned());
    }
    let utc = Resolver::new(TimeZone::UTC, near);
    if distance(&utc) <= FITS {
        return (utc, "UTC (by the file's modification time)".to_owned());
    }
    (resolver, local_name.to_owned())
}

#[cfg(test)]
mod tests {
    use jiff::civil::{date, time};

    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).expect("the time zone database is there")
    }

    fn nanos(text: &str) -> i128 {
        text.parse::<Timestamp>().expect("a time stamp").as_nanosecond()
    }

    #[test]
    fn the_nearest_year_and_day() {
        let resolver = Resolver::new(TimeZone::UTC, nanos("2027-01-01T00:00:30Z"));
        let stamp = Stamp::NoYear { month: 12, day: 31, time: time(23, 59, 50, 0) };
        assert_eq!(resolver.resolve(stamp), Some(nanos("2026-12-31T23:59:50Z")));
        let stamp = Stamp::TimeOnly(time(23, 59, 50, 0));
        assert_eq!(resolver.resolve(stamp), Some(nanos("2026-12-31T23:59:50Z")));
        let stamp = Stamp::TimeOnly(time(0, 0, 10, 0));
        assert_eq!(resolver.resolve(stamp), Some(nanos("2027-01-01T00:00:10Z")));
        let resolver = Resolver::new(TimeZone::UTC, nanos("2026-06-01T00:00:00Z"));
        let stamp = Stamp::NoYear { month: 2, day: 29, time: time(0, 0, 0, 0) };
        assert_eq!(resolver.resolve(stamp), None, "none of the three years has one");
    }

    #[test]
    fn the_hour_that_happens_twice_and_the_one_that_does_not() {
        let stamp = Stamp::Local(date(2026, 10, 25).at(2, 30, 0, 0));
        let first = Resolver::new(zone("Europe/Berlin"), nanos("2026-10-25T00:31:00Z"));
        assert_eq!(first.resolve(stamp), Some(nanos("2026-10-25T00:30:00Z")));
        let second = Resolver::new(zone("Europe/Berlin"), nanos("2026-10-25T01:31:00Z"));
        assert_eq!(second.resolve(stamp), Some(nanos("2026-10-25T01:30:00Z")));
        let gap = Stamp::Local(date(2026, 3, 29).at(2, 30, 0, 0));
        assert!(second.resolve(gap).is_some(), "a program that does not know of summer time");
    }

    #[test]
    fn utc_is_told_by_the_modification_time() {
        let near = nanos("2026-11-21T10:00:00Z");
        let stamp = Stamp::Local(date(2026, 11, 21).at(9, 59, 58, 0));
        let berlin = zone("Europe/Berlin");
        let modified = Some(nanos("2026-11-21T09:59:59Z"));
        let (resolver, name) = choose_zone(&berlin, "Europe/Berlin", near, Some(stamp), modified);
        assert_eq!(name, "UTC (by the file's modification time)");
        assert_eq!(resolver.resolve(stamp), Some(nanos("2026-11-21T09:59:58Z")));
        let modified = Some(nanos("2026-11-21T08:59:59Z"));
        let (_, name) = choose_zone(&berlin, "Europe/Berlin", near, Some(stamp), modified);
        assert_eq!(name, "Europe/Berlin");
        let (_, name) = choose_zone(&berlin, "Europe/Berlin", near, Some(Stamp::Absolute(near)), modified);
        assert_eq!(name, "", "the file says it itself");
        let time = Stamp::TimeOnly(time(23, 59, 59, 0));
        let modified = Some(nanos("2026-11-22T00:00:05Z"));
        let (_, name) = choose_zone(&berlin, "Europe/Berlin", near, Some(time), modified);
        assert!(name.starts_with("UTC"), "{name}");
    }
}
