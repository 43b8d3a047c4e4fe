//! A test case: one program in one configuration, either the simulated device under a schedule and
//! rules, possibly with failing driver calls, or a GPU.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use millstream::{
    Device, Result, Select, Stream,
    driver::{DeviceOrdinal, ResultCode},
    sim::{Fault, Gpu, Link, Links, Schedule, SimConfig},
};

use crate::programs::{
    graphs,
    program::{Allowed, Environment, Interpreter, Sort, check, generate, step::Program},
};
use millstream_testkit::{
    configurations::on_gpu,
    harness::{CLOSED_WITHIN, Watch, nothing_left},
    readings::rules,
    sizes::Sizes,
};

/// The kind of a program. The programs of each are drawn from a range of seeds of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Plain,
    /// Driver calls fail or devices are lost.
    Faults,
    /// Recordings, replays and changes between them.
    Graphs,
}

impl Kind {
    /// Returns the word that marks the kind in a case's text.
    fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Faults => "faults",
            Self::Graphs => "graphs",
        }
    }
}

/// A program's number and its configuration. Its text form is the value of `MILLSTREAM_PROGRAM`
/// that reruns it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) program: u64,
    pub(crate) kind: Kind,
    /// The schedule and rules, in the form of a device's specification; `None` on a GPU.
    pub(crate) options: Option<String>,
    /// The chunk sizes of the devices' copies and the limits of their caches.
    pub(crate) sizes: Sizes,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program)?;
        if self.kind != Kind::Plain {
            write!(f, " {}", self.kind.word())?;
        }
        if self.sizes != Sizes::Own {
            write!(f, " {}", self.sizes)?;
        }
        match &self.options {
            Some(options) => write!(f, " {options}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let program = words.next().and_then(|number| number.parse().ok());
        let program = program
            .ok_or_else(|| format!("`{text}` does not begin with the number of a program"))?;
        let mut case = Self {
            program,
            kind: Kind::Plain,
            options: None,
            sizes: Sizes::Own,
        };
        for word in words {
            match (word, word.parse()) {
                ("faults", _) => case.kind = Kind::Faults,
                ("graphs", _) => case.kind = Kind::Graphs,
                (_, Ok(sizes)) => case.sizes = sizes,
                (options, _) => case.options = Some(options.to_owned()),
            }
        }
        Ok(case)
    }
}

/// Returns the cases of a program: eight schedules, each with its own reading of the disputed rules
/// and two of them in tiny sizes, or the GPU alone.
pub(crate) fn cases(program: u64, kind: Kind) -> Vec<Case> {
    let case = |options, sizes| Case {
        program,
        kind,
        options,
        sizes,
    };
    if on_gpu() {
        return vec![case(None, Sizes::Own)];
    }
    let schedules = [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(3 * program),
        Schedule::Random(3 * program + 1),
        Schedule::Random(3 * program + 2),
        Schedule::Pct {
            seed: 2 * program,
            depth: 2,
        },
        Schedule::Pct {
            seed: 2 * program + 1,
            depth: 4,
        },
    ];
    let place = |(number, schedule): (usize, &Schedule)| {
        let rules = rules(program.wrapping_mul(5).wrapping_add(number as u64 * 11));
        // Programs of one kind have numbers that differ by a multiple of four; dividing by four
        // lets each kind meet every schedule.
        let turn = program as usize / 4 + number;
        // Of the two tiny cases, one copies with one thread and the other with four.
        let is_tiny = turn.is_multiple_of(4);
        let drawn = if is_tiny {
            Sizes::tiny(turn / 4)
        } else {
            Sizes::Own
        };
        let sizes = Sizes::asked(turn).unwrap_or(drawn);
        case(Some(format!("{schedule},rules={rules}")), sizes)
    };
    schedules.iter().enumerate().map(place).collect()
}

impl Case {
    pub(crate) fn draw(&self) -> Program {
        let mut sort = Sort::of(self.program);
        if self.options.is_none() {
            let exists = |device: &usize| Device::open(Select::Cuda(*device as i32)).is_ok();
            // Tests do not bound a GPU's memory.
            (sort.scarce, sort.gates) = (false, false);
            sort.devices = (0..sort.devices).take_while(exists).count();
        }
        let offset = if self.kind == Kind::Faults {
            1 << 32
        } else {
            0
        };
        let mut program = generate(self.program + offset, sort);
        if self.options.is_none() {
            program.links = links_of_gpus(program.devices);
        }
        program
    }

