//! How a simulated GPU is to be: devices, memory, schedule, rules, costs.

mod cost;
pub(crate) mod fault;
mod parse;
mod rules;
mod token;

use std::fmt;

use crate::exec::Launch;

pub use cost::CostModel;
pub use fault::Fault;
pub use parse::ConfigParseError;
pub use rules::{Reading, Rules};
pub use token::{ReplayToken, ReplayTokenError};

/// When operations that may run do run, and so what the host can see. Every schedule obeys every
/// rule. As text it is what [`SimConfig::parse`] reads.
///
/// ```
/// use millstream_sim::Schedule;
/// assert_eq!(Schedule::default(), Schedule::Timed);
/// assert_eq!(Schedule::Pct { seed: 7, depth: 3 }.to_string(), "schedule=pct,seed=7,depth=3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// In the order and at the moment that the cost model says; an operation is complete when the
    /// virtual clock says so.
    #[default]
    Timed,
    /// As early as legal: whatever may run has run when the call returns.
    Eager,
    /// As late as legal: nothing runs until the host forces it, and then only what it must.
    Lazy,
    /// A random number of operations after every call, in random order across streams, drawn from
    /// this seed.
    Random(u64),
    /// Probabilistic concurrency testing: streams and the host have ranks drawn from the seed, and
    /// whoever ranks highest and can go on does, until it falls below all others at one of
    /// `depth - 1` steps drawn from the seed. Finds what takes an unlikely order of a few things,
    /// `depth` of them, more often than `Random` does. A depth above 64 is taken as 64.
    Pct {
        /// What is drawn from.
        seed: u64,
        /// One more than the number of changes of rank; 2 to 4 find most mistakes.
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

/// What a [`Gpu`](crate::Gpu) is made from.
///
/// ```
/// use millstream_sim::{Rules, Schedule, SimConfig};
/// let config = SimConfig::new().devices(2).schedule(Schedule::Lazy).rules(Rules::strict());
/// assert_eq!(config, SimConfig::parse("sim:schedule=lazy,devices=2,rules=strict").unwrap());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    pub(crate) devices: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) queue_operations_max: Option<usize>,
    pub(crate) schedule: Schedule,
    pub(crate) replay: Option<ReplayToken>,
    pub(crate) rules: Rules,
    pub(crate) cost: CostModel,
    pub(crate) poison_max_bytes: usize,
    pub(crate) kernel_steps_max: u64,
    pub(crate) timeline: bool,
    pub(crate) faults: Vec<Fault>,
    pub(crate) race_check: bool,
    pub(crate) kernel_race_check: bool,
    pub(crate) kernel_race_notes: bool,
    pub(crate) uninitialised_reads: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            devices: 1,
            memory_bytes: 141 << 30,
            queue_operations_max: None,
            schedule: Schedule::default(),
            replay: None,
            rules: Rules::default(),
            cost: CostModel::default(),
            poison_max_bytes: 16 << 20,
            kernel_steps_max: Launch::STEP_LIMIT_DEFAULT,
            timeline: false,
            faults: Vec::new(),
            race_check: true,
            kernel_race_check: false,
            kernel_race_notes: false,
            uninitialised_reads: true,
        }
    }
}

impl SimConfig {
    /// Most devices of one simulated GPU; each has an address range of its own.
    pub const DEVICES_MAX: u32 = 64;

    /// How many kernels, copies and fills a stream of an H200 takes behind a kernel that runs, with
    /// driver 580.
    pub const H200_QUEUE_OPERATIONS: usize = 1021;

    /// One device like an H200: 141 GiB, its costs and observed behaviour, schedule
    /// [`Timed`](Schedule::Timed).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of devices, clamped to 1..=[`DEVICES_MAX`](Self::DEVICES_MAX).
    #[must_use]
    pub fn devices(mut self, count: u32) -> Self {
        self.devices = count.clamp(1, Self::DEVICES_MAX);
        self
    }

