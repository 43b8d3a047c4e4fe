//! The device memory budget: allocations outside the pool, and the end of every allocation.

use millstream_driver::{ContextHandle, ResultCode};

use super::state::SimState;
use crate::{
    core::call_error::{CallError, CallResult},
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
        let (device, pool) = (allocation.device as usize, allocation.pool);
        self.memory.end(base);
        match kind {
            MemoryKind::Device | MemoryKind::Variable | MemoryKind::Constant => {
                self.devices[device].non_pool_bytes -= bytes;
            }
            MemoryKind::Pool
            | MemoryKind::Pinned
            | MemoryKind::Registered
            | MemoryKind::Managed
            | MemoryKind::ManagedVariable
            | MemoryKind::Heap
            | MemoryKind::Mapped => {}
        }
        if let Some(handle) = pool {
            let pool = &mut self.pool_mut(handle).bytes;
            match op {
                Some(op) => pool.free_ran(op),
                None => pool.freed_synchronously(bytes),
            }
            self.drop_unused_pool(handle);
        }
    }

    /// Creates the call error for an allocation that exceeds the device's free memory.
    pub(crate) fn out_of_memory(&self, bytes: u64, device: u32) -> CallError {
        let pools = self.pools_of(device).map(|pool| pool.bytes.usage());
        let (reserved, used) = pools.fold((0, 0), |(reserved, used), usage| {
            (reserved + usage.reserved_bytes, used + usage.used_bytes)
        });
        CallError::new(
            ResultCode::OUT_OF_MEMORY,
            format!(
                "cannot allocate {bytes} bytes: {} of {} bytes are free, the pool reserves \
                 {reserved} and uses {used}",
                self.free_bytes(device),
                self.config.memory_bytes,
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
