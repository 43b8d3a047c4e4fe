//! NCCL's communicators of two devices, by the raw functions of its table.

#![allow(unsafe_code, reason = "calls NCCL with its own communicators")]

use std::{sync::Arc, thread};

use anyhow::{Result, ensure};
use millstream_collective::nccl::{
    CommHandle, CommState, DataType, Nccl, Operation, OperationType, Reduce,
};
use millstream_driver::CurrentContext;

use super::{Raw, RawMemory, RawStream};

/// The communicators of several devices, in the order of their ranks.
pub(crate) struct RawComms {
    nccl: Arc<dyn Nccl>,
    comms: Vec<CommHandle>,
}

impl RawComms {
    /// Connects the devices by communicators that block, or do not.
    pub(crate) fn new(nccl: Arc<dyn Nccl>, devices: &[&Raw], blocks: bool) -> Result<Self> {
        let id = nccl.unique_id()?;
        nccl.group_start()?;
        let mut comms = Vec::new();
        for (rank, device) in devices.iter().enumerate() {
            // SAFETY: the context is retained.
            let current = unsafe { CurrentContext::enter(&*device.driver, device.context) }?;
            let (context, size) = (device.context, devices.len());
            // SAFETY: the context is retained, and current.
            comms.push(unsafe { nccl.comm_init_rank(context, size, &id, rank, blocks) }?);
            drop(current);
        }
        // SAFETY: the group has no operations.
        let _ = unsafe { nccl.group_end() }?;
        let comms = Self { nccl, comms };
        while !comms.are_ready()? {
            thread::yield_now();
        }
        Ok(comms)
    }

    /// Returns whether the calls made so far are complete.
    fn are_ready(&self) -> Result<bool> {
        for &comm in &self.comms {
            // SAFETY: the communicator is alive.
            let state = unsafe { self.nccl.async_error(comm) }?;
            if let CommState::Failed(code) = state {
                ensure!(false, "a communicator has failed: {code}");
            }
            if state == CommState::InProgress {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sums the first `count` elements of each device's memory in place, and returns when the
    /// operations are on the streams. The memory must stay alive until the streams are idle.
    #[inline]
    pub(crate) fn all_reduce(
        &self,
        arrays: [(&RawMemory, &RawStream); 2],
        count: usize,
    ) -> Result<()> {
        self.nccl.group_start()?;
        for (&comm, (memory, stream)) in self.comms.iter().zip(arrays) {
            let at = memory.part(0, count * size_of::<f32>())?;
            let operation = Operation {
                kind: OperationType::AllReduce(Reduce::Sum),
                send: at,
                recv: at,
                count,
                data_type: DataType::F32,
            };
            // SAFETY: the memory is long enough, and freed when the context is idle.
            let _ = unsafe { self.nccl.enqueue(&operation, comm, stream.handle) }?;
        }
        // SAFETY: as above.
        let _ = unsafe { self.nccl.group_end() }?;
        while !self.are_ready()? {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Drop for RawComms {
    fn drop(&mut self) {
        let _ = self.nccl.group_start();
        for &comm in &self.comms {
            // SAFETY: the communicator is not used again; its operations are complete on all ranks.
            let _ = unsafe { self.nccl.finalize(comm) };
        }
        // SAFETY: as above.
        let _ = unsafe { self.nccl.group_end() };
        // Communicators that do not block are still being finalised.
        while matches!(self.are_ready(), Ok(false)) {
            thread::yield_now();
        }
        for &comm in &self.comms {
            // SAFETY: as above.
            let _ = unsafe { self.nccl.destroy(comm) };
        }
    }
}
