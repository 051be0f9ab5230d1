//! Pieces of memory that a runtime has, put in order.

use biopsy_model::footprint::RuntimeArea;

/// Areas by address, none of them empty or in another one: of two that overlap the one that begins first keeps its memory. Neighbours that
/// are all in use, or not at all, become one.
pub(crate) fn ordered(mut areas: Vec<RuntimeArea>) -> Vec<RuntimeArea> {
    areas.retain(|area| area.range.start < area.range.end);
    areas.sort_by_key(|area| (area.range.start, area.range.end));
    let mut list: Vec<RuntimeArea> = Vec::new();
    for mut area in areas {
        let before = list.last().map_or(0, |last| last.range.end);
        area.range.start = area.range.start.max(before);
        let Some(length) = area.range.end.checked_sub(area.range.start).filter(|length| *length > 0) else {
            continue;
        };
        area.used = area.used.min(length);
        match list.last_mut().filter(|last| joins(last, &area)) {
            Some(last) => {
                last.used = last.used.saturating_add(area.used);
                last.range.end = area.range.end;
            }
            None => list.push(area),
        }
    }
    list
}

fn joins(last: &RuntimeArea, next: &RuntimeArea) -> bool {
    let is_full = |area: &RuntimeArea| area.used == area.range.end - area.range.start;
    last.pool == next.pool
        && last.range.end == next.range.start
        && (is_full(last) && is_full(next) || last.used == 0 && next.used == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn area(range: std::ops::Range<u64>, pool: usize, used: u64) -> RuntimeArea {
        RuntimeArea { range, pool, used }
    }

    #[test]
    fn neighbours_of_one_kind_become_one_and_nothing_is_in_two() {
        let areas = vec![
            area(0x3000..0x4000, 0, 0x1000),
            area(0x1000..0x2000, 0, 0x1000),
            area(0x2000..0x3000, 0, 0x1000),
            area(0x4000..0x5000, 0, 0x10),
            area(0x4800..0x6000, 1, 0x1800),
            area(0x6000..0x6000, 1, 0),
            area(0x7000..0x8000, 2, 0),
            area(0x8000..0x9000, 2, 0),
        ];
        let expected = vec![
            area(0x1000..0x4000, 0, 0x3000),
            area(0x4000..0x5000, 0, 0x10),
            area(0x5000..0x6000, 1, 0x1000),
            area(0x7000..0x9000, 2, 0),
        ];
        assert_eq!(ordered(areas), expected);
    }

    proptest! {
        #[test]
        fn any_areas_come_out_in_order(
            rows in prop::collection::vec((any::<u64>(), any::<u64>(), 0..3_usize, any::<u64>()), 0..30),
        ) {
            let areas = rows.into_iter().map(|(start, end, pool, used)| area(start..end, pool, used)).collect();
            let list = ordered(areas);
            prop_assert!(list.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
            let fits = |one: &RuntimeArea| one.range.start < one.range.end && one.used <= one.range.end - one.range.start;
            prop_assert!(list.iter().all(fits));
        }
    }
}
