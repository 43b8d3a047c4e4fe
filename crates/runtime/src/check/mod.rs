//! Checks of a program under many schedules of the simulated device.

mod failure;
mod leaks;
mod run;

use std::{
    fmt::Display,
    panic,
    time::{Duration, Instant},
};

use millstream_sim::{Rules, Schedule, Search, SimConfig};

pub use failure::CheckFailure;

use crate::{Device, context::LocalReactor};
use run::Run;

/// Runs `program` on a new simulated device under each of the schedules of [`Check::new`], with
/// both variants of the rules on which CUDA's documentation and hardware differ.
///
/// The check passes if the program neither panics nor returns an error, if the simulated device
/// reports nothing (such as a race), and if no object is left once the device is closed.
///
/// ```
/// let checked = millstream::check(|device| {
///     let (a, b) = (device.stream()?, device.stream()?);
///     let mut numbers = a.upload(&[1_u32; 100])?;
///     b.fill(&mut numbers, 2)?;
///     assert_eq!(a.download(&numbers)?.wait()?, [2; 100]);
///     Ok::<(), millstream::Error>(())
/// });
/// assert!(checked.runs() > 50);
/// ```
///
/// # Panics
///
/// If a run fails. The message names the problem, the schedule, and the command that repeats
/// exactly this run:
///
/// ```should_panic
/// millstream::check(|device| {
///     let stream = device.stream()?;
///     let numbers = stream.upload(&[1_u32; 100])?;
///     assert!(stream.download(&numbers)?.is_ready()?, "by luck only");
///     Ok::<(), millstream::Error>(())
/// });
/// ```
pub fn check<O: Outcome>(program: impl Fn(&Device) -> O) -> Checked {
    Check::new().run(program)
}

/// Runs an asynchronous `program` like [`check`]. The calling thread also polls the device on
/// behalf of the program's futures, so that the driver calls come in the same order on every run.
///
/// ```
/// millstream::check_async(async |device| {
///     let stream = device.stream()?;
///     let numbers = stream.upload(&[1_u32; 100])?;
///     assert_eq!(stream.download(&numbers)?.await?, [1; 100]);
///     Ok::<(), millstream::Error>(())
/// });
/// ```
///
/// # Panics
///
/// As [`check`].
pub fn check_async<O: Outcome>(program: impl AsyncFn(&Device) -> O) -> Checked {
    Check::new().run_async(program)
}

/// The return type of a checked program: `()`, or a `Result` whose error is a failure.
pub trait Outcome {
    /// Returns a description of the problem, if there is one.
    fn problem(self) -> Option<String>;
}

impl Outcome for () {
    fn problem(self) -> Option<String> {
        None
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn problem(self) -> Option<String> {
        self.err()
            .map(|error| format!("the program returned an error: {error}"))
    }
}

/// The summary of a passed check.
///
/// ```
/// let checked = millstream::Check::new().exhaustive(100).run(|_| ());
/// // One run for each variant of the rules.
/// assert_eq!((checked.runs(), checked.is_complete()), (2, true));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checked {
    runs: u64,
    schedules: Vec<Schedule>,
    complete: bool,
    cut_short: bool,
}

impl Checked {
    /// Returns the number of runs of the program.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the schedules, each once, or none for a search or a replay.
    #[must_use]
    pub fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// Returns whether [`Check::exhaustive`] has explored every schedule that the program can
    /// distinguish.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns whether a limit of time or runs ended the check early.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }
}