    /// Runs a program in this configuration.
    ///
    /// # Errors
    ///
    /// Returns a description of the first problem.
    pub(crate) fn run(&self, program: &Program) -> Result<(), String> {
        let _watched = Watch::over(self.to_string());
        let run = || match &self.options {
            Some(options) => self.simulate(program, options),
            None => drive(program),
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(&*panic)))
    }

    fn simulate(&self, program: &Program, options: &str) -> Result<(), String> {
        let config = SimConfig::new().devices(program.devices as u32);
        let mut config = config.links(program.links.clone());
        if let Some(bytes) = program.memory_bytes {
            config = config.memory_bytes(bytes);
        }
        let config = config
            .with_options(options)
            .map_err(|error| error.to_string())?;
        // By the strict reading of rule 29 (allocations, fills and copies are barriers), an
        // allocation behind a closed gate waits for the gate, and the host may wait with it.
        let gates_hold =
            !options.contains("implicit_synchronisation") && !options.ends_with("rules=strict");
        let faults = self.kind == Kind::Faults;
        let gpu = Gpu::new(config);
        let open = |device: usize| Device::open_simulated(&gpu, device as i32);
        let devices: Result<Vec<_>> = (0..program.devices).map(open).collect();
        let devices = devices.map_err(|error| error.to_string())?;
        if self.program.is_multiple_of(2) {
            // With no cache, dropped memory is freed at once.
            devices.iter().for_each(|device| device.set_cache_limit(0));
        }
        let close = |stream: &Stream| Box::new(gpu.hold(stream.as_raw())) as Box<dyn Any + Send>;
        // With bounded staging, an operation behind a closed gate could block the program's thread,
        // which opens the gate only in a later step.
        let is_bounded = !(gates_hold && Sort::of(self.program).gates);
        for device in &devices {
            assert!(
                self.sizes.set(device, is_bounded),
                "the sizes must be set before the first copy"
            );
        }
        let environment = Environment {
            reopen: Some(&open),
            gates: if gates_hold { Some(&close) } else { None },
            // A recording needs more memory than its steps, and makes other calls.
            records: !faults && !program.is_scarce(),
        };
        let interpreter =
            Interpreter::new(&devices, environment, program).map_err(|error| error.to_string())?;
        if faults {
            injected(self.program, program)
                .into_iter()
                .for_each(|fault| gpu.inject(fault));
        }
        let interpreter = interpreter.run(&program.steps);
        gpu.clear_faults();
        let log = interpreter.finish();
        let allowed = Allowed {
            faults,
            no_memory: false,
        };
        let checked = check(program, &log, allowed);
        // `memory_stats` makes a driver call, which detects a loss.
        let is_lost = devices.iter().any(|device| device.memory_stats().is_err());
        let accounts = if program.leaks() || faults {
            Ok(())
        } else {
            accounts(&devices)
        };
        drop(devices);
        checked?;
        accounts.and(clean(&gpu, program.leaks() || is_lost))
    }

    /// Runs a program of graphs.
    ///
    /// # Errors
    ///
    /// Returns a description of the first problem.
    pub(crate) fn run_graphs(&self, steps: &[graphs::Step]) -> Result<(), String> {
        let _watched = Watch::over(self.to_string());
        let run = || {
            let options = self.options.as_deref().unwrap_or_default();
            let config = SimConfig::new().with_options(options);
            let gpu = Gpu::new(config.map_err(|error| error.to_string())?);
            let device = Device::open_simulated(&gpu, 0).map_err(|error| error.to_string())?;
            if self.program.is_multiple_of(2) {
                device.set_cache_limit(0);
            }
            self.sizes.set(&device, true);
            let leaks = graphs::run(&gpu, &device, steps)?;
            drop(device);
            clean(&gpu, leaks)
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(&*panic)))
    }
}

