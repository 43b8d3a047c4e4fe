//! Adoption of streams and memory that another library created.

#![allow(unsafe_code, reason = "asks for a stream's context, creates streams")]

use std::{any::Any, panic::Location};

use bytemuck::Pod;
use millstream_driver::{DevicePtr, StreamHandle};

use crate::{
    Buffer, Device, Error, Rejected, Release, Result, Stream, UsageError, UsageErrorKind,
    context::{AtCaller, Keeper, captured, submit_end_of_foreign_work, submit_marker},
    disposal::log,
    tracker::AccessKind,
};

/// The moment from which adopted memory may be used.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum After<'a> {
    /// At once: all earlier work on the memory is complete.
    Done,
    /// After the work that is enqueued on this stream, usually an adopted one.
    Stream(&'a Stream),
}

/// A stream that was created for other libraries. Its drop destroys it.
struct HandedOut {
    device: Device,
    raw: StreamHandle,
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        let state = self.device.state();
        // SAFETY: this is the only owner, and the context is alive as long as the device.
        if let Err(error) = unsafe { state.driver.stream_destroy(state.context, self.raw) } {
            log!(debug, %error, "cannot destroy a stream");
        }
    }
}

impl Device {
    /// Adopts a stream that another library created, such as cudarc's `CudaStream` or PyTorch's
    /// current stream. The operations of this library run in the order of their calls with the
    /// owner's, and are tracked like those of any other stream. They run on a stream beside the
    /// owner's, so that they never become part of a graph into which the owner captures its stream:
    /// calls that need the order during a capture are errors
    /// ([`UsageErrorKind::Captured`](crate::UsageErrorKind::Captured)).
    ///
    /// `keeper` keeps the stream alive, such as a clone of the owner's reference-counted handle. It
    /// is dropped on a thread of this library once the last handle is dropped and the operations
    /// that it submitted to the stream are complete. Adopting a stream again while it is adopted
    /// gives a handle to the same stream.
    ///
    /// ```
    /// use millstream::{Device, driver::{DeviceOrdinal, Driver}, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new());
    /// let device = Device::open_simulated(&gpu, 0)?;
    /// // Another library creates a stream in the same primary context.
    /// let driver = gpu.driver();
    /// let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0))?;
    /// // SAFETY: the context is retained.
    /// let raw = unsafe { driver.stream_create(context, true, 0) }?;
    /// // SAFETY: the stream is alive, and is never destroyed.
    /// let stream = unsafe { device.adopt_stream(raw, ()) }?;
    /// let numbers = stream.upload(&[1, 2, 3])?;
    /// assert_eq!(device.stream()?.download(&numbers)?.wait()?, [1, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `raw` is a default stream (0, or one of the driver's special handles), if it belongs to
    /// another context than the device's primary context, if the driver has no interprocess events,
    /// or if the device is lost.
    ///
    /// # Safety
    ///
    /// `raw` is a stream that is alive at least until `keeper` is dropped. Its owner orders its own
    /// work with arrays of this library by [`foreign`](Stream::foreign) calls or
    /// [leases](Buffer::lend). A graph into which the owner has captured an array that was lent is
    /// not launched after the lease. The device's primary context is not reset while the device is
    /// open.
    #[track_caller]
    #[doc(alias("ExternalStream"))]
    pub unsafe fn adopt_stream(
        &self,
        raw: StreamHandle,
        keeper: impl Any + Send,
    ) -> Result<Stream> {
        const NAME: &str = "adopt_stream";
        let location = Location::caller();
        let refused = |problem| Error::from(UsageError::new(NAME, problem).at(location));
        let state = self.state();
        state.check_alive()?;
        if raw.as_raw() <= StreamHandle::PER_THREAD.as_raw() {
            let raw = raw.as_raw();
            return Err(refused(UsageErrorKind::DefaultStream { raw }));
        }
        // SAFETY: the stream is alive by this function's contract, and is not a default stream.
        let context = match unsafe { state.driver.stream_context(raw) } {
            Err(error) if error.code().is_of_capture() => {
                return Err(captured(None, Some(error))).at_caller(NAME, location);
            }
            answer => state.checked(answer)?,
        };
        if context != state.context {
            return Err(refused(UsageErrorKind::OtherContext {
                object: "stream",
                owner: format!("the context {:#x}", context.as_raw()),
                device: state.to_string(),
            }));
        }
        let _name = state.named(NAME, location);
        Stream::adopt(state, raw, Keeper::new(keeper))
    }

