//! The budget of device memory: allocations outside of pools, and the ends of all.

use millstream_driver::{ContextHandle, ResultCode};

use super::state::{CallError, CallResult, SimState};
use crate::{
    ids::OpId,
    memory::{ALIGN, MemoryKind},
};

/// What an allocation takes of the budget.
pub(crate) fn budgeted(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGN).saturating_mul(ALIGN)
}

impl SimState {
    /// The allocation's life ends, by the operation `op` or by a call that waited; its bytes go
    /// back where they came from.
    pub(crate) fn end_allocation(&mut self, base: u64, op: Option<OpId>) {
        if op.is_none() {
            self.race_freed(base);
        }
        let Some(allocation) = self.memory.at(base) else {
            return;
        };
        let (kind, bytes) = (allocation.kind, budgeted(allocation.bytes));
        let device = &mut self.devices[allocation.device as usize];
        match (kind, op) {
            (MemoryKind::Device | MemoryKind::Variable | MemoryKind::Constant, _) => {
                device.non_pool_bytes -= bytes
            }
            (MemoryKind::Pool, Some(op)) => device.pool.free_ran(op),
            (MemoryKind::Pool, None) => device.pool.freed_synchronously(bytes),
            (MemoryKind::Pinned | MemoryKind::Registered | MemoryKind::Managed, _) => {}
        }
        self.memory.end(base);
    }

    pub(crate) fn out_of_memory(&self, bytes: u64, device: u32) -> CallError {
        let usage = self.devices[device as usize].pool.usage();
        CallError::new(
            ResultCode::OUT_OF_MEMORY,
            format!(
                "{bytes} bytes asked for, {} of {} free, {} reserved by the pool of which {} are used",
                self.free_bytes(device),
                self.config.memory_bytes,
                usage.reserved_bytes,
                usage.used_bytes
            ),
        )
    }

    /// Device memory outside the pool.
    pub(crate) fn allocate_non_pool(
        &mut self,
        kind: MemoryKind,
        context: ContextHandle,
        device: u32,
        bytes: usize,
    ) -> CallResult<u64> {
        let budget = budgeted(bytes as u64);
        if budget > self.free_bytes(device) {
            return Err(self.out_of_memory(bytes as u64, device));
        }
        let Some(base) = self.memory.add_device(kind, context, device, bytes, None) else {
            return Err(host_out_of_memory(bytes));
        };
        self.devices[device as usize].non_pool_bytes += budget;
        Ok(base)
    }
}

/// The machine under the simulation has no room.
pub(crate) fn host_out_of_memory(bytes: usize) -> CallError {
    CallError::new(
        ResultCode::OUT_OF_MEMORY,
        format!("the host has no {bytes} bytes to stand behind the simulated memory"),
    )
}
