//! The addresses of a warp's memory access, and their pattern.

use std::ops::Range;

use super::fault::KernelFaultKind;
use super::indices::wrapped;
use super::registers::{Doubles, LANES, Registers, lanes};
use crate::ptx::ir::{Address, AddressBase, Window};

/// The fault of an access: the failing lane and the reason.
pub(super) type LaneFault = (usize, KernelFaultKind);

/// A memory access of a warp: its addresses and active lanes.
#[derive(Clone, Copy)]
pub(super) struct WarpAccess {
    pub(super) addresses: Doubles,
    pub(super) mask: u32,
    /// The size of one lane's access in bytes, a power of two.
    pub(super) bytes: usize,
    pub(super) write: bool,
}

/// The pattern of the active lanes' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressPattern {
    /// All addresses are equal.
    Uniform,
    /// The addresses are consecutive, in lane order.
    Consecutive,
    Scattered,
}

impl WarpAccess {
    #[inline(always)]
    pub(super) fn new(
        r: &Registers,
        address: Address,
        mask: u32,
        bytes: usize,
        write: bool,
    ) -> Self {
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
                // A 32-bit address wraps at 2^32.
                for lane in 0..LANES {
                    addresses[lane] = base[lane].wrapping_add(offset as u32).into();
                }
            }
            AddressBase::Offset(slot) => {
                let base = r.double(slot);
                for lane in 0..LANES {
                    addresses[lane] = wrapped(base[lane], offset);
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

    /// Returns the first active lane.
    #[inline(always)]
    pub(super) fn first(&self) -> usize {
        self.mask.trailing_zeros() as usize & 31
    }

    /// Returns the range from the first to the last active lane.
    #[inline(always)]
    pub(super) fn span(&self) -> Range<usize> {
        self.first()..LANES - self.mask.leading_zeros() as usize
    }

    /// Returns whether all lanes of [`Self::span`] are active.
    #[inline(always)]
    pub(super) fn is_gapless(&self) -> bool {
        self.mask.count_ones() as usize == self.span().len()
    }

    #[inline(always)]
    pub(super) fn pattern(&self) -> AddressPattern {
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
            return AddressPattern::Consecutive;
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
            AddressPattern::Uniform
        } else {
            AddressPattern::Scattered
        }
    }

    /// Returns the active lanes that continue a run: each run consists of adjacent lanes with
    /// consecutive addresses.
    #[inline(always)]
    pub(super) fn continuing(&self) -> u32 {
        let step = self.bytes as u64;
        let mut follows = 0;
        for lane in 1..LANES {
            let expected = self.addresses[lane - 1].wrapping_add(step);
            follows |= if self.addresses[lane] == expected {
                1u32 << lane
            } else {
                0
            };
        }
        // A lane after an inactive lane begins a new run.
        follows & self.mask & (self.mask << 1)
    }

    /// Iterates over the runs of active lanes, in order, given the lanes that continue one.
    #[inline(always)]
    pub(super) fn runs(&self, follows: u32) -> impl Iterator<Item = Range<usize>> + use<> {
        let mut starts = self.mask & !follows;
        std::iter::from_fn(move || {
            (starts != 0).then(|| {
                let start = starts.trailing_zeros();
                starts &= starts - 1;
                // The number of lanes that continue the run.
                let more = (!(follows >> start >> 1)).trailing_zeros();
                start as usize..(start + 1 + more) as usize
            })
        })
    }

    /// Returns the fault of the first active lane whose address is not a multiple of the access
    /// size.
    #[inline(always)]
    pub(super) fn check_alignment(&self) -> Result<(), LaneFault> {
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
    fn misaligned(&self, wrong: u32) -> LaneFault {
        let lane = wrong.trailing_zeros() as usize;
        let (address, bytes, write) = (self.addresses[lane], self.bytes as u32, self.write);
        (
            lane,
            KernelFaultKind::Misaligned {
                address,
                bytes,
                write,
            },
        )
    }

    pub(super) fn out_of_bounds(&self, lane: usize) -> LaneFault {
        let (address, bytes, write) = (self.addresses[lane], self.bytes as u32, self.write);
        (
            lane,
            KernelFaultKind::OutOfBounds {
                address,
                bytes,
                write,
            },
        )
    }
}

/// Returns the part of a generic access that lies in `window`, with addresses relative to the
/// window.
pub(super) fn in_window(warp_access: &WarpAccess, window: Window) -> Option<WarpAccess> {
    let inside =
        lanes(warp_access.mask).filter(|lane| Window::of(warp_access.addresses[*lane]) == window);
    let mask = inside.fold(0, |mask, lane| mask | 1 << lane);
    let addresses = warp_access
        .addresses
        .map(|address| address.wrapping_sub(window.base()));
    (mask != 0).then_some(WarpAccess {
        addresses,
        mask,
        ..*warp_access
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::registers::FULL;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pattern_is_that_of_the_active_lanes(mask in 1u32.., step in 0u64..6) {
            for (at, mask) in (0..LANES).flat_map(|at| [(at, mask), (at, FULL)]) {
                let mut addresses = std::array::from_fn(|lane| 64 + lane as u64 * (step / 2 * 4));
                addresses[at] += step % 2 * 4;
                let access = WarpAccess { addresses, mask, bytes: 4, write: false };
                let first = access.first();
                let all = |step: u64| (0..LANES).filter(|lane| mask >> lane & 1 == 1).all(|lane| {
                    let distance = (lane - first) as u64 * step;
                    addresses[lane] == addresses[first] + distance
                });
                let expected = match (all(4), all(0)) {
                    (true, _) => AddressPattern::Consecutive,
                    (_, true) => AddressPattern::Uniform,
                    _ => AddressPattern::Scattered,
                };
                prop_assert_eq!(access.pattern(), expected);
            }
        }
    }
}
