//! Assemblies, and the list of them.

use biopsy_image::{Backing, Mapping, Protection};
use biopsy_model::Avma;

use super::made::Made;
use crate::metadata::tests::made::{Assembly, pe};
use crate::runtime::{Options, Runtime, RuntimeError};

/// An entry of the list, which leads to its module through another structure, as those of 8 do.
fn entry(made: &mut Made, module: u64) -> u64 {
    let assembly = made.words(&[0x55, 0, module, 0]);
    made.words(&[0, 0x2001, assembly, 7])
}

fn made_at_run_time(made: &mut Made, name: &str) -> u64 {
    let module = made.alloc(0x100);
    let metadata = Assembly::new(name).metadata();
    made.metadata(module, &metadata);
    module
}

/// Writes the list at this offset of the domain, in blocks of two.
fn list(made: &mut Made, place: u64, entries: &[u64]) {
    let domain = made.domain;
    made.put32(domain + place, entries.len() as u32);
    let mut block = domain + place + 8;
    for (number, two) in entries.chunks(2).enumerate() {
        if number > 0 {
            let next = made.alloc(32);
            made.put(block, next);
            block = next;
        }
        made.put(block + 8, 0x7777_0000_0000_0002);
        for (slot, entry) in two.iter().enumerate() {
            made.put(block + 16 + 8 * slot as u64, *entry);
        }
    }
}

fn names(made: &mut Made) -> Result<Vec<String>, RuntimeError> {
    let modules = made.open().modules()?;
    Ok(modules.iter().map(|module| module.name.to_string()).collect())
}

#[test]
fn assemblies_are_those_of_the_list_each_once_and_without_those_that_cannot_be_read() {
    let mut made = Made::new();
    let core = made.module;
    let one = made_at_run_time(&mut made, "one.dll");
    let other = made_at_run_time(&mut made, "other.dll");
    let empty = made.alloc(0x100);
    let entries: Vec<u64> = [core, one, empty, 0x7777_0000, other, one]
        .into_iter()
        .map(|module| entry(&mut made, module))
        .collect();
    list(&mut made, 16, &[&entries[..], &[0]].concat());
    let wanted = ["System.Private.CoreLib", "one.dll", "other.dll"];
    assert_eq!(names(&mut made).expect("a list"), wanted);
    // No layout says where it is: the longest that begins with the core library is the one.
    made.without("AppDomain", "DomainAssemblyList");
    list(&mut made, 0x80, &entries[..1]);
    assert_eq!(names(&mut made).expect("found by looking"), wanted);
}

#[test]
fn entries_may_lead_to_their_modules_at_once() {
    let mut made = Made::new();
    let core = made.module;
    let one = made_at_run_time(&mut made, "one.dll");
    let entries = [core, one].map(|module| made.words(&[0, module, 0, 0]));
    list(&mut made, 16, &entries);
    assert_eq!(names(&mut made).expect("a list"), ["System.Private.CoreLib", "one.dll"]);
}

#[test]
fn lists_that_lie_are_no_lists() {
    let lies: &[fn(&mut Made, u64)] = &[
        // No entry, more than there may be, a block without room, an entry that is no address, one that leads nowhere.
        |made, list| made.put32(list, 0),
        |made, list| made.put32(list, u32::MAX),
        |made, list| made.put(list + 16, 0),
        |made, list| made.put(list + 16, 1 << 21),
        |made, list| made.put(list + 24, 0x1001),
        |made, list| made.put(list + 24, 0x7777_0000),
        // More entries than blocks; a block behind it that is no address, or nowhere.
        |made, list| made.put32(list, 5),
        |made, list| made.put(list + 8, 0x1001),
        |made, list| made.put(list + 8, 0x7777_0000),
    ];
    for (number, lie) in lies.iter().enumerate() {
        let mut made = Made::new();
        let core = made.module;
        let entries = [core; 3].map(|module| entry(&mut made, module));
        list(&mut made, 16, &entries);
        assert!(names(&mut made).is_ok());
        let at = made.domain + 16;
        lie(&mut made, at);
        let refused = names(&mut made).expect_err("it lies").to_string();
        assert!(refused.ends_with("no list of assemblies in it"), "{number}: {refused}");
    }
}

/// Each word of the domain is a list of many entries, and each of them leads to a module in many ways.
#[test]
fn looking_for_the_list_ends_soon_whatever_is_there() {
    let mut made = Made::new();
    let core = made.module;
    made.without("AppDomain", "DomainAssemblyList");
    let ways = made.words(&[core; 16]);
    let entry = made.words(&[ways; 16]);
    let count = 1 << 14;
    let block = made.alloc(16 + 8 * count);
    made.put(block + 8, count);
    (0..count).for_each(|number| made.put(block + 16 + 8 * number, entry));
    let domain = made.alloc(4096 + 64);
    for at in (0..4096).step_by(32) {
        // So many, one of them in the first block, which leads to the long one.
        made.put32(domain + at, count as u32);
        made.put(domain + at + 8, block);
        made.put(domain + at + 16, 1);
        made.put(domain + at + 24, entry);
    }
    made.variable("AppDomain", domain);
    let runtime = made.open();
    let followed = crate::runtime::modules::count_followed(|| drop(runtime.modules()));
    assert!(followed <= 1 << 17, "{followed}");
}

/// A module whose base is told, and whether it is laid out as in memory.
fn mapped(made: &mut Made, image: &[u8], base: u64) -> u64 {
    made.memory.areas.push((base, [image, &[0; 0x1000]].concat()));
    let module = made.alloc(0x100);
    made.put(module + 0x40, base);
    module
}

