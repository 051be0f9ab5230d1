//! Threads, modules, exception and facts of the process in a minidump.

use biopsy_model::order::Order as _;
use std::borrow::Cow;

use ::minidump::format::MINIDUMP_STREAM_TYPE;
use ::minidump::system_info::{Cpu, Os};
use ::minidump::{
    CodeView, MinidumpContext, MinidumpException, MinidumpMiscInfo, MinidumpModule, MinidumpModuleList,
    MinidumpSystemInfo, MinidumpThreadList, MinidumpThreadNames, Module,
};
use biopsy_model::loss::Warning;
use biopsy_model::{Avma, Pid, Tid};

use super::context;
use super::guard::{self, Streams};
use crate::{Crash, CrashKind, ImageModule, Limits, ProcessFacts, Thread, ThreadSignal};

/// What streams other than memory say.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) threads: Vec<Thread>,
    pub(super) modules: Vec<ImageModule>,
    pub(super) process: ProcessFacts,
    pub(super) crash: Option<Crash>,
}

/// Reads the streams. `all` is what `dump` is over.
pub(super) fn read(dump: &Streams<'_>, all: &[u8], limits: &Limits, warnings: &mut Vec<Warning>) -> Facts {
    let mut reader = Reader {
        dump,
        all,
        system: dump.get_stream::<MinidumpSystemInfo>().ok(),
        misc: dump.get_stream::<MinidumpMiscInfo>().ok(),
        warnings,
    };
    let exception = dump.get_stream::<MinidumpException<'_>>().ok();
    let mut threads = reader.threads(limits);
    let crash = exception.and_then(|exception| reader.exception(&exception, &mut threads));
    let (modules, main) = reader.modules(limits);
    let process = reader.process(main);
    Facts { threads, modules, process, crash }
}

struct Reader<'a, 'b> {
    dump: &'a Streams<'a>,
    all: &'a [u8],
    system: Option<MinidumpSystemInfo>,
    misc: Option<MinidumpMiscInfo>,
    warnings: &'b mut Vec<Warning>,
}

impl Reader<'_, '_> {
    /// A stream that passed its guard; a list that did not is said to be left out.
    fn guarded(&mut self, kind: MINIDUMP_STREAM_TYPE, is_fine: impl Fn(&[u8]) -> bool) -> bool {
        match self.dump.get_raw_stream(kind as u32) {
            Ok(stream) if is_fine(stream) => true,
            Ok(_) => {
                let message =
                    format!("{kind:?} of the minidump is cut off or over the limits; it was left out");
                self.warnings.push(Warning::new("dump.limit", message));
                false
            }
            Err(_) => false,
        }
    }

