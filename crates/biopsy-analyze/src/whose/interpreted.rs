//! Python and JavaScript: what a source file's path says.

use super::answer::Whose;

/// What lies in these folders was installed, not written here.
const PYTHON_PACKAGES: &[&str] = &["/site-packages/", "/dist-packages/"];
/// The interpreter's own library.
const PYTHON_LIBRARY: &[&str] = &["/lib/python2", "/lib/python3", "/lib64/python2", "/lib64/python3"];
/// Packages of JavaScript.
const NODE_PACKAGES: &[&str] = &["/node_modules/", "node_modules/"];

/// Of a script from standard input or the command line the interpreter says `<stdin>` or `<string>`: that is the program.
pub(super) fn python(file: &str) -> Whose {
    let has = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    let written_here = matches!(file, "<stdin>" | "<string>") || is_cell(file);
    let made = file.is_empty() || file.starts_with('<') && !written_here;
    if has(PYTHON_PACKAGES) {
        Whose::Library
    } else if has(PYTHON_LIBRARY) || is_zipped_library(file) || made {
        Whose::Plumbing
    } else {
        Whose::Program
    }
}

/// `python311.zip/threading.py`.
fn is_zipped_library(file: &str) -> bool {
    file.split('/').any(|part| part.starts_with("python") && part.ends_with(".zip"))
}

/// A cell of a notebook: `<ipython-input-3-0123456789ab>`.
fn is_cell(file: &str) -> bool {
    file.starts_with("<ipython-input")
}

/// Node's own files are `node:net`; what V8 made has no file.
pub(super) fn javascript(file: &str) -> Whose {
    if file.starts_with("node:") || file.is_empty() || file.starts_with("internal/") {
        Whose::Plumbing
    } else if NODE_PACKAGES.iter().any(|part| file.contains(part)) {
        Whose::Library
    } else {
        Whose::Program
    }
}
