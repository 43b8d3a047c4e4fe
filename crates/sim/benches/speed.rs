//! Speed of the simulated device: thread-instructions per second and core, with and without the
//! race checker, on one core and on all cores; and host instructions per thread-instruction, which
//! do not depend on the machine's other load, also with the check for races within kernels.
//!
//! ```sh
//! cargo bench -p millstream-sim --bench speed              # the times
//! cargo bench -p millstream-sim --bench speed -- --count   # the instructions, counted by valgrind
//! cargo bench -p millstream-sim --bench speed -- matmul    # kernels with this in their names
//! cargo bench -p millstream-sim --bench speed -- --beside=FILE   # times beside another build
//! ```
//!
//! The files of this benchmark use only what earlier versions of the simulated device also have, so
//! that they can be laid over an older checkout, whose build is then the FILE to compare with.
//!
//! Each figure is measured in a separate process, because the number of threads is fixed for a
//! process. The configurations alternate, and the fastest launch of each counts. On one core the
//! processor time is measured, on all cores the elapsed time.
#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use std::{env, error::Error, ffi::c_void, process::Command, time::Instant};

use millstream_driver::{
    ContextHandle, DeviceOrdinal, Driver, FillPattern, FunctionHandle, LaunchDims, StreamHandle,
};
use millstream_sim::{Gpu, SimConfig};

/// The checks of a simulated device.
const CHECKED: &str = "sim";
const UNCHECKED: &str = "sim:race=off";
const WITHIN: &str = "sim:race=kernels,orders=1";

#[path = "speed/cases.rs"]
mod cases;

use cases::{Case, cases};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Launches timed in one process, after one untimed launch.
const LAUNCHES: usize = 9;

/// Processes started for each configuration of each kernel.
const TURNS: usize = 3;

/// Processes started for each configuration and build, to compare builds.
const ROUNDS: usize = 5;

/// A case whose module, stream and arguments are created.
struct Ready {
    gpu: Gpu,
    context: ContextHandle,
    stream: StreamHandle,
    function: FunctionHandle,
    dims: LaunchDims,
    /// The bytes of each argument.
    values: Vec<u64>,
}

impl Ready {
    fn new(case: &Case, config: &str) -> Result<Self> {
        let gpu = Gpu::new(SimConfig::parse(config)?);
        let folder = match case.file {
            "speed" => "benches/speed",
            _ => "../../kernels",
        };
        let (root, file) = (env!("CARGO_MANIFEST_DIR"), case.file);
        let ptx = std::fs::read(format!("{root}/{folder}/{file}.ptx"))?;
        let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0))?;
        // SAFETY: the context is alive.
        let stream = unsafe { gpu.stream_create(context, true, 0) }?;
        // SAFETY: as above, and the image is a complete PTX text.
        let module = unsafe { gpu.module_load(context, &ptx) }?;
        // SAFETY: the module is alive.
        let function = unsafe { gpu.module_function(context, module, case.entry()) }?;
        let mut values = Vec::new();
        for &(kind, value) in &case.args {
            values.push(match kind {
                "array" => {
                    let bytes = value.parse()?;
                    // SAFETY: the context is alive.
                    let memory = unsafe { gpu.mem_alloc(context, bytes) }?;
                    // These patterns are small and varied, whether read as bytes, integers or
                    // floats. SAFETY: the memory is as large as the range, and alive; so is the
                    // stream.
                    unsafe {
                        gpu.memset_async(
                            context,
                            memory,
                            FillPattern::U32(0x3e80_0000),
                            bytes / 4,
                            stream,
                        )
                    }?;
                    memory.as_raw()
                }
                "f32" => value.parse::<f32>()?.to_bits().into(),
                "f64" => value.parse::<f64>()?.to_bits(),
                _ => value.parse::<u32>()?.into(),
            });
        }
        let dims = LaunchDims {
            grid: case.grid,
            block: case.block,
            shared_bytes: 0,
        };
        Ok(Self {
            gpu,
            context,
            stream,
            function,
            dims,
            values,
        })
    }

    /// Launches as often as the case repeats and waits. Returns the nanoseconds taken: processor
    /// time if only one core is used (where the system reports it), so that other programs do not
    /// count, else elapsed time.
    fn launch(&self, one_core: bool, repeats: u32) -> Result<u128> {
        let arguments: Vec<*const c_void> = self
            .values
            .iter()
            .map(|value| (value as *const u64).cast())
            .collect();
        let (start, busy_ns) = (Instant::now(), processor_ns());
        for _ in 0..repeats {
            // SAFETY: all handles are alive, and each pointer is to 8 readable bytes, which is as
            // large as any parameter.
            unsafe {
                self.gpu.launch_kernel(
                    self.context,
                    self.function,
                    &self.dims,
                    self.stream,
                    &arguments,
                )
            }?;
        }
        // SAFETY: as above.
        unsafe { self.gpu.stream_synchronize(self.context, self.stream) }?;
        match (busy_ns, processor_ns()) {
            (Some(before), Some(after)) if one_core => Ok(after - before),
            _ => Ok(start.elapsed().as_nanos()),
        }
    }
}

