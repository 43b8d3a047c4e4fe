//! The indices of a warp's values in memory, checked once, and reads that rely on the check.
#![allow(unsafe_code, reason = "reads values whose indices are checked")]

use super::registers::{LANES, Registers};
use super::warp_access::WarpAccess;
use crate::ptx::ir::{Access, AddressBase};

/// The layout of a per-block or per-thread memory window.
#[derive(Clone, Copy)]
pub(super) struct WindowLayout {
    /// The number of bytes that a lane can access.
    pub(super) bytes: usize,
    /// The distance between the bytes of adjacent lanes; 0 if all lanes share the same bytes.
    pub(super) stride: usize,
}

/// The index of each lane's first value, in units of the access's width.
///
/// Invariant: `(first[lane] + count) * width <= end` for each lane.
pub(super) struct Indices {
    first: [u32; LANES],
    count: usize,
    width: usize,
    /// The number of bytes that the memory must have.
    end: usize,
}

impl Indices {
    /// Returns the indices of a warp's access in a memory window.
    ///
    /// Inactive lanes get any index inside the window. Returns `None` if an active lane's access is
    /// out of bounds or misaligned.
    #[inline(always)]
    pub(super) fn in_window(
        r: &Registers,
        access: &Access,
        mask: u32,
        layout: WindowLayout,
    ) -> Option<Self> {
        let offset = access.address.offset.cast_unsigned();
        match access.address.base {
            AddressBase::None => Self::checked(|_| offset, access, mask, layout),
            AddressBase::Double(slot) | AddressBase::Offset(slot) => {
                let base = r.double(slot);
                Self::checked(|lane| wrapped(base[lane], offset), access, mask, layout)
            }
            AddressBase::Word(slot) => {
                let base = r.word(slot);
                let address = |lane: usize| base[lane].wrapping_add(offset as u32);
                Self::checked(address, access, mask, layout)
            }
        }
    }

    /// Returns the indices of a warp's access with generic addresses in a memory window: see
    /// [`Self::in_window`].
    pub(super) fn of(
        warp_access: &WarpAccess,
        access: &Access,
        layout: WindowLayout,
    ) -> Option<Self> {
        let address = |lane: usize| warp_access.addresses[lane];
        Self::checked(address, access, warp_access.mask, layout)
    }

    /// Returns the indices of a staging buffer with `stride` bytes per lane, at least those of the
    /// access; 0 bytes for one value shared by all lanes.
    #[inline(always)]
    pub(super) fn staged(access: &Access, stride: usize) -> Self {
        let layout = WindowLayout {
            bytes: access.bytes(),
            stride,
        };
        Self::new([0; LANES], access, layout)
    }

    #[inline(always)]
    fn checked<A: WindowAddress>(
        address: impl Fn(usize) -> A,
        access: &Access,
        mask: u32,
        layout: WindowLayout,
    ) -> Option<Self> {
        let bytes = access.bytes();
        let shift = access.width.trailing_zeros();
        // The first offset at which an access no longer fits.
        let end = A::limit((layout.bytes + 1).saturating_sub(bytes));
        let low_bits = A::limit(bytes - 1);
        let mut first = [0; LANES];
        let mut wrong = 0;
        for lane in 0..LANES {
            let address = address(lane);
            let bad = (address >= end) | (address & low_bits != A::limit(0));
            wrong |= if bad { 1u32 << lane } else { 0 };
            first[lane] = if bad { 0 } else { address.index(shift) };
        }
        // If the mask has a lane, its access fits, and so does one at index 0.
        (mask != 0 && wrong & mask == 0).then(|| Self::new(first, access, layout))
    }

    /// Offsets each lane's index by the start of the lane's part of the memory. The caller has
    /// checked that the access fits at each index of a lane's part.
    #[inline(always)]
    fn new(mut first: [u32; LANES], access: &Access, layout: WindowLayout) -> Self {
        let (width, count) = (usize::from(access.width), usize::from(access.count));
        if layout.stride > 0 {
            let shift = access.width.trailing_zeros();
            for lane in 0..LANES {
                first[lane] += ((lane * layout.stride) >> shift) as u32;
            }
        }
        Self {
            first,
            count,
            width,
            end: (LANES - 1) * layout.stride + layout.bytes,
        }
    }

    /// Returns the index of a lane's first value.
    #[inline(always)]
    pub(super) fn first(&self, lane: usize) -> usize {
        self.first[lane] as usize
    }

    /// Reads the value `part` of each lane.
    ///
    /// # Panics
    /// If the memory is smaller than the one checked, or the access has no such value of this size.
    #[inline(always)]
    pub(super) fn read<T: MemoryValue>(&self, memory: &[u8], part: usize) -> [T; LANES] {
        assert!(size_of::<T>() == self.width && part < self.count && self.end <= memory.len());
        let values = memory.as_ptr().cast::<T>();
        let mut read = [T::default(); LANES];
        for lane in 0..LANES {
            let at = self.first[lane] as usize + part;
            // SAFETY: by the invariant of this type and the assertion, the value ends at most `end`
            // bytes after the start of the memory, which is as long.
            let value = unsafe { values.add(at) };
            // SAFETY: as above; all bytes are valid integers.
            read[lane] = unsafe { value.read_unaligned() }.little_endian();
        }
        read
    }
}

