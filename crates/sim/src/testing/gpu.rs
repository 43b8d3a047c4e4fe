//! The methods of [`Gpu`] for tests, beyond the driver interface.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use millstream_driver::{Driver, StreamHandle};

use crate::{
    Fault, Gpu, Hold, LiveObject, LiveObjectCounts, Profile, ReplayStatus, ReplayToken, Report,
    SimConfig, Span, WorkDone,
    core::{objects::fault::ActiveFault, schedule::Scheduler},
    exec::KernelStats,
    memory::MemoryKind,
    race::{Finding, RedundantSync, UnlistedFindings},
};

/// A kernel that runs: see [`Gpu::running_kernel`].
#[derive(Clone, Debug)]
pub struct RunningKernel {
    /// The kernel's name in its PTX.
    pub name: Arc<str>,
    /// The number of blocks of the launch.
    pub blocks: u64,
    /// The number of blocks that have ended, less those of unfinished groups of up to 16 blocks,
    /// and less those from before the kernel waited for another one.
    pub blocks_done: u64,
    /// The real time since the start, or since it began to wait.
    pub elapsed: Duration,
    /// Whether it polls memory until something else has written it. Others may run meanwhile.
    pub waits: bool,
}

impl Gpu {
    /// Creates a simulated GPU, or several, with a separate state.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        let scheduler = Scheduler::new(&config);
        Self::with_scheduler(config, scheduler)
    }

    /// Returns this GPU as a driver.
    #[must_use]
    pub fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.clone())
    }

    /// Blocks `stream` from this point of its queue on, until the [`Hold`] is released or dropped.
    /// A host thread that waits for the stream sleeps until then.
    ///
    /// A default stream means the one of the lowest-numbered device with a live context.
    ///
    /// # Panics
    ///
    /// Panics if the stream is not alive.
    #[must_use = "dropping a hold releases it"]
    pub fn hold(&self, stream: StreamHandle) -> Hold {
        Hold::new(self, stream)
    }

    /// Returns the kernel that runs now, if one does. Does not wait for it, unlike the driver's
    /// calls.
    #[must_use]
    pub fn running_kernel(&self) -> Option<RunningKernel> {
        let running = &self.inner.running_kernel;
        let kernel = running.kernel.lock();
        kernel.as_ref().map(|(name, blocks, start)| RunningKernel {
            name: Arc::clone(name),
            blocks: *blocks,
            blocks_done: running.blocks_done.load(Relaxed),
            elapsed: start.elapsed(),
            waits: running.waits.load(Relaxed),
        })
    }

    /// Returns all reports so far, in the order of detection.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        self.inner.lock().reports.clone()
    }

    /// Returns the race checker's findings so far, in order: the first 1,024, then the first one at
    /// each new pair of places, up to 4,096 in total. Each is also a [`Report`](crate::Report),
    /// except an access that made its kernel fail: the report of the
    /// [fault](crate::ReportKind::KernelFault) contains it.
    ///
    /// An operation is checked once it and all operations enqueued before it have run, so
    /// synchronise first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.inner.lock().race_checker.findings().to_vec()
    }

    /// Returns the numbers of findings beyond the bounds of [`findings`](Self::findings). A report
    /// of the kind [`FindingsOmitted`](crate::ReportKind::FindingsOmitted) says that there are
    /// some.
    #[must_use]
    pub fn unlisted_findings(&self) -> UnlistedFindings {
        self.inner.lock().race_checker.unlisted_findings()
    }

    /// Returns the waits of the run so far that order nothing which a conflict needs, by call and
    /// source line, those that took the longest virtual time first: waits of streams for events and
    /// of the host for events, streams and contexts. Without all of them the operations would have
    /// no other race, and the host would wait as early for what it may see: accesses to memory of
    /// the host, calls of host functions, output of `printf`, and the time of an event that it asks
    /// for. Orders between host functions and accesses to memory of the host are kept, too. A wait
    /// that serves another purpose is listed, such as the measurement of a time by a clock of the
    /// host. Empty unless [recorded](crate::SimConfig::redundant).
    #[must_use]
    pub fn redundant_syncs(&self) -> Vec<RedundantSync> {
        self.inner.lock().race_checker.redundant()
    }

    /// Returns the notes about loaded modules, without duplicates. A note is not an error; it
    /// reports, for example, a target newer than the ones whose instructions the simulated device
    /// supports.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.inner.lock().notes.clone()
    }

    /// Returns the output of `printf` in kernels so far, in the order of execution, up to one
    /// mebibyte. The output also goes to the standard output.
    #[must_use]
    pub fn printf_output(&self) -> String {
        self.inner.printf_output.text()
    }

    /// Passes the output of `printf` in kernels to `write`, which must not call the driver, at each
    /// [`flush_printf`](Self::flush_printf) and once it exceeds one mebibyte.
    pub fn hold_printf(&self, write: fn(&[u8])) {
        self.inner.printf_output.hold(write);
    }

    /// Writes [held](Self::hold_printf) output of kernels. Does not wait for kernels that run.
    pub fn flush_printf(&self) {
        self.inner.printf_output.flush();
    }

    /// Returns the number of live objects of each kind.
    #[must_use]
    pub fn live_object_counts(&self) -> LiveObjectCounts {
        let state = self.inner.lock();
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
            graphs: state.graphs_of_caller().count(),
            executable_graphs: state.executables.len(),
            device_bytes: {
                let outside = state.devices.iter().map(|device| device.non_pool_bytes);
                let pools = state.pools.values();
                outside.sum::<u64>() + pools.map(|pool| pool.bytes.usage().used_bytes).sum::<u64>()
            },
            pinned_bytes: state.memory.live_bytes(MemoryKind::is_host),
            managed_bytes: state.memory.live_bytes(|kind| kind == MemoryKind::Managed),
            pending_operations: state.ops.len(),
        }
    }

    /// Returns all live objects, by kind and in the order of creation. Contexts and default streams
    /// are left out, because they live as long as the process.
    #[must_use]
    pub fn live_objects(&self) -> Vec<LiveObject> {
        self.inner.lock().live_objects()
    }

    /// Injects a fault, which makes a later driver call fail or a context be lost. Faults are
    /// cumulative; see [`Fault`].
    ///
    /// To test that a program survives the failure of any single call, run it repeatedly and move
    /// the fault one call further each time, until the program ends before the fault hits:
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
        self.inner.lock().faults.push(ActiveFault::new(fault));
    }

    /// Removes every injected fault that may still hit.
    pub fn clear_faults(&self) {
        self.inner.lock().faults.clear();
    }

    /// Returns the number of calls that injected faults made fail, plus the number of contexts they
    /// lost.
    #[must_use]
    pub fn faults_injected(&self) -> u64 {
        self.inner.lock().faults_injected
    }

    /// Changes the memory of each device, in bytes, as if other programs allocated or freed memory.
    /// Existing allocations stay; new ones beyond the limit fail with
    /// [`OUT_OF_MEMORY`](millstream_driver::ResultCode::OUT_OF_MEMORY).
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.inner.lock().config.memory_bytes = bytes;
    }

    /// Returns the virtual time in nanoseconds, without advancing it.
    #[must_use]
    pub fn virtual_time_ns(&self) -> u64 {
        self.inner.lock().now_ns
    }

    /// Returns the sum of the statistics of all kernels so far, except failed ones.
    #[must_use]
    pub fn kernel_stats(&self) -> KernelStats {
        self.inner.lock().kernel_stats
    }

    /// Calls `read` with the work that has run so far. `read` must not call the driver.
    pub fn with_work_done<R>(&self, read: impl FnOnce(&WorkDone) -> R) -> R {
        read(&self.inner.lock().work_done)
    }

    /// Returns the real time that the simulation has taken so far. There are no rows unless
    /// [`SimConfig::profile`] is enabled.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.inner.lock().profile()
    }

    /// Returns the operations that have run so far, in the order of execution, if
    /// [`SimConfig::timeline`] is enabled.
    #[must_use]
    pub fn timeline(&self) -> Vec<Span> {
        self.inner.lock().timeline.clone()
    }

    /// Returns the schedule's choices so far as a token. A GPU of the same configuration that
    /// [replays](crate::SimConfig::replay) it returns the same results, reports and times to a
    /// program that makes the same calls.
    ///
    /// Host threads are real: the schedule neither starts nor stops them. A replay is exact for
    /// programs whose calls come in the same order on every run: from one thread, or from threads
    /// that synchronise with each other, including the thread that runs host functions.
    /// [`Gpu::replay_status`] returns whether the replay was exact.
    #[must_use]
    pub fn replay_token(&self) -> ReplayToken {
        self.inner.lock().scheduler.token()
    }

    /// Returns the state of this GPU's replay. A divergence is also [reported](Gpu::reports) on
    /// detection: immediately if a choice is impossible, else at the end of the logged choices.
    #[must_use]
    pub fn replay_status(&self) -> ReplayStatus {
        let state = self.inner.lock();
        state
            .scheduler
            .policy
            .replay_status(&state.scheduler.choice_log)
    }
}
