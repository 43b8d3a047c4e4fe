//! Foreign calls: work that another library enqueues on a stream that it is given.

#![allow(unsafe_code, reason = "submits calls of other libraries")]

use std::{fmt, marker::PhantomData, panic::Location, sync::Arc};

use millstream_driver::{
    ContextHandle, CurrentContext, DevicePtr, Driver, DriverError, ResultCode, StreamHandle,
};

use crate::{
    Error, ReadOperand, Result, Stream, WriteOperand,
    context::DriverStream,
    kernel::{Argument, enqueue},
    tracker::AccessKind,
};

/// An array that a [foreign call](Stream::foreign) uses, made by [`read`] or [`write`](write()).
///
/// ```
/// use millstream::interop::{read, write};
///
/// let stream = millstream::Device::simulated()?.stream()?;
/// let (signal, mut spectrum) = (stream.zeros::<f32>(64)?, stream.zeros::<f32>(66)?);
/// let operands = [read(&signal), write(spectrum.slice_mut(..33))];
/// # drop(operands);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct ForeignOperand<'a>(Box<dyn HeldOperand + 'a>);

/// An operand whose type is erased.
trait HeldOperand {
    fn argument(&self) -> Argument<'_>;
}

struct Held<T, O> {
    operand: O,
    kind: AccessKind,
    element: PhantomData<fn() -> T>,
}

impl<T, O: ReadOperand<T>> HeldOperand for Held<T, O> {
    fn argument(&self) -> Argument<'_> {
        Argument::slice(self.operand.operand().0, self.kind)
    }
}

impl<'a> ForeignOperand<'a> {
    fn new<T: 'a>(operand: impl ReadOperand<T> + 'a, kind: AccessKind) -> Self {
        Self(Box::new(Held {
            operand,
            kind,
            element: PhantomData,
        }))
    }
}

impl fmt::Debug for ForeignOperand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignOperand({:#x})", self.0.argument().address())
    }
}

/// Declares that a foreign call reads an array.
pub fn read<'a, T: 'a>(array: impl ReadOperand<T> + 'a) -> ForeignOperand<'a> {
    ForeignOperand::new(array, AccessKind::Read)
}

/// Declares that a foreign call writes an array, and may read it.
pub fn write<'a, T: 'a>(array: impl WriteOperand<T> + 'a) -> ForeignOperand<'a> {
    ForeignOperand::new(array, AccessKind::Write)
}

/// The stream and the operands of a [foreign call](Stream::foreign), for its closure.
#[derive(Clone, Copy)]
pub struct ForeignCall<'a> {
    stream: DriverStream<'a>,
    operands: &'a [ForeignOperand<'a>],
}

impl<'a> ForeignCall<'a> {
    /// Returns the stream to which all work of the call goes.
    #[must_use]
    pub fn stream(&self) -> StreamHandle {
        self.stream.stream
    }

    /// Returns the device's primary context, which is current.
    #[must_use]
    pub fn context(&self) -> ContextHandle {
        self.stream.context
    }

    /// Returns the driver, to which a call on the simulated device must go.
    #[must_use]
    pub fn driver(&self) -> &'a dyn Driver {
        self.stream.driver
    }

    /// Returns the address of an operand, counted from 0.
    ///
    /// # Panics
    ///
    /// If there is no such operand.
    #[must_use]
    #[track_caller]
    pub fn address(&self, operand: usize) -> DevicePtr {
        DevicePtr::from_raw(self.operands[operand].0.argument().address())
    }
}

impl fmt::Debug for ForeignCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCall")
            .field("stream", &self.stream.stream)
            .field("operands", &self.operands)
            .finish_non_exhaustive()
    }
}

impl Stream {
    /// Runs `call`, in which another library enqueues work on this stream, as one operation with
    /// these operands: it runs after every operation that conflicts with them, and concurrently
    /// with all others. The operands live until it is complete. `name` is the operation's name in
    /// errors, timelines and reports.
    ///
    /// The device's context is current during the call, unless the device is simulated: there only
    /// calls through [`ForeignCall::driver`] reach the device.
    ///
    /// ```
    /// use millstream::{Device, driver::{Driver, FillPattern}, interop::write};
    ///
    /// let device = Device::simulated()?;
    /// let (stream, other) = (device.stream()?, device.stream()?);
    /// let mut numbers = other.zeros::<u32>(100)?;
    /// // SAFETY: the call enqueues one fill of the operand to the given stream.
    /// unsafe {
    ///     stream.foreign("library_fill", [write(&mut numbers)], |call| {
    ///         let (pattern, target) = (FillPattern::U32(5), call.address(0));
    ///         call.driver().memset_async(call.context(), target, pattern, 100, call.stream())
    ///     })
    /// }?;
    /// assert_eq!(other.download(&numbers)?.wait()?, [5; 100]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an operand is on another device, two operands overlap and one is written, an operand is
    /// lent, or the device is lost: `call` is then not called. [`Error::ForeignCall`] if it fails;
    /// its operands then count as used, because it may have enqueued something first.
    ///
    /// # Safety
    ///
    /// `call` enqueues work only to the given stream. This work accesses only the operands and
    /// memory that `call` owns, and writes only operands that are passed for writing. `call` does
    /// not wait for another thread that uses this stream. It may not use this library's operations:
    /// on the same device they return an error.
    #[track_caller]
    pub unsafe fn foreign<'o, E>(
        &self,
        name: &'static str,
        operands: impl AsRef<[ForeignOperand<'o>]>,
        call: impl FnOnce(ForeignCall<'_>) -> Result<(), E>,
    ) -> Result<()>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let location = Location::caller();
        let operands = operands.as_ref();
        let arguments: Vec<Argument<'_>> = operands
            .iter()
            .map(|operand| operand.0.argument())
            .collect();
        let is_simulated = self.device_state().is_simulated;
        let mut failure: Option<E> = None;
        let inner = |stream: DriverStream<'_>| {
            let _current = match is_simulated {
                true => None,
                // SAFETY: the stream keeps its device open, and so its context alive.
                false => Some(unsafe { CurrentContext::enter(stream.driver, stream.context) }?),
            };
            call(ForeignCall { stream, operands }).map_err(|error| {
                failure = Some(error);
                DriverError::new(name, ResultCode::UNKNOWN)
            })
        };
        // SAFETY: this function's contract.
        let enqueued = unsafe { enqueue(name, self, &arguments, location, inner) };
        match failure {
            Some(cause) => Err(Error::ForeignCall {
                operation: name,
                location,
                cause: Arc::new(cause),
            }),
            None => enqueued,
        }
    }
}
