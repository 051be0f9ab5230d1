//! What kind of address a fault was at, of images made by hand.

use super::*;
use biopsy_image::testing::CoreBuilder;
use biopsy_image::{Limits, Opened, open_bytes};

const DATA: u64 = 0x7f00_0000_0000;
const CODE: u64 = 0x55_0000_0000;
const STACK: u64 = 0x7ffd_0000_0000;
const GUARD: u64 = 0x7f10_0000_0000;
const CONSTANT: u64 = 0x7f20_0000_0000;
const PAGE: u64 = 4096;
/// Rights in a program header.
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

fn opened() -> Opened {
    let page = || vec![0; PAGE as usize];
    let mut words = page();
    words[..8].copy_from_slice(&0xdead_0000_0000_0001_u64.to_le_bytes());
    let core = CoreBuilder::new()
        .process(10, "patient", "patient")
        .memory(CODE, READ | EXECUTE, page())
        .memory(DATA, READ | WRITE, words)
        .memory(GUARD, 0, page())
        .memory(CONSTANT, READ, page())
        .memory(STACK, READ | WRITE, page());
    open_bytes("test", core.build(), &Limits::default()).expect("a core")
}

fn fault<'a>(
    opened: &'a Opened,
    registers: &'a GeneralRegisters,
    decoded: Option<&'a Instruction>,
) -> Fault<'a> {
    Fault {
        image: &*opened.image,
        registers: Some(registers),
        frames: &[],
        has_code: true,
        decoded,
        number: 11,
    }
}

#[test]
fn an_address_is_of_a_kind() {
    use AddressKind::*;
    let poison = |address: u64| Poison { pattern: super::poison(address).expect("a pattern") };
    let (opened, registers) = (opened(), GeneralRegisters { rsp: DATA + 64, ..GeneralRegisters::default() });
    let fault = fault(&opened, &registers, None);
    for (address, access, kind) in [
        (0, None, Null { offset: 0 }),
        (0x18, Some(Access::Write), Null { offset: 0x18 }),
        (0xffff, None, Null { offset: 0xffff }),
        (0x1_0000, None, Unmapped),
        (0x8000_0000_0000, None, NonCanonical),
        (0xffff_8000_0000_0000, None, Kernel),
        (u64::MAX, None, Kernel),
        (0xdead_beef_dead_beef, None, poison(0xdead_beef_dead_beef)),
        (0x5a5a_5a5a_5a5a_5a72, None, poison(0x5a5a_5a5a_5a5a_0000)),
        (u64::from_le_bytes(*b"order=71"), None, Text),
        (DATA, Some(Access::Read), Accessible),
        (DATA, Some(Access::Execute), NotExecutable),
        (CODE, Some(Access::Execute), Accessible),
        (CODE, Some(Access::Write), Protected),
        (CONSTANT + 8, Some(Access::Write), Protected),
        (CONSTANT + 8, None, Accessible),
        (GUARD, Some(Access::Read), Guard),
        (DATA + PAGE, Some(Access::Read), Unmapped),
    ] {
        assert_eq!(fault.classify(address, access), kind, "{address:#x} {access:?}");
    }
}

#[test]
fn a_stack_that_overflowed_is_just_below_its_end() {
    use AddressKind::{Accessible, StackOverflow, Unmapped};
    let opened = opened();
    let overflown = StackOverflow { stack: PAGE };
    for (rsp, address, kind) in [
        (STACK, STACK - 8, overflown.clone()),
        (STACK + 64, STACK - STACK_REACH, overflown),
        (STACK, STACK - STACK_REACH - 8, Unmapped),
        // Inside of it, above it, and of a thread that stands elsewhere.
        (STACK, STACK + 8, Accessible),
        (STACK, STACK + PAGE + 8, Unmapped),
        (CODE, STACK - 8, Unmapped),
        (0, STACK - 8, Unmapped),
    ] {
        let registers = GeneralRegisters { rsp, ..GeneralRegisters::default() };
        let found = fault(&opened, &registers, None).classify(address, Some(Access::Write));
        assert_eq!(found, kind, "{rsp:#x} {address:#x}");
    }
}

