//! Prefetches of managed memory.

#![allow(unsafe_code, reason = "submits prefetches of spans")]

use std::panic::Location;

use bytemuck::Pod;
use millstream_driver::ManagedLocation;

use crate::{
    ReadOperand, Result, Stream, UsageError, UsageErrorKind,
    context::{Operation, Prefetch, submit},
    error::OperationKind,
    tracker::AccessKind,
};

impl Stream {
    /// Prefetches a [`Managed`](crate::Managed) array, or a part of it, to the device, after the
    /// operations that write it. This changes only the time that later accesses take.
    ///
    /// ```
    /// use millstream::Device;
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut table = device.managed::<f32>(1 << 16)?;
    /// table.write()?.fill(1.0);
    /// stream.prefetch(table.slice(..1 << 10))?;
    /// stream.fill(table.slice_mut(..1 << 10), 2.0)?; // finds its pages there
    /// stream.prefetch_to_host(&table)?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the array is not managed or on another device, or the device is lost.
    #[track_caller]
    #[doc(alias("cuMemPrefetchAsync", "cudaMemPrefetchAsync"))]
    pub fn prefetch<T: Pod>(&self, array: impl ReadOperand<T>) -> Result<()> {
        let location = ManagedLocation::Device(self.device_state().ordinal);
        self.submit_prefetch(
            &array,
            OperationKind::HostToDevice,
            location,
            Location::caller(),
        )
    }

    /// Prefetches a [`Managed`](crate::Managed) array, or a part of it, to the host, after the
    /// operations that write it.
    ///
    /// # Errors
    ///
    /// As for [`prefetch`](Self::prefetch).
    #[track_caller]
    pub fn prefetch_to_host<T: Pod>(&self, array: impl ReadOperand<T>) -> Result<()> {
        self.submit_prefetch(
            &array,
            OperationKind::DeviceToHost,
            ManagedLocation::Host,
            Location::caller(),
        )
    }

    fn submit_prefetch<T: Pod>(
        &self,
        array: &impl ReadOperand<T>,
        kind: OperationKind,
        to: ManagedLocation,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let operand = array.operand();
        let span = &operand.0;
        self.same_device("prefetch", 0, &span.allocation.device)
            .and_then(|()| match span.allocation.is_managed() {
                true => Ok(()),
                false => Err(UsageError::new("prefetch", UsageErrorKind::NotManaged)),
            })
            .map_err(|error| error.at(location))?;
        let bytes = span.bytes.len();
        if bytes == 0 {
            return self.device_state().check_alive();
        }
        let command = Prefetch {
            pointer: span.pointer(),
            bytes,
            location: to,
        };
        let mut operation = Operation {
            kind,
            label: "prefetch",
            location,
            bytes: bytes as u64,
            accesses: [span.access(AccessKind::Read)].into(),
            host_waiter: None,
        };
        // SAFETY: the span lies within its allocation, which is managed, and the prefetch accesses
        // no other memory.
        unsafe { submit(self.device_state(), self.state(), &mut operation, command) }.map(drop)
    }
}