/// Returns the processor time used by the threads of this process, on Linux.
fn processor_ns() -> Option<u128> {
    // Linux updates the processor time of a running thread when the thread yields.
    std::thread::yield_now();
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let of_thread = |entry: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u128>().ok()
    };
    threads.map(of_thread).sum()
}

/// Runs the launches in a child process. Prints the thread-instructions and the least nanoseconds
/// of one launch; for the case `start`, the processor time of the process up to the end of its
/// first launch.
fn child(kernel: &str, config: &str, launches: usize) -> Result<()> {
    let one_core = env::var("RAYON_NUM_THREADS").is_ok_and(|threads| threads == "1");
    let mut cases = cases()?.into_iter();
    let case = cases
        .find(|case| case.kernel == kernel)
        .ok_or("no such kernel")?;
    let ready = Ready::new(&case, config)?;
    ready.launch(one_core, case.repeats)?;
    let once = ready.gpu.kernel_stats().thread_instructions;
    let mut least = None;
    if kernel == "start" {
        least = processor_ns();
    } else {
        for _ in 0..launches {
            let time = ready.launch(one_core, case.repeats)?;
            least = Some(least.map_or(time, |least| time.min(least)));
        }
    }
    if let Some(report) = ready.gpu.reports().first() {
        return Err(report.to_string().into());
    }
    println!("{once} {}", least.unwrap_or(0));
    Ok(())
}

/// Starts a child process that launches a kernel with this many threads, run by `wrapper` if there
/// is one. Returns the child's output.
fn process(
    wrapper: &[String],
    case: &Case,
    config: &str,
    launches: usize,
    threads: usize,
) -> Result<(f64, f64)> {
    let own = env::current_exe()?.display().to_string();
    run(&[wrapper, &[own]].concat(), case, config, launches, threads)
}

fn run(
    line: &[String],
    case: &Case,
    config: &str,
    launches: usize,
    threads: usize,
) -> Result<(f64, f64)> {
    let output = Command::new(&line[0])
        .args(&line[1..])
        .args(["child", case.kernel, config, &launches.to_string()])
        .env("RAYON_NUM_THREADS", threads.to_string())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(instructions)), Some(Ok(ns))) => Ok((instructions, ns)),
        _ => Err(format!(
            "{}: {}",
            case.kernel,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

/// Measures millions of thread-instructions per second for each configuration: with the checker and
/// without, on one core and on all.
fn speeds(case: &Case, cores: usize) -> Result<[f64; 4]> {
    let mut ns: [Vec<f64>; 4] = Default::default();
    let mut instructions = 0.0;
    for _ in 0..TURNS {
        for (way, ns) in ns.iter_mut().enumerate() {
            let threads = if way < 2 { 1 } else { cores };
            let config = if way % 2 == 0 { CHECKED } else { UNCHECKED };
            let (count, time) = process(&[], case, config, LAUNCHES, threads)?;
            instructions = count;
            ns.push(time);
        }
    }
    Ok(ns.map(|ns| instructions / ns.into_iter().fold(f64::INFINITY, f64::min) * 1e3))
}

fn time(cases: &[&Case]) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    println!(
        "Millions of thread-instructions a second. All: {cores} cores, and how often one core.\n"
    );
    println!("| kernel | checked | unchecked | checked, all cores | unchecked, all cores |");
    println!("|---|---|---|---|---|");
    for case in cases {
        let [on, off, all_on, all_off] = speeds(case, cores)?;
        println!(
            "| {} | {on:.0} | {off:.0} | {all_on:.0} ({:.2} ×) | {all_off:.0} ({:.2} ×) |",
            case.kernel,
            all_on / on,
            all_off / off
        );
    }
    Ok(())
}

/// Returns host instructions per thread-instruction, computed from the instructions that two more
/// launches add.
fn count(case: &Case, config: &str) -> Result<f64> {
    let folder = env::temp_dir().join(format!("millstream-speed-{}", std::process::id()));
    let mut totals = [0.0; 2];
    let mut instructions = 0.0;
    for (total, launches) in totals.iter_mut().zip([1, 3]) {
        let file = folder.display().to_string();
        let wrapper = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            &format!("--callgrind-out-file={file}"),
        ];
        let wrapper = wrapper.map(str::to_owned);
        (instructions, _) = process(&wrapper, case, config, launches, 1)?;
        let profile = std::fs::read_to_string(&file)?;
        std::fs::remove_file(&file)?;
        let summary = profile.lines().find_map(|line| {
            line.strip_prefix("summary: ")
                .or(line.strip_prefix("totals: "))
        });
        *total = summary
            .ok_or("callgrind wrote no summary")?
            .trim()
            .parse::<f64>()?;
    }
    Ok((totals[1] - totals[0]) / 2.0 / instructions)
}