    fn threads(&mut self, limits: &Limits) -> Vec<Thread> {
        if !self.guarded(MINIDUMP_STREAM_TYPE::ThreadListStream, guard::threads) {
            return Vec::new();
        }
        let Ok(list) = self.dump.get_stream::<MinidumpThreadList<'_>>() else {
            self.warnings
                .push(Warning::new("dump.threads", "the list of threads of the minidump is damaged"));
            return Vec::new();
        };
        let names = self.thread_names();
        let mut without = 0;
        let mut threads = Vec::new();
        for raw in list.threads.iter().take(limits.threads) {
            let tid = raw.raw.thread_id;
            let context = self.system.as_ref().and_then(|system| raw.context(system, self.misc.as_ref()));
            let registers = context.as_deref().and_then(context::registers);
            without += u64::from(registers.is_none());
            let (registers, extended) = registers.unzip();
            threads.push(Thread {
                tid: Tid(tid),
                name: names
                    .as_ref()
                    .and_then(|names| names.get_name(tid))
                    .map(|name| name.as_bytes().to_vec()),
                registers,
                extended: extended.unwrap_or_default(),
                signal: None,
                blocked_signals: None,
            });
        }
        if without > 0 {
            let cpu = self.system.as_ref().map_or(Cpu::Unknown(0), |system| system.cpu);
            let what = if cpu == Cpu::X86_64 {
                "their contexts are damaged".to_owned()
            } else {
                format!("the machine is {cpu}, and only registers of x86-64 are read")
            };
            self.warnings.push(Warning::new(
                "dump.no-registers",
                format!("{without} threads of the minidump are without registers: {what}"),
            ));
        }
        threads
    }

    fn thread_names(&mut self) -> Option<MinidumpThreadNames> {
        let all = self.all;
        if self.dump.get_raw_stream(MINIDUMP_STREAM_TYPE::ThreadNamesStream as u32).is_err()
            || !self
                .guarded(MINIDUMP_STREAM_TYPE::ThreadNamesStream, |stream| guard::thread_names(stream, all))
        {
            return None;
        }
        self.dump.get_stream().ok()
    }

    /// Takes the exception over into the thread it happened in, and puts that first.
    fn exception(&self, exception: &MinidumpException<'_>, threads: &mut [Thread]) -> Option<Crash> {
        let system = self.system.as_ref()?;
        let record = &exception.raw.exception_record;
        let tid = exception.get_crashing_thread_id();
        let address = exception.get_crash_address(system.os, system.cpu);
        let address = is_fault(system.os, record.exception_code).then_some(Avma(address));
        let mut description = exception.get_crash_reason(system.os, system.cpu).to_string();
        let kind = match system.os {
            Os::Windows => CrashKind::WindowsException { code: record.exception_code },
            Os::Linux | Os::Android => CrashKind::Signal {
                number: record.exception_code.cast_signed(),
                // Breakpad once wrote no code at all, so 0 need not be `SI_USER`.
                code: Some(record.exception_flags.cast_signed()).filter(|code| *code != 0),
            },
            // Crashpad writes the signal that EXC_CRASH tells into the second parameter, behind the kind of the exception.
            Os::MacOs | Os::Ios
                if record.exception_code == 0
                    && record.exception_information.first() == Some(&EXC_CRASH)
                    && record.number_parameters >= 2 =>
            {
                let signal = (record.exception_information[1] >> 24 & 0xff) as u32;
                description = match signal {
                    6 => "EXC_CRASH / SIGABRT".to_owned(),
                    _ => format!("EXC_CRASH / signal {signal}"),
                };
                CrashKind::MacCrash { signal }
            }
            Os::MacOs | Os::Ios | Os::Solaris | Os::Ps3 | Os::NaCl | Os::Unknown(_) => {
                CrashKind::Other { code: record.exception_code, flags: record.exception_flags }
            }
        };
        let at = threads.iter().position(|thread| thread.tid.0 == tid);
        if let Some(thread) = at.and_then(|at| threads.get_mut(at)) {
            // Where it happened, before anything handled it; the thread's own context is inside of the handler.
            let context: Option<Cow<'_, MinidumpContext>> = exception.context(system, self.misc.as_ref());
            if let Some((registers, extended)) = context.as_deref().and_then(context::registers) {
                thread.registers = Some(registers);
                thread.extended = extended;
            }
            if let CrashKind::Signal { number, code } = kind {
                thread.signal = Some(ThreadSignal { number, code, address, info: None });
            }
        }
        if let Some(at) = at {
            threads[..=at].rotate_right(1);
        }
        // 0xffffffff and friends: the dump was asked for, nothing died (Breakpad's "dump without crash").
        let asked_for = matches!(kind, CrashKind::Signal { number: -1 | 0, .. });
        (!asked_for).then_some(Crash { thread: Some(Tid(tid)), kind, address, description })
    }

    /// Modules by address, and the path of the program, which is the first of the list.
    fn modules(&mut self, limits: &Limits) -> (Vec<ImageModule>, Option<Vec<u8>>) {
        let all = self.all;
        if !self.guarded(MINIDUMP_STREAM_TYPE::ModuleListStream, |stream| guard::modules(stream, all)) {
            return (Vec::new(), None);
        }
        let Ok(list) = self.dump.get_stream::<MinidumpModuleList>() else {
            self.warnings
                .push(Warning::new("dump.modules", "the list of modules of the minidump is damaged"));
            return (Vec::new(), None);
        };
        let mut modules: Vec<ImageModule> = list.iter().take(limits.mappings).filter_map(module).collect();
        modules.order_by_key(|module| module.start);
        let main = list.main_module().map(|main| main.code_file().as_bytes().to_vec());
        (modules, main)
    }

    /// Programs that leave a stream of their own.
    fn writer(&self) -> Option<&'static str> {
        let has = |kind: MINIDUMP_STREAM_TYPE| self.dump.get_raw_stream(kind as u32).is_ok();
        if has(MINIDUMP_STREAM_TYPE::CrashpadInfoStream) {
            Some("crashpad")
        } else if has(MINIDUMP_STREAM_TYPE::BreakpadInfoStream) || has(MINIDUMP_STREAM_TYPE::LinuxMaps) {
            Some("breakpad")
        } else {
            None
        }
    }

    /// The pid in the copy of `/proc/PID/status` that Breakpad takes along.
    fn pid_of_status(&self) -> Option<u32> {
        let status = self.dump.get_raw_stream(MINIDUMP_STREAM_TYPE::LinuxProcStatus as u32).ok()?;
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"))?;
        std::str::from_utf8(line).ok()?.trim().parse().ok()
    }

    fn process(&self, main: Option<Vec<u8>>) -> ProcessFacts {
        let header = &self.dump.header;
        let pid = self.misc.as_ref().and_then(|misc| misc.raw.process_id().copied());
        let pid = pid.or_else(|| self.pid_of_status());
        let system = self.system.as_ref();
        let name = main.as_deref().and_then(|path| path.rsplit(|byte| matches!(byte, b'/' | b'\\')).next());
        ProcessFacts {
            pid: Pid(pid.unwrap_or(0)),
            name: name.unwrap_or_default().to_vec(),
            executable: main,
            writer: self.writer().map(str::to_owned),
            kernel: system.map(|system| {
                let (version, build) = system.os_parts();
                match build {
                    Some(build) => format!("{} {version} {build}", system.os),
                    None => format!("{} {version}", system.os),
                }
            }),
            taken_at_unix_nanos: (header.time_date_stamp != 0)
                .then(|| i64::from(header.time_date_stamp).saturating_mul(1_000_000_000)),
            ..ProcessFacts::default()
        }
    }
}

