//! What the runtime names its own structures by: their addresses, told apart by what lies there.

use std::fmt;

use biopsy_model::Avma;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub Avma);

        impl $name {
            /// Where a field of it is, so many bytes behind its beginning.
            pub(crate) fn at(self, offset: u64) -> u64 {
                self.0.0.wrapping_add(offset)
            }
        }

        impl From<u64> for $name {
            fn from(word: u64) -> Self {
                Self(Avma(word))
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0.0)
            }
        }
    };
}

handle! {
    /// A type: the address of its `MethodTable`, as objects name it, or a tagged `TypeDesc` (bit 1 is set: pointers, references,
    /// type variables).
    TypeHandle
}
handle! {
    /// A method: the address of its `MethodDesc`.
    MethodDesc
}

impl TypeHandle {
    /// Whether it is a tagged `TypeDesc`, of which there are no objects.
    pub(crate) fn is_descriptor(self) -> bool {
        self.0.0 & 2 != 0
    }
}
