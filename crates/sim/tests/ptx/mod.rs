//! PTX files whose first lines state how to run them and the expected results: on the simulated
//! device, and with `MILLSTREAM_DEVICE=cuda:0` on a GPU.
//!
//! `files/` has a file for each family of instructions, `compiled/` the PTX that NVRTC generated
//! from the CUDA C++ beside it, and `refused/` files that must fail to load. `run_line.rs`
//! describes the lines. A file that a device cannot run is listed as ignored, with the reason.

mod device;
mod expression;
mod list;
mod matrix_bits;
mod run_line;
mod values;

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use millstream_driver::{DevicePtr, LaunchDims};

use device::TestDevice;
use expression::{Names, evaluate};
use run_line::{ArgumentKind, Directives, Run, Tolerance};
use values::Number;

/// Returns the test of each run line.
pub(crate) fn trials() -> Vec<Trial> {
    let cuda = std::env::var("MILLSTREAM_DEVICE")
        .ok()
        .and_then(|device| device.strip_prefix("cuda:")?.parse::<i32>().ok());
    let mut trials = vec![
        Trial::test("run_lines::numbers", || Ok(values::check()?)),
        Trial::test("run_lines::every_file_is_listed", every_file_is_listed),
    ];
    // One context serves all files on a GPU; if it cannot be opened, each trial reports the error.
    let device = cuda.map(|_| TestDevice::open(cuda).map(Arc::new));
    trials.extend(matrix_bits::trials(device.as_ref()));
    for (name, lines, source) in list::FILES {
        match run_line::read(lines) {
            Ok(directives) => add(&mut trials, name, source, directives, device.as_ref()),
            Err(problem) => trials.push(Trial::test(*name, move || Err(problem.into()))),
        }
    }
    trials
}

/// Returns the device of a trial: the GPU, or a new simulated one.
fn device(gpu: Option<&Result<Arc<TestDevice>, Failed>>) -> Result<Arc<TestDevice>, Failed> {
    match gpu {
        Some(opened) => opened.clone(),
        None => TestDevice::open(None).map(Arc::new),
    }
}

fn add(
    trials: &mut Vec<Trial>,
    name: &'static str,
    source: &'static str,
    directives: Directives,
    gpu: Option<&Result<Arc<TestDevice>, Failed>>,
) {
    let architecture = match gpu {
        Some(Ok(gpu)) => gpu.architecture().ok(),
        _ => None,
    };
    let too_new = architecture.is_some_and(|own| own < target(source));
    let gpu = gpu.cloned();
    let on_gpu = gpu.is_some();
    if let Some(refused) = directives.refused {
        let only_simulated = on_gpu && !refused.by_everyone;
        let gpu = gpu.clone();
        let trial = Trial::test(name, move || {
            let device = device(gpu.as_ref())?;
            match device.load_kernel(source) {
                Ok(()) => Err("the file was loaded".into()),
                Err(text) if on_gpu || text.contains(&refused.text) => Ok(()),
                Err(text) => Err(format!("refused otherwise: {text}").into()),
            }
        });
        trials.push(reasoned(
            trial,
            only_simulated,
            "only refused by the simulated device",
        ));
    }
    for run in directives.runs {
        let gpu = gpu.clone();
        // A fault on a GPU would lose the context that all files share.
        let only_simulated = on_gpu && run.faults.is_some();
        let trial_name = format!("{name}::{}::{}", run.kernel, run.line);
        let trial = Trial::test(trial_name, move || {
            launch(&*device(gpu.as_ref())?, source, &run)
        });
        let trial = reasoned(trial, only_simulated, "faults");
        trials.push(reasoned(trial, too_new, "target too new"));
    }
}

fn reasoned(trial: Trial, ignored: bool, reason: &str) -> Trial {
    if ignored {
        trial.with_ignored_flag(true).with_kind(reason)
    } else {
        trial
    }
}

/// Returns the number of the file's target: 75 for `sm_75`.
fn target(source: &str) -> i32 {
    let found = source
        .lines()
        .find_map(|line| line.strip_prefix(".target sm_"));
    let digits = found.map_or("", |text| {
        text.split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or("")
    });
    digits.parse().unwrap_or(0)
}

/// The buffers of a run, as they were before the launch.
struct Buffers<'r> {
    run: &'r Run,
    initial: Vec<Vec<u8>>,
    addresses: Vec<Option<DevicePtr>>,
}

impl Buffers<'_> {
    fn find(&self, name: &str) -> Option<usize> {
        self.run
            .arguments
            .iter()
            .position(|argument| argument.name == name)
    }
}

impl Names for Buffers<'_> {
    fn element(&self, name: &str, index: i128) -> Option<Number> {
        let at = self.find(name)?;
        let ty = self.run.arguments[at].ty;
        let start = usize::try_from(index).ok()?.checked_mul(ty.bytes())?;
        let bytes = self.initial.get(at)?.get(start..start + ty.bytes())?;
        Some(ty.decode(ty.get(bytes)))
    }

    fn address(&self, name: &str) -> Option<u64> {
        let address = self.addresses.get(self.find(name)?)?;
        address.map(DevicePtr::as_raw)
    }
}

