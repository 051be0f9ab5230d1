//! Address spaces: a number that names a place says in its type which space it lives in.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// Actual virtual memory address: where something is in the running process.
    Avma
}
address! {
    /// Stated virtual memory address: where the file says something is (ELF `p_vaddr`, symbol values).
    Svma
}
address! {
    /// A place in code as frames have it: an [`Svma`] in a module of kind `Elf` or `Vdso`, an [`Avma`] otherwise. What is
    /// looked up already: for callers it is the return address minus one.
    LookupAddress
}
address! {
    /// Byte offset into a file.
    FileOffset
}

impl From<Avma> for LookupAddress {
    fn from(address: Avma) -> Self {
        Self(address.0)
    }
}

impl From<Svma> for LookupAddress {
    fn from(address: Svma) -> Self {
        Self(address.0)
    }
}
