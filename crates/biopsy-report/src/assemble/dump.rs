//! A dump in the types of the output schema.

use biopsy_analyze::dump::{
    self, DumpAnalysis, LockKind, LockOwner, LockWait, MemoryClass, MemoryRow, ThreadState,
};

use super::across::{across, circle, holder, orphaned, stuck};
use super::managed::{managed, managed_thread};
use super::strands::runtime;
use crate::schema::dump::{
    Crash, Dump, Frame, Group, Identity, Lock, Looks, Memory, MissingBytes, Module, Queue, Row, Signature,
    SignatureFrame, Thread, Waits,
};
use crate::units::hex;
use crate::words::dump as words;

/// A dump.
pub(crate) fn dump(analysis: &DumpAnalysis) -> Dump {
    let waits = &analysis.waits;
    Dump {
        identity: identity(analysis),
        crash: analysis.crash.as_ref().map(crash),
        signature: analysis.signature.as_ref().map(signature),
        threads: analysis.threads.iter().map(thread).collect(),
        groups: analysis.groups.iter().map(|one| group(analysis, one)).collect(),
        waits: Waits {
            edges: waits.edges.iter().map(|(waiter, owner)| [waiter.0, owner.0]).collect(),
            confidence: waits.confidence.iter().map(|sure| sure.words().to_owned()).collect(),
            cycles: waits.cycles.iter().map(|cycle| cycle.iter().map(|tid| tid.0).collect()).collect(),
            circles: waits.circles.iter().map(circle).collect(),
            queues: waits.queues.iter().map(queue).collect(),
        },
        stuck: analysis.stuck.iter().map(stuck).collect(),
        orphaned: analysis.orphaned.as_ref().map(orphaned),
        across: analysis.across.as_ref().map(across),
        looks: looks(analysis),
        managed: analysis.managed.as_ref().map(managed),
        runtimes: analysis.strands.iter().map(runtime).collect(),
        memory: memory(&analysis.memory),
        modules: analysis.modules.iter().map(module).collect(),
        undetermined: analysis.undetermined.clone(),
    }
}

fn looks(analysis: &DumpAnalysis) -> Option<Looks> {
    let looks = analysis.looks.as_ref()?;
    Some(Looks {
        count: looks.count,
        span_ns: looks.span.map(|span| span.0),
        pauses_ns: looks.pauses.iter().map(|pause| pause.0).collect(),
        lasting_cycles: looks.lasting.clone(),
        summary: words::looks(analysis)?,
    })
}

fn memory(memory: &dump::MemorySplit) -> Memory {
    let missing = memory.missing.iter();
    Memory {
        mapped_bytes: memory.mapped,
        in_dump_bytes: memory.in_dump,
        mappings: memory.mappings,
        classes: memory.classes.iter().map(row).collect(),
        names: memory.names.iter().filter(|row| row.class != MemoryClass::Reserved).map(row).collect(),
        missing: missing
            .map(|missing| MissingBytes { reason: missing.reason.words().to_owned(), bytes: missing.bytes })
            .collect(),
        not_frozen_bytes: (memory.not_frozen > 0).then_some(memory.not_frozen),
    }
}

fn identity(analysis: &DumpAnalysis) -> Identity {
    let identity = &analysis.identity;
    Identity {
        name: identity.name.clone(),
        pid: identity.pid.0,
        parent: identity.parent.map(|pid| pid.0),
        uid: identity.owner.map(|(uid, _)| uid),
        executable: identity.executable.clone(),
        command_line: identity.command_line.clone(),
        kernel: identity.kernel.clone(),
        taken_at: words::taken(identity),
        writer: identity.writer.clone(),
        format: identity.format.clone(),
        kind: identity.kind.clone(),
        scrubbed: identity.scrubbed,
        file_bytes: identity.file_bytes,
        pause_ns: identity.pause.map(|pause| pause.0),
        reason: identity.reason.clone(),
        partial: identity.partial,
        whole_stacks: words::whole_stacks(analysis),
        named_frames: words::named_frames(analysis),
    }
}

fn crash(crash: &dump::Crash) -> Crash {
    let shown = crash.address_kind.as_ref().is_none_or(dump::AddressKind::may_be_shown);
    Crash {
        thread: crash.thread.0,
        signal: crash.signal,
        signal_name: crash.signal_name.clone(),
        code: crash.code.map(|(code, _)| code),
        code_words: crash.code.and_then(|(_, words)| words).map(str::to_owned),
        sender: crash.sender,
        address: crash.address.filter(|_| shown).map(|address| hex(address.0)),
        address_words: crash.address_kind.as_ref().map(dump::AddressKind::words),
        access: crash.access.map(|access| access.word().to_owned()),
        instruction: crash.instruction.as_ref().map(|instruction| instruction.text.clone()),
        function: crash.place.as_ref().map(|place| place.function.clone()),
        reason: crash.reason.map(str::to_owned),
        message: crash.message.clone(),
    }
}

