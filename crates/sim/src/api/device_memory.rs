//! Device memory calls outside of pools.

use millstream_driver::{ContextHandle, DevicePtr, ResultCode};

use crate::{
    ReportKind,
    core::{call_error::CallResult, gpu::StateGuard, objects::stream::WaitSet, op::OpKind},
    memory::MemoryKind,
    race::Input,
};

impl StateGuard<'_> {
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
        self.check_context(context)?;
        let base = self.freeable(pointer, &FREEABLE)?;
        self.wait_for_devices();
        // Another thread may have freed the memory during the wait, which is a double free.
        self.freeable(pointer, &FREEABLE)?;
        if self.graph_allocations.contains(&base) {
            // The address stays the graph's, whose next launch allocates the memory again.
            self.context(context)?;
            let legacy = self.contexts[&context].legacy;
            self.enqueue(legacy, OpKind::GraphFree(base), &WaitSet::default());
            self.wait_for_devices();
        } else {
            self.end_allocation(base, None);
        }
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
        for seen in seen {
            self.race_checker.take(Input::Observed(seen));
        }
    }
}
