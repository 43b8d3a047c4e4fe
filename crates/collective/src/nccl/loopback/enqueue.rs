//! Enqueuing an operation: a copy to the host, the exchange, a copy to the device.

#![allow(unsafe_code, reason = "enqueues copies and host functions")]

use std::{slice, sync::Arc};

use super::{
    Fault, Loopback,
    communicator::Comm,
    link::{Aborted, Link},
    lock,
    operation::{Issued, Sequence},
    staging::Memory,
};
use millstream_driver::DriverError;

use crate::nccl::{NcclCode, NcclError, Result};

impl Loopback {
    /// Issues operations of one communicator, in this order.
    ///
    /// # Safety
    ///
    /// The contracts of the operations' methods.
    pub(super) unsafe fn issue(&self, comm: &Arc<Comm>, operations: &[Issued]) -> Result<()> {
        for operation in operations {
            let failed = |error: DriverError| {
                let code = NcclCode::UNHANDLED_CUDA_ERROR;
                NcclError::new(operation.operation.kind.function(), code, error.to_string())
            };
            let (number, sequence) = lock(&comm.counters).next(operation.operation.kind);
            let faults: Vec<Fault> = self
                .faults
                .iter()
                .filter(|(at, _)| *at == number)
                .map(|(_, fault)| *fault)
                .collect();
            if faults.contains(&Fault::Refuse) {
                let text = format!("injected failure of operation {number}");
                return Err(NcclError::new(
                    operation.operation.kind.function(),
                    NcclCode::INTERNAL_ERROR,
                    text,
                ));
            }
            // SAFETY: the caller vouches for the operation.
            unsafe { self.enqueue(comm, operation, sequence, faults) }.map_err(failed)?;
        }
        Ok(())
    }

    /// Enqueues the copies and the exchange of one operation.
    ///
    /// # Safety
    ///
    /// The contract of the operation's method.
    unsafe fn enqueue(
        &self,
        comm: &Arc<Comm>,
        operation: &Issued,
        sequence: Sequence,
        faults: Vec<Fault>,
    ) -> std::result::Result<(), DriverError> {
        let read = operation.read_bytes(comm.rank, comm.size).unwrap_or(0);
        let written = operation.written_bytes(comm.rank, comm.size).unwrap_or(0);
        let bytes = read.max(written);
        if bytes == 0 {
            return Ok(());
        }
        let (driver, context, stream) = (&*self.driver, comm.context, operation.stream);
        let mut blocks = lock(&self.blocks);
        // SAFETY: a communicator's context is alive; blocks are kept by context.
        let block = unsafe {
            blocks
                .entry(context)
                .or_default()
                .take(driver, context, bytes)
        }?;
        drop(blocks);
        // SAFETY: the caller vouches for the arrays and the stream; the block is not used by any
        // other operation, until its event says that this one is complete.
        let enqueued =
            unsafe { self.enqueue_parts(comm, operation, sequence, faults, block.memory) };
        let mut blocks = lock(&self.blocks);
        let blocks = blocks.entry(context).or_default();
        // SAFETY: the block was taken for this context; the caller vouches for the stream.
        let put = unsafe { blocks.put(driver, context, block, stream) };
        enqueued.and(put)
    }

    /// Enqueues the copy to the host, the exchange, and the copy to the device.
    ///
    /// # Safety
    ///
    /// The contract of the operation's method. No other operation uses the memory until these are
    /// complete.
    unsafe fn enqueue_parts(
        &self,
        comm: &Arc<Comm>,
        operation: &Issued,
        sequence: Sequence,
        faults: Vec<Fault>,
        memory: Memory,
    ) -> std::result::Result<(), DriverError> {
        let (driver, context, stream) = (&*self.driver, comm.context, operation.stream);
        let read = operation.read_bytes(comm.rank, comm.size).unwrap_or(0);
        let written = operation.written_bytes(comm.rank, comm.size).unwrap_or(0);
        let host = memory.pointer.as_ptr();
        if read > 0 {
            // SAFETY: the caller vouches for the array, its order and the memory.
            unsafe {
                driver.copy_device_to_host_async(
                    context,
                    host,
                    operation.operation.send,
                    read,
                    stream,
                )
            }?;
        }
        let exchange = Exchange {
            link: Arc::clone(&comm.link),
            rank: comm.rank,
            size: comm.size,
            operation: *operation,
            sequence,
            faults,
            memory,
            read,
        };
        comm.link.begin();
        if comm.shares_driver(self.driver.handle_space()) {
            // SAFETY: the caller vouches for the stream.
            let reached = unsafe { driver.stream_synchronize(context, stream) };
            if reached.is_ok() {
                exchange.run();
            } else {
                comm.link.end();
            }
            reached?;
        } else {
            let function = Box::new(move || exchange.run());
            // SAFETY: the caller vouches for the stream; the function makes no driver call.
            let enqueued = unsafe { driver.launch_host_function(context, stream, function) };
            enqueued.inspect_err(|_| comm.link.end())?;
        }
        if written > 0 {
            // SAFETY: the caller vouches for the array, its order and the memory, which the
            // exchange has written when the copy runs.
            unsafe {
                driver.copy_host_to_device_async(
                    context,
                    operation.operation.recv,
                    host,
                    written,
                    stream,
                )
            }?;
        }
        Ok(())
    }
}

/// The exchange of one operation, which a host function or the calling thread runs.
struct Exchange {
    link: Arc<Link>,
    rank: usize,
    size: usize,
    operation: Issued,
    sequence: Sequence,
    faults: Vec<Fault>,
    memory: Memory,
    /// The number of bytes that the operation reads.
    read: usize,
}

impl Exchange {
    /// Exchanges the data. If the communicator is aborted meanwhile, the result is undefined.
    fn run(self) {
        if let Ok(output) = self.output() {
            let memory = self.memory;
            // SAFETY: the memory has room for what the operation writes, and belongs to this
            // operation, whose copy of the input is complete.
            let target =
                unsafe { slice::from_raw_parts_mut(memory.pointer.as_ptr(), output.len()) };
            target.copy_from_slice(&output);
        }
        self.link.end();
    }

    fn output(&self) -> std::result::Result<Vec<u8>, Aborted> {
        for fault in &self.faults {
            match fault {
                // Refused calls have no exchange.
                Fault::Refuse => {}
                Fault::Fail => {
                    let text = format!(
                        "injected failure of {}",
                        self.operation.operation.kind.function()
                    );
                    self.link.fail(NcclCode::SYSTEM_ERROR, text);
                    self.link.sleep(None)?;
                }
                Fault::Hang => self.link.sleep(None)?,
                Fault::Delay(time) => self.link.sleep(Some(*time))?,
            }
        }
        // SAFETY: the copy from the device has written these bytes and is complete, and nothing
        // else accesses the memory meanwhile.
        let input = unsafe { slice::from_raw_parts(self.memory.pointer.as_ptr(), self.read) };
        let Self {
            link,
            rank,
            size,
            sequence,
            ..
        } = self;
        self.operation
            .exchange(link, *rank, *size, *sequence, input)
    }
}
