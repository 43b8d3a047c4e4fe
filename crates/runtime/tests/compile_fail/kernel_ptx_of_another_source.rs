//! Checked-in PTX must be that of its source.

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod stale from cuda "__global__ void k() {}", ptx //
        ".version 8.0" //~ E0080 "was not compiled from"
    {
        unsafe fn k();
    }
}

fn main() {}
