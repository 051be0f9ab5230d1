//! Arbitrary bytes as events about methods, as lines of a perf map, as a compiler's map, and as names.

use biopsy_model::{Avma, MonoNanos};

use super::{
    DebugInfoFormat, MethodLimits, MethodMap, NameAddresses, feed_payload, parse_debug_info,
    parse_perf_map_line,
};

/// Any panic or unbounded memory is a bug.
pub fn fuzz_methods(bytes: &[u8]) {
    let limits = MethodLimits { methods: 64, name_bytes: 1 << 20, il_pairs: 1 << 16, modules: 16 };
    let mut map = MethodMap::with_limits(limits);
    for (time, piece) in bytes.chunks(97).enumerate() {
        for id in [142, 143, 144, 149, 152, 154, 190] {
            for provider in ["Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-DotNETRuntimeRundown"] {
                let _ = feed_payload(&mut map, provider, id, 2, piece, MonoNanos(time as u64));
            }
        }
    }
    for format in [DebugInfoFormat::Nibbles, DebugInfoFormat::Packed] {
        let _ = parse_debug_info(bytes, format).and_then(|map| map.il_offset(17));
    }
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        if let Some(method) = parse_perf_map_line(line) {
            map.insert(method);
        }
        let (of, method) = line.split_once("::").unwrap_or((line, line));
        let _ = crate::names::display(of, method);
    }
    let starts: Vec<Avma> = map.iter().map(|method| method.start).collect();
    for start in starts {
        let _ = map.name(start);
        let _ = map.find_at(Avma(start.0.wrapping_add(1)), MonoNanos(1));
    }
}

#[cfg(test)]
mod tests {
    proptest::proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            super::fuzz_methods(&bytes);
        }

        #[test]
        fn any_lines(text in "([0-9a-f]{1,16} [0-9a-f]{1,8} [ a-z\\[\\]<>`+.,:()]{0,60}\n){0,8}") {
            super::fuzz_methods(text.as_bytes());
        }
    }
}
