//! The kernel's own type information (BTF): where the fields are that programs read.
//!
//! Format: Documentation/bpf/btf.rst. Read from `/sys/kernel/btf/vmlinux`.

use std::io;

/// Types of the running kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// Offset of each type's record in `bytes`; type ids count from 1.
    types: Vec<u32>,
    strings: usize,
}

mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

struct Type {
    name: u32,
    kind: u32,
    /// The high bit of `info`: member offsets share their word with a bit-field size.
    kind_flag: bool,
    vlen: u32,
    /// Size, or the type that is referred to.
    size_or_type: u32,
    /// Offset of what follows the record.
    extra: usize,
}

impl Btf {
    /// Reads the running kernel's types.
    ///
    /// # Errors
    /// ENOENT when the kernel was built without BTF; `InvalidData` when the file is not what it should be.
    pub fn of_kernel() -> io::Result<Self> {
        Self::parse(std::fs::read("/sys/kernel/btf/vmlinux")?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "kernel type information is malformed"))
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        const MAGIC: u32 = 0xeb9f;
        if word(&bytes, 0)? & 0xffff != MAGIC {
            return None;
        }
        let header = word(&bytes, 4)? as usize;
        let types_start = header.checked_add(word(&bytes, 8)? as usize)?;
        let types_end = types_start.checked_add(word(&bytes, 12)? as usize)?;
        let strings = header.checked_add(word(&bytes, 16)? as usize)?;
        let mut btf = Self { bytes, types: Vec::new(), strings };
        let mut at = types_start;
        while at < types_end {
            let record = btf.record(at)?;
            btf.types.push(u32::try_from(at).ok()?);
            let extra = match record.kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => record.vlen as usize * 12,
                kind::ENUM | kind::FUNC_PROTO => record.vlen as usize * 8,
                _ => 0,
            };
            at = record.extra + extra;
        }
        Some(btf)
    }

    fn record(&self, at: usize) -> Option<Type> {
        let info = word(&self.bytes, at + 4)?;
        Some(Type {
            name: word(&self.bytes, at)?,
            kind: info >> 24 & 0x1f,
            kind_flag: info >> 31 != 0,
            vlen: info & 0xffff,
            size_or_type: word(&self.bytes, at + 8)?,
            extra: at + 12,
        })
    }

    fn by_id(&self, id: u32) -> Option<Type> {
        self.record(*self.types.get((id as usize).checked_sub(1)?)? as usize)
    }

    fn name_is(&self, offset: u32, name: &str) -> bool {
        let start = self.strings + offset as usize;
        self.bytes.get(start..start + name.len()) == Some(name.as_bytes())
            && self.bytes.get(start + name.len()) == Some(&0)
    }

    fn find(&self, kind: u32, name: &str) -> Option<(u32, Type)> {
        (1..=u32::try_from(self.types.len()).ok()?).find_map(|id| {
            let record = self.by_id(id)?;
            (record.kind == kind && self.name_is(record.name, name)).then_some((id, record))
        })
    }

    /// Byte offset of a member in a struct, also inside its anonymous members (randomised layouts have those).
    #[must_use]
    pub fn member_offset(&self, of_struct: &str, member: &str) -> Option<u32> {
        let (_, record) = self.find(kind::STRUCT, of_struct)?;
        let mut queue = vec![(record, 0_u32)];
        let mut looked_at = 0;
        while let Some((record, base)) = queue.pop() {
            looked_at += 1;
            if looked_at > 1000 {
                return None;
            }
            for index in 0..record.vlen as usize {
                let at = record.extra + index * 12;
                let bits = word(&self.bytes, at + 8)?;
                let bits = if record.kind_flag { bits & 0x00ff_ffff } else { bits };
                let offset = base.checked_add(bits / 8)?;
                let name = word(&self.bytes, at)?;
                if self.name_is(name, member) {
                    return Some(offset);
                }
                if self.name_is(name, "") {
                    let inner = self.by_id(word(&self.bytes, at + 4)?)?;
                    if inner.kind == kind::STRUCT || inner.kind == kind::UNION {
                        queue.push((inner, offset));
                    }
                }
            }
        }
        None
    }

    /// Id of a tracepoint's arguments, for [`super::ProgramKind::TypedTracepoint`].
    #[must_use]
    pub fn raw_tracepoint(&self, tracepoint: &str) -> Option<u32> {
        self.find(kind::TYPEDEF, &format!("btf_trace_{tracepoint}")).map(|(id, _)| id)
    }

    /// Id of a function, for [`super::asm::Assembler::kernel_function`].
    #[must_use]
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(kind::FUNC, name).map(|(id, _)| id)
    }

    /// Id of a struct.
    #[must_use]
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(kind::STRUCT, name).map(|(id, _)| id)
    }

    /// Number of arguments that a raw tracepoint gives to programs.
    #[must_use]
    pub fn raw_tracepoint_arguments(&self, tracepoint: &str) -> Option<u32> {
        // `typedef void (*btf_trace_NAME)(void *__data, arguments ...)`
        let (_, typedef) = self.find(kind::TYPEDEF, &format!("btf_trace_{tracepoint}"))?;
        let pointer = self.by_id(typedef.size_or_type)?;
        if pointer.kind != kind::PTR {
            return None;
        }
        let function = self.by_id(pointer.size_or_type)?;
        if function.kind != kind::FUNC_PROTO {
            return None;
        }
        function.vlen.checked_sub(1)
    }

    /// Id of a variable, for [`super::asm::Assembler::kernel_variable`].
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<u32> {
        self.find(kind::VAR, name).map(|(id, _)| id)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_the_recorder_needs() {
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Bpf) {
            return;
        }
        let btf = Btf::of_kernel().unwrap();
        assert!(btf.member_offset("task_struct", "pid").unwrap() > 0);
        assert_eq!(
            btf.member_offset("task_struct", "tgid").unwrap(),
            btf.member_offset("task_struct", "pid").unwrap() + 4
        );
        assert!(btf.raw_tracepoint_arguments("sched_switch").unwrap() >= 3);
        assert_eq!(btf.raw_tracepoint_arguments("sched_waking"), Some(1));
        assert_eq!(btf.member_offset("task_struct", "no_such_member"), None);
    }

    #[test]
    fn garbage_is_refused() {
        assert!(Btf::parse(vec![0x9f, 0xeb, 1, 0, 255, 255, 255, 255]).is_none());
        assert!(Btf::parse(Vec::new()).is_none());
    }
}
