//! Launches of generated kernels with their parameters.

#![allow(unsafe_code, reason = "launches generated kernels")]

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use millstream::{
    Buffer, LaunchConfig, Stream,
    kernel::{Argument, launch_at, load_generated_again},
};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    counters::Counters,
    emit::{
        body::kernel::{Kernel, KernelParameter},
        passes::{Pass, PassOutput},
    },
    error::Result,
    expr::{LaunchLog, LoggedLaunch, LoggedParameter, Session, Storage},
    plan::KernelPlan,
    run::{
        bound::BoundKernel,
        texts::{Code, CodeParameter, code_of},
    },
};

/// The interned names of kernels, which are never freed; there is one for each kind of kernel.
static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// Returns the name with a lifetime of the whole process.
fn intern(name: &str) -> &'static str {
    let mut names = NAMES.lock();
    if let Some(function) = names.get(name) {
        return function;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

/// Allocates an uninitialised array, which the caller's next operation on this stream fills.
pub(crate) fn allocate(stream: &Stream, bytes: usize) -> Result<Buffer<u8>> {
    // SAFETY: the callers are in `run` and `mesh::enqueue`. Each enqueues kernels or
    // a copy on this stream that write the whole array before others can read it; if that fails,
    // it drops the array.
    Ok(unsafe { stream.uninit::<u8>(bytes) }?)
}

/// The number of parameters of a launch that take no memory of their own.
const PARAMETERS_USUAL: usize = 12;

/// Returns the value of a parameter that is neither an array nor the sizes of a product. The kernel
/// reads the low four or all eight bytes.
fn word(session: &Session, parameter: &CodeParameter, bound: BoundKernel<'_>) -> u64 {
    match *parameter {
        CodeParameter::Constant(number) => bound.constant(number).bits(),
        CodeParameter::CheckCode { node, axis, length } => {
            let location = bound.node(node).location;
            session.checks().code(location, axis, length)
        }
        CodeParameter::Fixed(KernelParameter::Scalar(value)) => value.bits(),
        // Lengths, starts and steps of a narrow kernel fit 32 bits, negative steps included.
        ref parameter => {
            let length = parameter.length(bound);
            length.expect("it is a length if it is not an array") as u64
        }
    }
}

/// Uploads the table of a kernel whose scalars exceed the parameter limit. Only this launch uses
/// the table: dropped after the launch, it is freed in stream order.
fn upload_table(
    session: &Session,
    stream: &Stream,
    kernel: &Kernel<CodeParameter>,
    bound: BoundKernel<'_>,
) -> Result<Option<Buffer<u64>>> {
    if kernel.table.is_empty() {
        return Ok(None);
    }
    let words = kernel.table.iter();
    let words: Vec<u64> = words
        .map(|parameter| word(session, parameter, bound))
        .collect();
    Ok(Some(stream.upload(&words[..])?))
}

/// Enqueues the passes of a kernel that has elements to write. They write `outputs`, one for each
/// of the kernel's outputs.
pub(crate) fn enqueue(
    session: &Session,
    stream: &Stream,
    bound: BoundKernel<'_>,
    outputs: &mut [&mut Buffer<u8>],
) -> Result<()> {
    enqueue_code(session, stream, &code_of(bound), bound, outputs)
}

pub(crate) fn enqueue_code(
    session: &Session,
    stream: &Stream,
    code: &Code,
    bound: BoundKernel<'_>,
    outputs: &mut [&mut Buffer<u8>],
) -> Result<()> {
    let mut temporaries: SmallVec<[Buffer<u8>; 4]> = SmallVec::new();
    for temporary in &code.temporaries {
        temporaries.push(if temporary.is_zeroed {
            stream.zeros(temporary.bytes)?
        } else {
            allocate(stream, temporary.bytes)?
        });
    }
    for pass in &code.passes {
        let launch = |targets: &mut [&mut Buffer<u8>], read_temporaries: &[Buffer<u8>]| {
            launch(session, stream, pass, bound, targets, read_temporaries)
        };
        match &pass.writes {
            PassOutput::Outputs => launch(outputs, &temporaries[pass.reads.clone()])?,
            PassOutput::OutputsAndTemporaries(written) => {
                let mut targets: SmallVec<[&mut Buffer<u8>; 4]> =
                    outputs.iter_mut().map(|output| &mut **output).collect();
                targets.extend(&mut temporaries[written.clone()]);
                launch(&mut targets, &[])?;
            }
            PassOutput::Temporaries(written) => {
                let (earlier, rest) = temporaries.split_at_mut(written.start);
                let mut targets: SmallVec<[&mut Buffer<u8>; 2]> =
                    rest[..written.len()].iter_mut().collect();
                launch(&mut targets, &earlier[pass.reads.clone()])?;
            }
        }
    }
    Ok(())
}

fn note(log: &LaunchLog, kernel: &Kernel<CodeParameter>, plan: &KernelPlan) {
    let differing = |(place, parameter): (usize, &CodeParameter)| {
        let parameter = match *parameter {
            CodeParameter::Constant(node) => LoggedParameter::Constant(plan.node(node)),
            CodeParameter::CheckCode { node, axis, length } => LoggedParameter::CheckCode {
                node: plan.node(node),
                axis,
                length,
            },
            CodeParameter::Fixed(KernelParameter::Flag) => LoggedParameter::Flag,
            CodeParameter::Fixed(KernelParameter::Counters) => LoggedParameter::Counters,
            _ => return None,
        };
        Some((place, parameter))
    };
    let parameters = kernel.parameters.iter().enumerate();
    log.lock().push(LoggedLaunch {
        name: intern(&kernel.name),
        parameters: parameters.filter_map(differing).collect(),
    });
}

/// Launches a pass of a kernel. It writes `targets`, and reads `read_temporaries` and the input
/// arrays of its parameters.
fn launch(
    session: &Session,
    stream: &Stream,
    pass: &Pass<CodeParameter>,
    bound: BoundKernel<'_>,
    targets: &mut [&mut Buffer<u8>],
    read_temporaries: &[Buffer<u8>],
) -> Result<()> {
    let kernel = &pass.kernel;
    let table = upload_table(session, stream, kernel, bound)?;
    let count = kernel.parameters.len() + usize::from(table.is_some());
    let function = load_generated_again(
        &session.device,
        &kernel.ptx,
        "region",
        || intern(&kernel.name),
        count,
    )?;
    let mut read: SmallVec<[Arc<Storage>; 4]> = SmallVec::new();
    let (mut checked, mut counters) = (None, None);
    let mut words: SmallVec<[u64; PARAMETERS_USUAL]> = SmallVec::new();
    for parameter in &kernel.parameters {
        match parameter {
            CodeParameter::Input(number) => read.push(
                bound
                    .node(*number)
                    .storage()
                    .expect("operands are enqueued before the kernels that read them"),
            ),
            CodeParameter::Fixed(KernelParameter::Flag) => {
                checked = Some(session.checks().flag(stream)?);
            }
            CodeParameter::Fixed(KernelParameter::Counters) => {
                counters = Some(session.streams().counters(stream)?);
            }
            CodeParameter::Fixed(
                KernelParameter::Output(_)
                | KernelParameter::Temporary(_)
                | KernelParameter::ProductShape(_),
            ) => {}
            scalar => words.push(word(session, scalar, bound)),
        }
    }
    if let Some(log) = &session.log {
        note(log, kernel, bound.kernel);
    }
    let mut guard = checked.as_ref().map(|flag| flag.lock());
    let mut word = guard.as_deref_mut();
    let mut flag = word.as_mut();
    let mut counters = counters.as_ref().map(|counters| counters.lock());
    let mut array = counters.as_deref_mut().map(Counters::begin_launch);
    let mut array = array.as_mut();
    let mut targets: SmallVec<[_; 4]> = targets.iter_mut().map(Some).collect();
    let mut arguments: SmallVec<[Argument<'_>; PARAMETERS_USUAL]> = SmallVec::new();
    let (mut read, mut words) = (read.iter(), words.iter());
    for parameter in &kernel.parameters {
        arguments.push(match parameter {
            CodeParameter::Input(_) => {
                let storage = read.next().expect("each input is one parameter");
                Argument::read::<u8, _>(&storage.buffer)
            }
            CodeParameter::Fixed(KernelParameter::Temporary(number)) => {
                Argument::read::<u8, _>(&read_temporaries[*number])
            }
            CodeParameter::Fixed(KernelParameter::Output(number)) => {
                let target = targets[*number].take();
                Argument::write::<u8, _>(target.expect("each output is one parameter"))
            }
            CodeParameter::Fixed(KernelParameter::Flag) => {
                let flag = flag.take().expect("the flag is one parameter");
                Argument::write::<u64, _>(flag)
            }
            CodeParameter::Fixed(KernelParameter::Counters) => {
                let array = array.take().expect("the counters are one parameter");
                Argument::write::<u32, _>(array)
            }
            CodeParameter::Fixed(KernelParameter::ProductShape(shape)) => {
                Argument::scalar(&**shape)
            }
            _ => Argument::scalar(words.next().expect("a word for each scalar")),
        });
    }
    arguments.extend(table.as_ref().map(Argument::read::<u64, _>));
    let threads = pass.threads.of(bound.root().elements);
    let blocks = u32::try_from(threads.div_ceil(kernel.block)).unwrap_or(u32::MAX);
    let grid = LaunchConfig::new([blocks, 1, 1], [kernel.block as u32, 1, 1]);
    let location = bound.nodes.node(bound.kernel.outputs[0].target).location;
    // SAFETY: parameters and text come from one lowering, so that they agree in number and type.
    // The kernel reads its inputs within their shapes, because every index is within the shape of
    // the node that it is lowered for or checked against it, and it writes nothing but the targets.
    // The built-in kernel of a product reads the factors by the strides of their views.
    unsafe { launch_at(&function, stream, grid, &arguments, location) }?;
    drop(arguments);
    if let Some(counters) = &mut counters {
        counters.end_launch();
    }
    Ok(())
}