    /// Creates a stream whose handle ([`Stream::as_raw`]) other libraries may use as their own, and
    /// may capture: for this library it is an [adopted](Self::adopt_stream) stream. It is destroyed
    /// once the last handle is dropped and its operations are complete.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let (ours, handed_out) = (device.stream()?, device.stream_to_hand_out()?);
    /// let numbers = handed_out.upload(&[1, 2, 3])?;
    /// assert_eq!(ours.download(&numbers)?.wait()?, [1, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the driver cannot create a stream, or the device is lost.
    #[track_caller]
    pub fn stream_to_hand_out(&self) -> Result<Stream> {
        let state = self.state();
        state.check_alive()?;
        // SAFETY: the context is alive as long as the device.
        let raw = unsafe { state.driver.stream_create(state.context, true, 0) };
        let keeper = HandedOut {
            device: self.clone(),
            raw: state.checked(raw)?,
        };
        Stream::adopt(state, keeper.raw, Keeper::new(keeper))
    }

    /// Adopts memory of another library as an array of `len` elements. `after` says when the
    /// owner's work on it is over, and `release` how the owner gets it back once the array is
    /// dropped. The memory does not count towards the device's
    /// [limit](Device::set_memory_limit).
    ///
    /// ```
    /// use millstream::{Device, Release, driver::{DeviceOrdinal, Driver}, interop::After,
    ///     sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new());
    /// let device = Device::open_simulated(&gpu, 0)?;
    /// let driver = gpu.driver();
    /// let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0))?;
    /// // SAFETY: the context is retained.
    /// let pointer = unsafe { driver.mem_alloc(context, 1024) }?;
    /// let (stream, keeper) = (device.stream()?, ()); // a real keeper frees the memory
    /// // SAFETY: the memory has 1,024 bytes, no other users, and is never freed.
    /// let mut array = unsafe {
    ///     device.adopt_buffer::<f32>(pointer, 256, After::Done, Release::when_done(keeper))
    /// }?;
    /// stream.fill(&mut array, 2.0)?;
    /// assert_eq!(stream.download(array.slice(..2))?.wait()?, [2.0; 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the memory is not within one allocation of this device, as far as the driver knows, if it
    /// is not aligned for `T`, if `after` names a stream of another device or one that its owner
    /// captures, or if the device is lost. The keeper is then dropped.
    ///
    /// # Safety
    ///
    /// The memory has `len` elements and stays allocated until the keeper of `release` is dropped.
    /// Until then its owner does not use it, except for work that is ordered before the array by
    /// `after`, or by [`foreign`](Stream::foreign) calls and [leases](Buffer::lend).
    #[track_caller]
    pub unsafe fn adopt_buffer<T: Pod>(
        &self,
        pointer: DevicePtr,
        len: usize,
        after: After<'_>,
        release: Release,
    ) -> Result<Buffer<T>> {
        const NAME: &str = "adopt_buffer";
        let location = Location::caller();
        let state = self.state();
        state.check_alive()?;
        if let After::Stream(stream) = after {
            let same = stream.same_device(NAME, 0, state);
            same.map_err(|usage_error| usage_error.at(location))?;
        }
        let buffer = Buffer::adopt(state, pointer, len, release);
        let buffer = buffer.map_err(|usage_error| usage_error.at(location))?;
        self.check_memory(&buffer)?
            .map_err(|problem| UsageError::new(NAME, problem).at(location))?;
        if let After::Stream(stream) = after {
            let access = buffer.span().access(AccessKind::Write);
            submit_end_of_foreign_work(stream, NAME, location, access)?;
        }
        Ok(buffer)
    }

