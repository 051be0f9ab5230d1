//! Names of meters that an application has beyond those of the framework.

use std::collections::BTreeSet;

use biopsy_dotnet::nettrace::Event;

use super::providers::{METERS, is_meter_name};

/// Most meters that are asked for by name.
const MOST: usize = 64;

/// Meters of the framework, also those of versions to come. Listening to them costs each request something: the memory pool of
/// Kestrel in .NET 10 counts each buffer.
const FRAMEWORK: [&str; 4] =
    ["System.", "Microsoft.AspNetCore.", "Microsoft.Extensions.", "Private.InternalDiagnostics."];

/// Meters, as their instruments are announced.
#[derive(Debug, Default)]
pub(crate) struct MeterNames {
    found: Vec<String>,
    known: BTreeSet<String>,
    new: bool,
    spoken: bool,
    /// All that there were at the start have been announced.
    listed: bool,
}

impl MeterNames {
    /// Takes an event of the provider of meters.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        self.spoken = true;
        self.listed |= event.metadata.name == "InitialInstrumentEnumerationComplete";
        if event.metadata.name != "InstrumentPublished" {
            return;
        }
        let Some(name) = event.values().get("meterName").and_then(|value| value.text()) else { return };
        self.published(&name.to_string_of(200));
    }

    fn published(&mut self, name: &str) {
        let of_framework = METERS.contains(&name) || FRAMEWORK.iter().any(|prefix| name.starts_with(prefix));
        if of_framework || !is_meter_name(name) || self.known.len() >= MOST {
            return;
        }
        if self.known.insert(name.to_owned()) {
            self.found.push(name.to_owned());
            self.new = true;
        }
    }

    /// Whether the provider has said something: it is there.
    pub(crate) fn has_spoken(&self) -> bool {
        self.spoken
    }

    /// Whether all that there are have been announced.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Those that were found.
    pub(crate) fn found(&self) -> &[String] {
        &self.found
    }

    /// Whether there are some that were not asked for yet.
    pub(crate) fn has_new(&self) -> bool {
        self.new && self.listed
    }

    /// They are asked for.
    pub(crate) fn take_new(&mut self) {
        self.new = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_of_the_application_once() {
        let mut names = MeterNames::default();
        for name in [
            "System.Runtime",
            "Targets.Server",
            "Targets.Server",
            "a;b",
            "System.Net.Http",
            "Microsoft.AspNetCore.MemoryPool",
        ] {
            names.published(name);
        }
        assert!(!names.has_new(), "not all were announced");
        names.listed = true;
        assert!(names.has_new());
        assert_eq!(names.found(), ["Targets.Server"]);
        names.take_new();
        names.published("Targets.Server");
        assert!(!names.has_new());
        (0..1000).for_each(|at| names.published(&format!("m{at}")));
        assert_eq!(names.found().len(), MOST);
    }
}