/// An unsigned integer.
pub(super) trait MemoryValue: Copy + Default {
    /// Converts a value whose bytes are in little-endian order.
    fn little_endian(self) -> Self;
}

macro_rules! memory_values {
    ($($ty:ty),*) => {$(
        impl MemoryValue for $ty {
            #[inline(always)]
            fn little_endian(self) -> Self {
                Self::from_le(self)
            }
        }
    )*};
}
memory_values!(u8, u16, u32, u64);

/// A 32-bit or 64-bit address relative to a window.
trait WindowAddress: Copy + PartialOrd + std::ops::BitAnd<Output = Self> {
    /// Returns a size of the window, which has less than 4 GiB.
    fn limit(bytes: usize) -> Self;

    /// Returns the address of a value in units of its size.
    fn index(self, shift: u32) -> u32;
}

impl WindowAddress for u32 {
    #[inline(always)]
    fn limit(bytes: usize) -> Self {
        Self::try_from(bytes).unwrap_or(Self::MAX)
    }

    #[inline(always)]
    fn index(self, shift: u32) -> u32 {
        self >> shift
    }
}

impl WindowAddress for u64 {
    #[inline(always)]
    fn limit(bytes: usize) -> Self {
        bytes as Self
    }

    #[inline(always)]
    fn index(self, shift: u32) -> u32 {
        (self >> shift) as u32
    }
}

/// Adds an offset to an address in shared or local memory: see [`AddressBase::Offset`].
#[inline(always)]
pub(super) fn wrapped(base: u64, offset: u64) -> u64 {
    let sum = base.wrapping_add(offset);
    if base >> 32 == 0 {
        sum & 0xffff_ffff
    } else {
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::registers::FULL;
    use crate::ptx::ir::{AccessSpace, Address, Code, MemoryOrder, Window};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn active_lanes_are_read_if_all_are_in_bounds_and_the_others_stay_inside(
            mask in 1u32..,
            (width, count) in (0u32..4, 0u32..3),
            (values, beyond, stride, offset) in (1usize..9, 0usize..3, 0usize..2, 0i64..3),
        ) {
            let (width, count) = (1 << width, if width == 3 { 1 } else { 1 << count });
            let bytes = usize::from(width * count);
            let layout = WindowLayout { bytes: values * bytes + beyond, stride: stride * 160 };
            let all = 31 * layout.stride + layout.bytes;
            let memory: Vec<u8> = (0..all).map(|at| at as u8).collect();
            let (end, offset) = (layout.bytes as u64, offset * bytes as i64);
            let wild = [1, end, end + 1, end.wrapping_sub(bytes as u64) + 1, 1 << 32, 1 << 63];
            let cases = (0..LANES).flat_map(|odd| wild.map(|wild| (odd, wild)));
            for ((odd, wild), mask) in cases.flat_map(|case| [(case, mask), (case, FULL)]) {
                let mut to = std::array::from_fn(|lane| (lane % values * bytes) as u64);
                to[odd] = wild;
                let mut r = Registers::default();
                r.reset(&Code { doubles: 1, ..Code::default() });
                let base = to.map(|to| wrapped(to, offset.wrapping_neg().cast_unsigned()));
                r.set_double(0, FULL, &base);
                let access = Access {
                    space: AccessSpace::Is(Window::Shared),
                    address: Address { base: AddressBase::Offset(0), offset },
                    width, count, sign_extend: 0, double: false, float: None, synchronises: false,
                    order: MemoryOrder::default(), values: [0; 4],
                };
                let to = base.map(|base| wrapped(base, offset.cast_unsigned()));
                let fits = |to: u64| to.is_multiple_of(bytes as u64) && to <= end - bytes as u64;
                let expected = (0..LANES).all(|lane| mask >> lane & 1 == 0 || fits(to[lane]));
                let indices = Indices::in_window(&r, &access, mask, layout);
                prop_assert_eq!(indices.is_some(), expected, "{} at lane {}", wild, odd);
                let Some(indices) = indices else { continue };
                for lane in 0..LANES {
                    let first = indices.first(lane) * usize::from(width);
                    prop_assert!(first + bytes <= memory.len(), "lane {} reads outside", lane);
                    if mask >> lane & 1 == 1 {
                        prop_assert_eq!(first, lane * layout.stride + to[lane] as usize);
                    }
                }
                if width == 1 {
                    let last = count as usize - 1;
                    let read = indices.read::<u8>(&memory, last);
                    let at = |lane| memory[indices.first(lane) + last];
                    prop_assert!((0..LANES).all(|lane| read[lane] == at(lane)));
                }
            }
        }
    }
}
