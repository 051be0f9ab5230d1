//! Names of groups of threads: `worker-1`, `worker-2` → `worker-*`.

/// What two names must share to be of one group: the name with every run of digits as one `#`.
pub(crate) fn pattern(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for part in parts(name) {
        out.push_str(if is_number(part) { "#" } else { part });
    }
    out
}

/// The name of a group, from names with the same pattern: numbers that differ become `*`, others stay.
#[derive(Debug, Default)]
pub(crate) struct GroupName {
    parts: Vec<Option<String>>,
}

impl GroupName {
    pub(crate) fn add(&mut self, name: &str) {
        if self.parts.is_empty() {
            self.parts = parts(name).map(|part| Some(part.to_owned())).collect();
            return;
        }
        for (known, part) in self.parts.iter_mut().zip(parts(name)) {
            if known.as_deref().is_some_and(|known| known != part) {
                *known = None;
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        self.parts.iter().map(|part| part.as_deref().unwrap_or("*")).collect()
    }
}

fn is_number(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit())
}

/// Alternating runs of digits and of other characters.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let digits = is_number(rest);
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(names: &[&str]) -> String {
        assert!(names.iter().all(|name| pattern(name) == pattern(names[0])), "{names:?}");
        let mut group = GroupName::default();
        names.iter().for_each(|name| group.add(name));
        group.text()
    }

    #[test]
    fn only_numbers_that_differ_become_stars() {
        assert_eq!(group(&["worker-1", "worker-24"]), "worker-*");
        assert_eq!(group(&["http-8080-exec-1", "http-8080-exec-2"]), "http-8080-exec-*");
        assert_eq!(group(&["main"]), "main");
        assert_eq!(group(&["kworker/3"]), "kworker/3");
        assert_eq!(group(&["", ""]), "");
        assert_eq!(group(&["7", "8"]), "*");
        assert_eq!(pattern("é1ü22"), "é#ü#");
    }
}