/// Checks that closed devices reported nothing and, unless the program `leaks`, left nothing.
fn clean(gpu: &Gpu, leaks: bool) -> Result<(), String> {
    let left = if leaks { Ok(()) } else { nothing_left(gpu) };
    let reports = gpu.reports();
    match reports.first() {
        Some(report) => Err(format!("{} reports, the first: {report}", reports.len())),
        None => left,
    }
}

/// Returns the links between the first GPUs: whether each pair accesses each other's memory.
fn links_of_gpus(count: usize) -> Links {
    let open = |device| Device::open(Select::Cuda(device as i32)).expect("it opened before");
    let devices: Vec<_> = (0..count).map(open).collect();
    let mut links = Links::default();
    for (at, device) in devices.iter().enumerate() {
        for (before, other) in devices[..at].iter().enumerate() {
            if !device.peer_status(other).expect("it works").is_direct() {
                links = links.pair(before as u32, at as u32, Link::NoPeerAccess);
            }
        }
    }
    links
}

/// Runs a program on the GPU that the environment selects.
fn drive(program: &Program) -> Result<(), String> {
    let open = |device: usize| Device::open(Select::Cuda(device as i32));
    let devices: Result<Vec<_>> = (0..program.devices).map(open).collect();
    let devices = devices.map_err(|error| error.to_string())?;
    let environment = Environment {
        reopen: Some(&open),
        gates: None,
        records: !program.is_scarce(),
    };
    let interpreter =
        Interpreter::new(&devices, environment, program).map_err(|error| error.to_string())?;
    let log = interpreter.run(&program.steps).finish();
    check(program, &log, Allowed::default())
}

/// Driver calls that create, enqueue or query. Calls that free are excluded, because their failure
/// leaks the object; other tests cover them.
const CALLS: [&str; 27] = [
    "cuStreamCreateWithPriority",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuMemAllocAsync",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemAdvise",
    "cuMemPrefetchAsync",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpyDtoDAsync",
    "cuMemcpy2DAsync",
    "cuMemcpyBatchAsync",
    "cuDeviceCanAccessPeer",
    "cuCtxEnablePeerAccess",
    "cuMemPoolSetAccess",
    "cuMemcpyPeerAsync",
    "cuMemcpy3DPeerAsync",
    "cuMemsetD8Async",
    "cuMemsetD32Async",
    "cuLaunchKernel",
    "cuLaunchHostFunc",
];
const CODES: [ResultCode; 3] = [
    ResultCode::OUT_OF_MEMORY,
    ResultCode::INVALID_VALUE,
    ResultCode::UNKNOWN,
];

/// Returns the faults for the program of this number: one failing call, a device lost at some call,
/// or random failures of several functions.
fn injected(number: u64, program: &Program) -> Vec<Fault> {
    let at = |shift: u32, bound: usize| {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize % bound
    };
    let code = CODES[at(8, CODES.len())];
    match number % 4 {
        0 => vec![
            Fault::nth(1 + at(12, 12) as u64)
                .of(CALLS[at(20, CALLS.len())])
                .answering(code),
        ],
        1 => {
            let device = DeviceOrdinal::from_raw(at(16, program.devices) as i32);
            let fault = Fault::nth(1 + at(24, 300) as u64);
            vec![fault.losing(device, ResultCode::ILLEGAL_ADDRESS)]
        }
        _ => {
            let random =
                |call: &&'static str| Fault::random(0.03, number).of(*call).answering(code);
            CALLS
                .iter()
                .skip(at(30, 3))
                .step_by(3)
                .map(random)
                .collect()
        }
    }
}

/// Checks that the devices' memory statistics no longer count anything of the program.
fn accounts(devices: &[Device]) -> Result<(), String> {
    for device in devices {
        let asking = Instant::now();
        loop {
            let memory = device.memory_stats().map_err(|error| error.to_string())?;
            let is_back = memory.allocated_bytes == 0
                && memory.allocations == 0
                && memory.page_locked_bytes == memory.page_locked_kept_bytes;
            if is_back {
                break;
            }
            if asking.elapsed() > CLOSED_WITHIN {
                return Err(format!("not given back: {memory:?}"));
            }
            // Another thread may still be freeing it.
            thread::sleep(Duration::from_micros(100));
        }
    }
    Ok(())
}

/// Returns a panic's message.
fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("with no message"))
}