/// Evaluates an expression for each index, or a list between braces.
fn numbers(text: &str, count: usize, names: &dyn Names) -> Result<Vec<Number>, String> {
    match text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    {
        Some(list) => {
            let values: Vec<_> = list
                .split(',')
                .map(|value| evaluate(value.trim(), 0, names))
                .collect::<Result<_, _>>()?;
            if values.len() == count {
                Ok(values)
            } else {
                Err(format!("{} values for {count} elements", values.len()))
            }
        }
        None => (0..count as i128)
            .map(|i| evaluate(text, i, names))
            .collect(),
    }
}

fn launch(device: &TestDevice, source: &str, run: &Run) -> Result<(), Failed> {
    let module = device.load(source)?;
    let mut buffers = Buffers {
        run,
        initial: Vec::new(),
        addresses: Vec::new(),
    };
    let mut arguments = Vec::new();
    for argument in &run.arguments {
        let count = argument.kind.elements();
        let mut bytes = Vec::new();
        match &argument.initial {
            Some(text) => {
                for number in numbers(text, count, &buffers)
                    .map_err(|text| format!("{}: {text}", argument.name))?
                {
                    argument.ty.put(number, &mut bytes);
                }
            }
            None => bytes.resize(count * argument.ty.bytes(), 0),
        }
        let is_buffer = matches!(argument.kind, ArgumentKind::Buffer(_));
        let address = is_buffer.then(|| device.put(&bytes)).transpose()?;
        arguments.push(match address {
            Some(address) => vec![address.as_raw()],
            None => words(&bytes),
        });
        buffers.initial.push(bytes);
        buffers.addresses.push(address);
    }
    let dims = LaunchDims {
        grid: run.grid,
        block: run.block,
        shared_bytes: run.shared_bytes,
    };
    let launched = device.launch(module, &run.kernel, &dims, &arguments);
    if let Some(text) = &run.faults {
        return fault(device, launched, text);
    }
    launched?;
    for (at, argument) in run.arguments.iter().enumerate() {
        let (Some(expected), Some(address)) = (&argument.expected, buffers.addresses[at]) else {
            continue;
        };
        let count = argument.kind.elements();
        let found = device.get(address, count * argument.ty.bytes())?;
        let wanted = numbers(&expected.expression, count, &buffers)?;
        for (index, (bytes, wanted)) in found.chunks(argument.ty.bytes()).zip(wanted).enumerate() {
            let (found, wanted) = (argument.ty.get(bytes), argument.ty.encode(wanted));
            if !is_close(argument.ty, expected.within, found, wanted) {
                let (name, ty) = (&argument.name, argument.ty);
                let (a, b) = (ty.decode(found), ty.decode(wanted));
                return Err(format!(
                    "{name}[{index}] is {found:#x} ({a:?}), not {wanted:#x} ({b:?})"
                )
                .into());
            }
        }
    }
    if let Some(gpu) = &device.simulated {
        if gpu.printf_output() != run.prints {
            return Err(format!("printed {:?}, not {:?}", gpu.printf_output(), run.prints).into());
        }
        if let Some(report) = gpu.reports().first() {
            return Err(format!("reported: {report}").into());
        }
    }
    Ok(())
}

/// Copies the bytes into words, so that they are aligned.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

/// Checks that a kernel failed with a report that contains `text`.
fn fault(device: &TestDevice, launched: Result<(), String>, text: &str) -> Result<(), Failed> {
    if launched.is_ok() {
        return Err("the kernel did not fail".into());
    }
    let reports = device
        .simulated
        .as_ref()
        .map(|gpu| gpu.reports())
        .unwrap_or_default();
    if reports
        .iter()
        .any(|report| report.to_string().contains(text))
    {
        Ok(())
    } else {
        Err(format!("no report contains `{text}`: {reports:?}").into())
    }
}

fn is_close(ty: values::ElementType, within: Tolerance, found: u64, wanted: u64) -> bool {
    let is_float = matches!(ty.decode(0), Number::Real(_));
    let (a, b) = (ty.decode(found).real(), ty.decode(wanted).real());
    match within {
        // All NaNs are equal in a floating-point type; a file that compares the bits of a NaN uses
        // an integer type.
        Tolerance::Exact => found == wanted || is_float && a.is_nan() && b.is_nan(),
        Tolerance::Ulp(most) => ty.steps_between(found, wanted) <= most,
        Tolerance::Relative(most) => a == b || (a - b).abs() <= most * b.abs().max(1.0),
    }
}

/// Checks that the list contains every file of the folders. If the program runs outside its
/// repository, there is no folder to check.
fn every_file_is_listed() -> Result<(), Failed> {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/ptx");
    let mut missing = Vec::new();
    for part in ["files", "compiled", "refused"] {
        let Ok(entries) = std::fs::read_dir(folder.join(part)) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "ptx") {
                let name = format!("{part}/{}", path.file_stem().unwrap_or_default().display());
                if !list::FILES.iter().any(|(known, ..)| *known == name) {
                    missing.push(name);
                }
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("not in list.rs: {missing:?}").into())
    }
}