    /// Sets the memory of each device, in bytes. Host memory is taken only for what is touched.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Gives every stream's queue a bound: with so many kernels, copies and fills in it that have
    /// not run, the call that brings another blocks until the oldest has (rule 54). At least 1; on
    /// an H200 it is [`H200_QUEUE_OPERATIONS`](Self::H200_QUEUE_OPERATIONS). There is none unless
    /// this sets one.
    ///
    /// If nothing moves for some seconds while a call waits for room, that is a report of kind
    /// [`QueueFull`](crate::ReportKind::QueueFull), and queues have no bound from then on.
    #[must_use]
    pub fn queue_operations_max(mut self, operations: usize) -> Self {
        self.queue_operations_max = Some(operations.max(1));
        self
    }

    /// Sets the schedule. Takes back a [`replay`](Self::replay).
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self.replay = None;
        self
    }

    /// Makes the choices of an earlier run once more, instead of following a schedule. For the same
    /// calls, and otherwise the same configuration, everything is as it was then; see
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
    #[must_use]
    pub fn replay(mut self, token: ReplayToken) -> Self {
        self.replay = Some(token);
        self
    }

    /// Sets the readings of the disputed rules.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the cost model.
    #[must_use]
    pub fn cost(mut self, cost: CostModel) -> Self {
        self.cost = cost;
        self
    }

    /// Fresh allocations of up to this many bytes are filled with [`POISON`](crate::POISON); larger
    /// ones hold zeros, which costs no host memory until they are touched. Default 16 MiB.
    #[must_use]
    pub fn poison_max_bytes(mut self, bytes: usize) -> Self {
        self.poison_max_bytes = bytes;
        self
    }

    /// A kernel that executes more warp instructions than this counts as hung and fails with
    /// [`LAUNCH_TIMEOUT`](millstream_driver::ResultCode::LAUNCH_TIMEOUT).
    #[must_use]
    pub fn kernel_steps_max(mut self, warp_instructions: u64) -> Self {
        self.kernel_steps_max = warp_instructions;
        self
    }

    /// Keeps a [`Span`](crate::Span) of every operation that has run, for
    /// [`Gpu::timeline`](crate::Gpu::timeline).
    #[must_use]
    pub fn timeline(mut self, keep: bool) -> Self {
        self.timeline = keep;
        self
    }

    /// Injects a fault from the first call on, as [`Gpu::inject`](crate::Gpu::inject) does later.
    /// May be repeated.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Whether operations and host accesses are checked for [races](crate::race). They are, unless
    /// this says otherwise: without, kernels run somewhat faster.
    #[must_use]
    pub fn race_check(mut self, check: bool) -> Self {
        self.race_check = check;
        self
    }

    /// Whether the threads of each kernel are checked for [races with each
    /// other](crate::race#races-within-a-kernel), too. They are not, unless this says so: such a
    /// kernel runs on one core, and many times slower. Takes effect only with
    /// [`race_check`](Self::race_check).
    #[must_use]
    pub fn kernel_race_check(mut self, check: bool) -> Self {
        self.kernel_race_check = check;
        self
    }

    /// Whether races within kernels that change no value are reported: threads that write the same
    /// bytes to one place, with no other access racing for them. Such reports are
    /// [notes](crate::Severity::Note). Off by default. Takes effect only with
    /// [`kernel_race_check`](Self::kernel_race_check).
    ///
    /// ```
    /// use millstream_sim::SimConfig;
    /// let config = SimConfig::new().kernel_race_check(true).kernel_race_notes(true);
    /// assert_eq!(config, SimConfig::parse("sim:race=notes").unwrap());
    /// ```
    #[must_use]
    pub fn kernel_race_notes(mut self, report: bool) -> Self {
        self.kernel_race_notes = report;
        self
    }

    /// Whether the race checker reports reads of bytes that nobody wrote. It does, unless this says
    /// otherwise: a kernel may well read padding, or a whole vector for the sake of some elements,
    /// and make nothing of the rest.
    #[must_use]
    pub fn uninitialised_reads(mut self, report: bool) -> Self {
        self.uninitialised_reads = report;
        self
    }
}
