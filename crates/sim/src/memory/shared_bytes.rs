//! Shared bytes: simulated memory that several threads access concurrently. All accesses to
//! simulated memory go through this type.
#![allow(unsafe_code, reason = "host and device threads share this memory")]

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// The size of the staging buffer for a copy between two [`SharedBytes`].
const STAGE_BYTES: usize = 4096;

/// A range of simulated memory that threads share.
///
/// Every access is a relaxed atomic of its width with a bounds check: a kernel that races with
/// another reads some value, as on a GPU, and never accesses bytes outside its allocation. Accesses
/// of 2, 4 and 8 bytes must be naturally aligned in memory (allocations are aligned to 256 bytes,
/// so aligned offsets are aligned addresses).
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes<'a> {
    pointer: *mut u8,
    len: usize,
    life: PhantomData<&'a [AtomicU8]>,
}

// SAFETY: a `SharedBytes` is a shared slice of atomics (see `from_raw`), which may be sent and
// shared.
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedBytes<'_> {}

/// Defines the load, store and read-modify-write of one width.
macro_rules! scalar {
    ($load:ident, $store:ident, $update:ident, $value:ty, $atomic:ty) => {
        #[doc = concat!("Loads the `", stringify!($value), "` at `offset`.")]
        /// Returns `None` if it is out of bounds or misaligned.
        #[inline(always)]
        pub fn $load(&self, offset: usize) -> Option<$value> {
            let pointer = self.at::<$value>(offset)?;
            // SAFETY: `at` has checked bounds and alignment; the contract of `from_raw` gives
            // validity and atomic-only access.
            let cell = unsafe { <$atomic>::from_ptr(pointer) };
            Some(<$value>::from_le(cell.load(Relaxed)))
        }

        #[doc = concat!("Stores a `", stringify!($value), "` at `offset`.")]
        /// Returns `None` if it is out of bounds or misaligned.
        #[inline(always)]
        pub fn $store(&self, offset: usize, value: $value) -> Option<()> {
            let pointer = self.at::<$value>(offset)?;
            // SAFETY: as in the load.
            let cell = unsafe { <$atomic>::from_ptr(pointer) };
            cell.store(value.to_le(), Relaxed);
            Some(())
        }

        #[doc = concat!("Atomically replaces the `", stringify!($value), "` at `offset`.")]
        /// The new value is `change` of the old value, which is returned. Returns `None` if the
        /// value is out of bounds or misaligned. `change` may be called more than once.
        ///
        /// All `atom` operations use it: add, min, max, and, or, xor, exchange, compare-and-swap,
        /// and the floating-point ones.
        #[inline(always)]
        pub fn $update(
            &self,
            offset: usize,
            mut change: impl FnMut($value) -> $value,
        ) -> Option<$value> {
            let pointer = self.at::<$value>(offset)?;
            // SAFETY: as in the load.
            let cell = unsafe { <$atomic>::from_ptr(pointer) };
            let mut old = cell.load(Relaxed);
            loop {
                let new = change(<$value>::from_le(old)).to_le();
                match cell.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                    Ok(_) => return Some(<$value>::from_le(old)),
                    Err(now) => old = now,
                }
            }
        }
    };
}

impl<'a> SharedBytes<'a> {
    /// Creates a range of the `len` bytes from `pointer`.
    ///
    /// # Safety
    /// For all of `'a` the bytes must be valid for reads and writes, and every concurrent access to
    /// them must go through a `SharedBytes` or through atomics. The behaviour of concurrent
    /// accesses of different widths to the same bytes is left to the processor, which performs each
    /// aligned access as a whole on the supported machines.
    pub unsafe fn from_raw(pointer: *mut u8, len: usize) -> Self {
        Self {
            pointer,
            len,
            life: PhantomData,
        }
    }

