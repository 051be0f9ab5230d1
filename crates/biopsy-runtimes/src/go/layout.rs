//! Where the runtime keeps what, by version: offsets in bytes, read from the debug information of programs built with 1.19, 1.21,
//! 1.22, 1.23, 1.24, 1.25 and 1.26 for x86-64. What is read with them is checked: a goroutine's own address is in it, and where it
//! was started is the beginning of a function.

/// Oldest and newest minor version whose layout is known.
pub(super) const KNOWN: std::ops::RangeInclusive<u32> = 19..=26;

/// Offsets that differ between versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// `runtime.g`: saved frame pointer is not needed, stacks are walked by tables.
    pub(crate) g_syscall_sp: u64,
    pub(crate) g_syscall_pc: u64,
    pub(crate) g_status: u64,
    pub(crate) g_id: u64,
    pub(crate) g_wait_since: u64,
    pub(crate) g_wait_reason: u64,
    pub(crate) g_go_pc: u64,
    pub(crate) g_start_pc: u64,
    pub(crate) g_waiting: u64,
    /// `runtime.m`.
    pub(super) m_thread: u64,
    pub(super) m_current: u64,
    pub(super) m_vdso_sp: u64,
    pub(super) m_vdso_pc: u64,
    /// `runtime.sudog`.
    pub(crate) sudog_next: u64,
    pub(crate) sudog_channel: u64,
    /// `runtime.hchan`.
    pub(super) channel_receivers: u64,
    pub(super) channel_senders: u64,
    /// The timer that feeds it, from 1.23 on.
    pub(super) channel_timer: Option<u64>,
    /// `runtime._defer`.
    pub(super) defer_next: u64,
    /// `runtime.pollDesc`: goroutine that reads; the one that writes is 8 further.
    pub(super) poll_reader: u64,
    /// `runtime.moduledata`: what tables of functions are counted from.
    pub(crate) module_function_data: u64,
    /// `runtime._func`: its last fixed byte, which counts the tables behind it. `flag` and `funcID` are 2 and 3 before it.
    pub(crate) function_table_count: u64,
    /// Rows of the tree of inlined functions: size, name, place in the function around it.
    pub(super) inline_row: u64,
    pub(super) inline_name: u64,
    pub(super) inline_parent_pc: u64,
}

/// `runtime.g`: the same in all: stack bounds, the deferred calls, the thread, what was saved when it left its thread.
pub(super) mod g {
    pub(in crate::go) const STACK_LOW: u64 = 0;
    pub(in crate::go) const STACK_HIGH: u64 = 8;
    pub(in crate::go) const DEFER: u64 = 40;
    pub(in crate::go) const M: u64 = 48;
    pub(in crate::go) const SP: u64 = 56;
    pub(in crate::go) const PC: u64 = 64;
    pub(in crate::go) const SELF: u64 = 72;
    pub(in crate::go) const CLOSURE: u64 = 80;
}

/// `runtime.sudog`, `runtime.hchan`: the same in all.
pub(super) mod sudog {
    pub(in crate::go) const G: u64 = 0;
    pub(in crate::go) const ELEMENT: u64 = 24;
}

/// 1.21 and 1.22, to which others are compared.
const GO_1_22: Layout = Layout {
    g_syscall_sp: 112,
    g_syscall_pc: 120,
    g_status: 144,
    g_id: 152,
    g_wait_since: 168,
    g_wait_reason: 176,
    g_go_pc: 280,
    g_start_pc: 296,
    g_waiting: 312,
    m_thread: 72,
    m_current: 192,
    m_vdso_sp: 1120,
    m_vdso_pc: 1128,
    sudog_next: 64,
    sudog_channel: 80,
    channel_receivers: 56,
    channel_senders: 72,
    channel_timer: None,
    defer_next: 32,
    poll_reader: 32,
    module_function_data: 320,
    function_table_count: 43,
    inline_row: 16,
    inline_name: 4,
    inline_parent_pc: 8,
};
const GO_1_21: Layout = Layout { m_vdso_sp: 808, m_vdso_pc: 816, defer_next: 40, ..GO_1_22 };
/// Without `parentGoid`, and with three fields of signals behind it that went.
const GO_1_20: Layout = Layout { g_go_pc: 296, g_start_pc: 312, g_waiting: 328, ..GO_1_21 };
const GO_1_19: Layout = Layout {
    m_vdso_sp: 800,
    m_vdso_pc: 808,
    poll_reader: 24,
    module_function_data: 304,
    function_table_count: 39,
    inline_row: 20,
    inline_name: 12,
    inline_parent_pc: 16,
    ..GO_1_20
};
const GO_1_23: Layout = Layout {
    g_status: 152,
    g_id: 160,
    g_wait_since: 176,
    g_wait_reason: 184,
    g_go_pc: 288,
    g_start_pc: 304,
    g_waiting: 320,
    m_vdso_sp: 856,
    m_vdso_pc: 864,
    channel_receivers: 64,
    channel_senders: 80,
    channel_timer: Some(32),
    ..GO_1_22
};
const GO_1_24: Layout = Layout { m_vdso_sp: 904, m_vdso_pc: 912, ..GO_1_23 };
/// `gobuf` lost a field, and all behind it moved up.
const GO_1_25: Layout = Layout {
    g_syscall_sp: 104,
    g_syscall_pc: 112,
    g_status: 144,
    g_id: 152,
    g_wait_since: 168,
    g_wait_reason: 176,
    g_go_pc: 280,
    g_start_pc: 296,
    g_waiting: 312,
    m_thread: 64,
    m_current: 184,
    m_vdso_sp: 896,
    m_vdso_pc: 904,
    ..GO_1_24
};
const GO_1_26: Layout =
    Layout { g_go_pc: 288, g_start_pc: 304, g_waiting: 320, sudog_next: 72, sudog_channel: 88, ..GO_1_25 };

impl Layout {
    /// For a minor version; `None`: not known.
    pub(crate) fn of(minor: u32) -> Option<Self> {
        Some(match minor {
            19 => GO_1_19,
            20 => GO_1_20,
            21 => GO_1_21,
            22 => GO_1_22,
            23 => GO_1_23,
            24 => GO_1_24,
            25 => GO_1_25,
            26 => GO_1_26,
            _ => return None,
        })
    }
}
