//! Whether a busy process does what servers at full load do: it answers, and no function of it stands out.

use crate::findings::evidence::fact;
use crate::findings::finding::{Evidence, Value};
use crate::findings::scene::Scene;
use crate::trace::cost_names::Cost;
use crate::trace::function::FunctionKind;
use crate::words::percent;
use biopsy_model::order::Order as _;

/// Share of the CPU time that is sending and receiving. Servers under a load generator are at 14 to 60 %, those whose handlers
/// compute too much below 5 %.
const TALKING: f64 = 0.1;
/// CPUs' worth of it: some thousands of messages a second.
const TALKING_CORES: f64 = 0.02;
/// Functions that half of the CPU time is spread over. With one that is too slow it is 1 or 2, in servers at full load 40 and more.
const SPREAD: usize = 12;
/// Samples below which that is chance.
const SAMPLES: u64 = 100;

/// What a server at full load shows.
pub(super) struct Answering {
    /// Share of the CPU time that is sending and receiving.
    talking: f64,
    /// Functions that half of the CPU time is spread over.
    spread: usize,
}

impl Answering {
    pub(super) fn evidence(&self) -> Evidence {
        let text = format!(
            "half of the CPU time is spread over {} functions, and {} of it is sending and receiving",
            self.spread,
            percent(self.talking)
        );
        fact(text, Some(Value::Share(self.talking)))
    }
}

/// `None`: it answers nobody as far as was recorded, sends and receives little, or spends its time in few functions.
pub(super) fn answers(scene: &Scene<'_>) -> Option<Answering> {
    let busiest = scene.analysis.threads.rows.first()?;
    let samples: u64 = scene.analysis.threads.rows.iter().map(|row| row.samples).sum();
    if !scene.sides_of(busiest.tid)?.serves() || samples < SAMPLES || scene.sampled <= 0.0 {
        return None;
    }
    let sockets = scene.facts.costs.iter().find(|row| row.cost == Cost::Sockets)?;
    let talking = sockets.time.as_secs_f64() / scene.sampled;
    let spread = spread(scene)?;
    let much = talking >= TALKING && talking * scene.cores? >= TALKING_CORES;
    (much && spread >= SPREAD).then_some(Answering { talking, spread })
}

/// How many functions, those with most time of their own first, have half of the CPU time. Code that nothing is known of is one.
fn spread(scene: &Scene<'_>) -> Option<usize> {
    let rows = scene.analysis.functions.iter().filter(|row| row.kind != FunctionKind::Heading);
    let mut own: Vec<f64> = rows.map(|row| row.cpu_self.as_secs_f64()).collect();
    own.order_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let reached = own.iter().position(|time| {
        sum += time;
        sum * 2.0 >= scene.sampled
    });
    reached.map(|at| at + 1)
}
