//! Whoever keeps the last minutes stands by for days: what eight hours of a busy server make of the memory of the ring, in a process that
//! does nothing else.

use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::timeline::{Sample, StateSlice, TimelineEvent, Wait, WaitState};
use biopsy_model::{LookupAddress, MonoNanos, Nanos, Pid, Tid};
use biopsy_recording::timeline::{Ring, RingLimits};

const SECOND: u64 = 1_000_000_000;
const HOURS: u64 = 8;
/// What may be used, of all the process has (bytes).
const MOST: u64 = 64_000_000;
/// Threads that stay; each second one more comes, and one that came a minute ago goes.
const THREADS: u32 = 12;
/// Samples of each second, and every how many of them have a stack that was never seen before.
const SAMPLES: u64 = 49;
const NEW_EVERY: u64 = 16;

/// A server as the recorder sees it.
struct Server {
    ring: Ring,
    stacks: u32,
    now: u64,
    anew: u32,
}

impl Server {
    fn push(&mut self, event: &TimelineEvent) {
        self.ring.push(event).expect("there is memory");
    }

    /// A stack of five frames below those that are there, or one of the last hundred.
    fn stack(&mut self, number: u64) -> Option<StackHandle> {
        if number.is_multiple_of(NEW_EVERY) || self.stacks == 0 {
            for depth in 0..5 {
                let address = self.now.wrapping_mul(31).wrapping_add(number * 8 + depth);
                self.push(&TimelineEvent::Frame(Frame {
                    space: FrameSpace::User,
                    module: None,
                    address: LookupAddress(address),
                }));
                let caller = (depth > 0).then(|| StackHandle(self.stacks - 1));
                self.push(&TimelineEvent::Stack(StackNode { caller, frame: FrameHandle(self.stacks) }));
                self.stacks += 1;
            }
        }
        let back = u32::try_from(number % 100).expect("below 100");
        Some(StackHandle((self.stacks - 1).saturating_sub(back)))
    }

    fn thread(&self, number: u64) -> Tid {
        Tid(100 + u32::try_from(number % u64::from(THREADS)).expect("below the number of threads"))
    }

    fn start(&mut self, tid: Tid) {
        let thread = ThreadInfo { tid, pid: Pid(1), name: format!("connection-{tid}") };
        let time = MonoNanos(self.now);
        self.push(&TimelineEvent::ThreadStart { time, thread, born: true, by: Some(Tid(1)) });
    }

    fn second(&mut self, second: u64) {
        self.now = second * SECOND;
        for number in 0..SAMPLES {
            let time = MonoNanos(self.now + number * (SECOND / SAMPLES));
            let (tid, stack) = (self.thread(number * 7 + second), self.stack(number));
            let weight = Nanos(20_408_163);
            self.push(&TimelineEvent::Sample(Sample {
                time,
                tid,
                cpu: 1,
                stack,
                end: StackEnd::Root,
                weight,
            }));
        }
        for number in 0..u64::from(THREADS) {
            let (from, to) = (MonoNanos(self.now), MonoNanos(self.now + SECOND));
            let tid = self.thread(number);
            let running = Nanos(second.wrapping_mul(7_919) % 90_000_000);
            let slice = StateSlice {
                tid,
                from,
                to,
                running,
                ready: Nanos(number * 1_000),
                waiting: Nanos(SECOND - running.0 - number * 1_000),
                voluntary: 700,
                involuntary: 30,
                wakeups: 700,
            };
            self.push(&TimelineEvent::States(slice));
            let wait = Wait {
                tid,
                start: from,
                end: MonoNanos(self.now + 12_000_000 + number * 977),
                ready: None,
                waker: Some(self.thread(number + 1)),
                state: WaitState::Sleep,
                syscall: Some(202),
                stack: self.stack(number + 1),
            };
            self.push(&TimelineEvent::Wait(wait));
        }
        let coming = |second: u64| Tid(10_000 + u32::try_from(second).expect("some thousand seconds"));
        self.start(coming(second));
        if second > 60 {
            let (time, tid) = (MonoNanos(self.now), coming(second - 60));
            self.push(&TimelineEvent::ThreadExit { time, tid, pid: Pid(1) });
        }
        self.ring.forget();
        if self.ring.is_full() {
            self.ring.begin_anew().expect("there is memory");
            (self.stacks, self.anew) = (0, self.anew + 1);
            for number in 0..u64::from(THREADS) {
                self.start(self.thread(number));
            }
        }
    }
}

/// The most that the process has ever had, in bytes (`VmHWM` of proc_pid_status(5)).
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn eight_hours_of_a_busy_server_fit_into_what_is_promised() {
    let mut server = Server {
        ring: Ring::new(RingLimits::default()).expect("there is memory"),
        stacks: 0,
        now: 0,
        anew: 0,
    };
    let mut least = u64::MAX;
    for second in 1..=HOURS * 3_600 {
        server.second(second);
        if second > 1_200 && second.is_multiple_of(600) {
            let begins = server.ring.begins().expect("something is there");
            least = least.min(MonoNanos(server.now).since(begins).0 / SECOND);
        }
    }
    let most = most_memory();
    assert!(server.anew > 1, "generated code filled the definitions");
    assert!(most < MOST, "{most} bytes");
    assert!(least >= 595, "ten minutes were asked for, {least} s are there");
}
