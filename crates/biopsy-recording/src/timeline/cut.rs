//! Where one recorder takes over from another: what the earlier one saw from that moment on is the later one's.

use biopsy_model::timeline::{StateSlice, TimelineEvent};
use biopsy_model::{MonoNanos, Nanos};

use super::assemble::time_of;

/// Leaves of an event what was before this moment; `false`: nothing was. What lasted ends there, with its share of what it counts.
#[must_use]
pub fn cut_at(event: &mut TimelineEvent, moment: MonoNanos) -> bool {
    let Some((first, last)) = time_of(event) else { return true };
    match event {
        // Looks at one wait are one event, at the time of the last: it stands for what was before it.
        TimelineEvent::WaitSample(look) if last > moment => {
            let over = last.since(moment).0;
            look.weight = Nanos(look.weight.0.saturating_sub(over));
            look.time = moment;
            return look.weight.0 > 0;
        }
        TimelineEvent::WaitSample(_) => return true,
        // A sample stands for the time before it, too.
        _ if first >= moment => return false,
        _ if last <= moment => return true,
        TimelineEvent::Wait(wait) => {
            wait.end = moment;
            // It was not woken yet, as far as the earlier one knows.
            if wait.ready.is_some_and(|ready| ready > moment) {
                (wait.ready, wait.waker) = (None, None);
            }
        }
        TimelineEvent::States(slice) => shorten(slice, moment),
        TimelineEvent::Loss(loss) => loss.to = moment,
        TimelineEvent::AllocationWatch(watch) => watch.to = moment,
        // The others are of one moment.
        _ => {}
    }
    true
}

/// What a thread did in a part of an interval is not known: its share.
fn shorten(slice: &mut StateSlice, moment: MonoNanos) {
    let (part, whole) = (moment.since(slice.from).0, slice.to.since(slice.from).0.max(1));
    let share =
        |of: u64| u64::try_from(u128::from(of) * u128::from(part) / u128::from(whole)).unwrap_or(u64::MAX);
    for time in [&mut slice.running, &mut slice.ready, &mut slice.waiting] {
        time.0 = share(time.0);
    }
    for count in [&mut slice.voluntary, &mut slice.involuntary, &mut slice.wakeups] {
        *count = u32::try_from(share(u64::from(*count))).unwrap_or(u32::MAX);
    }
    slice.to = moment;
}

#[cfg(test)]
mod tests {
    use biopsy_model::loss::{Loss, LossKind};
    use biopsy_model::stack::StackEnd;
    use biopsy_model::timeline::{Sample, Wait, WaitSample, WaitState};
    use biopsy_model::{Pid, Tid};

    use super::*;

    const MOMENT: MonoNanos = MonoNanos(1_000);

    fn cut(mut event: TimelineEvent) -> Option<TimelineEvent> {
        cut_at(&mut event, MOMENT).then_some(event)
    }

    fn sample(time: u64) -> TimelineEvent {
        TimelineEvent::Sample(Sample {
            time: MonoNanos(time),
            tid: Tid(7),
            cpu: 0,
            stack: None,
            end: StackEnd::Root,
            weight: Nanos(20),
        })
    }

    fn wait(start: u64, end: u64, ready: Option<u64>) -> Wait {
        Wait {
            tid: Tid(7),
            start: MonoNanos(start),
            end: MonoNanos(end),
            ready: ready.map(MonoNanos),
            waker: ready.map(|_| Tid(8)),
            state: WaitState::Sleep,
            syscall: None,
            stack: None,
        }
    }

    fn look(time: u64, weight: u64) -> TimelineEvent {
        TimelineEvent::WaitSample(WaitSample {
            time: MonoNanos(time),
            tid: Tid(7),
            stack: None,
            end: StackEnd::Root,
            weight: Nanos(weight),
            syscall: None,
            state: WaitState::Sleep,
        })
    }

    fn slice(from: u64, to: u64, running: u64, waiting: u64, voluntary: u32) -> TimelineEvent {
        TimelineEvent::States(StateSlice {
            tid: Tid(7),
            from: MonoNanos(from),
            to: MonoNanos(to),
            running: Nanos(running),
            ready: Nanos(0),
            waiting: Nanos(waiting),
            voluntary,
            involuntary: 0,
            wakeups: 0,
        })
    }

    #[test]
    fn what_came_later_is_gone_and_what_lasted_is_shorter() {
        let exit = |time| TimelineEvent::ThreadExit { time: MonoNanos(time), tid: Tid(7), pid: Pid(7) };
        let loss = |from, to| {
            let (from, to) = (MonoNanos(from), MonoNanos(to));
            TimelineEvent::Loss(Loss { kind: LossKind::Waits, from, to, count: 3, pid: None, tid: None })
        };
        let of = TimelineEvent::Wait;
        for (event, wanted) in [
            (sample(999), Some(sample(999))),
            (sample(1_000), None),
            (sample(1_001), None),
            (exit(999), Some(exit(999))),
            (exit(1_000), None),
            (of(wait(500, 900, Some(800))), Some(of(wait(500, 900, Some(800))))),
            (of(wait(500, 1_500, Some(1_400))), Some(of(wait(500, 1_000, None)))),
            (of(wait(500, 1_500, Some(900))), Some(of(wait(500, 1_000, Some(900))))),
            (of(wait(1_000, 1_500, None)), None),
            (look(1_000, 300), Some(look(1_000, 300))),
            (look(1_100, 300), Some(look(1_000, 200))),
            (look(1_300, 300), None),
            (slice(900, 1_000, 40, 60, 4), Some(slice(900, 1_000, 40, 60, 4))),
            (slice(900, 1_300, 40, 360, 4), Some(slice(900, 1_000, 10, 90, 1))),
            (slice(1_000, 1_300, 40, 260, 4), None),
            (loss(900, 1_300), Some(loss(900, 1_000))),
            (loss(1_000, 1_300), None),
        ] {
            assert_eq!(cut(event.clone()), wanted, "{event:?}");
        }
    }

    #[test]
    fn what_others_refer_to_stays() {
        let settings = TimelineEvent::Settings(biopsy_model::timeline::TraceSettings::default());
        assert_eq!(cut(settings.clone()), Some(settings));
    }
}