/// Kind of an exception of macOS that stands for a signal (`mach/exception_types.h`).
const EXC_CRASH: u64 = 10;

/// Whether an exception has the address of what was accessed. Others have that of the code, or none.
fn is_fault(os: Os, code: u32) -> bool {
    /// `EXC_BAD_ACCESS`.
    const BAD_ACCESS: u32 = 1;
    /// `STATUS_ACCESS_VIOLATION`, `STATUS_IN_PAGE_ERROR`.
    const VIOLATIONS: [u32; 2] = [0xc000_0005, 0xc000_0006];
    match os {
        Os::Windows => VIOLATIONS.contains(&code),
        Os::MacOs | Os::Ios => code == BAD_ACCESS,
        _ => matches!(code, 4 | 5 | 7 | 8 | 11),
    }
}

fn module(raw: &MinidumpModule) -> Option<ImageModule> {
    let start = raw.base_address();
    let end = start.checked_add(raw.size())?;
    let (build_id, is_elf) = match &raw.codeview_info {
        Some(CodeView::Elf(elf)) => {
            let known = elf.build_id.iter().any(|byte| *byte != 0);
            (known.then(|| elf.build_id.clone()), true)
        }
        _ => (None, false),
    };
    Some(ImageModule {
        start,
        end,
        path: raw.code_file().as_bytes().to_vec(),
        build_id,
        // Breakpad gives the address of the file's first byte. What lies below 4 GiB was linked there (0x400000 for
        // programs that are not position independent), as the kernel puts nothing else there.
        bias: if is_elf && start >= 1 << 32 { start } else { 0 },
        is_elf,
        deleted: false,
    })
}
