//! Launches generated kernels with their parameters.

#![allow(
    unsafe_code,
    reason = "launches kernels that this crate generates, and makes arrays that they fill"
)]

use std::{
    collections::HashSet,
    panic::Location,
    sync::{Arc, LazyLock},
};

use millstream::{
    Buffer, LaunchConfig, Stream,
    kernel::{Argument, launch_at, load_generated},
};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    codegen::{BLOCK, ENTRY_BYTES, Kernel, PARAMETER_BYTES_MAX, Parameter, Written, generate},
    element::Scalar,
    error::Result,
    fuse::FusedKernel,
    graph::{Session, Storage},
};

/// Names of kernels, which live as long as the process: there are as many as there are kinds of
/// kernels.
static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// The name, for ever.
fn intern(name: &str) -> &'static str {
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

/// An array without a content, which the caller's next operation on this stream fills.
pub(crate) fn allocate(stream: &Stream, bytes: usize) -> Result<Buffer<u8>> {
    // SAFETY: every caller, here and in `evaluate`, launches kernels that write all of it, on this
    // stream, before it is in a node where others can read it; and if a launch fails, it is
    // dropped.
    Ok(unsafe { stream.uninit::<u8>(bytes) }?)
}

/// A value in the form in which a launch passes it.
enum Passed {
    Word(u32),
    Long(u64),
    /// An array, by its place among those that are read.
    Read(usize),
    Target(usize),
    Partial(usize),
    Flag,
}

impl Passed {
    /// Bytes of it among a kernel's parameters, with what may be left in front of it.
    fn bytes(&self) -> usize {
        match self {
            Passed::Word(_) => 4,
            _ => 8,
        }
    }
}

/// A value of a parameter, by its bits.
enum Word {
    Narrow(u32),
    Wide(u64),
}

impl Word {
    /// The value of a parameter that is not the address of an array.
    fn of(session: &Session, is_wide: bool, parameter: &Parameter) -> Self {
        match parameter {
            Parameter::Index(value) if is_wide => Word::Wide(*value as u64),
            // Known to fit 32 bits, negative steps among them.
            Parameter::Index(value) => Word::Narrow(*value as u32),
            Parameter::Scalar(value) | Parameter::Constant { value, .. } => match *value {
                Scalar::F32(value) => Word::Narrow(value.to_bits()),
                Scalar::F64(value) => Word::Wide(value.to_bits()),
                Scalar::I32(value) => Word::Narrow(value as u32),
                Scalar::I64(value) => Word::Wide(value as u64),
                Scalar::U8(value) => Word::Narrow(value.into()),
                Scalar::Bool(value) => Word::Narrow(value.into()),
            },
            Parameter::Check { node, axis, length } => {
                Word::Narrow(session.checks().number(node.location, *axis, *length))
            }
            Parameter::Elements(_)
            | Parameter::Target(_)
            | Parameter::Partial(_)
            | Parameter::Flag => {
                unreachable!("the address of an array is no value")
            }
        }
    }
}

/// The table of a kernel whose values are too many for parameters. The kernel is its only user:
/// dropped behind the launch, it is freed in the stream's order.
fn upload_table(session: &Session, stream: &Stream, kernel: &Kernel) -> Result<Option<Buffer<u8>>> {
    if kernel.table.is_empty() {
        return Ok(None);
    }
    let mut entries: Vec<[u8; ENTRY_BYTES]> = Vec::with_capacity(kernel.table.len());
    for parameter in &kernel.table {
        // The kernel loads four bytes of an entry with a narrow value.
        entries.push(match Word::of(session, kernel.wide, parameter) {
            Word::Narrow(value) => u64::from(value).to_le_bytes(),
            Word::Wide(value) => value.to_le_bytes(),
        });
    }
    Ok(Some(stream.upload(entries.as_flattened())?))
}

