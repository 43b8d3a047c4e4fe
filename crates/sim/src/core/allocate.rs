//! The device memory budget: allocations outside the pool, and the end of every allocation.

use millstream_driver::{ContextHandle, ResultCode};

use super::state::{CallError, CallResult, SimState};
use crate::{
    ids::OpId,
    memory::{ALIGN, MemoryKind},
};

/// Returns the number of bytes an allocation takes from the budget: `bytes`, rounded up to a
/// multiple of [`ALIGN`].
pub(crate) fn budgeted(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGN).saturating_mul(ALIGN)
}

impl SimState {
    /// Ends an allocation's lifetime and returns its bytes to the pool or to the device's budget.
    /// The free operation is `op`; `None` means a blocking call frees the memory.
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

    /// Creates the call error for an allocation that exceeds the device's free memory.
    pub(crate) fn out_of_memory(&self, bytes: u64, device: u32) -> CallError {
        let usage = self.devices[device as usize].pool.usage();
        CallError::new(
            ResultCode::OUT_OF_MEMORY,
            format!(
                "cannot allocate {bytes} bytes: {} of {} bytes are free, the pool reserves {} \
                 and uses {}",
                self.free_bytes(device),
                self.config.memory_bytes,
                usage.reserved_bytes,
                usage.used_bytes
            ),
        )
    }

    /// Allocates device memory outside the pool.
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

/// Creates the call error for a failed host allocation of the backing memory.
pub(crate) fn host_out_of_memory(bytes: usize) -> CallError {
    CallError::new(
        ResultCode::OUT_OF_MEMORY,
        format!("the host cannot allocate {bytes} bytes to back the simulated memory"),
    )
}
