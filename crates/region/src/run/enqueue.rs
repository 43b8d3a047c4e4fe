//! Enqueues one fused kernel, as a launch of generated code or as a matrix product.

use millstream::{Buffer, Stream};

use crate::{
    error::Result,
    expr::{Op, Session},
    plan::FusedKernel,
    run::{kept::KeptKernel, launch, product},
};

/// Enqueues a kernel of a kept plan whose inputs are enqueued, as [`enqueue`].
pub(crate) fn enqueue_kept(
    session: &Session,
    stream: &Stream,
    kernel: &KeptKernel<'_>,
    outputs: &mut [&mut Buffer<u8>],
) -> Result<()> {
    if launch::enqueue_kept(session, stream, kernel, outputs)? {
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
        _ => launch::enqueue(session, stream, kernel, outputs),
    }
}
