//! A kernel's elements need no larger alignment than device memory has.

use bytemuck::{Pod, Zeroable};

/// Elements that begin with a page.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

millstream::kernels! {
    // SAFETY: none is launched.
    unsafe mod pages from "" {
        unsafe fn read(pages: &[u32]);
        unsafe fn write(pages: &mut [Page]); //~ E0080 "must not be aligned to more than 256 bytes"
    }
}

fn main() {}