/// The configuration of a check.
///
/// ```
/// use millstream::{Check, sim::Rules};
///
/// let checked = Check::new()
///     .devices(2)
///     .random(5)
///     .pct(5, 3)
///     .rules([Rules::strict()])
///     .run_devices(|devices| {
///         let here = devices[0].stream()?.upload(&[1, 2, 3])?;
///         let mut there = devices[1].stream()?.zeros::<i32>(3)?;
///         devices[1].stream()?.copy(&here, &mut there)?;
///         assert_eq!(devices[1].stream()?.download(&there)?.wait()?, [1, 2, 3]);
///         Ok::<(), millstream::Error>(())
///     });
/// assert_eq!(checked.runs(), 3 + 5 + 5);
/// ```
///
/// The environment variable `MILLSTREAM_CHECK` replaces the schedules and rules by its value, such
/// as `schedule=random,seed=12,rules=strict` or `replay=…`, as printed by a failure. The program is
/// then run once.
///
/// Threads that a program starts are real threads, which the schedule does not control. A failure
/// of a program with unordered threads may need several attempts to reproduce; a replay that
/// diverges from the original run is reported as such.
#[derive(Clone, Debug)]
#[must_use = "a check checks nothing until it is run"]
pub struct Check {
    config: SimConfig,
    devices: u32,
    schedules: Vec<Schedule>,
    random: u64,
    pct: (u64, u32),
    rules: Vec<Rules>,
    search_runs_max: Option<u64>,
    time_max: Option<Duration>,
    twice: bool,
    leaks: bool,
}

impl Default for Check {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    /// Creates a check with the schedules timed, eager, lazy, 16 seeds of random, and 8 seeds of
    /// PCT at depth 3, each with both variants of the rules on which documentation and hardware
    /// differ.
    pub fn new() -> Self {
        Self {
            config: SimConfig::new(),
            devices: 1,
            schedules: vec![Schedule::Timed, Schedule::Eager, Schedule::Lazy],
            random: 16,
            pct: (8, 3),
            rules: vec![Rules::observed(), Rules::strict()],
            search_runs_max: None,
            time_max: None,
            twice: false,
            leaks: false,
        }
    }

    /// Sets the configuration of the simulated GPU: its memory, costs and faults. Its schedule,
    /// rules and number of devices are ignored.
    pub fn config(mut self, config: SimConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the number of devices for [`run_devices`](Self::run_devices).
    pub fn devices(mut self, count: u32) -> Self {
        self.devices = count.clamp(1, SimConfig::DEVICES_MAX);
        self
    }

    /// Sets the schedules that are run besides those of [`random`](Self::random) and
    /// [`pct`](Self::pct).
    pub fn schedules(mut self, schedules: impl IntoIterator<Item = Schedule>) -> Self {
        self.schedules = schedules.into_iter().collect();
        self
    }

    /// Sets the number of seeds, from 0, for the random schedule.
    pub fn random(mut self, seeds: u64) -> Self {
        self.random = seeds;
        self
    }

    /// Sets the number of seeds, from 0, and the depth for the [PCT](Schedule::Pct) schedule.
    pub fn pct(mut self, seeds: u64, depth: u32) -> Self {
        self.pct = (seeds, depth);
        self
    }

    /// Sets the variants of the rules, each of which is run with every schedule.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rules>) -> Self {
        self.rules = rules.into_iter().collect();
        self
    }

    /// Replaces the schedules by a depth-first search of all behaviours that the host can
    /// distinguish, in at most `runs_max` runs. It suits small programs with one thread.
    /// [`Checked::is_complete`] returns whether the limit was sufficient; [`Search`] defines which
    /// behaviours are distinguished. Before the search, the program runs once with exact waits, to
    /// find races; that run is not counted.
    pub fn exhaustive(mut self, runs_max: u64) -> Self {
        self.search_runs_max = Some(runs_max);
        self
    }

    /// Sets the real time after which no further run is started. A run that has started is
    /// completed.
    pub fn time_max(mut self, limit: Duration) -> Self {
        self.time_max = Some(limit);
        self
    }

    /// Runs every schedule twice, the second time as a replay of the first, and fails if time,
    /// order, decisions or outcome differ, because the program then depends on more than the
    /// results of driver calls.
    pub fn twice(mut self) -> Self {
        self.twice = true;
        self
    }

    /// Disables the check for objects that remain after the device is closed.
    pub fn allow_leaks(mut self) -> Self {
        self.leaks = true;
        self
    }

