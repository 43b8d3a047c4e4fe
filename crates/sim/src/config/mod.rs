//! The configuration of a simulated GPU: devices, memory, schedule, rules, costs.

mod cost;
pub(crate) mod fault;
mod parse;
mod peers;
mod rules;
mod token;

use std::{collections::BTreeMap, fmt};

use crate::exec::{Jit, KernelOrder, KernelOrders, Launch, RaceModel};

pub use cost::CostModel;
pub use fault::Fault;
pub use parse::ConfigParseError;
pub use peers::{Link, Links, PeerPool};
pub use rules::{Reading, Rules};
pub use token::{ReplayToken, ReplayTokenError};

/// A schedule: decides when eligible operations run, and so what the host can observe. Every
/// schedule obeys every rule. The textual form is the one that [`SimConfig::parse`] reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// In the order and at the times of the cost model; an operation is complete once the virtual
    /// clock has passed its finish.
    #[default]
    Timed,
    /// As early as legal: every eligible operation has run when a call returns.
    Eager,
    /// As late as legal: no operation runs until the host forces it, and then only the necessary
    /// ones.
    Lazy,
    /// A random number of operations after every call, in random order across streams, drawn from
    /// this seed.
    Random(u64),
    /// Probabilistic concurrency testing: streams and the host have priorities drawn from the seed.
    /// The runnable one with the highest priority runs, until it drops below all others at one of
    /// `depth - 1` random steps. It finds bugs that need an unlikely order of `depth` events more
    /// often than `Random` does. A depth above 64 counts as 64.
    Pct {
        /// The seed of the random draws.
        seed: u64,
        /// One more than the number of priority changes; 2 to 4 find most bugs.
        depth: u32,
    },
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timed => f.write_str("schedule=timed"),
            Self::Eager => f.write_str("schedule=eager"),
            Self::Lazy => f.write_str("schedule=lazy"),
            Self::Random(seed) => write!(f, "schedule=random,seed={seed}"),
            Self::Pct { seed, depth } => write!(f, "schedule=pct,seed={seed},depth={depth}"),
        }
    }
}

/// The configuration of a [`Gpu`](crate::Gpu).
///
/// ```
/// use millstream_sim::{Rules, Schedule, SimConfig};
/// let config = SimConfig::new().devices(2).schedule(Schedule::Lazy).rules(Rules::strict());
/// assert_eq!(config, SimConfig::parse("sim:schedule=lazy,devices=2,rules=strict").unwrap());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct SimConfig {
    pub(crate) devices: u32,
    pub(crate) links: Links,
    pub(crate) peer_pool: PeerPool,
    pub(crate) memory_bytes: u64,
    pub(crate) queue_operations_max: Option<usize>,
    pub(crate) schedule: Schedule,
    pub(crate) replay: Option<ReplayToken>,
    pub(crate) log_choices: bool,
    pub(crate) rules: Rules,
    pub(crate) cost: CostModel,
    pub(crate) poison_max_bytes: usize,
    pub(crate) poison_host_memory: bool,
    pub(crate) kernel_steps_max: u64,
    pub(crate) jit: Jit,
    pub(crate) timeline: bool,
    pub(crate) profile: bool,
    pub(crate) faults: Vec<Fault>,
    pub(crate) edges: BTreeMap<u64, Vec<u64>>,
    pub(crate) redundant: bool,
    pub(crate) race_check: bool,
    pub(crate) kernel_race_check: bool,
    pub(crate) kernel_race_notes: bool,
    pub(crate) kernel_race_model: RaceModel,
    pub(crate) kernel_race_orders: KernelOrders,
    pub(crate) uninitialised_reads: bool,
    pub(crate) kernel_init_check: bool,
    pub(crate) keep_going: bool,
    pub(crate) rely_on_blocking: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            devices: 1,
            links: Links::default(),
            peer_pool: PeerPool::default(),
            memory_bytes: 141 << 30,
            queue_operations_max: None,
            schedule: Schedule::default(),
            replay: None,
            log_choices: true,
            rules: Rules::default(),
            cost: CostModel::default(),
            poison_max_bytes: 16 << 20,
            poison_host_memory: true,
            kernel_steps_max: Launch::STEP_LIMIT_DEFAULT,
            jit: Jit::On,
            timeline: false,
            profile: false,
            faults: Vec::new(),
            edges: BTreeMap::new(),
            redundant: false,
            race_check: true,
            kernel_race_check: false,
            kernel_race_notes: false,
            kernel_race_model: RaceModel::new(),
            kernel_race_orders: KernelOrders::DEFAULT,
            uninitialised_reads: true,
            kernel_init_check: false,
            keep_going: false,
            rely_on_blocking: false,
        }
    }
}