    /// Returns the number of bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the `len` bytes from `offset`, or `None` if they are out of bounds.
    pub fn slice(&self, offset: usize, len: usize) -> Option<SharedBytes<'a>> {
        self.check(offset, len)?;
        Some(Self {
            pointer: self.pointer.wrapping_add(offset),
            len,
            life: PhantomData,
        })
    }

    scalar!(load_u8, store_u8, update_u8, u8, AtomicU8);
    scalar!(load_u16, store_u16, update_u16, u16, AtomicU16);
    scalar!(load_u32, store_u32, update_u32, u32, AtomicU32);
    scalar!(load_u64, store_u64, update_u64, u64, AtomicU64);

    /// Writes `source` at `offset`. Returns `None`, and writes nothing, if it is out of bounds.
    pub fn copy_from(&self, offset: usize, source: &[u8]) -> Option<()> {
        let (head, words, tail) = self.parts(offset, source.len())?;
        let (source_head, rest) = source.split_at(head.len());
        let (source_words, source_tail) = rest.split_at(words.len() * 8);
        store_bytes(head, source_head);
        for (cell, bytes) in words.iter().zip(source_words.as_chunks::<8>().0) {
            cell.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        store_bytes(tail, source_tail);
        Some(())
    }

    /// Reads into `target` from `offset`. Returns `None`, and reads nothing, if it is out of
    /// bounds.
    pub fn copy_to(&self, offset: usize, target: &mut [u8]) -> Option<()> {
        let (head, words, tail) = self.parts(offset, target.len())?;
        let (target_head, rest) = target.split_at_mut(head.len());
        let (target_words, target_tail) = rest.split_at_mut(words.len() * 8);
        load_bytes(head, target_head);
        for (cell, bytes) in words.iter().zip(target_words.as_chunks_mut::<8>().0) {
            *bytes = cell.load(Relaxed).to_ne_bytes();
        }
        load_bytes(tail, target_tail);
        Some(())
    }

    /// Copies `len` bytes from `source_offset` of `source` to `offset` of this range. The two
    /// ranges may overlap, as with `memmove`. Returns `None`, and copies nothing, if either range
    /// is out of bounds.
    pub fn copy_between(
        &self,
        offset: usize,
        source: &SharedBytes<'_>,
        source_offset: usize,
        len: usize,
    ) -> Option<()> {
        self.check(offset, len)?;
        source.check(source_offset, len)?;
        let mut stage = [0; STAGE_BYTES];
        let to = self.pointer.addr() + offset;
        let from = source.pointer.addr() + source_offset;
        // An ascending copy is correct unless the destination begins inside the source: then a
        // chunk would overwrite source bytes that were not read yet.
        let downwards = to > from && to < from + len;
        let mut done = 0;
        while done < len {
            let bytes = STAGE_BYTES.min(len - done);
            let at = if downwards { len - done - bytes } else { done };
            let stage = &mut stage[..bytes];
            source.copy_to(source_offset + at, stage)?;
            self.copy_from(offset + at, stage)?;
            done += bytes;
        }
        Some(())
    }

    /// Fills `len` bytes from `offset` with repetitions of `pattern`; the last one may be
    /// truncated. Writes nothing and returns `None` if the range is out of bounds, or if the
    /// pattern is empty and `len` is not 0.
    pub fn fill(&self, offset: usize, len: usize, pattern: &[u8]) -> Option<()> {
        self.check(offset, len)?;
        if len == 0 {
            return Some(());
        }
        if pattern.is_empty() {
            return None;
        }
        let repeats = (STAGE_BYTES / pattern.len()).clamp(1, len.div_ceil(pattern.len()));
        let stage = pattern.repeat(repeats);
        let mut done = 0;
        while done < len {
            let bytes = stage.len().min(len - done);
            self.copy_from(offset + done, &stage[..bytes])?;
            done += bytes;
        }
        Some(())
    }

    /// Reads 4-byte values from consecutive addresses. Returns `None` if they are out of bounds or
    /// misaligned.
    #[inline(always)]
    pub(crate) fn load_run_u32(&self, offset: usize, target: &mut [u32]) -> Option<()> {
        let shared_bytes = self.run_u32(offset, target.len())?;
        for (value, cell) in target.iter_mut().zip(shared_bytes) {
            *value = u32::from_le(cell.load(Relaxed));
        }
        Some(())
    }

    /// Writes 4-byte values to consecutive addresses. Returns `None` if they are out of bounds or
    /// misaligned.
    #[inline(always)]
    pub(crate) fn store_run_u32(&self, offset: usize, source: &[u32]) -> Option<()> {
        for (value, cell) in source.iter().zip(self.run_u32(offset, source.len())?) {
            cell.store(value.to_le(), Relaxed);
        }
        Some(())
    }

    /// Returns the address of `len` bytes from `offset`, if they are in bounds. Only machine code
    /// that accesses each aligned value as a whole may access them by it.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn pointer(&self, offset: usize, len: usize) -> Option<*mut u8> {
        self.check(offset, len)?;
        Some(self.pointer.wrapping_add(offset))
    }

    /// Returns `count` atomic words from `offset`, if they are in bounds and aligned.
    #[inline(always)]
    fn run_u32(&self, offset: usize, count: usize) -> Option<&'a [AtomicU32]> {
        self.check(offset, count * 4)?;
        let pointer = self.pointer.wrapping_add(offset).cast::<AtomicU32>();
        if !pointer.is_aligned() {
            return None;
        }
        // SAFETY: in bounds and aligned (just checked); the contract of `from_raw` gives validity
        // and atomic-only access.
        Some(unsafe { std::slice::from_raw_parts(pointer, count) })
    }

    /// Returns `Some` if `len` bytes from `offset` are in bounds.
    #[inline(always)]
    fn check(&self, offset: usize, len: usize) -> Option<()> {
        (offset.checked_add(len)? <= self.len).then_some(())
    }

    /// Returns the address of a `T` at `offset`, if it is in bounds and aligned.
    #[inline(always)]
    fn at<T>(&self, offset: usize) -> Option<*mut T> {
        self.check(offset, size_of::<T>())?;
        let pointer = self.pointer.wrapping_add(offset).cast::<T>();
        pointer.is_aligned().then_some(pointer)
    }

    /// Splits the range into single bytes up to an aligned address, aligned words, and the
    /// remaining single bytes.
    fn parts(
        &self,
        offset: usize,
        len: usize,
    ) -> Option<(&'a [AtomicU8], &'a [AtomicU64], &'a [AtomicU8])> {
        self.check(offset, len)?;
        let pointer = self.pointer.wrapping_add(offset).cast::<AtomicU8>();
        // SAFETY: in bounds (just checked); the contract of `from_raw` gives validity and
        // atomic-only access.
        let bytes = unsafe { std::slice::from_raw_parts(pointer, len) };
        let head = pointer.align_offset(8).min(len);
        let count = (len - head) / 8;
        let (head, rest) = bytes.split_at(head);
        let (middle, tail) = rest.split_at(count * 8);
        // SAFETY: `middle` is `count * 8` bytes, aligned to 8 unless empty, and an empty slice's
        // pointer is replaced by an aligned one.
        let words = unsafe {
            std::slice::from_raw_parts(
                if count == 0 {
                    std::ptr::dangling()
                } else {
                    middle.as_ptr().cast::<AtomicU64>()
                },
                count,
            )
        };
        Some((head, words, tail))
    }
}