    /// Runs `program` with each schedule.
    ///
    /// # Panics
    ///
    /// As [`check`].
    #[track_caller]
    pub fn run<O: Outcome>(&self, program: impl Fn(&Device) -> O) -> Checked {
        self.find(program)
            .unwrap_or_else(|failure| panic::panic_any(failure.to_string()))
    }

    /// Runs `program` with several [devices](Self::devices) under each schedule.
    ///
    /// # Panics
    ///
    /// As [`check`].
    #[track_caller]
    pub fn run_devices<O: Outcome>(&self, program: impl Fn(&[Device]) -> O) -> Checked {
        self.run_program(&|devices, _| program(devices).problem())
            .unwrap_or_else(|failure| panic::panic_any(failure.to_string()))
    }

    /// Runs an asynchronous `program` under each schedule, like [`check_async`].
    ///
    /// # Panics
    ///
    /// As [`check`].
    #[track_caller]
    pub fn run_async<O: Outcome>(&self, program: impl AsyncFn(&Device) -> O) -> Checked {
        self.run_program(&|devices, reactor| reactor.block_on(program(&devices[0])).problem())
            .unwrap_or_else(|failure| panic::panic_any(failure.to_string()))
    }

    /// Runs `program` like [`run`](Self::run), and returns the first failure instead of panicking.
    ///
    /// # Errors
    ///
    /// The first run that failed.
    ///
    /// # Panics
    ///
    /// If the value of the environment variable `MILLSTREAM_CHECK` is invalid.
    pub fn find<O: Outcome>(
        &self,
        program: impl Fn(&Device) -> O,
    ) -> Result<Checked, CheckFailure> {
        self.run_program(&|devices, _| program(&devices[0]).problem())
    }

    fn run_program(&self, program: &Program<'_>) -> Result<Checked, CheckFailure> {
        let started = Instant::now();
        let base = self
            .config
            .clone()
            .devices(self.devices)
            .timeline(self.twice);
        let mut checked = Checked::default();
        let may_start = |runs: u64, runs_max: u64| {
            runs < runs_max && self.time_max.is_none_or(|limit| started.elapsed() < limit)
        };
        if let Some(options) = run::named_by_environment() {
            let config = run::configured(&base, &options);
            checked.runs = 1;
            Run::new(self, program, 1, options).run(config)?;
            return Ok(checked);
        }
        if let Some(runs_max) = self.search_runs_max {
            checked.complete = true;
            for rules in &self.rules {
                let config = base.clone().rules(*rules);
                // An event behind each operation would multiply the behaviours to search.
                if run::looks_for_races(&config) {
                    Run::new(self, program, 0, format!("rules={rules}")).run(config.clone())?;
                }
                let mut search = Search::new();
                while may_start(checked.runs, runs_max)
                    && let Some(gpu) = search.next_gpu(&config)
                {
                    checked.runs += 1;
                    let run = Run::new(self, program, checked.runs, format!("rules={rules}"));
                    run.run_search(&config, gpu, &mut search)?;
                }
                if search.has_diverged() {
                    return Err(CheckFailure::not_the_same(
                        format!("rules={rules}"),
                        checked.runs,
                    ));
                }
                checked.complete &= search.is_complete();
            }
            checked.cut_short = !checked.complete;
            return Ok(checked);
        }
        for schedule in run::schedules(&self.schedules, self.random, self.pct) {
            for rules in &self.rules {
                if !may_start(checked.runs, u64::MAX) {
                    checked.cut_short = true;
                    return Ok(checked);
                }
                checked.runs += 1;
                let run = Run::new(
                    self,
                    program,
                    checked.runs,
                    format!("{schedule},rules={rules}"),
                );
                run.run(base.clone().schedule(schedule).rules(*rules))?;
            }
            checked.schedules.push(schedule);
        }
        Ok(checked)
    }
}

/// A program, called with its devices and the thread's reactor. Returns a description of the
/// problem, if there is one.
type Program<'a> = dyn Fn(&[Device], &LocalReactor) -> Option<String> + 'a;
