//! What the loader has mapped: functions by name in libraries behind this one, and the unwind information for an address.

use core::ffi::c_void;

use crate::start::REAL;

#[repr(C)]
struct Info {
    base: usize,
    name: *const u8,
    headers: *const Header,
    count: u16,
}

#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    physical: usize,
    in_file: usize,
    in_memory: usize,
    align: usize,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const EH_FRAME: u32 = 0x6474_e550;

unsafe extern "C" {
    fn dl_iterate_phdr(call: unsafe extern "C" fn(*const Info, usize, *mut c_void) -> i32, with: *mut c_void) -> i32;
}

impl Info {
    fn headers(&self) -> &[Header] {
        // SAFETY: the loader's own table, which lives as long as the module is loaded.
        unsafe { core::slice::from_raw_parts(self.headers, self.count as usize) }
    }

    fn holds(&self, address: usize) -> bool {
        self.headers().iter().any(|header| {
            header.kind == LOAD && address.wrapping_sub(self.base.wrapping_add(header.address)) < header.in_memory
        })
    }
}

struct Wanted<'a> {
    name: &'a [u8],
    is_behind: bool,
    found: usize,
}

/// The address of a function in the first library behind this one that has it; 0: none.
pub fn next(name: &[u8]) -> usize {
    let mut wanted = Wanted { name, is_behind: false, found: 0 };
    // SAFETY: the function gets what it expects, and is done with it when this returns.
    unsafe { dl_iterate_phdr(look, (&raw mut wanted).cast()) };
    wanted.found
}

unsafe extern "C" fn look(info: *const Info, _: usize, with: *mut c_void) -> i32 {
    // SAFETY: from the loader, and from `next`.
    let (info, wanted) = unsafe { (&*info, &mut *with.cast::<Wanted<'_>>()) };
    if !wanted.is_behind {
        wanted.is_behind = info.holds(next as *const () as usize);
        return 0;
    }
    wanted.found = info.headers().iter().find(|header| header.kind == DYNAMIC).map_or(0, |header| {
        // SAFETY: the dynamic section of a module that is loaded.
        unsafe { symbol(info.base, info.base.wrapping_add(header.address) as *const [usize; 2], wanted.name) }
    });
    i32::from(wanted.found != 0)
}

/// # Safety
/// `entry` is the first of a dynamic section that is loaded at `base`.
unsafe fn symbol(base: usize, mut entry: *const [usize; 2], name: &[u8]) -> usize {
    let (mut symbols, mut texts, mut hashes) = (0, 0, 0);
    // Some loaders have put addresses in their place, some have not.
    let address = |value: usize| if value < base { value.wrapping_add(base) } else { value };
    // SAFETY: the tables of a module that is loaded are as the loader itself uses them.
    unsafe {
        while (*entry)[0] != 0 {
            match *entry {
                [5, value] => texts = address(value),
                [6, value] => symbols = address(value),
                [0x6fff_fef5, value] => hashes = address(value),
                _ => {}
            }
            entry = entry.add(1);
        }
        if symbols == 0 || texts == 0 || hashes == 0 {
            return 0;
        }
        let table = hashes as *const u32;
        let (buckets, first, words) = (*table as usize, *table.add(1) as usize, *table.add(2) as usize);
        if buckets == 0 {
            return 0;
        }
        let hash = name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let bucket = table.add(4 + words * 2);
        let chain = bucket.add(buckets);
        let mut number = *bucket.add(hash as usize % buckets) as usize;
        if number < first {
            return 0;
        }
        loop {
            let in_chain = *chain.add(number - first);
            // Name u32, info u8, other u8, section u16, value u64, size u64.
            let symbol = (symbols + number * 24) as *const u8;
            if in_chain | 1 == hash | 1 {
                let text = (texts + symbol.cast::<u32>().read_unaligned() as usize) as *const u8;
                let same = name.iter().enumerate().all(|(at, byte)| *text.add(at) == *byte) && *text.add(name.len()) == 0;
                let section = symbol.add(6).cast::<u16>().read_unaligned();
                // A function, and there.
                if same && *symbol.add(4) & 15 == 2 && section != 0 {
                    return base.wrapping_add(symbol.add(8).cast::<usize>().read_unaligned());
                }
            }
            if in_chain & 1 != 0 {
                return 0;
            }
            number += 1;
        }
    }
}

/// Where unwind information lies: its table, and the part of memory that it must be in.
#[derive(Clone, Copy)]
pub struct Unwind {
    pub table: usize,
    pub from: usize,
    pub to: usize,
}

/// As `_dl_find_object` of glibc 2.35 tells it.
#[repr(C)]
struct Object {
    flags: u64,
    from: usize,
    to: usize,
    module: usize,
    table: usize,
    unused: [u64; 7],
}

/// Asks the loader: without waiting for anybody where it can be asked so, and otherwise as whoever throws an exception does.
pub fn unwind_of(address: usize) -> Option<Unwind> {
    if let Some(find) = REAL.find_object.get() {
        let mut object = Object { flags: 0, from: 0, to: 0, module: 0, table: 0, unused: [0; 7] };
        // SAFETY: the function of this name, whose second argument is at least as large as what it writes.
        let failed = unsafe {
            core::mem::transmute::<usize, extern "C" fn(usize, *mut Object) -> i32>(find)(address, &raw mut object)
        };
        let is_found = failed == 0 && object.table != 0;
        return is_found.then_some(Unwind { table: object.table, from: object.from, to: object.to });
    }
    let mut at = At { address, found: None };
    // SAFETY: the function gets what it expects, and is done with it when this returns.
    unsafe { dl_iterate_phdr(unwind, (&raw mut at).cast()) };
    at.found
}

/// Whether two addresses are of one module.
pub fn are_together(one: usize, other: usize) -> bool {
    let mut pair = Pair { one, other, found: false };
    // SAFETY: as above.
    unsafe { dl_iterate_phdr(together, (&raw mut pair).cast()) };
    pair.found
}

struct Pair {
    one: usize,
    other: usize,
    found: bool,
}

unsafe extern "C" fn together(info: *const Info, _: usize, with: *mut c_void) -> i32 {
    // SAFETY: from the loader, and from `are_together`.
    let (info, pair) = unsafe { (&*info, &mut *with.cast::<Pair>()) };
    let holds = info.holds(pair.one);
    pair.found = holds && info.holds(pair.other);
    i32::from(holds)
}

struct At {
    address: usize,
    found: Option<Unwind>,
}

unsafe extern "C" fn unwind(info: *const Info, _: usize, with: *mut c_void) -> i32 {
    // SAFETY: from the loader, and from `unwind_of`.
    let (info, at) = unsafe { (&*info, &mut *with.cast::<At>()) };
    if !info.holds(at.address) {
        return 0;
    }
    let place = |header: &Header| info.base.wrapping_add(header.address);
    if let Some(table) = info.headers().iter().find(|header| header.kind == EH_FRAME).map(place) {
        // Table and entries are in one segment.
        let segment = info.headers().iter().find(|header| {
            header.kind == LOAD && table.wrapping_sub(place(header)) < header.in_memory
        });
        at.found = segment.map(|header| Unwind { table, from: place(header), to: place(header) + header.in_memory });
    }
    1
}
