//! Which four bytes of an anchor are looked for first, and how they share the buckets of the filter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

/// Bytes of a gram.
pub(super) const GRAM: usize = 4;
/// Buckets of one of them: bits of a byte.
const BITS: usize = 8;

/// Four bytes in a row of an anchor; `None` stands for any byte, behind an anchor of three.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Gram {
    /// The bytes.
    pub(super) bytes: [Option<u8>; GRAM],
    /// Case matters; else letters are in lower case and stand for both.
    pub(super) exact: bool,
}

impl Gram {
    /// All grams of an anchor, with their offsets: one, when it is short. None begins with a zero byte (in UTF-16, high
    /// byte first, one could): the filter skips pages of zeros, at whose end it would stand.
    fn of(anchor: &[u8], exact: bool) -> impl Iterator<Item = (usize, Gram)> {
        let last = anchor.len().saturating_sub(GRAM);
        (0..=last).filter(|offset| anchor.get(*offset) != Some(&0)).map(move |offset| {
            let byte = |at: usize| {
                anchor.get(offset + at).map(|byte| if exact { *byte } else { byte.to_ascii_lowercase() })
            };
            (offset, Gram { bytes: std::array::from_fn(byte), exact })
        })
    }

    /// How often it turns up in text: as it was counted, else by the model below.
    fn rate(&self) -> f64 {
        if let [Some(a), Some(b), Some(c), Some(d)] = self.bytes.map(|b| b.map(|b| b.to_ascii_lowercase())) {
            return counted().get(&[a, b, c, d]).copied().unwrap_or_else(|| self.modelled().min(RARE));
        }
        self.modelled()
    }

    fn modelled(&self) -> f64 {
        let rate = rates();
        let of = |byte: Option<u8>| match byte {
            Some(b) if b.is_ascii_lowercase() && !self.exact => {
                rate[usize::from(b)] + rate[usize::from(b.to_ascii_uppercase())]
            }
            Some(b) => rate[usize::from(b)],
            None => 1.0,
        };
        self.bytes.iter().map(|byte| of(*byte)).product()
    }
}

/// Grams that are joined in pairs.
const PAIRED: usize = 192;
/// Most rounds of moving grams between buckets.
const ROUNDS: usize = 4;
/// What a gram costs that never turns up: it takes room in the buckets.
const ROOM: f64 = 3e-5;
/// How often those that were not counted turn up at most.
const RARE: f64 = 2e-6;

/// A text whose grams are chosen from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'t> {
    /// In lower case, unless `exact`.
    pub(super) bytes: &'t [u8],
    /// Case matters.
    pub(super) exact: bool,
    /// From its start on, so many bytes of [`in_run`] stand where it counts.
    pub(super) run: usize,
}

/// Bytes of credentials: letters, digits, and the signs of base64, of JWT and between parts.
pub(super) fn in_run(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.~+/=:".contains(&byte)
}

/// Bytes of [`in_run`] that stand from a gram of the first set of tables on.
pub(super) const RUN: usize = 12;

/// Chooses a gram of each anchor, as few different and as rare ones as it can: `(offset, gram)` by anchor. Those of anchors that begin a
/// run are followed by [`RUN`] bytes of it.
///
/// The usual greedy way to cover a set: next comes the gram that costs least for each anchor that it newly stands for.
pub(super) fn choose(anchors: &[Text<'_>]) -> Vec<(usize, Gram)> {
    let mut places: BTreeMap<Gram, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, text) in anchors.iter().enumerate() {
        let fits = |(offset, _): &(usize, Gram)| text.run < RUN || offset + RUN <= text.run;
        for (offset, gram) in Gram::of(text.bytes, text.exact).filter(fits) {
            let of_gram = places.entry(gram).or_default();
            if of_gram.last().is_none_or(|(last, _)| *last != index) {
                of_gram.push((index, offset));
            }
        }
    }
    let mut chosen: Vec<Option<(usize, Gram)>> = vec![None; anchors.len()];
    // What is left to be chosen from, with what each costs alone.
    let priced = |(gram, at): (Gram, Vec<(usize, usize)>)| (ROOM + gram.rate(), gram, at);
    let mut places: Vec<_> = places.into_iter().map(priced).collect();
    loop {
        let new = |at: &[(usize, usize)]| at.iter().filter(|(index, _)| chosen[*index].is_none()).count();
        let best = (0..places.len())
            .map(|number| (places[number].0 / new(&places[number].2) as f64, number))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((_, best)) = best else { break };
        let (_, gram, at) = places.swap_remove(best);
        for (index, offset) in at {
            chosen[index].get_or_insert((offset, gram));
        }
        places.retain(|(_, _, at)| at.iter().any(|(index, _)| chosen[*index].is_none()));
    }
    chosen.into_iter().map(|one| one.unwrap_or((0, Gram { bytes: [None; GRAM], exact: false }))).collect()
}

/// Low and high halves of bytes that a bucket lets through, by place in the gram.
#[derive(Clone)]
struct Cluster {
    low: [u16; GRAM],
    high: [u16; GRAM],
    rate: f64,
}

