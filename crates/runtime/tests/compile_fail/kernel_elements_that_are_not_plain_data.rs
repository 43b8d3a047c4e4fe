//! Kernel operands and arguments must be plain data.

millstream::kernels! { //~ E0277
    // SAFETY: none needed; this does not compile.
    unsafe mod flags from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[bool], b: &[f32], c: &mut [f32], n: u64);
    }
}

millstream::kernels! { //~ E0277
    // SAFETY: none needed; this does not compile.
    unsafe mod letters from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [char], n: u64);
    }
}

millstream::kernels! { //~ E0277
    // SAFETY: none needed; this does not compile.
    unsafe mod answers from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: bool);
    }
}

fn main() {}
