//! Registers of a thread in a minidump.

use ::minidump::format::{CONTEXT_AMD64, ContextFlagsAmd64};
use ::minidump::{MinidumpContext, MinidumpRawContext};

use crate::GeneralRegisters;

/// Registers and the FXSAVE area of an x86-64 thread; `None` for other machines.
pub(super) fn registers(context: &MinidumpContext) -> Option<(GeneralRegisters, Vec<u8>)> {
    match &context.raw {
        MinidumpRawContext::Amd64(context) => Some((general(context), floating(context))),
        MinidumpRawContext::X86(_)
        | MinidumpRawContext::Ppc(_)
        | MinidumpRawContext::Ppc64(_)
        | MinidumpRawContext::Sparc(_)
        | MinidumpRawContext::Arm(_)
        | MinidumpRawContext::Arm64(_)
        | MinidumpRawContext::OldArm64(_)
        | MinidumpRawContext::Mips(_) => None,
    }
}

fn general(context: &CONTEXT_AMD64) -> GeneralRegisters {
    GeneralRegisters {
        r15: context.r15,
        r14: context.r14,
        r13: context.r13,
        r12: context.r12,
        rbp: context.rbp,
        rbx: context.rbx,
        r11: context.r11,
        r10: context.r10,
        r9: context.r9,
        r8: context.r8,
        rax: context.rax,
        rcx: context.rcx,
        rdx: context.rdx,
        rsi: context.rsi,
        rdi: context.rdi,
        // Not in a minidump: no system call is to be restarted.
        orig_rax: u64::MAX,
        rip: context.rip,
        cs: context.cs.into(),
        eflags: context.eflags.into(),
        rsp: context.rsp,
        ss: context.ss.into(),
        fs_base: 0,
        gs_base: 0,
        ds: context.ds.into(),
        es: context.es.into(),
        fs: context.fs.into(),
        gs: context.gs.into(),
    }
}

fn floating(context: &CONTEXT_AMD64) -> Vec<u8> {
    let flags = ContextFlagsAmd64::from_bits_truncate(context.context_flags);
    if flags.contains(ContextFlagsAmd64::CONTEXT_AMD64_FLOATING_POINT) {
        context.float_save.to_vec()
    } else {
        Vec::new()
    }
}