/// Prints the processor time of one thread beside another build of this benchmark, in turns.
fn beside(cases: &[&Case], other: &str) -> Result<()> {
    let builds = [other.to_owned(), env::current_exe()?.display().to_string()];
    println!(
        "Microseconds of processor time of one launch, one thread: {other}, then this build.\n"
    );
    println!("| kernel | checked | | | unchecked | | | within | | |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for case in cases {
        let mut least = [[f64::INFINITY; 2]; 3];
        for _ in 0..ROUNDS {
            for (config, least) in [CHECKED, UNCHECKED, WITHIN].into_iter().zip(&mut least) {
                for (build, least) in builds.iter().zip(least) {
                    if config != WITHIN || ["vecadd", "matmul", "histogram"].contains(&case.kernel)
                    {
                        let line = std::slice::from_ref(build);
                        let (_, ns) = run(line, case, config, LAUNCHES, 1)?;
                        *least = least.min(ns / f64::from(case.repeats));
                    }
                }
            }
        }
        print!("| {} ", case.kernel);
        for [before, now] in least.iter().filter(|times| times[0].is_finite()) {
            print!(
                "| {:.1} | {:.1} | {:.2} × ",
                before / 1e3,
                now / 1e3,
                before / now
            );
        }
        println!("|");
    }
    Ok(())
}

fn counts(cases: &[&Case]) -> Result<()> {
    println!("Instructions of the host for each thread-instruction, on one core.\n");
    println!("Within: the check for races within kernels, in one order, and how often checked.\n");
    println!("| kernel | checked | unchecked | within | |\n|---|---|---|---|---|");
    for case in cases {
        let [checked, unchecked, within] =
            [CHECKED, UNCHECKED, WITHIN].map(|config| count(case, config));
        let (checked, unchecked, within) = (checked?, unchecked?, within?);
        println!(
            "| {} | {checked:.2} | {unchecked:.2} | {within:.2} | {:.1} × |",
            case.kernel,
            within / checked
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [word, kernel, config, launches] = &arguments[..]
        && word == "child"
    {
        return child(kernel, config, launches.parse()?);
    }
    let (options, names): (Vec<_>, Vec<_>) = arguments
        .into_iter()
        .partition(|word| word.starts_with("--"));
    let wanted =
        |case: &&Case| names.is_empty() || names.iter().any(|name| case.kernel.contains(name));
    let cases = cases()?;
    let cases: Vec<&Case> = cases.iter().filter(wanted).collect();
    let other = options
        .iter()
        .find_map(|option| option.strip_prefix("--beside="));
    if let Some(other) = other {
        beside(&cases, other)
    } else if options.iter().any(|option| option == "--count") {
        counts(&cases)
    } else {
        time(&cases)
    }
}
