//! Shows what is read of the runtimes in a core: `runtime CORE [--code FILE] [--types FILE]`. FILE has addresses, hexadecimal, one a
//! line; each is printed with the method or the type that is there, to be compared with what other readers say.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::sync::Arc;
use std::time::Instant;

use biopsy_dotnet::runtime::{LocalFiles, Options, Runtime, TypeHandle, find_runtimes_with};
use biopsy_model::Avma;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let core = arguments.first().expect("runtime CORE [--code FILE] [--types FILE]");
    let file = |flag: &str| {
        let at = arguments.iter().position(|one| one == flag)?;
        let text =
            std::fs::read_to_string(arguments.get(at + 1)?).expect("the file of addresses is readable");
        let parse = |line: &str| u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).ok().map(Avma);
        Some(text.lines().filter_map(parse).collect::<Vec<_>>())
    };
    let opened = biopsy_image::open(core, &biopsy_image::Limits::default()).expect("the core opens");
    let started = Instant::now();
    let files = Arc::new(LocalFiles::new(&*opened.image, &["/".into()]));
    let found = find_runtimes_with(&*opened.image, Some(Arc::clone(&files) as _));
    say(&format!("found {found:#?} in {:?}", started.elapsed()));
    for found in &found {
        let started = Instant::now();
        let mut options = Options::default();
        options.files = Some(Arc::clone(&files) as _);
        let runtime = match Runtime::open_unchecked(Box::new(&*opened.image), found, &options) {
            Ok(runtime) => runtime,
            Err(error) => {
                say(&format!("error: {error}"));
                continue;
            }
        };
        say(&format!("opened in {:?}", started.elapsed()));
        let checked = Runtime::open(Box::new(&*opened.image), found, &options);
        say(&format!("checked in {:?}: {:?}", started.elapsed(), checked.as_ref().map(|one| one.checks())));
        match runtime.threads() {
            Ok(threads) => threads.iter().for_each(|one| say(&format!("thread {one:x?}"))),
            Err(error) => say(&format!("threads: {error}")),
        }
        match runtime.modules() {
            Ok(modules) => modules.iter().for_each(|one| {
                say(&format!(
                    "module {:#x} {} `{}` base {:#x} size {:#x} mapped {} dynamic {} metadata {}",
                    one.address,
                    one.name,
                    one.path,
                    one.base,
                    one.size,
                    one.mapped,
                    one.dynamic,
                    one.metadata.is_some()
                ));
            }),
            Err(error) => say(&format!("modules: {error}")),
        }
        let started = Instant::now();
        for ip in file("--code").unwrap_or_default() {
            let method = runtime.find_method(ip);
            let entry = runtime.entry_at(ip).unwrap_or_default();
            let name = match &method {
                Ok(found) => match found.and_then(|method| method.method_desc) {
                    Some(method) => match runtime.method_name(method) {
                        Ok(name) => format!(
                            "{}.{}{}",
                            name.type_name,
                            name.method,
                            name.signature.as_deref().unwrap_or_default()
                        ),
                        Err(error) => format!("?{error}"),
                    },
                    None => String::new(),
                },
                Err(error) => format!("?{error}"),
            };
            let method = method.ok().flatten();
            let tier = method.and_then(|method| runtime.tier(&method).ok().flatten());
            say(&format!(
                "code\t{ip:x}\t{:x}\t{:x}\t{:x}\t{:?}\t{tier:?}\t{name}\t{entry:x}",
                method.and_then(|one| one.method_desc).unwrap_or_default(),
                method.map(|one| one.code_start).unwrap_or_default(),
                method.and_then(|one| one.code_end).unwrap_or_default(),
                method.map(|one| one.kind)
            ));
        }
        for table in file("--types").unwrap_or_default() {
            match runtime.type_of(TypeHandle(table)) {
                Ok(info) => say(&format!("type\t{table:x}\t{}\t{}", info.base_size, info.name)),
                Err(error) => say(&format!("type\t{table:x}\t0\t?{error}")),
            }
        }
        say(&format!("looked up in {:?}", started.elapsed()));
    }
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn say(line: &str) {
    println!("{line}");
}