/// Enqueues the passes of a fused kernel that has something to write: to `outputs`, one for each of
/// its own.
pub(super) fn enqueue(
    session: &Session,
    stream: &Stream,
    fused: &FusedKernel,
    outputs: &mut [&mut Buffer<u8>],
) -> Result<()> {
    let generated = generate(fused);
    let mut temporaries: SmallVec<[Buffer<u8>; 4]> = SmallVec::new();
    for temporary in &generated.temporaries {
        temporaries.push(if temporary.is_zeroed {
            stream.zeros(temporary.bytes)?
        } else {
            allocate(stream, temporary.bytes)?
        });
    }
    let location = fused.output().target.location;
    for pass in &generated.passes {
        let launch = |targets: &mut [&mut Buffer<u8>], partials: &[Buffer<u8>]| {
            launch(
                session,
                stream,
                location,
                &pass.kernel,
                pass.threads,
                targets,
                partials,
            )
        };
        match &pass.writes {
            Written::Outputs => launch(outputs, &temporaries[pass.reads.clone()])?,
            Written::Temporaries(written) => {
                let (earlier, rest) = temporaries.split_at_mut(written.start);
                let mut targets: SmallVec<[&mut Buffer<u8>; 2]> =
                    rest[..written.len()].iter_mut().collect();
                launch(&mut targets, &earlier[pass.reads.clone()])?;
            }
        }
    }
    Ok(())
}

/// Launches a kernel with at least so many threads, on behalf of a line of the program. It writes
/// `targets`, and reads `partials` besides what its parameters name.
fn launch(
    session: &Session,
    stream: &Stream,
    location: &'static Location<'static>,
    kernel: &Kernel,
    threads: usize,
    targets: &mut [&mut Buffer<u8>],
    partials: &[Buffer<u8>],
) -> Result<()> {
    let table = upload_table(session, stream, kernel)?;
    let count = kernel.parameters.len() + usize::from(table.is_some());
    let function = load_generated(
        &session.device,
        &kernel.ptx,
        "region",
        || intern(&kernel.name),
        count,
    )?;
    let mut read: Vec<Arc<Storage>> = Vec::new();
    let mut checked = None;
    let mut passed = Vec::with_capacity(count);
    for parameter in &kernel.parameters {
        passed.push(match parameter {
            Parameter::Elements(node) => {
                read.push(
                    node.storage()
                        .expect("operands are enqueued before what needs them"),
                );
                Passed::Read(read.len() - 1)
            }
            Parameter::Target(number) => Passed::Target(*number),
            Parameter::Partial(number) => Passed::Partial(*number),
            Parameter::Flag => {
                checked = Some(session.checks().flag(stream)?);
                Passed::Flag
            }
            value => match Word::of(session, kernel.wide, value) {
                Word::Narrow(value) => Passed::Word(value),
                Word::Wide(value) => Passed::Long(value),
            },
        });
    }
    debug_assert!(
        passed.iter().map(Passed::bytes).sum::<usize>() + 8 * usize::from(table.is_some())
            <= PARAMETER_BYTES_MAX,
        "parameters of {}",
        kernel.name
    );
    let mut guard = checked.as_ref().map(|flag| flag.lock());
    let mut word = guard.as_deref_mut();
    let mut flag = word.as_mut();
    let mut targets: Vec<_> = targets.iter_mut().map(Some).collect();
    let mut arguments: Vec<Argument<'_>> = Vec::with_capacity(count);
    for value in &passed {
        arguments.push(match value {
            Passed::Word(value) => Argument::scalar(value),
            Passed::Long(value) => Argument::scalar(value),
            Passed::Read(number) => Argument::read::<u8, _>(&read[*number].buffer),
            Passed::Partial(number) => Argument::read::<u8, _>(&partials[*number]),
            Passed::Target(number) => {
                let target = targets[*number]
                    .take()
                    .expect("each target is one parameter");
                Argument::write::<u8, _>(target)
            }
            Passed::Flag => {
                let flag = flag.take().expect("the flag is one parameter");
                Argument::write::<u32, _>(flag)
            }
        });
    }
    arguments.extend(table.as_ref().map(Argument::read::<u8, _>));
    let blocks = u32::try_from(threads.div_ceil(BLOCK)).unwrap_or(u32::MAX);
    let grid = LaunchConfig::new([blocks, 1, 1], [BLOCK as u32, 1, 1]);
    // SAFETY: parameters and text come from one walk, so that they agree in number and type; the
    // kernel reads elements of its operands within their shapes, because indices are within the
    // shapes of the nodes whose views it goes through or checked against them, and writes the
    // targets alone.
    unsafe { launch_at(&function, stream, grid, &arguments, location) }?;
    Ok(())
}