fn signature(signature: &dump::Signature) -> Signature {
    let frame = |frame: &dump::SignatureFrame| SignatureFrame {
        name: frame.name.clone(),
        role: frame.role.word().to_owned(),
    };
    Signature {
        text: signature.text.clone(),
        version: dump::SIGNATURE_VERSION,
        made_from: signature.made_from.word().to_owned(),
        how: signature.how(),
        socorro: signature.socorro.clone(),
        coarse: signature.is_coarse(),
        frames: signature.frames.iter().map(frame).collect(),
    }
}

fn thread(thread: &dump::DumpThread) -> Thread {
    let (state, system_call) = match &thread.state {
        ThreadState::Running => ("running", None),
        ThreadState::InSystemCall { name, .. } => ("system-call", Some(name.clone())),
        ThreadState::Unknown => ("unknown", None),
    };
    Thread {
        tid: thread.tid.0,
        name: thread.named.then(|| thread.name.clone()),
        state: state.to_owned(),
        system_call,
        doing: thread.words(),
        lock: thread.lock.as_ref().map(lock),
        movement: thread.movement.map(|movement| movement.word().to_owned()),
        managed: thread.managed.as_ref().map(managed_thread),
        cpu_ns: thread.cpu.map(|time| time.0),
        wait_channel: thread.wait_channel.clone(),
        signal: thread.signal,
        group: thread.group,
    }
}

fn lock(lock: &LockWait) -> Lock {
    owned(lock.lock, lock.kind, lock.object.as_ref(), lock.owner, &lock.proof)
}

fn owned(address: u64, kind: dump::LockKind, object: Option<&String>, owner: LockOwner, proof: &str) -> Lock {
    let (owner, gone) = match owner {
        LockOwner::Thread(tid) => (Some(tid.0), false),
        LockOwner::Elsewhere(tid) => (Some(tid.0), true),
        LockOwner::Readers | LockOwner::NotKnown => (None, false),
    };
    Lock {
        address: hex(address),
        kind: kind.words().to_owned(),
        wants: wants(kind).to_owned(),
        object: object.cloned(),
        owner,
        owner_is_gone: gone,
        proof: proof.to_owned(),
    }
}

fn queue(queue: &dump::LockQueue) -> Queue {
    Queue {
        lock: owned(queue.lock, queue.kind, queue.object.as_ref(), queue.owner, &queue.proof),
        waiters: queue.waiters.iter().map(|tid| tid.0).collect(),
        holders: queue.holders.iter().map(holder).collect(),
    }
}

fn group(analysis: &DumpAnalysis, group: &dump::StackGroup) -> Group {
    let members = group.members.iter().filter_map(|index| analysis.threads.get(*index));
    Group {
        names: words::names(analysis, group),
        running: group.running,
        own_function: group.own_frame().map(dump::FrameRow::label),
        threads: members.map(|thread| thread.tid.0).collect(),
        doing: group.doing.clone(),
        crashed: group.crashed,
        deadlocked: group.in_cycle,
        frames: group.frames.iter().map(frame).collect(),
        depth: group.depth,
        ends_early: words::end(group).map(str::to_owned),
    }
}

fn frame(row: &dump::FrameRow) -> Frame {
    let (times, rows) = row.repeats;
    Frame {
        function: row.function.clone(),
        module: row.module.clone(),
        offset: hex(row.offset.0),
        address: hex(row.address.0),
        file: row.source.as_ref().map(|(file, _)| file.clone()),
        line: row.source.as_ref().and_then(|(_, line)| *line),
        label: row.label(),
        managed: row.managed,
        inlined: row.inlined,
        found_by: row.found_word().to_owned(),
        repeated: (times > 1).then_some(times),
        repeated_rows: (times > 1).then_some(rows),
        skipped: (row.skipped > 0).then_some(row.skipped),
    }
}

fn row(row: &MemoryRow) -> Row {
    Row {
        kind: row.class.words().to_owned(),
        name: row.name.clone(),
        mappings: row.mappings,
        mapped_bytes: row.mapped,
        in_dump_bytes: row.in_dump,
    }
}

fn module(module: &dump::ModuleRow) -> Module {
    Module {
        path: module.path.clone(),
        start: hex(module.start.0),
        end: hex(module.end.0),
        build_id: module.build_id.clone(),
        symbols: match module.symbols {
            dump::SymbolStatus::None => "none",
            dump::SymbolStatus::Exported => "exported",
            dump::SymbolStatus::Symbols => "symbols",
            dump::SymbolStatus::Debug => "debug",
            dump::SymbolStatus::Compiled => "compiled",
        }
        .to_owned(),
        status: module.words.clone(),
        frames: module.frames,
        deleted: module.deleted,
    }
}

/// What a thread wants that waits for a lock of this kind.
fn wants(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Mutex => "wants its mutex",
        LockKind::Spin => "wants its spin lock",
        LockKind::Monitor => "wants its monitor",
        LockKind::SystemLock => "wants its lock",
        LockKind::Pulse => "waits for its pulse",
        LockKind::Initialization | LockKind::Once => "waits for what it makes",
        LockKind::Interpreter => "wants to run",
        LockKind::RwLockRead => "wants to read",
        LockKind::RwLockWrite => "wants to write",
        LockKind::Join => "waits for its end",
        LockKind::Condition | LockKind::Semaphore | LockKind::Barrier | LockKind::Futex => "waits",
    }
}
