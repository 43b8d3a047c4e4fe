//! Device memory calls, stream-ordered or not, and pool calls.

use millstream_driver::{
    ContextHandle, DevicePtr, PoolHandle, PoolUsage, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        budgeted,
        gpu::StateGuard,
        graph::NodeOperation,
        host_out_of_memory,
        op::OpKind,
        state::{CallError, CallResult},
        wait_set::WaitSet,
    },
    ids::OpId,
    memory::MemoryKind,
};

impl StateGuard<'_> {
    /// Rejects an allocation of 0 bytes.
    pub(crate) fn refuse_empty(&mut self, bytes: usize) -> CallResult<()> {
        if bytes > 0 {
            return Ok(());
        }
        let text = "an allocation of 0 bytes; allocate at least 1".to_owned();
        Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text))
    }

    /// Returns the base of a live allocation of one of these kinds. Fails if no allocation starts
    /// at the address, if it was freed, or if its kind does not match.
    pub(crate) fn freeable(&mut self, pointer: DevicePtr, kinds: &[MemoryKind]) -> CallResult<u64> {
        let base = pointer.as_raw();
        let (kind, text) = match self.memory.at(base) {
            Some(found) if found.is_dead_to_new_work() => (
                ReportKind::DoubleFree,
                format!("a second free of {}", found.describe()),
            ),
            Some(found) if kinds.contains(&found.kind) => return Ok(base),
            Some(found) => (
                ReportKind::WrongFree,
                format!("this function does not free {}", found.describe()),
            ),
            None => (
                ReportKind::WrongFree,
                format!("no allocation starts at {base:#x}"),
            ),
        };
        Err(self.violation(kind, ResultCode::INVALID_VALUE, text))
    }

    /// Allocates device memory outside the pool.
    pub(crate) fn mem_alloc(
        &mut self,
        context: ContextHandle,
        bytes: usize,
    ) -> CallResult<DevicePtr> {
        let device = self.context(context)?;
        self.refuse_empty(bytes)?;
        let base = self.allocate_non_pool(MemoryKind::Device, context, device, bytes)?;
        self.fence(context);
        Ok(DevicePtr::from_raw(base))
    }

    /// Frees device or managed memory after all devices are idle.
    pub(crate) fn mem_free(
        &mut self,
        context: ContextHandle,
        pointer: DevicePtr,
    ) -> CallResult<()> {
        const FREEABLE: [MemoryKind; 3] =
            [MemoryKind::Device, MemoryKind::Pool, MemoryKind::Managed];
        // Freeing also works in a lost context; the final `synchronised` returns the sticky error.
        self.known_context(context)?;
        let base = self.freeable(pointer, &FREEABLE)?;
        self.wait_for_devices();
        // Another thread may have freed the memory during the wait, which is a double free.
        self.freeable(pointer, &FREEABLE)?;
        self.end_allocation(base, None);
        self.synchronised(context)
    }

    /// Blocks until every device is idle (rule 30: freeing memory waits for the device; page-locked
    /// memory is accessible to every device).
    pub(crate) fn wait_for_devices(&mut self) {
        let contexts: Vec<_> = self.contexts.keys().copied().collect();
        let wait_sets = contexts
            .into_iter()
            .map(|context| self.context_wait_set(context));
        let wait_set = wait_sets.fold(WaitSet::default(), |mut all, one| {
            all.ops.extend(one.ops);
            all.finish_ns = all.finish_ns.max(one.finish_ns);
            all
        });
        let seen: Vec<_> = self
            .contexts
            .keys()
            .map(|context| self.context_snapshot(*context))
            .collect();
        self.wait(&wait_set);
        for seen in &seen {
            self.race_checker.host_observed(seen);
        }
    }

    /// Enqueues an allocation from the pool.
    pub(crate) fn mem_alloc_async(
        &mut self,
        context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> CallResult<DevicePtr> {
        let stream = self.stream(context, stream)?;
        self.refuse_empty(bytes)?;
        let device = self.context(context)?;
        self.check_pool_access(device)?;
        if self.captures(stream)? {
            let base = self.allocate_non_pool(MemoryKind::Device, context, device, bytes)?;
            self.graph_allocations.insert(base);
            self.capture_node(stream, NodeOperation::Allocation(base));
            return Ok(DevicePtr::from_raw(base));
        }
        let room = self.free_bytes(device);
        let across = !self.config.rules.cross_stream_reuse.is_strict();
        let pool = &mut self.devices[device as usize].pool;
        let Some(frees) = pool.take(budgeted(bytes as u64), stream, room, across) else {
            return Err(self.out_of_memory(bytes as u64, device));
        };
        let birth = Some((OpId(self.ops_enqueued + 1), stream));
        let Some(base) = self
            .memory
            .add_device(MemoryKind::Pool, context, device, bytes, birth)
        else {
            let pool = &mut self.devices[device as usize].pool;
            pool.freed_synchronously(budgeted(bytes as u64));
            return Err(host_out_of_memory(bytes));
        };
        let after = WaitSet {
            ops: frees,
            finish_ns: 0,
        };
        self.enqueue(stream, OpKind::Allocation(base), &after);
        Ok(DevicePtr::from_raw(base))
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
            let text = "memory of a graph is freed by the graph, or with it, in the simulator";
            return Err(CallError::new(ResultCode::NOT_SUPPORTED, text));
        }
        let id = self.enqueue(stream, OpKind::Free(base), &WaitSet::default());
        if let Some(allocation) = self.memory.at(base)
            && allocation.kind == MemoryKind::Pool
        {
            let (device, bytes) = (allocation.device, budgeted(allocation.bytes));
            self.devices[device as usize]
                .pool
                .free_enqueued(id, stream, bytes);
        }
        self.memory.enqueue_free(base, id, stream);
        Ok(())
    }

    /// Adds the free of memory that the graph allocated to the capture of a stream.
    fn capture_free(&mut self, stream: StreamHandle, base: u64) -> CallResult<()> {
        if !self.graph_allocations.contains(&base) {
            self.refuse_in_capture(stream, "a free of memory that the graph did not allocate")?;
        }
        self.capture_node(stream, NodeOperation::Free(base));
        Ok(())
    }

    /// Returns the index of the device whose default pool this is.
    pub(crate) fn pool_device(&mut self, pool: PoolHandle) -> CallResult<usize> {
        let found = self
            .devices
            .iter()
            .position(|device| device.pool_handle == pool);
        found.ok_or_else(|| {
            let (kind, text) = self.handles.explain(pool);
            self.violation(kind, ResultCode::INVALID_VALUE, text)
        })
    }

    /// Sets the number of reserved bytes that the pool keeps at a synchronisation.
    pub(crate) fn pool_set_release_threshold(
        &mut self,
        pool: PoolHandle,
        bytes: u64,
    ) -> CallResult<()> {
        let device = self.pool_device(pool)?;
        self.devices[device].pool.set_release_threshold(bytes);
        Ok(())
    }

    /// Releases idle bytes of the pool until `keep_bytes` are reserved.
    pub(crate) fn pool_trim(&mut self, pool: PoolHandle, keep_bytes: usize) -> CallResult<()> {
        let device = self.pool_device(pool)?;
        self.devices[device].pool.trim(keep_bytes as u64);
        Ok(())
    }

    /// Returns the usage figures of the pool.
    pub(crate) fn pool_usage(&mut self, pool: PoolHandle) -> CallResult<PoolUsage> {
        let device = self.pool_device(pool)?;
        Ok(self.devices[device].pool.usage())
    }
}