/// Stores the unaligned ends of a bulk copy, byte by byte.
fn store_bytes(shared_bytes: &[AtomicU8], source: &[u8]) {
    for (cell, byte) in shared_bytes.iter().zip(source) {
        cell.store(*byte, Relaxed);
    }
}

/// Loads the unaligned ends of a bulk copy, byte by byte.
fn load_bytes(shared_bytes: &[AtomicU8], target: &mut [u8]) {
    for (cell, byte) in shared_bytes.iter().zip(target) {
        *byte = cell.load(Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs `body` on a copy of `bytes` that starts `shift` bytes after an 8-byte boundary, and
    /// copies the result back.
    fn with_shared_bytes<R>(
        bytes: &mut [u8],
        shift: usize,
        body: impl FnOnce(SharedBytes<'_>) -> R,
    ) -> R {
        let len = bytes.len();
        let mut words = vec![0u64; (len + shift).div_ceil(8)];
        let pointer = words.as_mut_ptr().cast::<u8>().wrapping_add(shift);
        // SAFETY: `words` outlives the `SharedBytes`, and nothing else accesses it meanwhile.
        let shared_bytes = unsafe { SharedBytes::from_raw(pointer, len) };
        shared_bytes.copy_from(0, bytes).unwrap();
        let result = body(shared_bytes);
        shared_bytes.copy_to(0, bytes).unwrap();
        result
    }

    #[test]
    fn accesses_are_checked_for_bounds_and_alignment() {
        with_shared_bytes(&mut [0; 16], 0, |shared_bytes| {
            assert_eq!(shared_bytes.store_u32(4, 0x0403_0201), Some(()));
            assert_eq!(shared_bytes.load_u8(5), Some(2));
            assert_eq!(shared_bytes.load_u16(6), Some(0x0403));
            assert_eq!(shared_bytes.load_u64(0), Some(0x0403_0201_0000_0000));
            assert_eq!(shared_bytes.load_u32(2), None);
            assert_eq!(shared_bytes.load_u32(16), None);
            assert_eq!(shared_bytes.load_u64(12), None);
            assert_eq!(shared_bytes.load_u8(usize::MAX), None);
            assert_eq!(shared_bytes.store_u64(16, 0), None);
            assert_eq!(shared_bytes.update_u32(4, |old| old + 1), Some(0x0403_0201));
            assert_eq!(shared_bytes.load_u32(4), Some(0x0403_0202));
            assert_eq!(shared_bytes.copy_from(10, &[0; 7]), None);
            assert_eq!(shared_bytes.copy_to(17, &mut []), None);
            assert_eq!(shared_bytes.fill(0, 17, &[1]), None);
            assert!(shared_bytes.slice(8, 8).is_some());
            assert!(shared_bytes.slice(8, 9).is_none());
        });
    }

    #[test]
    fn updates_from_several_threads_are_not_lost() {
        with_shared_bytes(&mut [0; 8], 0, |shared_bytes| {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(move || {
                        for _ in 0..10_000 {
                            shared_bytes.update_u64(0, |old| old + 1).unwrap();
                        }
                    });
                }
            });
            assert_eq!(shared_bytes.load_u64(0), Some(40_000));
        });
    }

    proptest! {
        #[test]
        fn bulk_operations_agree_with_slices(
            bytes in proptest::collection::vec(any::<u8>(), 0..9000),
            shift in 0usize..8,
            a in 0usize..9000,
            b in 0usize..9000,
            len in 0usize..9000,
            pattern in proptest::collection::vec(any::<u8>(), 1..9),
        ) {
            let mut expected = bytes.clone();
            let mut actual = bytes.clone();
            let fits = a + len <= bytes.len() && b + len <= bytes.len();
            let copied = with_shared_bytes(&mut actual, shift, |shared_bytes| {
                shared_bytes.copy_between(a, &shared_bytes, b, len)
            });
            prop_assert_eq!(copied.is_some(), fits);
            if fits {
                expected.copy_within(b..b + len, a);
            }
            prop_assert_eq!(&actual, &expected);
            let fits = a + len <= bytes.len();
            let filled = with_shared_bytes(&mut actual, shift, |shared_bytes| {
                shared_bytes.fill(a, len, &pattern)
            });
            prop_assert_eq!(filled.is_some(), fits);
            if fits {
                let pairs = expected[a..a + len].iter_mut().zip(pattern.iter().cycle());
                pairs.for_each(|(to, from)| *to = *from);
            }
            prop_assert_eq!(&actual, &expected);
        }
    }
}
