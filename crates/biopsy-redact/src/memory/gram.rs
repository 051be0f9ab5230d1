//! Which four bytes of an anchor are looked for first, and how they share the eight buckets of the filter.

use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Bytes of a gram.
pub(super) const GRAM: usize = 4;
/// Buckets of the filter: bits of a byte.
const BUCKETS: usize = 8;

/// Four bytes in a row of an anchor, letters in lower case; `None` stands for any byte, behind an anchor of three.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Gram {
    /// The bytes.
    pub(super) bytes: [Option<u8>; GRAM],
}

impl Gram {
    /// All grams of an anchor, with their offsets: one, when it is short.
    fn of(anchor: &[u8]) -> impl Iterator<Item = (usize, Gram)> {
        let last = anchor.len().saturating_sub(GRAM);
        (0..=last).map(move |offset| {
            let byte = |at: usize| anchor.get(offset + at).map(u8::to_ascii_lowercase);
            (offset, Gram { bytes: std::array::from_fn(byte) })
        })
    }

    /// How often it turns up in text, by the model below.
    fn rate(&self) -> f64 {
        let rate = rates();
        let of = |byte: Option<u8>| match byte {
            Some(b) if b.is_ascii_lowercase() => {
                rate[usize::from(b)] + rate[usize::from(b.to_ascii_uppercase())]
            }
            Some(b) => rate[usize::from(b)],
            None => 1.0,
        };
        self.bytes.iter().map(|byte| of(*byte)).product()
    }
}

/// Chooses a gram of each anchor, as few different and as rare ones as it can: `(offset, gram)` by anchor.
pub(super) fn choose(anchors: &[Vec<u8>]) -> Vec<(usize, Gram)> {
    let mut order: Vec<usize> = (0..anchors.len()).collect();
    order.sort_by_key(|index| anchors[*index].len());
    let mut chosen: Vec<(usize, Gram)> = anchors.iter().map(|_| (0, Gram { bytes: [None; GRAM] })).collect();
    let mut known = BTreeSet::new();
    for index in order {
        // A gram that is looked for anyway costs nothing more.
        let found = Gram::of(&anchors[index]).find(|(_, gram)| known.contains(gram)).or_else(|| {
            Gram::of(&anchors[index]).min_by(|(_, one), (_, other)| one.rate().total_cmp(&other.rate()))
        });
        if let Some(found) = found {
            known.insert(found.1);
            chosen[index] = found;
        }
    }
    chosen
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
                    for byte in [*byte, byte.to_ascii_uppercase()] {
                        low[place] |= 1 << (byte & 15);
                        high[place] |= 1 << (byte >> 4);
                    }
                }
            }
        }
        Self::rated(low, high)
    }

    fn with(&self, other: &Self) -> Self {
        let both = |one: &[u16; GRAM], other: &[u16; GRAM]| std::array::from_fn(|at| one[at] | other[at]);
        Self::rated(both(&self.low, &other.low), both(&self.high, &other.high))
    }

    fn rated(low: [u16; GRAM], high: [u16; GRAM]) -> Self {
        let rates = rates();
        let passes = |place: usize, byte: usize| {
            (low[place] >> (byte & 15)) & 1 == 1 && (high[place] >> (byte >> 4)) & 1 == 1
        };
        let rate = (0..GRAM)
            .map(|place| (0..256).filter(|byte| passes(place, *byte)).map(|byte| rates[byte]).sum::<f64>())
            .product();
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
    /// Joins grams until there are as many groups as buckets, those first that let the least through by mistake.
    pub(super) fn new(grams: &BTreeSet<Gram>) -> Self {
        let mut clusters: Vec<Cluster> = grams.iter().map(Cluster::of).collect();
        // What each pair would let through more if it were joined; the pairs of one cluster change in each step.
        let costs = |one: &Cluster, other: &Cluster| one.with(other).rate - one.rate - other.rate;
        let mut pairs: Vec<Vec<f64>> =
            clusters.iter().map(|one| clusters.iter().map(|other| costs(one, other)).collect()).collect();
        while clusters.len() > BUCKETS {
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
        let mut tables = Self { low: [[0; 16]; GRAM], high: [[0; 16]; GRAM] };
        for (bucket, cluster) in clusters.iter().enumerate() {
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
