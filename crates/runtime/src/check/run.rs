//! The runs of a check: their configurations, and the execution of one run.

use std::{
    any::Any,
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use millstream_sim::{
    Gpu, ReplayStatus, ReplayToken, Report, Schedule, Search, Severity, SimConfig, Span,
};

use super::{Check, CheckFailure, Program, failure::this_test, leaks::find_leaks};
use crate::{
    Device,
    context::{DeviceState, LocalReactor},
};

/// The environment variable that selects a single run.
pub(super) const VARIABLE: &str = "MILLSTREAM_CHECK";

/// Returns the value of the environment variable, unless it is unset or empty.
pub(super) fn named_by_environment() -> Option<String> {
    let value = env::var_os(VARIABLE)?;
    let value = value.to_string_lossy();
    (!value.is_empty()).then(|| value.into_owned())
}

/// Returns `base` with the options from the environment variable. Panics if they are invalid.
pub(super) fn configured(base: &SimConfig, options: &str) -> SimConfig {
    match base.clone().with_options(options) {
        Ok(config) => config,
        Err(error) => panic!("invalid value of {VARIABLE}: {error}"),
    }
}

pub(super) fn looks_for_races(config: &SimConfig) -> bool {
    *config == config.clone().race_check(true)
}

/// Returns the fixed schedules, then `random` seeds of the random schedule and the seeds of PCT.
pub(super) fn schedules(
    fixed: &[Schedule],
    random: u64,
    pct: (u64, u32),
) -> impl Iterator<Item = Schedule> {
    let (seeds, depth) = pct;
    fixed
        .iter()
        .copied()
        .chain((0..random).map(Schedule::Random))
        .chain((0..seeds).map(move |seed| Schedule::Pct { seed, depth }))
}

pub(super) struct Run<'a> {
    check: &'a Check,
    program: &'a Program<'a>,
    number: u64,
    /// The options that repeat the run, except for a run of a search.
    options: String,
    /// True if streams wait for no more than they must, so that no race is hidden.
    is_exact: bool,
}

/// The observable state at the end of the program.
#[derive(PartialEq)]
struct RunEnd {
    token: ReplayToken,
    time_ns: u64,
    timeline: Vec<Span>,
    problem: Option<String>,
}

/// The devices of a run, closed unless a leaked handle keeps them open.
type Closed = Vec<Weak<DeviceState>>;

impl<'a> Run<'a> {
    pub(super) fn new(
        check: &'a Check,
        program: &'a Program<'a>,
        number: u64,
        options: String,
    ) -> Self {
        Self {
            check,
            program,
            number,
            options,
            is_exact: false,
        }
    }

    pub(super) fn run(mut self, config: SimConfig) -> Result<(), CheckFailure> {
        // A token of a search replays a run whose waits were not exact.
        self.is_exact = looks_for_races(&config) && !self.options.contains("replay=");
        let gpu = Gpu::new(config.clone());
        let (end, devices) = self.play(&gpu, || {});
        self.check_end(&config, &gpu, end, &devices)
    }

    pub(super) fn run_search(
        mut self,
        config: &SimConfig,
        gpu: Gpu,
        search: &mut Search,
    ) -> Result<(), CheckFailure> {
        let (end, devices) = self.play(&gpu, || search.end_run());
        self.options = format!("replay={},{}", end.token, self.options);
        self.check_end(config, &gpu, end, &devices)
    }

    /// Runs the program and closes its devices; `ended` is called in between.
    fn play(&self, gpu: &Gpu, ended: impl FnOnce()) -> (RunEnd, Closed) {
        let reactor = LocalReactor::new();
        let devices: Result<Vec<Device>, _> = (0..self.check.devices as i32)
            .map(|ordinal| Device::open_simulated(gpu, ordinal))
            .collect();
        for device in devices.iter().flatten().filter(|_| self.is_exact) {
            // A wait for more than the conflicts would order what the program leaves unordered.
            device.state().wait_exactly();
        }
        let problem = match &devices {
            Err(error) => Some(format!("cannot open the simulated device: {error}")),
            Ok(devices) => {
                let outcome = catch_unwind(AssertUnwindSafe(|| (self.program)(devices, &reactor)));
                outcome.unwrap_or_else(|payload| Some(words(&*payload)))
            }
        };
        let end = RunEnd {
            token: gpu.replay_token(),
            time_ns: gpu.virtual_time_ns(),
            timeline: gpu.timeline(),
            problem,
        };
        ended();
        reactor.finish();
        let states = devices
            .iter()
            .flatten()
            .map(|device| Arc::downgrade(device.state()));
        let closed = states.collect();
        drop(devices);
        (end, closed)
    }

    fn check_end(
        &self,
        config: &SimConfig,
        gpu: &Gpu,
        mut end: RunEnd,
        devices: &Closed,
    ) -> Result<(), CheckFailure> {
        let left = if end.problem.is_none() {
            find_leaks(gpu, devices)
        } else {
            None
        };
        if self.check.twice {
            let again = Gpu::new(config.clone().replay(end.token.clone()));
            if self.play(&again, || {}).0 != end {
                let failure = CheckFailure::not_the_same(self.options.clone(), self.number);
                return Err(failure);
            }
        }
        let mut reports = gpu.reports();
        reports.retain(|report| report.severity == Severity::Error);
        let status = gpu.replay_status();
        if let Some(left) = left.filter(|_| !self.check.leaks) {
            end.problem = Some(left);
        } else if end.problem.is_none() && !reports.is_empty() {
            end.problem = Some("the simulated device reported errors".into());
        } else if end.problem.is_none()
            && !matches!(
                status,
                ReplayStatus::NotAsked | ReplayStatus::Exactly | ReplayStatus::Beyond
            )
        {
            end.problem = Some(format!(
                "the replay diverged from the original run: {status:?}"
            ));
        }
        match end.problem {
            None => Ok(()),
            Some(problem) => Err(self.failure(problem, reports, end.token)),
        }
    }

    fn failure(&self, problem: String, reports: Vec<Report>, token: ReplayToken) -> CheckFailure {
        CheckFailure {
            problem: problem.into(),
            reports,
            replay: self.options.clone(),
            token: Some(token),
            run: self.number,
            command: this_test().into(),
        }
    }
}

/// Returns a panic's message.
fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    format!(
        "the program panicked: {}",
        text.unwrap_or("with no message")
    )
}
