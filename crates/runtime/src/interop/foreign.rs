//! Foreign calls: work that another library enqueues on a stream that it is given.

#![allow(unsafe_code, reason = "submits calls of other libraries")]

use std::{cell::Cell, fmt, marker::PhantomData, panic::Location, sync::Arc};

use millstream_driver::{
    ContextHandle, CurrentContext, DevicePtr, Driver, DriverError, ResultCode, StreamHandle,
};

use crate::{
    Error, ReadOperand, Result, Stream, WriteOperand,
    context::DriverStream,
    kernel::{Argument, enqueue, enqueue_relocatable},
    tracker::AccessKind,
};

/// An array that a [foreign call](Stream::foreign) uses, made by [`read`] or [`write`](write()).
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
    /// Added to the address of each operand; empty if they are as they are.
    displacements: &'a [u64],
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
        let address = DevicePtr::from_raw(self.operands[operand].0.argument().address());
        let displacement = self.displacements.get(operand);
        address.offset(displacement.copied().unwrap_or(0))
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
    /// not wait for another thread that uses this stream, and leaves no capture of it behind. It
    /// may not use this library's operations: on the same device they return an error.
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
        let mut failure = None;
        let inner = |stream: DriverStream<'_>| {
            let _current = current(self, stream)?;
            let result = call(ForeignCall {
                stream,
                operands,
                displacements: &[],
            });
            result.map_err(|error| failed(name, &mut failure, error))
        };
        // SAFETY: this function's contract.
        let enqueued = unsafe { enqueue(name, self, &arguments(operands), location, inner) };
        outcome(name, location, enqueued, failure)
    }

    /// Runs `call` as [`foreign`](Self::foreign) does, with the promise that it does the same for
    /// arrays elsewhere in memory. In a recording its work then becomes kernels of the graph, whose
    /// operands can be [swapped](crate::Graph::swap) and which [`instance`](crate::Graph::instance)
    /// can copy, instead of a child graph with fixed addresses.
    ///
    /// A recording captures `call` twice, the second time with other addresses
    /// ([`ForeignCall::address`]) at which there is no memory; only what it enqueues the first time
    /// is ever run. Where it enqueues something else than kernels, or its kernels do not receive
    /// the addresses as they are, the call becomes a child graph, as with
    /// [`foreign`](Self::foreign).
    ///
    /// ```
    /// use millstream::{Device, driver::{Driver, FillPattern}, interop::write};
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut numbers = stream.zeros::<u32>(100)?;
    /// // SAFETY: the call enqueues one fill of the operand, wherever it is.
    /// unsafe {
    ///     stream.foreign_relocatable("library_fill", [write(&mut numbers)], |call| {
    ///         let (pattern, target) = (FillPattern::U32(5), call.address(0));
    ///         call.driver().memset_async(call.context(), target, pattern, 100, call.stream())
    ///     })
    /// }?;
    /// assert_eq!(stream.download(&numbers)?.wait()?, [5; 100]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`foreign`](Self::foreign).
    ///
    /// # Safety
    ///
    /// As [`foreign`](Self::foreign), for operands at the addresses that the call is given. The
    /// work depends on the addresses of the operands alone: what it does with the same bytes at
    /// other addresses, of the same alignment up to 256 bytes, is the same. Each address is an
    /// argument of a kernel, or part of one, in eight aligned bytes.
    #[track_caller]
    pub unsafe fn foreign_relocatable<'o, E>(
        &self,
        name: &'static str,
        operands: impl AsRef<[ForeignOperand<'o>]>,
        call: impl Fn(ForeignCall<'_>) -> Result<(), E>,
    ) -> Result<()>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let location = Location::caller();
        let operands = operands.as_ref();
        let failure = Cell::new(None);
        let inner = |stream: DriverStream<'_>, displacements: &[u64]| {
            let _current = current(self, stream)?;
            let result = call(ForeignCall {
                stream,
                operands,
                displacements,
            });
            result.map_err(|error| {
                let mut cause = None;
                let failed = failed(name, &mut cause, error);
                failure.set(cause);
                failed
            })
        };
        let arguments = arguments(operands);
        // SAFETY: this function's contract.
        let enqueued = unsafe { enqueue_relocatable(name, self, &arguments, location, inner) };
        outcome(name, location, enqueued, failure.into_inner())
    }
}

fn arguments<'a>(operands: &'a [ForeignOperand<'_>]) -> Vec<Argument<'a>> {
    let operands = operands.iter();
    operands.map(|operand| operand.0.argument()).collect()
}

/// Makes the context of a stream current, unless the device is simulated.
fn current<'a>(
    stream: &Stream,
    driver_stream: DriverStream<'a>,
) -> Result<Option<CurrentContext<'a, dyn Driver + 'a>>, DriverError> {
    let (driver, context, _) = driver_stream.parts();
    match stream.device_state().is_simulated {
        true => Ok(None),
        // SAFETY: the stream keeps its device open, and so its context alive.
        false => unsafe { CurrentContext::enter(driver, context) }.map(Some),
    }
}

/// Keeps the error of a call, and returns one that stands for it.
fn failed<E>(name: &'static str, failure: &mut Option<E>, error: E) -> DriverError {
    *failure = Some(error);
    DriverError::new(name, ResultCode::UNKNOWN)
}

fn outcome<E>(
    name: &'static str,
    location: &'static Location<'static>,
    enqueued: Result<()>,
    failure: Option<E>,
) -> Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match (enqueued, failure) {
        (Err(_), Some(cause)) => Err(Error::ForeignCall {
            operation: name,
            location,
            cause: Arc::new(cause),
        }),
        // A call that fails for other addresses does not fail.
        (enqueued, _) => enqueued,
    }
}
