//! A kernel's element type must not need a larger alignment than device memory guarantees.

use bytemuck::{Pod, Zeroable};

/// An element type with the alignment of a page.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod pages from "" {
        unsafe fn read(pages: &[u32]);
        unsafe fn write(pages: &mut [Page]); //~ E0080 "must not be aligned to more than 256 bytes"
    }
}

fn main() {}
