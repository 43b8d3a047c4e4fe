//! Copies of bytes in host memory, with non-temporal stores where they are faster.

#![allow(unsafe_code, reason = "copies between places that the caller provides")]

use std::ptr::copy_nonoverlapping;

/// Copies `bytes` bytes. With `non_temporal`, on processors that support it, the target's cache
/// lines are not read first, which is faster for large targets that are not read soon.
///
/// # Safety
///
/// `source` is valid for reads and `target` for writes of `bytes` bytes; the two do not overlap,
/// and no other code writes the source or accesses the target meanwhile.
pub(super) unsafe fn copy_bytes(
    source: *const u8,
    target: *mut u8,
    bytes: usize,
    non_temporal: bool,
) {
    if non_temporal {
        // SAFETY: by this function's contract.
        unsafe { copy_non_temporal(source, target, bytes) };
    } else {
        // SAFETY: by this function's contract.
        unsafe { copy_nonoverlapping(source, target, bytes) };
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE_BYTES: usize = 64;

/// # Safety
///
/// As [`copy_bytes`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_non_temporal(source: *const u8, target: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORDS: usize = LINE_BYTES / size_of::<__m128i>();

    let head = target.align_offset(LINE_BYTES).min(bytes);
    // SAFETY: by this function's contract, of which these are the first bytes.
    unsafe { copy_nonoverlapping(source, target, head) };
    let lines = (bytes - head) / LINE_BYTES;
    for line in 0..lines {
        let at = head + line * LINE_BYTES;
        let from = source.wrapping_add(at).cast::<__m128i>();
        let to = target.wrapping_add(at).cast::<__m128i>();
        // The whole line is read before it is written, so that the stores combine.
        let words: [__m128i; WORDS] = std::array::from_fn(|word| {
            // SAFETY: the line lies within the source; it need not be aligned.
            unsafe { _mm_loadu_si128(from.wrapping_add(word)) }
        });
        for (word, value) in words.into_iter().enumerate() {
            // SAFETY: the line lies within the target, and is aligned.
            unsafe { _mm_stream_si128(to.wrapping_add(word), value) };
        }
    }
    // Non-temporal stores are weakly ordered. Threads that observe the end of the copy must see
    // them, and so must the device. SAFETY: every x86-64 processor has this instruction.
    unsafe { _mm_sfence() };
    let done = head + lines * LINE_BYTES;
    // SAFETY: by this function's contract, of which these are the last bytes.
    unsafe {
        copy_nonoverlapping(
            source.wrapping_add(done),
            target.wrapping_add(done),
            bytes - done,
        )
    };
}

/// # Safety
///
/// As [`copy_bytes`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_non_temporal(source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: by this function's contract.
    unsafe { copy_nonoverlapping(source, target, bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_no_other_is_touched() {
        let source: Vec<u8> = (0..400_u32).map(|n| (n % 251) as u8 + 1).collect();
        for non_temporal in [false, true] {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (3, 17), (63, 64), (5, 61)] {
                for bytes in (0..70).chain([127, 128, 129, 191, 192, 193, 300]) {
                    let mut target = vec![0_u8; 400];
                    let (start, end) = (&source[from..from + bytes], &mut target[to..to + bytes]);
                    // SAFETY: both are so many bytes, and of different vectors.
                    unsafe { copy_bytes(start.as_ptr(), end.as_mut_ptr(), bytes, non_temporal) };
                    assert_eq!(target[to..to + bytes], source[from..from + bytes]);
                    let touched = target.iter().filter(|&&byte| byte != 0).count();
                    assert_eq!(
                        touched, bytes,
                        "{from} to {to}, non-temporal: {non_temporal}"
                    );
                }
            }
        }
    }
}
