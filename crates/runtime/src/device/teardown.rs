//! Closing a device: what it has made is given back at once if its work is over, or else by a
//! thread that waits for that.
//!
//! Page-locked memory and modules must not go while the device works: freeing the one would wait
//! for it (rule 30), and a running kernel needs the other. The work may be that of others who have
//! the context open, who then get what is left ([`SharedContext`]). A device that is lost is never
//! idle again; what only an idle one could give back stays with the process then.

#![allow(
    unsafe_code,
    reason = "queries and destroys streams that nobody uses any more"
)]

use std::{sync::Arc, thread};

use millstream_driver::{Completion, ContextHandle, Driver, DriverError};

use crate::{
    context::{DeviceHooks, DeviceState, DriverStream, EventPool, StreamState},
    disposal::log,
    future::wait_until,
    kernel::ModuleCache,
    memory::{
        DeviceMemory, FreeingBlock, IdleFrees, LeavingDevice, SharedContext, StagingPool,
        drain_frees, empty_cache, free_unused,
    },
    tracker::Sequence,
};

/// What this layer does for each device that is open.
pub(super) struct Hooks;

impl DeviceHooks for Hooks {
    fn run_deferred(&self, device: &DeviceState) {
        drain_frees(device);
    }

    /// The primary context is left to the process, which shares it with other libraries.
    fn close(&self, device: &mut DeviceState) {
        // First, for they may make a stream.
        empty_cache(device);
        drain_frees(device);
        // It is there, for it was used just now.
        let Some(memory) = device.memory_slot.take::<DeviceMemory>() else {
            return;
        };
        let teardown = Teardown {
            driver: Arc::clone(&device.driver),
            context: device.context,
            deferred_frees: memory.deferred.take_deferred(device),
            shared: memory.shared,
            streams: device.all_streams(),
            events: std::mem::take(&mut device.events),
            staging: memory.staging,
            idle_frees: memory.idle_frees,
            modules: device.kernel_slot.take().unwrap_or_default(),
        };
        if device.lost().is_some() {
            teardown.abandon();
        } else {
            teardown.close();
        }
    }
}

/// How many failing questions are asked about a device that is not said to be lost before it is
/// given up.
const FAILURES_MAX: usize = 100;

/// What is left of a device that nobody can name any more. Its streams may still have work.
struct Teardown {
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    shared: Arc<SharedContext>,
    streams: Vec<Arc<StreamState>>,
    events: EventPool,
    staging: StagingPool,
    idle_frees: IdleFrees,
    modules: ModuleCache,
    /// Memory that could not be freed yet.
    deferred_frees: Vec<FreeingBlock>,
}

impl Teardown {
    /// Gives everything back. Never blocks: what must wait is left to a thread of its own.
    fn close(self) {
        if self.deferred_frees.is_empty() && self.is_idle().unwrap_or(false) {
            let shared = Arc::clone(&self.shared);
            if let Some(leaving) = shared.try_leave() {
                return self.give_back(leaving);
            }
        }
        // Shared with the thread, for a closure that does not start is dropped with all that it
        // owns.
        let teardown = Arc::new(parking_lot::Mutex::new(Some(self)));
        let theirs = Arc::clone(&teardown);
        let closing = move || {
            if let Some(teardown) = theirs.lock().take() {
                teardown.close_once_idle();
            }
        };
        let name = String::from("millstream-closing");
        if let Err(error) = thread::Builder::new().name(name).spawn(closing) {
            log!(warn, %error, "no thread to close a device that has work pending");
            if let Some(teardown) = teardown.lock().take() {
                teardown.abandon();
            }
        }
    }

    /// Waits until all work is over, and gives everything back.
    fn close_once_idle(mut self) {
        if self.wait_until_idle() && self.free_deferred_until_idle() {
            let shared = Arc::clone(&self.shared);
            self.give_back(shared.leave());
        } else {
            self.abandon();
        }
    }

    /// Gives back what can be given back while work is pending, or never to end: streams and events
    /// (rules 21 and 25).
    fn abandon(self) {
        log!(
            debug,
            "a device's page-locked memory and modules stay with the process"
        );
        self.destroy_streams();
    }

    /// Gives everything back, or leaves it to others. The work is over, so that nothing here waits.
    fn give_back(mut self, mut leaving: LeavingDevice<'_>) {
        for stream in &self.streams {
            stream.memory().arena.retire(stream, &self.staging);
        }
        self.idle_frees
            .defer_unused(self.staging.take_all(), self.modules.take_all());
        if let Some(all) = leaving.leave(std::mem::take(&mut self.idle_frees)) {
            all.release(&*self.driver, self.context);
        }
        drop(leaving);
        self.destroy_streams();
    }

    fn destroy_streams(self) {
        for stream in &self.streams {
            stream
                .submit_queue
                .lock()
                .spares
                .drain(..)
                .for_each(self.events.give_many());
            let mut shared = stream.shared.lock();
            shared.points.retire(Sequence::END, self.events.give_many());
            // SAFETY: nobody can use the stream any more: every handle kept the device open.
            if let Err(error) = unsafe { self.driver.stream_destroy(self.context, stream.handle) } {
                log!(debug, %error, "a stream could not be destroyed");
            }
        }
        self.events.destroy_all(&*self.driver, self.context);
    }

    /// Frees what is still to be freed, now that nothing uses it, and waits for that too; says
    /// whether it could.
    fn free_deferred_until_idle(&mut self) -> bool {
        // Any stream will do, and without one nothing was ever allocated.
        for (freed, stream) in self
            .deferred_frees
            .drain(..)
            .zip(self.streams.iter().cycle())
        {
            let driver_stream = DriverStream {
                driver: &*self.driver,
                context: self.context,
                stream: stream.handle,
            };
            // SAFETY: context and streams are alive; the memory's owner is gone, and so is all work
            // that used it.
            let result = unsafe { free_unused(driver_stream, freed) };
            if let Err(error) = result {
                log!(warn, %error, "device memory could not be freed");
            }
        }
        self.wait_until_idle()
    }

    /// Waits until no stream has work; says whether that can be had.
    fn wait_until_idle(&self) -> bool {
        let mut failures = 0;
        let ended = wait_until(&*self.driver, || match self.is_idle() {
            Err(error) if !error.code().is_sticky() && failures < FAILURES_MAX => {
                failures += 1;
                Ok(false)
            }
            answer => Ok(answer?),
        });
        ended.is_ok()
    }

    /// Whether no stream has work.
    fn is_idle(&self) -> Result<bool, DriverError> {
        for stream in &self.streams {
            // SAFETY: context and stream are alive.
            let answer = unsafe { self.driver.stream_query(self.context, stream.handle) }?;
            if answer == Completion::Pending {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