    /// Compares an adopted array with the allocation that the driver knows at its address.
    fn check_memory<T: Pod>(&self, buffer: &Buffer<T>) -> Result<Result<(), UsageErrorKind>> {
        let (state, pointer) = (self.state(), buffer.as_raw());
        let bytes = (buffer.len() * size_of::<T>()) as u64;
        if bytes == 0 {
            return Ok(Ok(()));
        }
        let info = state.checked(state.driver.pointer_info(pointer))?;
        Ok(match info {
            Some(info) if info.on_device && info.contains(pointer, bytes) => {
                if info.device == state.ordinal {
                    Ok(())
                } else {
                    Err(UsageErrorKind::OtherContext {
                        object: "memory",
                        owner: format!("device {}", info.device.as_raw()),
                        device: state.to_string(),
                    })
                }
            }
            _ => Err(UsageErrorKind::NoAllocation {
                address: pointer.as_raw(),
                bytes,
            }),
        })
    }
}

impl<T: Pod> Buffer<T> {
    /// Gives an [adopted](Device::adopt_buffer) array back to its owner at once: the later work of
    /// `stream` waits for every operation on the memory. Returns the keeper, from which the owner's
    /// handle can be had by [`downcast`](Box::downcast).
    ///
    /// ```
    /// use millstream::{Device, Release, driver::{DeviceOrdinal, Driver}, interop::After,
    ///     sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new());
    /// let device = Device::open_simulated(&gpu, 0)?;
    /// let driver = gpu.driver();
    /// let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0))?;
    /// // SAFETY: the context is retained.
    /// let pointer = unsafe { driver.mem_alloc(context, 1024) }?;
    /// let (stream, keeper) = (device.stream()?, String::from("the owner's handle"));
    /// // SAFETY: the memory has 1,024 bytes, no other users, and is never freed.
    /// let mut array = unsafe {
    ///     device.adopt_buffer::<f32>(pointer, 256, After::Done, Release::when_done(keeper))
    /// }?;
    /// assert!(array.keeper_mut::<String>().is_some() && array.keeper_mut::<u8>().is_none());
    /// let keeper = array.return_to_owner(&stream)?;
    /// assert_eq!(*keeper.downcast::<String>().unwrap(), "the owner's handle");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the array's memory was not adopted, a graph uses it, the stream is of another device or
    /// captured by its owner, a part is lent, or the device is lost. The error returns the array.
    #[allow(clippy::result_large_err, reason = "the error returns the array")]
    #[track_caller]
    pub fn return_to_owner(
        mut self,
        stream: &Stream,
    ) -> Result<Box<dyn Any + Send>, Rejected<Self>> {
        match self.order_return(stream, Location::caller()) {
            Ok(keeper) => Ok(keeper),
            Err(error) => Err(Rejected::new(error, self)),
        }
    }

    fn order_return(
        &mut self,
        stream: &Stream,
        location: &'static Location<'static>,
    ) -> Result<Box<dyn Any + Send>> {
        const NAME: &str = "return_to_owner";
        if !self.is_adopted() {
            return Err(UsageError::new(NAME, UsageErrorKind::NotAdopted)
                .at(location)
                .into());
        }
        if self.is_shared() {
            let detail = String::from("a graph uses the array: drop the graph first");
            return Err(UsageError::new(NAME, UsageErrorKind::Graph { detail })
                .at(location)
                .into());
        }
        let span = self.span();
        let same = stream.same_device(NAME, 0, &span.allocation.device);
        same.map_err(|usage_error| usage_error.at(location))?;
        submit_marker(stream, NAME, location, span.access(AccessKind::Write))?;
        Ok(self
            .take_keeper()
            .expect("adopted memory has its keeper until it is given back"))
    }
}
