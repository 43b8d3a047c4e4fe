//! Device teardown: frees a closed device's resources, at once if its work is complete, and
//! otherwise later ([`closing`]).
//!
//! Page-locked memory and modules must not be freed while a device works: freeing page-locked
//! memory waits until the devices are idle (rule 30), and a running kernel needs its module. The
//! work may belong to other devices, which then take over the remaining resources
//! ([`SharedContext`]). A lost device never becomes idle; resources that only an idle device could
//! free then remain until the process ends.

#![allow(unsafe_code, reason = "queries and destroys streams without users")]

use std::sync::Arc;

use millstream_driver::{Completion, ContextHandle, Driver, DriverError, ModuleHandle};

use super::{closed::ReportClosed, closing};
use crate::{
    context::{DeviceHooks, DeviceState, DriverStream, EventPool, StreamState},
    disposal::log,
    kernel::ModuleCache,
    memory::{FreeingBlock, drain_frees, empty_cache, free_unused},
    page_locked::{IdleFrees, LeavingDevice, SharedContext, StagingPool},
    tracker::Sequence,
};

/// The `device` layer's implementation of [`DeviceHooks`].
pub(super) struct Hooks;

impl DeviceHooks for Hooks {
    fn run_deferred(&self, device: &DeviceState) {
        drain_frees(device);
    }

    fn close_later(&self, device: DeviceState) {
        closing::close_later(device);
    }

    /// Tears the device down. The primary context stays retained, because the process shares it
    /// with other libraries.
    fn close(&self, device: &mut DeviceState) {
        let report = ReportClosed::of(device);
        // First, because graphs in there leave their remains to `idle_frees`.
        drop(std::mem::take(&mut device.slots));
        // Before the streams are listed, because these calls may create one.
        empty_cache(device);
        drain_frees(device);
        let teardown = Teardown {
            driver: Arc::clone(&device.driver),
            context: device.context,
            deferred_frees: device.memory().deferred.take_deferred(device),
            shared: Arc::clone(&device.page_locked().shared),
            streams: device.all_streams(),
            events: [&mut device.events, &mut device.owners_events].map(EventPool::take_all),
            staging: std::mem::take(&mut device.page_locked_slot.staging),
            idle_frees: Arc::clone(&device.page_locked().idle_frees),
            probe_module: device.multi_device().peers.take_module(),
            modules: std::mem::take(&mut device.kernel_slot),
            is_lost: device.lost().is_some(),
            failures: 0,
            _report: report,
        };
        closing::close(teardown);
    }
}

/// The number of failed queries without a loss after which an unresponsive device is abandoned.
const FAILURES_MAX: usize = 100;

/// The remaining resources of a device without handles. Its streams may still have work.
pub(super) struct Teardown {
    pub(super) driver: Arc<dyn Driver>,
    context: ContextHandle,
    shared: Arc<SharedContext>,
    streams: Vec<Arc<StreamState>>,
    /// The events of the device's own streams, and those of other libraries' streams.
    events: [EventPool; 2],
    staging: StagingPool,
    idle_frees: Arc<IdleFrees>,
    modules: ModuleCache,
    /// The module with which access to other devices was probed.
    probe_module: Option<ModuleHandle>,
    /// Device memory that could not be freed yet.
    deferred_frees: Vec<FreeingBlock>,
    is_lost: bool,
    failures: usize,
    _report: ReportClosed,
}

impl Teardown {
    /// Frees everything without blocking. Returns what is left if that must wait for the device or
    /// for another that is closing.
    pub(super) fn close(mut self) -> Option<Self> {
        if self.is_lost {
            if !self.shared.try_abandon_lost() {
                return Some(self);
            }
            self.abandon();
            return None;
        }
        match self.is_idle() {
            Ok(false) => return Some(self),
            Ok(true) => {}
            Err(error) if !error.code().is_sticky() && self.failures < FAILURES_MAX => {
                self.failures += 1;
                return Some(self);
            }
            Err(_) => {
                self.abandon();
                return None;
            }
        }
        if !self.deferred_frees.is_empty() {
            self.free_deferred();
            return Some(self);
        }
        let shared = Arc::clone(&self.shared);
        let others = shared.others();
        let Some(leaving) = shared.try_leave(&others) else {
            return Some(self);
        };
        self.give_back(leaving);
        None
    }

    /// Frees only the resources that can be freed while work is pending or never completes: streams
    /// and events (rules 21 and 25: destroying either while it is in use is allowed).
    fn abandon(self) {
        log!(
            debug,
            "page-locked memory and modules of a device are leaked until the process ends"
        );
        self.destroy_streams();
    }

    /// Frees everything, or hands it over to other devices. The device's work is complete, so that
    /// nothing here waits.
    fn give_back(self, mut leaving: LeavingDevice<'_>) {
        for stream in &self.streams {
            stream.arena().retire(stream, &self.staging);
        }
        let modules = self.modules.take_all().chain(self.probe_module);
        self.idle_frees
            .defer_unused(self.staging.take_all(), modules);
        leaving.give_back(&*self.driver, &self.idle_frees);
        drop(leaving);
        self.destroy_streams();
    }

    fn destroy_streams(self) {
        for stream in &self.streams {
            let pool = &self.events[usize::from(!stream.is_own())];
            // Only tried: it is free, and this thread may hold the queue of another device.
            if let Some(mut submit_queue) = stream.submit_queue.try_lock() {
                submit_queue.spares.drain(..).for_each(pool.give_many());
            }
            let mut shared = stream.shared.lock();
            shared.points.retire(Sequence::END, pool.give_many());
            if !stream.is_own() {
                continue;
            }
            // SAFETY: no user of the stream is left: every handle kept the device open.
            if let Err(error) = unsafe { self.driver.stream_destroy(self.context, stream.handle) } {
                log!(debug, %error, "cannot destroy a stream");
            }
        }
        for pool in &self.events {
            pool.destroy_all(&*self.driver, self.context);
        }
    }

    /// Frees the deferred memory, which has no users left, in stream order.
    fn free_deferred(&mut self) {
        // Any own stream serves; without one nothing was ever allocated.
        let own = self.streams.iter().filter(|stream| stream.is_own());
        for (freed, stream) in self.deferred_frees.drain(..).zip(own.cycle()) {
            let driver_stream = DriverStream {
                driver: &*self.driver,
                context: self.context,
                stream: stream.handle,
            };
            // SAFETY: context and streams are alive; the memory has no owner any more, and all work
            // that used it is complete.
            let result = unsafe { free_unused(driver_stream, freed) };
            if let Err(error) = result {
                log!(warn, %error, "cannot free device memory");
            }
        }
    }

    /// Returns whether no stream has work.
    fn is_idle(&self) -> Result<bool, DriverError> {
        // Adopted streams keep the device open until their operations are complete.
        for stream in self.streams.iter().filter(|stream| stream.is_own()) {
            // SAFETY: context and stream are alive.
            let answer = unsafe { self.driver.stream_query(self.context, stream.handle) }?;
            if answer == Completion::Pending {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
