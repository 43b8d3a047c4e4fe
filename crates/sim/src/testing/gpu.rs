//! What tests ask of a simulated GPU, and tell it, besides calling it as a driver.

use std::sync::Arc;

use millstream_driver::{Driver, StreamHandle};

use crate::{
    Fault, Gpu, Hold, LiveObject, LiveObjectCounts, ReplayStatus, ReplayToken, Report, SimConfig,
    Span,
    core::{fault_injection::ActiveFault, schedule::Scheduler},
    exec::KernelStats,
    memory::MemoryKind,
    race::Finding,
};

impl Gpu {
    /// A GPU, or several, with a simulator state of its own.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        let scheduler = Scheduler::new(&config);
        Self::with_scheduler(config, scheduler)
    }

    /// This GPU behind the seam.
    #[must_use]
    pub fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.clone())
    }

    /// Keeps `stream` busy from this point of its order on, until the [`Hold`] is released or
    /// dropped: a gate for tests. A host thread that waits for the stream sleeps until then.
    ///
    /// A default stream is that of the device of the lowest number whose context is alive.
    ///
    /// # Panics
    ///
    /// When the stream is not alive.
    #[must_use = "dropping a hold releases it"]
    pub fn hold(&self, stream: StreamHandle) -> Hold {
        Hold::new(self, stream)
    }

    /// All that was found wrong so far, in the order found.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        self.inner.state.lock().reports.clone()
    }

    /// The race checker's findings so far, in order; at most 1024 are kept. Each is a
    /// [`Report`](crate::Report), too, except for an access that made its kernel fail, which is in
    /// the report of the [fault](crate::ReportKind::KernelFault).
    ///
    /// What an operation did is judged once it and all enqueued before it have run: synchronise
    /// first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.inner.state.lock().race_checker.findings().to_vec()
    }

    /// Remarks about the modules loaded so far that are no errors, each once: a target newer than
    /// those whose instructions the simulated device knows.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.inner.state.lock().notes.clone()
    }

    /// What kernels have printed with `printf` so far, in the order in which they ran; the first
    /// mebibyte. It is written to the standard output as well.
    #[must_use]
    pub fn printf_output(&self) -> String {
        self.inner.state.lock().printf_output.text()
    }

    /// Counts of what is alive.
    #[must_use]
    pub fn live_object_counts(&self) -> LiveObjectCounts {
        let state = self.inner.state.lock();
        let default_streams = |handle: &StreamHandle| {
            state.contexts.values().any(|context| {
                context.legacy == *handle || context.per_thread.iter().any(|(_, own)| own == handle)
            })
        };
        let streams = state.streams.iter().filter(|(_, stream)| !stream.destroyed);
        LiveObjectCounts {
            contexts: state.contexts.len(),
            streams: streams
                .filter(|(handle, _)| !default_streams(handle))
                .count(),
            events: state.events.len(),
            modules: state.modules.len(),
            device_bytes: state
                .devices
                .iter()
                .map(|device| device.non_pool_bytes + device.pool.usage().used_bytes)
                .sum(),
            pinned_bytes: state.memory.live_bytes(MemoryKind::is_host),
            managed_bytes: state.memory.live_bytes(|kind| kind == MemoryKind::Managed),
            pending_operations: state.ops.len(),
        }
    }

    /// All live objects, by kind and in the order of creation. Contexts and default streams are
    /// left out, because they stay with the process.
    #[must_use]
    pub fn live_objects(&self) -> Vec<LiveObject> {
        self.inner.state.lock().live_objects()
    }

    /// Makes a driver call of the future fail, or a context be lost. Faults add up; see [`Fault`].
    ///
    /// To see that a program survives the failure of any one call, run it again and again with the
    /// fault one call further on, until the program ends before its turn comes:
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver};
    /// use millstream_sim::{Fault, Gpu, SimConfig};
    /// fn program(gpu: &Gpu) -> Result<(), millstream_driver::DriverError> {
    ///     let device = DeviceOrdinal::from_raw(0);
    ///     gpu.device_count()?;
    ///     gpu.device_name(device).map(drop)
    /// }
    /// for call in 1.. {
    ///     let gpu = Gpu::new(SimConfig::new());
    ///     gpu.inject(Fault::nth(call));
    ///     let outcome = program(&gpu);
    ///     if gpu.faults_injected() == 0 {
    ///         assert_eq!(call, 3, "the program makes two calls");
    ///         break;
    ///     }
    ///     assert!(outcome.is_err() && gpu.reports().is_empty());
    /// }
    /// ```
    pub fn inject(&self, fault: Fault) {
        self.inner.state.lock().faults.push(ActiveFault::new(fault));
    }

    /// Takes back every fault that has been injected and has not hit yet.
    pub fn clear_faults(&self) {
        self.inner.state.lock().faults.clear();
    }

    /// How many calls were made to fail, and contexts to be lost, by injected faults.
    #[must_use]
    pub fn faults_injected(&self) -> u64 {
        self.inner.state.lock().faults_injected
    }

    /// Sets the memory of each device anew, in bytes: as if other programs took the rest, or gave
    /// it back. What is allocated stays; what goes beyond is
    /// [`OUT_OF_MEMORY`](millstream_driver::ResultCode::OUT_OF_MEMORY).
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.inner.state.lock().config.memory_bytes = bytes;
    }

    /// The virtual clock, in nanoseconds. Reading it here does not move it.
    #[must_use]
    pub fn virtual_time_ns(&self) -> u64 {
        self.inner.state.lock().now_ns
    }

    /// What all kernels have done so far, taken together; those that failed are left out.
    #[must_use]
    pub fn kernel_stats(&self) -> KernelStats {
        self.inner.state.lock().kernel_stats
    }

    /// What has run so far, in the order in which it ran, if [`SimConfig::timeline`] asked for it.
    #[must_use]
    pub fn timeline(&self) -> Vec<Span> {
        self.inner.state.lock().timeline.clone()
    }

    /// What the schedule has chosen so far. A GPU of the same configuration that
    /// [replays](crate::SimConfig::replay) it answers a program that makes the same calls the same,
    /// with the same reports and the same times.
    ///
    /// Threads of the host are real: the schedule neither starts nor stops them. A replay is exact
    /// for programs whose calls come in the same order on every run, from one thread, or from
    /// threads that wait for each other; that includes the thread that runs host functions.
    /// [`Gpu::replay_status`] says whether it was.
    #[must_use]
    pub fn replay_token(&self) -> ReplayToken {
        self.inner.state.lock().scheduler.token()
    }

    /// How the replay stands that this GPU was made for. A divergence is also among the
    /// [reports](Gpu::reports) as soon as it is seen: at once when a choice cannot be made, or else
    /// at the end of the recorded choices.
    #[must_use]
    pub fn replay_status(&self) -> ReplayStatus {
        let state = self.inner.state.lock();
        state
            .scheduler
            .policy
            .replay_status(&state.scheduler.choice_log)
    }
}