impl SimConfig {
    /// The maximum number of devices; each has a separate address range.
    pub const DEVICES_MAX: u32 = 64;

    /// The number of kernels, copies and fills that a stream of an H200 queues behind a running
    /// kernel, with driver 580.
    pub const H200_QUEUE_OPERATIONS: usize = 1021;

    /// Creates the default configuration: one device with the memory (141 GiB), the costs and the
    /// observed behaviour of an H200, and schedule [`Timed`](Schedule::Timed).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of devices, clamped to 1..=[`DEVICES_MAX`](Self::DEVICES_MAX).
    pub fn devices(mut self, count: u32) -> Self {
        self.devices = count.clamp(1, Self::DEVICES_MAX);
        self
    }

    /// Sets the links between the devices. By default every pair is linked by NVLink. Pairs of
    /// devices that do not exist have no effect.
    ///
    /// ```
    /// use millstream_sim::{Link, Links, SimConfig};
    /// let links = Links::all(Link::Pcie).pair(0, 1, Link::NvLink);
    /// let config = SimConfig::new().devices(3).links(links);
    /// assert_eq!(config, SimConfig::parse("sim:devices=3,links=nvlink:0-1;pcie").unwrap());
    /// ```
    pub fn links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Sets the behaviour of accesses to another device's pool memory, to test a program against
    /// drivers where they silently fail (rule 38).
    pub fn peer_pool(mut self, peer_pool: PeerPool) -> Self {
        self.peer_pool = peer_pool;
        self
    }

    /// Sets the memory of each device, in bytes. The simulator uses host memory only for pages that
    /// are touched.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Limits the queue of every stream: with this many pending kernels, copies and fills, a call
    /// that enqueues another blocks until the oldest has run (rule 54). The minimum is 1; the limit
    /// of an H200 is [`H200_QUEUE_OPERATIONS`](Self::H200_QUEUE_OPERATIONS). By default there is no
    /// limit.
    ///
    /// If nothing makes progress for some seconds while a call waits for space, a report of kind
    /// [`QueueFull`](crate::ReportKind::QueueFull) is added, and queues are unlimited from then on.
    pub fn queue_operations_max(mut self, operations: usize) -> Self {
        self.queue_operations_max = Some(operations.max(1));
        self
    }

