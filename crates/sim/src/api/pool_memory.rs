//! Stream-ordered allocation and pool calls.

use millstream_driver::{
    ContextHandle, DeviceOrdinal, DevicePtr, PoolHandle, PoolUsage, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        budgeted, call_error::CallResult, gpu::StateGuard, graph::NodeOperation,
        host_out_of_memory, objects::stream::WaitSet, op::OpKind,
    },
    ids::{OpId, name},
    memory::{FromPool, MemoryKind},
};

impl StateGuard<'_> {
    /// Enqueues an allocation from a pool: the current one of the stream's device if none is given.
    pub(crate) fn mem_alloc_async(
        &mut self,
        context: ContextHandle,
        bytes: usize,
        pool: Option<PoolHandle>,
        stream: StreamHandle,
    ) -> CallResult<DevicePtr> {
        let stream = self.stream(context, stream)?;
        self.refuse_empty(bytes)?;
        let device = self.context(context)?;
        let handle = pool.unwrap_or(self.devices[device as usize].current_pool);
        let device = self.pool(handle)?.device;
        self.check_pool_access(&self.pools[&handle])?;
        if self.captures(stream)? {
            self.refuse_in_body_capture(stream, "an allocation")?;
            let base = self.allocate_of_graph(context, device, bytes)?;
            self.capture_node(stream, NodeOperation::Allocation(base));
            return Ok(DevicePtr::from_raw(base));
        }
        let budget = budgeted(bytes as u64);
        let pool = &self.pools[&handle];
        let room = pool.room(self.free_bytes(device));
        let reuse = self.reuse(pool);
        let taken = self
            .pool_mut(handle)
            .bytes
            .take(budget, stream, room, reuse);
        let Some(frees) = taken else {
            return Err(self.out_of_memory(bytes as u64, device));
        };
        let from = FromPool {
            pool: handle,
            allocated_by: (OpId(self.ops_enqueued + 1), stream),
        };
        let kind = MemoryKind::Pool;
        let Some(base) = self
            .memory
            .add_device(kind, context, device, bytes, Some(from))
        else {
            self.pool_mut(handle).bytes.freed_synchronously(budget);
            return Err(host_out_of_memory(bytes));
        };
        let origin = self.call;
        self.memory.set_origin(base, origin);
        let after = WaitSet {
            ops: frees,
            finish_ns: 0,
        };
        self.enqueue(stream, OpKind::Allocation(base), &after);
        Ok(DevicePtr::from_raw(base))
    }

    /// Allocates the memory of a graph's allocation.
    pub(super) fn allocate_of_graph(
        &mut self,
        context: ContextHandle,
        device: u32,
        bytes: usize,
    ) -> CallResult<u64> {
        let base = self.allocate_non_pool(MemoryKind::Device, context, device, bytes)?;
        let origin = self.call;
        self.memory.set_origin(base, origin);
        self.graph_allocations.insert(base);
        Ok(base)
    }

    /// Enqueues a free. In a lost context the memory is freed at once, and the sticky error
    /// returned.
    pub(crate) fn mem_free_async(
        &mut self,
        context: ContextHandle,
        pointer: DevicePtr,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        let stream = self.stream_even_lost(context, stream)?;
        let base = self.freeable(pointer, &[MemoryKind::Device, MemoryKind::Pool])?;
        if let Err(error) = lost {
            self.end_allocation(base, None);
            return Err(error);
        }
        if self.captures(stream)? {
            return self.capture_free(stream, base);
        }
        if self.graph_allocations.contains(&base) {
            self.enqueue(stream, OpKind::GraphFree(base), &WaitSet::default());
            return Ok(());
        }
        let id = self.enqueue(stream, OpKind::Free(base), &WaitSet::default());
        if let Some(allocation) = self.memory.at(base)
            && let Some(pool) = allocation.pool
        {
            let bytes = budgeted(allocation.bytes);
            self.pool_mut(pool).bytes.free_enqueued(id, stream, bytes);
        }
        self.memory.enqueue_free(base, id, stream);
        Ok(())
    }

    /// Adds the free of memory that the graph allocated to the capture of a stream.
    fn capture_free(&mut self, stream: StreamHandle, base: u64) -> CallResult<()> {
        if !self.graph_allocations.contains(&base) {
            self.refuse_in_capture(stream, "a free of memory that the graph did not allocate")?;
        }
        self.refuse_in_body_capture(stream, "a free")?;
        self.capture_node(stream, NodeOperation::Free(base));
        Ok(())
    }

    /// Creates a pool of a device, which reserves at most `bytes_max` bytes; 0 for no limit.
    pub(crate) fn pool_create(
        &mut self,
        device: DeviceOrdinal,
        bytes_max: u64,
    ) -> CallResult<PoolHandle> {
        let device = self.device_index(device)?;
        Ok(self.add_pool(device as u32, bytes_max))
    }

    /// Makes a pool the current one of a device, which must be the pool's.
    pub(crate) fn device_set_pool(
        &mut self,
        device: DeviceOrdinal,
        pool: PoolHandle,
    ) -> CallResult<()> {
        let index = self.device_index(device)?;
        if self.pool(pool)?.device as usize != index {
            let text = format!("{} has memory of another device", name(pool));
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        self.devices[index].current_pool = pool;
        Ok(())
    }

    /// Sets the number of reserved bytes that the pool keeps at a synchronisation.
    pub(crate) fn pool_set_release_threshold(
        &mut self,
        pool: PoolHandle,
        bytes: u64,
    ) -> CallResult<()> {
        self.pool(pool)?.bytes.set_release_threshold(bytes);
        Ok(())
    }

    /// Releases idle bytes of the pool until `keep_bytes` are reserved.
    pub(crate) fn pool_trim(&mut self, pool: PoolHandle, keep_bytes: usize) -> CallResult<()> {
        self.pool(pool)?.bytes.trim(keep_bytes as u64);
        Ok(())
    }

    pub(crate) fn pool_usage(&mut self, pool: PoolHandle) -> CallResult<PoolUsage> {
        Ok(self.pool(pool)?.bytes.usage())
    }
}
