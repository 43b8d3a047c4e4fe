//! Register files and their slots.

use millstream_ptx::Type;

pub(crate) type Slot = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RegisterClass {
    Word,
    Double,
    Predicate,
}

impl RegisterClass {
    /// Returns the register file that holds values of `ty`.
    pub(crate) fn of(ty: Type) -> Self {
        match ty {
            Type::Pred => Self::Predicate,
            _ if ty.bytes() == 8 => Self::Double,
            _ => Self::Word,
        }
    }
    /// Returns the register file of a register with this many bytes.
    pub(crate) fn of_bytes(bytes: u8) -> Self {
        if bytes == 8 { Self::Double } else { Self::Word }
    }
}