impl Cluster {
    fn of(gram: &Gram) -> Self {
        let (mut low, mut high) = ([0u16; GRAM], [0u16; GRAM]);
        for (place, byte) in gram.bytes.iter().enumerate() {
            match byte {
                None => (low[place], high[place]) = (u16::MAX, u16::MAX),
                Some(byte) => {
                    let other = if gram.exact { *byte } else { byte.to_ascii_uppercase() };
                    for byte in [*byte, other] {
                        low[place] |= 1 << (byte & 15);
                        high[place] |= 1 << (byte >> 4);
                    }
                }
            }
        }
        Self::rated(low, high)
    }

    /// All of them together.
    fn of_all(group: &[Self]) -> Self {
        let (mut low, mut high) = ([0u16; GRAM], [0u16; GRAM]);
        for one in group {
            for place in 0..GRAM {
                low[place] |= one.low[place];
                high[place] |= one.high[place];
            }
        }
        Self::rated(low, high)
    }

    fn with(&self, other: &Self) -> Self {
        let both = |one: &[u16; GRAM], other: &[u16; GRAM]| std::array::from_fn(|at| one[at] | other[at]);
        Self::rated(both(&self.low, &other.low), both(&self.high, &other.high))
    }

    fn rated(low: [u16; GRAM], high: [u16; GRAM]) -> Self {
        let sums = sums();
        let of_row = |half: usize, low: u16| {
            let [first, second] = low.to_le_bytes();
            sums[half][0][usize::from(first)] + sums[half][1][usize::from(second)]
        };
        let at_place = |place: usize| -> f64 {
            let rows = (0..16).filter(|half| (high[place] >> half) & 1 == 1);
            rows.map(|half| of_row(half, low[place])).sum()
        };
        let rate = (0..GRAM).map(at_place).product();
        Self { low, high, rate }
    }
}

/// Tables of the filter: by place in the gram and half of a byte, the buckets that let it through.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// By the low half.
    pub(super) low: [[u8; 16]; GRAM],
    /// By the high half.
    pub(super) high: [[u8; 16]; GRAM],
}

impl Tables {
    /// Divides the grams among the buckets of so many sets of tables, so that little else is let through.
    pub(super) fn new<const SETS: usize>(grams: &BTreeSet<Gram>) -> [Self; SETS] {
        let mut groups = join(grams, SETS * BITS);
        improve(&mut groups);
        std::array::from_fn(|set| Self::of(groups.get(set * BITS..).unwrap_or_default()))
    }

    /// Of the first groups of these, as many as there are bits.
    fn of(groups: &[Vec<Cluster>]) -> Self {
        let mut tables = Self { low: [[0; 16]; GRAM], high: [[0; 16]; GRAM] };
        for (bucket, group) in groups.iter().take(BITS).enumerate() {
            let cluster = Cluster::of_all(group);
            for place in 0..GRAM {
                for half in 0..16 {
                    tables.low[place][half] |= (((cluster.low[place] >> half) & 1) as u8) << bucket;
                    tables.high[place][half] |= (((cluster.high[place] >> half) & 1) as u8) << bucket;
                }
            }
        }
        tables
    }
}

/// Joins grams until there are as many groups as buckets, those first that let the least through by mistake. Of many, the most frequent
/// ones are joined in pairs, which takes time with the cube of their number; the others go where they cost least.
fn join(grams: &BTreeSet<Gram>, buckets: usize) -> Vec<Vec<Cluster>> {
    let mut all: Vec<Cluster> = grams.iter().map(Cluster::of).collect();
    all.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    let rest = all.split_off(all.len().min(PAIRED));
    let mut groups = join_pairs(all, buckets);
    let mut whole: Vec<Cluster> = groups.iter().map(|group| Cluster::of_all(group)).collect();
    for gram in rest {
        let cost = |there: &Cluster| there.with(&gram).rate - there.rate;
        let best = (0..whole.len()).min_by(|one, other| cost(&whole[*one]).total_cmp(&cost(&whole[*other])));
        let Some(best) = best else { break };
        whole[best] = whole[best].with(&gram);
        groups[best].push(gram);
    }
    groups
}

fn join_pairs(mut clusters: Vec<Cluster>, buckets: usize) -> Vec<Vec<Cluster>> {
    let mut groups: Vec<Vec<Cluster>> = clusters.iter().map(|one| vec![one.clone()]).collect();
    // What each pair would let through more if it were joined; the pairs of one cluster change in each step.
    let costs = |one: &Cluster, other: &Cluster| one.with(other).rate - one.rate - other.rate;
    let mut pairs: Vec<Vec<f64>> =
        clusters.iter().map(|one| clusters.iter().map(|other| costs(one, other)).collect()).collect();
    while clusters.len() > buckets {
        let mut best = (f64::INFINITY, 0, 1);
        for (one, row) in pairs.iter().enumerate() {
            for (other, cost) in row.iter().enumerate().skip(one + 1) {
                if *cost < best.0 {
                    best = (*cost, one, other);
                }
            }
        }
        let (_, one, other) = best;
        clusters[one] = clusters[one].with(&clusters[other]);
        clusters.swap_remove(other);
        let members = groups.swap_remove(other);
        groups[one].extend(members);
        pairs.swap_remove(other);
        for row in &mut pairs {
            row.swap_remove(other);
        }
        for third in 0..clusters.len() {
            let cost = costs(&clusters[one], &clusters[third]);
            pairs[one][third] = cost;
            pairs[third][one] = cost;
        }
    }
    groups
}

