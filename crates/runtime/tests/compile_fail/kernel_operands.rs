//! A kernel's operands have the declared types, and one declared `&mut [T]` is no shared reference
//! and aliases no other operand.

use millstream::{Buffer, LaunchConfig, Pinned, Result, Stream};

millstream::kernels! {
    // SAFETY: no kernel of these modules is launched.
    unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64);
    }
}

millstream::kernels! {
    // SAFETY: as above.
    unsafe mod both from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &mut [f32], c: &mut [f32], n: u64);
    }
}

fn other_types(
    (stream, kernels, config): (&Stream, &sums::Kernels, LaunchConfig),
    (a, wide, pinned): (&Buffer<f32>, &Buffer<f64>, &Pinned<f32>),
    mut c: Buffer<f32>,
) -> Result<()> {
    kernels.vecadd(stream, config, a, wide, &mut c, 4)?; //~ E0277
    kernels.vecadd(stream, config, a, pinned, &mut c, 4)?; //~ E0277
    kernels.vecadd(stream, config, a, &[1.0_f32; 4], &mut c, 4)?; //~ E0277
    kernels.vecadd(stream, config, a, a, &mut c, 4_u32)?; //~ E0308
    kernels.vecadd(stream, config, a, a, &c, 4)?; //~ E0277
    kernels.vecadd(stream, config, a, a, c.view(), 4) //~ E0277
}

fn aliases(
    (stream, kernels, config): (&Stream, &both::Kernels, LaunchConfig),
    (mut a, mut b): (Buffer<f32>, Buffer<f32>),
) -> Result<()> {
    kernels.vecadd(stream, config, &a, &mut b, &mut b, 4)?; //~ E0499
    kernels.vecadd(stream, config, &a, &mut a, &mut b, 4)?; //~ E0502
    kernels.vecadd(stream, config, &a, &mut b.slice_mut(..2), &mut b.slice_mut(1..), 4) //~ E0499
}

fn main() {}