#[test]
fn assemblies_are_read_however_they_are_laid_out() {
    let mut made = Made::new();
    made.offset("Module", "Base", 0x40);
    let mut assembly = Assembly::new("shop.dll");
    assembly.named("Shop");
    let metadata = assembly.metadata();
    let (as_in_memory, as_in_file) = (pe(&metadata, None, &[], true), pe(&metadata, None, &[], false));
    let in_memory = mapped(&mut made, &as_in_memory, 0x5000_0000);
    let in_file = mapped(&mut made, &as_in_file, 0x6000_0000);
    let broken = mapped(&mut made, b"MZ and nothing else", 0x7000_0000);
    let path: Vec<u8> = "/app/Bröken.dll\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let path = made.store(&path);
    made.put(broken + 16, path);
    let nameless = mapped(&mut made, b"MZ and nothing else", 0x7800_0000);
    made.memory.mappings.push(Mapping {
        start: 0x5000_0000,
        end: 0x5000_4000,
        protection: Protection { read: true, ..Protection::default() },
        shared: false,
        backing: Backing::File {
            path: b"/app/Shop.dll".to_vec(),
            offset: 0,
            deleted: false,
            identity: (0, 0),
        },
        not_frozen: false,
    });
    let runtime = made.open();
    let module = |address: u64| runtime.module(Avma(address));
    let one = module(in_memory).expect("a module");
    assert_eq!(
        (&*one.name, one.path.as_str(), one.mapped, one.dynamic),
        ("Shop", "/app/Shop.dll", true, false)
    );
    assert_eq!((one.base, one.size), (Avma(0x5000_0000), 0x3000));
    let other = module(in_file).expect("a module");
    assert_eq!((&*other.name, other.path.as_str(), other.mapped), ("Shop", "", false));
    let broken = module(broken).expect("its path is known");
    assert_eq!((&*broken.name, broken.path.as_str()), ("Bröken", "/app/Bröken.dll"));
    assert!(broken.metadata().is_err() && broken.pe.is_none());
    let refused = module(nameless).expect_err("nothing is known of it").to_string();
    assert!(refused.ends_with("neither an image nor metadata"), "{refused}");
}

/// As in 8: the layout is behind three pointers, and says how it is laid out.
#[test]
fn a_layout_that_says_how_it_is_laid_out_is_believed() {
    let mut made = Made::new();
    for (of, field, offset) in [
        ("Module", "PEAssembly", 0x40),
        ("PEAssembly", "PEImage", 8),
        ("PEImage", "LoadedImageLayout", 16),
        ("PEImageLayout", "Base", 0),
        ("PEImageLayout", "Size", 8),
        ("PEImageLayout", "Flags", 12),
    ] {
        made.offset(of, field, offset);
    }
    let image = pe(&Assembly::new("shop.dll").metadata(), None, &[], true);
    made.memory.areas.push((0x5000_0000, image));
    let layout = made.words(&[0x5000_0000, 1 << 32 | 0x4444]);
    let image = made.words(&[0, 0, layout]);
    let assembly = made.words(&[0, image]);
    let module = made.alloc(0x100);
    made.put(module + 0x40, assembly);
    let read = |made: &mut Made| made.open().module(Avma(module)).map(|one| (one.name.to_string(), one.size));
    assert_eq!(read(&mut made).expect("a module"), ("shop.dll".to_owned(), 0x4444));
    made.put32(layout + 12, 0);
    assert!(read(&mut made).is_err(), "laid out as in the file it is nothing");
    made.put32(layout + 12, 1);
    made.put(image + 16, 0);
    assert!(read(&mut made).is_err(), "not loaded");
}

#[test]
fn metadata_of_modules_that_are_made_at_run_time_may_grow() {
    let mut made = Made::new();
    let module = made_at_run_time(&mut made, "dynamic");
    let object = made.object;
    let mut grown = Assembly::new("dynamic");
    let row = grown.of_type("App", "New");
    let table = made.method_table(row, 0, 24, object);
    made.put(table + 24, module);
    let metadata = grown.metadata();
    let before = made.read(module + 8);
    let found = {
        made.thread(1, 2);
        made.found()
    };
    {
        let runtime = made.open_at(&found).expect("it fits");
        assert!(runtime.module(Avma(module)).expect("a module").dynamic);
        assert!(runtime.type_of(table.into()).expect("a type").name.starts_with('?'));
    }
    made.metadata(module, &metadata);
    assert_ne!(made.read(module + 8), before);
    let runtime = made.open_at(&found).expect("it fits");
    assert_eq!(&*runtime.type_of(table.into()).expect("a type").name, "App.New");
}

#[test]
fn metadata_that_lies_about_its_size_is_not_read() {
    for size in [0, 3, (64 << 20) + 1, 64 << 20, u32::MAX] {
        let mut made = Made::new();
        let module = made_at_run_time(&mut made, "dynamic");
        let at = made.read(module + 8);
        made.put32(at, size);
        assert!(made.open().module(Avma(module)).is_err(), "{size}");
    }
    let mut made = Made::new();
    let module = made_at_run_time(&mut made, "dynamic");
    let at = made.read(module + 8);
    made.bytes(at + 4, b"BSJX");
    assert!(made.open().module(Avma(module)).is_err(), "something else");
}

#[test]
fn no_more_assemblies_are_read_than_is_asked_for() {
    let mut made = Made::new();
    let core = made.module;
    let entries = [core; 3].map(|module| entry(&mut made, module));
    list(&mut made, 16, &entries);
    made.thread(1, 2);
    let found = made.found();
    let count = |modules: usize| {
        let options = Options { modules, ..Options::default() };
        let runtime = Runtime::open(Box::new(&made.memory), &found, &options).expect("it fits");
        runtime.modules().map(|modules| modules.len())
    };
    assert_eq!(count(3).expect("a list"), 1);
    assert!(count(2).is_err());
}
