//! Entry point for fuzzing: any text as settings.

use std::path::PathBuf;

use crate::settings::{Layer, Settings, origins};
use crate::text::{parse_json, set};
use crate::{Engine, settings};

/// Reads any bytes as settings, as JSON and as TOML, tells what is wrong with them, and changes a value in them.
///
/// # Panics
/// A value that was set does not stand there afterwards.
pub fn fuzz_settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    for name in ["diagnostics.json", "diagnostics.toml"] {
        let Ok(layer) = Layer::parse("given", PathBuf::from(name), text.clone()) else { continue };
        let layers = [layer];
        let (settings, problems): (Settings, Vec<(usize, settings::Problem)>) =
            Settings::of(&layers, &|_, _| Ok(()));
        let lines: Vec<String> =
            problems.iter().map(|(index, problem)| layers[*index].shown(problem)).collect();
        let origins = origins(&layers);
        std::hint::black_box((lines, origins, Engine::new(&settings)));
    }
    let path = ["watch", "for"].map(str::to_owned);
    if let Ok(changed) = set(&text, &path, "\"1h\"") {
        let root = parse_json(&changed).expect("a text that was changed is as right as before");
        assert_eq!(root.at(&["watch", "for"]).and_then(|node| node.text()), Some("1h"), "{changed}");
    }
}