/// Moves single grams to where they cost less, as long as that helps.
fn improve(groups: &mut [Vec<Cluster>]) {
    let mut whole: Vec<Cluster> = groups.iter().map(|group| Cluster::of_all(group)).collect();
    for _ in 0..ROUNDS {
        let mut moved = false;
        for from in 0..groups.len() {
            let mut member = 0;
            while groups[from].len() > 1 && member < groups[from].len() {
                let gram = groups[from].swap_remove(member);
                let without = Cluster::of_all(&groups[from]);
                let saved = without.with(&gram).rate - without.rate;
                let best = (0..groups.len())
                    .filter(|to| *to != from)
                    .map(|to| (whole[to].with(&gram).rate - whole[to].rate, to))
                    .min_by(|one, other| one.0.total_cmp(&other.0))
                    .filter(|(cost, _)| *cost < saved);
                match best {
                    Some((_, to)) => {
                        whole[to] = whole[to].with(&gram);
                        whole[from] = without;
                        groups[to].push(gram);
                        moved = true;
                    }
                    None => {
                        groups[from].push(gram);
                        let last = groups[from].len() - 1;
                        groups[from].swap(member, last);
                        member += 1;
                    }
                }
            }
        }
        if !moved {
            return;
        }
    }
}

/// By the high half of a byte, and each half of a set of low halves: how often the bytes of the set stand in text.
type Sums = [[[f64; 256]; 2]; 16];

fn sums() -> &'static Sums {
    static SUMS: OnceLock<Box<Sums>> = OnceLock::new();
    SUMS.get_or_init(|| {
        let rates = rates();
        let mut sums = Box::new([[[0.0; 256]; 2]; 16]);
        for (half, row) in sums.iter_mut().enumerate() {
            for (part, of_part) in row.iter_mut().enumerate() {
                for (set, sum) in of_part.iter_mut().enumerate() {
                    let bits = (0..8).filter(|bit| (set >> bit) & 1 == 1);
                    *sum = bits.map(|bit| rates[half * 16 + part * 8 + bit]).sum();
                }
            }
        }
        sums
    })
}

/// Four bytes in any case, and how often they stand in memory, as they were counted for `frequent.txt`.
fn counted() -> &'static HashMap<[u8; GRAM], f64> {
    static COUNTED: OnceLock<HashMap<[u8; GRAM], f64>> = OnceLock::new();
    COUNTED.get_or_init(|| {
        let lines = include_str!("frequent.txt").lines();
        let row = |line: &str| {
            let (gram, in_a_million) = line.as_bytes().split_first_chunk::<GRAM>()?;
            let in_a_million: f64 = std::str::from_utf8(in_a_million).ok()?.trim().parse().ok()?;
            Some((*gram, in_a_million / 1e6))
        };
        lines.filter_map(row).collect()
    })
}

/// How often each byte stands in text: English, identifiers, some punctuation. Only how fast the filter is depends on
/// it, not what is found.
fn rates() -> &'static [f64; 256] {
    static RATES: OnceLock<[f64; 256]> = OnceLock::new();
    RATES.get_or_init(|| {
        // Letters by frequency in English, in percent (any table of letter frequencies).
        const LETTERS: &[u8; 26] = b"etaoinsrhldcumfpgwybvkxjqz";
        const PERCENT: [f64; 26] = [
            12.7, 9.1, 8.2, 7.5, 7.0, 6.7, 6.3, 6.0, 6.1, 4.0, 4.3, 2.8, 2.8, 2.4, 2.2, 1.9, 2.0, 2.4, 2.0,
            1.5, 1.0, 0.8, 0.15, 0.15, 0.1, 0.07,
        ];
        let mut rates = [0.0005; 256];
        rates[..32].fill(0.002);
        rates[0] = 0.05;
        for (letter, percent) in LETTERS.iter().zip(PERCENT) {
            rates[usize::from(*letter)] += percent * 0.0062;
            rates[usize::from(letter.to_ascii_uppercase())] += 0.002 + percent * 0.0006;
        }
        for byte in b'0'..=b'9' {
            rates[usize::from(byte)] += 0.008;
        }
        for byte in 33..127u8 {
            if !byte.is_ascii_alphanumeric() {
                rates[usize::from(byte)] += 0.004;
            }
        }
        rates[usize::from(b' ')] += 0.12;
        rates
    })
}