    /// Sets the schedule, and removes a [`replay`](Self::replay) set before.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self.replay = None;
        self
    }

    /// Repeats the logged choices of a run instead of following a schedule. With the same calls,
    /// and otherwise the same configuration, the run is identical; see
    /// [`Gpu::replay_token`](crate::Gpu::replay_token).
    ///
    /// ```
    /// use millstream_driver::Driver;
    /// use millstream_sim::{Gpu, ReplayStatus, Schedule, SimConfig};
    /// let program = |config| {
    ///     let gpu = Gpu::new(config);
    ///     gpu.device_count().unwrap();
    ///     gpu
    /// };
    /// let first = program(SimConfig::new().schedule(Schedule::Random(7)));
    /// let again = program(SimConfig::new().replay(first.replay_token()));
    /// assert_eq!(again.replay_status(), ReplayStatus::Exactly);
    /// assert_eq!(again.virtual_time_ns(), first.virtual_time_ns());
    /// ```
    pub fn replay(mut self, token: ReplayToken) -> Self {
        self.replay = Some(token);
        self
    }

    /// Enables or disables the log of the schedule's choices, whose size grows with the run.
    /// Enabled by default; without it [`Gpu::replay_token`](crate::Gpu::replay_token) returns the
    /// token of a run that made no choices. A [`replay`](Self::replay) logs them in any case.
    pub fn log_choices(mut self, log: bool) -> Self {
        self.log_choices = log;
        self
    }

    /// Sets the readings of the ambiguous rules.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the cost model.
    pub fn cost(mut self, cost: CostModel) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the size, in bytes, up to which new allocations are filled with
    /// [`POISON`](crate::POISON). Larger allocations hold zeros, which use no host memory until
    /// touched, and so do new ones while 64 MiB of live memory are filled. The default is 16 MiB.
    pub fn poison_max_bytes(mut self, bytes: usize) -> Self {
        self.poison_max_bytes = bytes;
        self
    }

    /// Enables or disables the fill of new page-locked and managed memory with
    /// [`POISON`](crate::POISON). Enabled by default. Without it such memory holds zeros, as on an
    /// H200: the simulator does not see the host's reads.
    pub fn poison_host_memory(mut self, fill: bool) -> Self {
        self.poison_host_memory = fill;
        self
    }

    /// Sets the number of warp instructions that a kernel may execute until a block ends. If blocks
    /// wait for each other, the instructions of all of them count. A kernel that exceeds it counts
    /// as hung and fails with [`LAUNCH_TIMEOUT`](millstream_driver::ResultCode::LAUNCH_TIMEOUT),
    /// the kernel's name and the line that it executes. The default is 2^30, some ten seconds of
    /// one core.
    pub fn kernel_steps_max(mut self, warp_instructions: u64) -> Self {
        self.kernel_steps_max = warp_instructions;
        self
    }

    /// Sets whether machine code executes kernels. Results, counters, reports, schedules and replay
    /// tokens are the same either way. The default is [`Jit::On`].
    pub fn jit(mut self, jit: Jit) -> Self {
        self.jit = jit;
        self
    }

    /// Keeps a [`Span`](crate::Span) for every operation that has run, for
    /// [`Gpu::timeline`](crate::Gpu::timeline).
    pub fn timeline(mut self, keep: bool) -> Self {
        self.timeline = keep;
        self
    }

    /// Measures the real time that the simulation takes, by kernel, for
    /// [`Gpu::profile`](crate::Gpu::profile). Standard error gets the table when the last context
    /// ends, for the time since the GPU was created.
    pub fn profile(mut self, measure: bool) -> Self {
        self.profile = measure;
        self
    }

    /// Injects a fault that counts calls from the first one on, like
    /// [`Gpu::inject`](crate::Gpu::inject) at the start. May be repeated.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Makes operation `before` wait for operation `after`, as an event between their streams would
    /// or a dependency in a graph, to try a [proposal](crate::race::Proposal). The numbers are
    /// those of a report. Without effect unless `after` is the smaller one. A node in the body of a
    /// conditional node is ordered for the race checker alone. May be repeated.
    pub fn edge(mut self, after: u64, before: u64) -> Self {
        if after < before {
            self.edges.entry(before).or_default().push(after);
        }
        self
    }

    /// Records the run, for [`Gpu::redundant_syncs`](crate::Gpu::redundant_syncs). Disabled by
    /// default: the record grows with the run. Effective only with
    /// [`race_check`](Self::race_check).
    pub fn redundant(mut self, record: bool) -> Self {
        self.redundant = record;
        self
    }

    /// Enables or disables the check of operations and host accesses for [races](crate::race).
    /// Enabled by default; kernels run somewhat faster without it.
    pub fn race_check(mut self, check: bool) -> Self {
        self.race_check = check;
        self
    }

    /// Enables or disables the check for [races between the threads of a
    /// kernel](crate::race#races-within-a-kernel). Disabled by default: a checked kernel runs on
    /// one core, and many times slower. Effective only with [`race_check`](Self::race_check).
    pub fn kernel_race_check(mut self, check: bool) -> Self {
        self.kernel_race_check = check;
        self
    }

    /// Enables or disables reports of races within kernels that change no value: threads write the
    /// same bytes to the same address, and no other access races with them. Such reports are
    /// [notes](crate::Severity::Note). Disabled by default. Effective only with
    /// [`kernel_race_check`](Self::kernel_race_check).
    pub fn kernel_race_notes(mut self, report: bool) -> Self {
        self.kernel_race_notes = report;
        self
    }

    /// Sets the memory model that the check for races within kernels assumes. Effective only with
    /// [`kernel_race_check`](Self::kernel_race_check).
    pub fn kernel_race_model(mut self, model: RaceModel) -> Self {
        self.kernel_race_model = model;
        self
    }

    /// Sets the number of orders of blocks and warps in which the check for races within kernels
    /// runs a launch: the order of indices, and orders drawn by seeds. The default is 4. Up to
    /// three blocks, or up to three warps of a single block, also run in all orders of their
    /// indices. With 1, a launch runs in the order of indices only. Kernels run in one order unless
    /// an atomic or a volatile, relaxed or acquire load returns a value that can depend on it.
    /// Replaces a [`kernel_race_order`](Self::kernel_race_order).
    ///
    /// Each order other than that of the indices runs on copies of the memory that the kernel
    /// accesses, and is left out if these exceed 64 MiB. It ends after some four million warp
    /// instructions.
    pub fn kernel_race_orders(mut self, count: u32) -> Self {
        self.kernel_race_orders = match self.kernel_race_orders {
            KernelOrders::Several { seed, .. } => KernelOrders::Several { count, seed },
            KernelOrders::One(_) => KernelOrders::Several { count, seed: 0 },
        };
        self
    }

    /// Sets the seed of the orders in which the check for races within kernels runs a launch: the
    /// drawn orders have the seeds that follow this one. The default is 0, so the orders are the
    /// same on every run; a test that is to draw others on each run passes another number each time
    /// and prints it. Replaces a [`kernel_race_order`](Self::kernel_race_order).
    pub fn kernel_race_seed(mut self, seed: u64) -> Self {
        self.kernel_race_orders = match self.kernel_race_orders {
            KernelOrders::Several { count, .. } => KernelOrders::Several { count, seed },
            KernelOrders::One(_) => KernelOrders::Several {
                count: KernelOrders::DEFAULT_COUNT,
                seed,
            },
        };
        self
    }

    /// Makes the check for races within kernels run each launch in one order only, which a report
    /// has named.
    pub fn kernel_race_order(mut self, order: KernelOrder) -> Self {
        self.kernel_race_orders = KernelOrders::One(order);
        self
    }

    /// Enables or disables reports of reads of uninitialised bytes of global memory. Enabled by
    /// default. A correct kernel may trigger them: it may read padding, or a whole vector for some
    /// of its elements, and discard the rest.
    pub fn uninitialised_reads(mut self, report: bool) -> Self {
        self.uninitialised_reads = report;
        self
    }

    /// Enables or disables the check of values of shared and local memory that was never written:
    /// reports of their uses, and of accesses by an address in one variable of shared memory that
    /// reach other bytes. Disabled by default: a checked kernel runs on one core, and many times
    /// slower. Effective only with [`race_check`](Self::race_check).
    ///
    /// With the check each bit of a register, and of shared and local memory, is defined or not.
    /// These memories are undefined when a block or a thread starts. A load of undefined bits is
    /// no finding, and neither is a copy: within these memories, to registers, to other lanes by a
    /// shuffle, to a function and back. It is one when an undefined bit decides a branch or
    /// whether an instruction is executed, is part of an address or a coordinate of a texture, is
    /// stored to global memory or a surface or is an operand of an atomic there, is printed, or is
    /// an operand of a vote, match, reduction, barrier or call to the driver. The finding has the
    /// line of the use, the line that loaded the bytes, and their variable. The value counts as
    /// defined from then on.
    ///
    /// Logic, shifts, bit fields, byte permutations, selections and conversions of integers are
    /// exact: `x & 0`, `x ^ x` and a bit field that was written beside one that was not are
    /// defined. A sum or product is undefined from its lowest undefined bit on, a comparison if a
    /// choice of the bits changes it, and any other result as a whole. Registers that were never
    /// written count as defined, as do memory that an earlier call of a function has written and
    /// the target of a `cp.async` in flight, whose reads are races; undefined values in the
    /// registers of functions that are not inlined are forgotten when a call in them returns. A
    /// launch runs in the order of indices only, and is checked until it waits for another
    /// operation or the host.
    ///
    /// Global memory is checked by operations, with
    /// [`uninitialised_reads`](Self::uninitialised_reads): there the read itself is the finding.
    ///
    /// The same option finds accesses by an address in one variable of shared memory, such as an
    /// array, that reach other bytes. Dynamic shared memory is one variable. An address stays in
    /// its variable through moves, sums and differences with numbers, and memory; if
    /// it is computed from several addresses, nothing is reported.
    pub fn kernel_init_check(mut self, check: bool) -> Self {
        self.kernel_init_check = check;
        self
    }

    /// Lets kernels go on after a fault, so that one run reports all of them, each line once with
    /// the number of failures. The thread whose access is invalid goes without it: loads give
    /// zeros, and stores are dropped. A thread that executes `trap`, or whose assertion or call
    /// fails, ends. What leaves no way to go on, such as a deadlock, ends the kernel, as does the
    /// 2^18th failure. The context is not lost, and the program sees no error: the
    /// [reports](crate::Gpu::reports) have the faults. Disabled by default: kernels run on one
    /// core.
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Lets programs rely on it that asynchronous copies of pageable memory block as the
    /// [rules](crate::Rules) in force say (rules 8 and 9: such a copy may block). Disabled by
    /// default: the documentation no longer promises that they block, so the race checker does not
    /// order the host after such a copy, even if the call did wait for it.
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
    /// use millstream_sim::{Gpu, SimConfig};
    /// for (relies, findings) in [(false, 1), (true, 0)] {
    ///     let gpu = Gpu::new(SimConfig::new().rely_on_blocking(relies));
    ///     let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
    ///     let mut bytes = [0_u8; 64];
    ///     // SAFETY: context, stream, memory and `bytes` are alive.
    ///     unsafe {
    ///         let stream = gpu.stream_create(context, true, 0).unwrap();
    ///         let memory = gpu.mem_alloc(context, 64).unwrap();
    ///         gpu.memset_async(context, memory, FillPattern::U8(1), 64, stream).unwrap();
    ///         let target = bytes.as_mut_ptr();
    ///         gpu.copy_device_to_host_async(context, target, memory, 64, stream).unwrap();
    ///     }
    ///     gpu.host_read(bytes.as_ptr(), 64);
    ///     assert_eq!(gpu.findings().len(), findings);
    /// }
    /// ```
    pub fn rely_on_blocking(mut self, rely: bool) -> Self {
        self.rely_on_blocking = rely;
        self
    }
}
