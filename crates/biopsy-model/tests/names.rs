//! What things are called: places in files, functions and their parts, runtimes, why a process was frozen again, warnings.

use std::collections::HashSet;

use biopsy_model::heap::{HeapType, Retries};
use biopsy_model::loss::Warning;
use biopsy_model::printable::is_harmful;
use biopsy_model::process::RuntimeKind;
use biopsy_model::symbol::{COLD_PART, place_name, whole_function};
use proptest::prelude::*;

#[test]
fn a_place_is_named_by_the_last_part_of_its_path() {
    for (path, offset, name) in [
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", 0, "libc.so.6+0x0"),
        ("libc.so.6", u64::MAX, "libc.so.6+0xffffffffffffffff"),
        ("/memfd:jit (deleted)", 0x10, "memfd:jit+0x10"),
        ("/opt/with blank/app", 0x10, "app+0x10"),
        ("/opt/app (deleted) (deleted)", 0x10, "app (deleted)+0x10"),
        ("/opt/(deleted)", 0x10, "(deleted)+0x10"),
        ("/opt/app(deleted)", 0x10, "app(deleted)+0x10"),
        ("[kernel.kallsyms]", 0xffff_ffff_8100_0000, "[kernel.kallsyms]+0xffffffff81000000"),
        ("//", 0x10, "//+0x10"),
        ("/opt/ünï+0x1", 0x10, "ünï+0x1+0x10"),
    ] {
        assert_eq!(place_name(path, offset), name, "`{path}`");
    }
}

#[test]
fn a_function_has_one_cold_part_at_the_end_of_its_name() {
    for (name, whole) in [
        ("", ""),
        ("run", "run"),
        ("run [cold]", "run"),
        ("run[cold]", "run[cold]"),
        ("run [Cold]", "run [Cold]"),
        ("run [cold] ", "run [cold] "),
        ("[cold] run", "[cold] run"),
        ("run [cold] [cold]", "run [cold]"),
        ("core::ops::function::FnOnce::call_once [cold]", "core::ops::function::FnOnce::call_once"),
    ] {
        assert_eq!(whole_function(name), whole, "`{name}`");
    }
    assert!(COLD_PART.starts_with(' '), "it is not part of the last word");
}

#[test]
fn runtimes_have_names_of_their_own() {
    use RuntimeKind as Kind;
    let all = [
        Kind::DotNet,
        Kind::Jvm,
        Kind::Node,
        Kind::Python,
        Kind::Go,
        Kind::OtherInterpreter,
        Kind::Native,
        Kind::Unknown,
    ];
    let names: HashSet<&str> = all.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), all.len());
    // They stand in a column of lists of processes.
    assert!(names.iter().all(|name| (1..=11).contains(&name.len())), "{names:?}");
    assert!(all.is_sorted(), "those that more is known of come first");
    assert_eq!(Kind::Unknown.name(), "-");
}

#[test]
fn each_reason_to_freeze_again_is_told_with_how_often() {
    for (collecting, threads, torn, told) in [
        (0, 0, 0, None),
        (1, 0, 0, Some("a collection was under way once")),
        (2, 0, 0, Some("a collection was under way 2 times")),
        (0, 1, 0, Some("a thread was being made or ended once")),
        (0, 0, u32::MAX, Some("the heap was not whole 4294967295 times")),
        (
            1,
            1,
            1,
            Some(
                "a collection was under way once, a thread was being made or ended once, the heap was not whole once",
            ),
        ),
        (3, 0, 1, Some("a collection was under way 3 times, the heap was not whole once")),
    ] {
        let retries = Retries { collecting, threads, torn };
        assert_eq!(retries.text().as_deref(), told, "{retries:?}");
    }
}

#[test]
fn a_type_is_nameless_only_where_its_address_stands_for_it() {
    for (name, is_free, is_nameless) in [
        ("?0x7f12_34", false, true),
        ("?0x", false, true),
        ("??0x7f", false, false),
        ("0x7f", false, false),
        ("", false, false),
        ("System.Nullable?0x", false, false),
        ("?0x7f", true, false),
    ] {
        let of = HeapType { name: name.to_owned(), is_free, ..HeapType::default() };
        assert_eq!(of.is_nameless(), is_nameless, "`{name}`, free: {is_free}");
    }
}

#[test]
fn a_warning_is_told_with_its_hint_and_without_its_code() {
    let warning = Warning::new("trace.no-bpf", "cannot load programs".to_owned());
    assert_eq!((warning.code.as_str(), warning.hint.as_ref(), warning.time), ("trace.no-bpf", None, None));
    assert_eq!(warning.in_words(), "cannot load programs");
    for (hint, told) in [
        ("run as root", "cannot load programs (run as root)"),
        ("", "cannot load programs ()"),
        ("a (b)", "cannot load programs (a (b))"),
        ("\u{1b}[2J", "cannot load programs (\\u{1b}[2J)"),
    ] {
        assert_eq!(Warning { hint: Some(hint.to_owned()), ..warning.clone() }.in_words(), told);
    }
}

proptest! {
    /// Places of one file differ by where they are, and of two files by their names.
    #[test]
    fn two_places_of_a_file_have_two_names(file in "[a-z./ ]{0,12}", one in any::<u64>(), other in any::<u64>()) {
        prop_assert_eq!(place_name(&file, one) == place_name(&file, other), one == other);
        let name = place_name(&file, one);
        prop_assert!(name.ends_with(&format!("{one:#x}")), "{}", name);
        prop_assert!(name.len() <= file.len() + 19, "{}", name);
    }

    #[test]
    fn the_folder_of_a_file_is_not_in_the_name_of_a_place(
        folders in prop::collection::vec("[a-z]{1,5}", 0..4), file in "[a-z][a-z.]{0,8}", offset in any::<u64>(), is_deleted in any::<bool>(),
    ) {
        let deleted = if is_deleted { " (deleted)" } else { "" };
        let path = format!("/{}{file}{deleted}", folders.iter().map(|one| format!("{one}/")).collect::<String>());
        prop_assert_eq!(place_name(&path, offset), format!("{file}+{offset:#x}"));
    }

    #[test]
    fn the_cold_part_of_any_function_is_that_function(name in any::<String>()) {
        let cold = format!("{name}{COLD_PART}");
        prop_assert_eq!(whole_function(&cold), name.as_str());
        let whole = whole_function(&name);
        let with_part = format!("{whole}{COLD_PART}");
        prop_assert!(name == whole || name == with_part, "{}", name);
    }

    /// Both texts are others' as often as ours: on one line, whatever they hold.
    #[test]
    fn a_warning_commands_no_terminal(message in any::<String>(), hint in prop::option::of(any::<String>())) {
        let told = Warning { hint: hint.clone(), ..Warning::new("a.code", message) }.in_words();
        prop_assert!(!told.chars().any(is_harmful), "{}", told);
        prop_assert_eq!(told.ends_with(')') || hint.is_none(), true);
    }
}
