//! The order of the elements of tiles in shared memory.
//!
//! A line of a tile holds the elements of one query, key or value, as chunks of 16 bytes. Threads
//! of a warp read the same chunk of several lines at once, which would lie in the same banks if
//! lines were stored as they are. The number of a chunk is therefore combined with that of its line
//! by an exclusive or ([`Swizzle`]), which takes no memory, unlike padding.

use crate::{
    emit::body::{KernelBody, Reg, RegClass, line},
    plan::order::attention::{CHUNK_BYTES, CHUNKS, LINE_BYTES},
};

/// The number of queries that a warp computes at the same time.
pub(crate) const WARP_LINES: usize = 2;

/// The order of the chunks of a line in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Swizzle {
    /// As in memory.
    None,
    /// In lines with odd numbers, each four chunks change places with the next four.
    Halves,
    /// Each chunk of eight has the place of its number combined with the number of the line.
    Eighths,
}

impl Swizzle {
    /// Returns the bits of an address that differ between a line and the first one.
    pub(crate) fn bits(self, line: usize) -> usize {
        match self {
            Swizzle::None => 0,
            Swizzle::Halves => (line & 1) * (LINE_BYTES / 2),
            Swizzle::Eighths => (line & (CHUNKS - 1)) * CHUNK_BYTES,
        }
    }

    /// Computes these bits for a line whose number is in a register.
    pub(crate) fn bits_of(self, body: &mut KernelBody, line: Reg) -> Reg {
        let bits = body.reg(RegClass::B32);
        let (mask, unit) = match self {
            Swizzle::None => (0, 1),
            Swizzle::Halves => (1, LINE_BYTES / 2),
            Swizzle::Eighths => (CHUNKS - 1, CHUNK_BYTES),
        };
        line!(body; "and.b32 {bits}, {line}, {mask};");
        line!(body; "mul.lo.u32 {bits}, {bits}, {unit};");
        bits
    }
}
