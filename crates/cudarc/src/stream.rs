//! Streams that both libraries use, and calls of cudarc on streams of Millstream.

#![allow(unsafe_code, reason = "adopts streams, which their handles keep alive")]

use std::{fmt, ops::Deref, sync::Arc};

use cudarc::driver::{CudaContext, CudaStream, sys};
use millstream::{
    Device, Select, Stream,
    driver::StreamHandle,
    interop::{ForeignCall, ForeignOperand},
};

use crate::{Error, Result};

/// Opens the device of a context of cudarc.
///
/// # Errors
///
/// If the device cannot be opened, or the context is not its primary context.
pub fn device_of(context: &CudaContext) -> Result<Device> {
    let ordinal = i32::try_from(context.ordinal()).unwrap_or(i32::MAX);
    let device = Device::open(Select::Cuda(ordinal))?;
    check_context(&device, context)?;
    Ok(device)
}

/// Returns an error unless the context is the device's.
pub(crate) fn check_context(device: &Device, context: &CudaContext) -> Result<()> {
    let raw = context.cu_ctx() as usize;
    if device.as_raw().as_raw() == raw {
        return Ok(());
    }
    Err(Error::OtherContext {
        context: raw,
        ordinal: context.ordinal(),
    })
}

/// A stream of cudarc with which Millstream's operations are in order. Their work runs in the order
/// of the calls.
///
/// It dereferences to the [`Stream`], which keeps cudarc's stream alive until the operations of
/// Millstream on it are complete. Keep one as long as slices of the stream are handed over: each
/// hand-over then finds it, instead of adopting the stream and letting it go again.
///
/// While cudarc captures the stream (`begin_capture`), calls that need an order with it are errors
/// ([`UsageErrorKind::Captured`](millstream::UsageErrorKind::Captured)): Millstream's operations
/// never become part of cudarc's graph.
#[derive(Clone)]
pub struct SharedStream {
    stream: Stream,
    cudarc: Arc<CudaStream>,
}

impl SharedStream {
    /// Adopts a stream of cudarc.
    ///
    /// # Errors
    ///
    /// If it is a default stream, as `CudaContext::default_stream` returns, if its context is not
    /// the device's primary context, or if the device is lost.
    #[track_caller]
    pub fn new(device: &Device, stream: &Arc<CudaStream>) -> Result<Self> {
        check_context(device, stream.context())?;
        let raw = StreamHandle::from_raw(stream.cu_stream() as usize);
        // SAFETY: the keeper is a reference to the stream, which destroys it when the last one is
        // dropped. Safe code of cudarc reaches arrays of this library only by leases, and has no
        // function that destroys a stream or resets its context.
        let adopted = unsafe { device.adopt_stream(raw, Arc::clone(stream)) }?;
        Ok(Self {
            stream: adopted,
            cudarc: Arc::clone(stream),
        })
    }

    /// Returns cudarc's handle of the stream.
    #[must_use]
    pub fn cudarc(&self) -> &Arc<CudaStream> {
        &self.cudarc
    }
}

impl Deref for SharedStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl fmt::Debug for SharedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedStream({:?})", self.stream)
    }
}

/// Runs `call`, in which cudarc enqueues work on a stream of Millstream, as one operation with
/// these operands, as [`Stream::foreign`] does. `call` receives the stream as cudarc's type; the
/// addresses of the operands are in the [`ForeignCall`].
///
/// # Errors
///
/// As [`Stream::foreign`], and if the context is not that of the stream's device.
///
/// # Safety
///
/// As for [`Stream::foreign`]. `call` lets no clone of its stream outlive it.
#[track_caller]
pub unsafe fn foreign<'o, E>(
    name: &'static str,
    (stream, context): (&Stream, &Arc<CudaContext>),
    operands: impl AsRef<[ForeignOperand<'o>]>,
    call: impl FnOnce(&Arc<CudaStream>, ForeignCall<'_>) -> Result<(), E>,
) -> Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    check_context(&stream.device(), context)?;
    let inner = |foreign_call: ForeignCall<'_>| {
        let raw = foreign_call.stream().as_raw() as sys::CUstream;
        // SAFETY: the stream belongs to this context and is alive during the call.
        let wrapped = unsafe { context.wrap_borrowed_stream(raw) };
        call(&wrapped, foreign_call)
    };
    // SAFETY: this function's contract.
    Ok(unsafe { stream.foreign(name, operands, inner) }?)
}
