//! New vectors for values that are about to be copied to them.

#![allow(unsafe_code, reason = "tells the system about memory that a new vector has")]

/// An empty vector with room for `len` elements, in large pages where the system has them: the first touch of memory
/// takes as long as copying to it, page by page.
pub(super) fn vector_for<T>(len: usize) -> Vec<T> {
    let vector = Vec::<T>::with_capacity(len);
    prefer_large_pages(vector.as_ptr().cast::<u8>(), vector.capacity() * size_of::<T>());
    vector
}

/// A large page.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE_BYTES: usize = 2 << 20;

/// Asks for large pages wherever whole ones lie within this memory.
#[cfg(all(target_os = "linux", not(miri)))]
fn prefer_large_pages(start: *const u8, bytes: usize) {
    let skipped = start.align_offset(PAGE_BYTES);
    let pages_bytes = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    if pages_bytes == 0 {
        return;
    }
    let pages = start.wrapping_add(skipped).cast_mut().cast();
    // SAFETY: the range lies within one allocation. The advice changes how memory is backed and not what it holds; it may
    // be refused, and that is no loss.
    unsafe { libc::madvise(pages, pages_bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn prefer_large_pages(_start: *const u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_room_for_what_it_is_for() {
        for len in [0, 1, 1 << 10, (1 << 20) + 1, 5 << 20] {
            let mut vector = vector_for::<u32>(len);
            assert!(vector.is_empty() && vector.capacity() >= len);
            vector.resize(len, 7);
            assert!(vector.iter().all(|&element| element == 7));
        }
    }
}
