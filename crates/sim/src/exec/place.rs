//! Where the lanes of an access begin, and how they lie to each other.

use super::fault::FaultKind;
use super::registers::{Doubles, LANES, Registers, lanes};
use crate::ptx::code::{Address, AddressBase};

/// An access that failed: which lane, and how.
pub(super) type Failure = (usize, FaultKind);

/// The addresses of an access.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) addresses: Doubles,
    pub(super) mask: u32,
    /// Bytes of one lane's access, a power of two.
    pub(super) bytes: usize,
    pub(super) write: bool,
}

/// How the lanes' addresses lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// All the same.
    Uniform,
    /// One behind the other, in the order of lanes.
    Consecutive,
    Scattered,
}

impl Place {
    #[inline(always)]
    pub(super) fn new(r: &Registers, address: Address, mask: u32, bytes: usize, write: bool) -> Self {
        let offset = address.offset.cast_unsigned();
        let mut addresses = [offset; LANES];
        match address.base {
            AddressBase::None => {}
            AddressBase::Double(slot) => {
                let base = r.double(slot);
                for lane in 0..LANES {
                    addresses[lane] = base[lane].wrapping_add(offset);
                }
            }
            AddressBase::Word(slot) => {
                let base = r.word(slot);
                for lane in 0..LANES {
                    addresses[lane] = u64::from(base[lane]).wrapping_add(offset);
                }
            }
        }
        Self {
            addresses,
            mask,
            bytes,
            write,
        }
    }

    /// The first lane that takes part.
    #[inline(always)]
    pub(super) fn first(&self) -> usize {
        self.mask.trailing_zeros() as usize & 31
    }

    /// The lanes from the first to the last that takes part.
    #[inline(always)]
    pub(super) fn span(&self) -> std::ops::Range<usize> {
        self.first()..LANES - self.mask.leading_zeros() as usize
    }

    /// Whether all lanes of [`Self::span`] take part.
    #[inline(always)]
    pub(super) fn is_gapless(&self) -> bool {
        self.mask.count_ones() as usize == self.span().len()
    }

    #[inline(always)]
    pub(super) fn pattern(&self) -> Pattern {
        let first = self.first();
        let start = self.addresses[first];
        let step = self.bytes as u64;
        let origin = start.wrapping_sub(first as u64 * step);
        let mut stray = 0;
        for lane in 0..LANES {
            let expected = origin.wrapping_add(lane as u64 * step);
            stray |= if self.addresses[lane] == expected {
                0
            } else {
                1u32 << lane
            };
        }
        if stray & self.mask == 0 {
            return Pattern::Consecutive;
        }
        let mut differ = 0;
        for lane in 0..LANES {
            differ |= if self.addresses[lane] == start {
                0
            } else {
                1u32 << lane
            };
        }
        if differ & self.mask == 0 {
            Pattern::Uniform
        } else {
            Pattern::Scattered
        }
    }

    /// Fails for the first lane whose address is not a multiple of the access's size.
    #[inline(always)]
    pub(super) fn check_alignment(&self) -> Result<(), Failure> {
        let low_bits = self.bytes as u64 - 1;
        let mut wrong = 0;
        for lane in 0..LANES {
            wrong |= if self.addresses[lane] & low_bits == 0 {
                0
            } else {
                1u32 << lane
            };
        }
        if wrong & self.mask == 0 {
            Ok(())
        } else {
            Err(self.misaligned(wrong & self.mask))
        }
    }

    #[cold]
    fn misaligned(&self, wrong: u32) -> Failure {
        let lane = wrong.trailing_zeros() as usize;
        let (address, bytes, write) = (self.addresses[lane], self.bytes as u32, self.write);
        (
            lane,
            FaultKind::Misaligned {
                address,
                bytes,
                write,
            },
        )
    }

    pub(super) fn out_of_bounds(&self, lane: usize) -> Failure {
        let (address, bytes, write) = (self.addresses[lane], self.bytes as u32, self.write);
        (
            lane,
            FaultKind::OutOfBounds {
                address,
                bytes,
                write,
            },
        )
    }

    /// Where each lane's access begins in a memory that has `stride` bytes for each lane, or, with a stride of 0, one for all of
    /// `memory_bytes`; in units of `unit` bytes. Lanes that do not take part are sent to 0. The error is the first lane that would reach
    /// outside.
    #[inline(always)]
    pub(super) fn indices(
        &self,
        memory_bytes: usize,
        stride: usize,
        unit: usize,
    ) -> Result<[usize; LANES], usize> {
        let limit = if stride == 0 { memory_bytes } else { stride };
        let shift = unit.trailing_zeros();
        // Addresses below 2^32 are compared as words; no block's or thread's memory is larger.
        let fitting = limit.saturating_sub(self.bytes - 1) as u64;
        let mut indices = [0; LANES];
        let mut outside = 0;
        for lane in 0..LANES {
            let address = self.addresses[lane];
            outside |= if address >= fitting { 1u32 << lane } else { 0 };
            indices[lane] = if self.mask & (1 << lane) == 0 {
                0
            } else {
                (address >> shift) as usize
            };
        }
        if outside & self.mask != 0 {
            return Err((outside & self.mask).trailing_zeros() as usize);
        }
        if stride > 0 {
            for lane in lanes(self.mask) {
                indices[lane] += lane * stride >> shift;
            }
        }
        Ok(indices)
    }
}
