//! Launches: enqueues the kernels of planned steps.
//!
//! | file | contents |
//! |---|---|
//! | `generated.rs` | generated kernels |
//! | `product.rs` | matrix products, with their epilogues |

mod generated;
mod product;

use millstream::{Buffer, Stream};

pub(crate) use generated::{allocate, constant_word};

use crate::{
    error::Result,
    fuse::{FusedKernel, KeptKernel},
    graph::{Op, Session},
};

/// Enqueues a kernel of a kept plan whose inputs are enqueued, as [`enqueue`].
pub(crate) fn enqueue_kept(
    session: &Session,
    stream: &Stream,
    kernel: &KeptKernel<'_>,
    outputs: &mut [&mut Buffer<u8>],
) -> Result<()> {
    if generated::enqueue_kept(session, stream, kernel, outputs)? {
        return Ok(());
    }
    enqueue(session, stream, &kernel.to_fused(), outputs)
}

/// Enqueues a fused kernel whose inputs are enqueued. It writes `outputs`, one for each of the
/// kernel's outputs.
pub(crate) fn enqueue(
    session: &Session,
    stream: &Stream,
    kernel: &FusedKernel,
    outputs: &mut [&mut Buffer<u8>],
) -> Result<()> {
    if kernel.is_empty() {
        return Ok(());
    }
    match kernel.op(&kernel.root) {
        Some(Op::MatrixProduct(left, right, precision)) => {
            let factors = (left, right);
            product::enqueue(session, stream, kernel, factors, *precision, outputs[0])
        }
        _ => generated::enqueue(session, stream, kernel, outputs),
    }
}