#[test]
fn the_instruction_tells_what_the_kernel_does_not() {
    let opened = opened();
    let odd = 0x0123_4567_89ab_cdef;
    let registers =
        GeneralRegisters { rip: CODE, rax: odd, rbx: DATA, rsp: DATA, ..GeneralRegisters::default() };
    let decode = |code: &[u8]| instruction::decode(code, &registers);
    let (reads, writes, returns) = (&[0x48, 0x8b, 0x08][..], &[0x48, 0x89, 0x48, 0x08][..], &[0xc3][..]);
    for (code, reported, si_code, expected) in [
        // A protection fault: the register that is no address.
        (reads, None, Some(0x80), (Some(odd), Some(Access::Read))),
        (writes, None, None, (Some(odd + 8), Some(Access::Write))),
        (returns, None, Some(0x80), (Some(0xdead_0000_0000_0001), Some(Access::Execute))),
        // What the kernel says goes before.
        (reads, Some(0x18), Some(1), (Some(0x18), Some(Access::Read))),
        (reads, Some(CODE), Some(1), (Some(CODE), Some(Access::Execute))),
        (writes, Some(odd + 12), Some(1), (Some(odd + 12), Some(Access::Write))),
        // A page that was not there has an address.
        (reads, None, Some(1), (None, None)),
    ] {
        let decoded = decode(code);
        let fault = fault(&opened, &registers, decoded.as_ref());
        assert_eq!(fault.address(reported, si_code), expected, "{code:x?} {reported:x?} {si_code:?}");
        let aborted = Fault { number: 6, ..fault };
        assert_eq!(aborted.address(reported, si_code), (None, None), "an abort has no address");
    }
    let nowhere = GeneralRegisters { rip: odd, ..registers };
    let without_code = Fault { has_code: false, ..fault(&opened, &nowhere, None) };
    assert_eq!(
        without_code.address(None, Some(0x80)),
        (Some(odd), Some(Access::Execute)),
        "it was jumped to"
    );
    assert!(without_code.touches(odd) && !without_code.touches(odd + 1));
}

#[test]
fn an_access_reaches_as_far_as_it_is_wide() {
    let operand = |address, bytes| instruction::Operand {
        address: Avma(address),
        bytes,
        access: Access::Read,
        base: None,
        displacement: 0,
    };
    for (start, bytes, address, is) in [
        (0x1000, 8, 0x1000, true),
        (0x1000, 8, 0x1007, true),
        (0x1000, 8, 0x1008, false),
        (0x1000, 8, 0xfff, false),
        (0x1000, 0, 0x1000, true),
        (u64::MAX - 3, 8, 3, true),
        (u64::MAX - 3, 8, 4, false),
    ] {
        assert_eq!(is_in(&operand(start, bytes), address), is, "{start:#x} {bytes} {address:#x}");
    }
}

#[test]
fn kinds_of_addresses_are_said_in_words_and_never_as_text() {
    let kinds = [
        (AddressKind::Null { offset: 0 }, "a null pointer"),
        (AddressKind::Null { offset: 24 }, "a null pointer plus 24 bytes"),
        (AddressKind::StackOverflow { stack: 8_388_608 }, "stack of 8 MB"),
        (AddressKind::Text, "printable"),
        (AddressKind::NotReported, "does not tell"),
    ];
    for (kind, words) in kinds {
        assert!(kind.words().contains(words), "{}", kind.words());
        assert_eq!(kind.may_be_shown(), kind != AddressKind::Text, "text may be a secret");
    }
}

#[test]
fn patterns_text_and_canonical_addresses() {
    assert!(poison(0xdddd_dddd_dddd_dddd).is_some());
    assert!(poison(0xdddd_dddd_dddd_ddf5).is_some(), "a field of a freed object");
    assert!(poison(0xdead_beef_dead_beef).is_some());
    assert!(poison(0x7fff_dddd_dddd).is_none());
    assert!(is_text(u64::from_le_bytes(*b"password")));
    assert!(!is_text(0x7f12_3456_789a));
    assert!(canonical(0x7fff_ffff_ffff) && canonical(0xffff_8000_0000_0000));
    assert!(!canonical(0x8000_0000_0000));
}
