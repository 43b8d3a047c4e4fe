//! Calls for primary contexts.

use millstream_driver::{ContextHandle, DeviceOrdinal, ResultCode};

use crate::{
    ReportKind,
    core::{context::Context, goal::Goal, gpu::Session, world::Answer},
    ids::StreamKind,
};

impl Session<'_> {
    pub(crate) fn primary_context_retain(
        &mut self,
        ordinal: DeviceOrdinal,
    ) -> Answer<ContextHandle> {
        let index = self.device_index(ordinal)?;
        self.devices[index].references += 1;
        if let Some(context) = self.devices[index].context {
            return Ok(context);
        }
        let handle = self.mint.next_context(index as u32);
        let legacy = self.mint.next_stream(index as u32, StreamKind::Legacy);
        self.add_stream(legacy, handle, false, 0);
        let now_ns = self.now_ns;
        self.contexts.insert(
            handle,
            Context {
                device: index as u32,
                legacy,
                per_thread: Vec::new(),
                busy_until_ns: now_ns,
                gone_blocking_until_ns: now_ns,
                fence: Goal::default(),
                lost: None,
            },
        );
        self.devices[index].context = Some(handle);
        Ok(handle)
    }

    pub(crate) fn primary_context_release(&mut self, ordinal: DeviceOrdinal) -> Answer<()> {
        let index = self.device_index(ordinal)?;
        let Some(context) = self.devices[index].context else {
            return Err(self.breach(
                ReportKind::DeadHandle,
                ResultCode::INVALID_CONTEXT,
                format!("device {index} has no primary context to release"),
            ));
        };
        self.devices[index].references -= 1;
        if self.devices[index].references > 0 {
            return Ok(());
        }
        self.devices[index].context = None;
        self.release_holds(context);
        let goal = self.context_goal(context);
        let seen = self.context_seen(context);
        self.wait(&goal);
        self.race.host_saw(&seen);
        self.destroy_context(context);
        Ok(())
    }

    /// Everything of the context goes; its work is done.
    fn destroy_context(&mut self, context: ContextHandle) {
        for base in self.memory.live_in(context) {
            self.end_allocation(base, None);
        }
        let world = &mut **self;
        if let Some(gone) = world.contexts.remove(&context) {
            // All of its memory is idle now, and nothing is kept for a context that may never come.
            let pool = &mut world.devices[gone.device as usize].pool;
            pool.synchronised();
            pool.trim(0);
        }
        world.streams.retain(|_, stream| stream.context != context);
        world.race.context_gone(context);
        world.events.retain(|_, event| event.context != context);
        world
            .functions
            .retain(|_, function| function.context != context);
        world.modules.retain(|_, module| module.context != context);
    }

    pub(crate) fn context_synchronize(&mut self, context: ContextHandle) -> Answer<()> {
        self.context(context)?;
        let goal = self.context_goal(context);
        let seen = self.context_seen(context);
        self.wait(&goal);
        self.race.host_saw(&seen);
        self.synchronised(context)
    }

    pub(crate) fn mem_info(&mut self, context: ContextHandle) -> Answer<(u64, u64)> {
        let device = self.context(context)?;
        Ok((self.free_bytes(device), self.config.memory_bytes))
    }
}
