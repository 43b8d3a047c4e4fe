//! The host's time for launches, on one stream and with a conflict between two.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use anyhow::Result;
use cuda_async::device_operation::DeviceOp;
use millstream::{Buffer, LaunchConfig, Stream};

use crate::{
    cudarc::Cudarc,
    kernels::sums,
    nvidia::{self, Nvidia, Submitted},
    products::products,
    raw::{Flag, RawMemory},
    report::{Goal, Row},
    table::{Bench, variant},
    timing::{SampleSize, Variant},
};

/// The source and the name of the kernel of `c = a + b`.
pub(crate) const VECADD: (&str, &str) = (include_str!("../../kernels/vecadd.ptx"), "vecadd");
const MULADD: (&str, &str) = (include_str!("../../../../kernels/muladd.ptx"), "muladd");
pub(crate) const GATE: (&str, &str) = (include_str!("../../kernels/gate.ptx"), "gate");

const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
const LAUNCHES: SampleSize = SampleSize::of(160, 200);
/// A pair takes up to four entries of a queue.
const PAIRS: SampleSize = SampleSize::of(160, 100);

/// Measures launches with three operands on one stream.
pub(crate) fn three(bench: &Bench) -> Result<Vec<Row>> {
    let kernels = sums::load(&bench.harness.device)?;
    let (grid, n) = (LaunchConfig::linear(ELEMENTS), ELEMENTS as u64);
    let what = "launch, one stream in use";
    launches::<3>(
        bench,
        what,
        VECADD,
        Goal::AtMost(1.02),
        |stream, inputs, output| kernels.vecadd(stream, grid, &inputs[0], &inputs[1], output, n),
    )
}

/// Measures launches with four operands on one stream.
pub(crate) fn four(bench: &Bench) -> Result<Vec<Row>> {
    let kernels = products::load(&bench.harness.device)?;
    let (grid, n) = (LaunchConfig::linear(ELEMENTS), ELEMENTS as u64);
    let what = "launch with four operands, one stream in use";
    launches::<4>(bench, what, MULADD, Goal::None, |stream, inputs, output| {
        kernels.muladd(stream, grid, &inputs[0], &inputs[1], &inputs[2], output, n)
    })
}

fn launches<const N: usize>(
    bench: &Bench,
    what: &str,
    (ptx, name): (&str, &str),
    goal: Goal,
    ours: impl Fn(&Stream, &[Buffer<f32>], &mut Buffer<f32>) -> millstream::Result<()>,
) -> Result<Vec<Row>> {
    let raw = &bench.harness.raw;
    let (kernel, stream) = (raw.kernel(ptx, name)?, raw.stream()?);
    let operands: Vec<RawMemory> = (0..N).map(|_| raw.memory(BYTES)).collect::<Result<_>>()?;
    let operands: [&RawMemory; N] = std::array::from_fn(|at| &operands[at]);
    let n = ELEMENTS as u64;
    let launch = Variant::new(
        || stream.launch(kernel, operands, n),
        || stream.synchronize(),
    );
    let mut table = bench.table(("T1", what), goal, LAUNCHES, launch);
    table.add("Millstream", || {
        let stream = Rc::new(bench.harness.device.stream()?);
        let zeros = || Ok(stream.zeros(ELEMENTS)?);
        let inputs = (1..N).map(|_| zeros()).collect::<Result<Vec<_>>>()?;
        let (mut output, ours, drained) = (zeros()?, &ours, Rc::clone(&stream));
        Ok(Variant::new(
            move || Ok(ours(&stream, &inputs, &mut output)?),
            move || Ok(drained.synchronize()?),
        ))
    });
    for (who, second) in [
        ("cudarc, its only stream", false),
        ("cudarc, any other", true),
    ] {
        table.add(who, || {
            let cudarc = Cudarc::with_kernel(ptx, name)?;
            let stream = match second {
                true => cudarc.stream()?,
                false => cudarc.default_stream(),
            };
            let zeros = || Ok(stream.alloc_zeros(ELEMENTS)?);
            let inputs = (1..N).map(|_| zeros()).collect::<Result<Vec<_>>>()?;
            let (mut output, drained) = (zeros()?, Arc::clone(&stream));
            Ok(Variant::new(
                move || cudarc.launch(&stream, &inputs, &mut output),
                move || Ok(drained.synchronize()?),
            ))
        });
    }
    table.add("cuda-core, unsafe", || {
        let nvidia = Nvidia::open(ptx, name)?;
        let (stream, work) = (nvidia.stream()?, nvidia.new_work(N, ELEMENTS)?);
        let drained = Arc::clone(&stream);
        Ok(Variant::new(
            move || work.launch(&stream),
            move || Ok(drained.synchronize()?),
        ))
    });
    table.add("cuda-async, unsafe", || {
        let nvidia = Nvidia::open(ptx, name)?;
        let (stream, work) = (nvidia.stream()?, nvidia.new_work(N, ELEMENTS)?);
        let drained = Arc::clone(&stream);
        Ok(Variant::new(
            move || work.launch_untracked(&stream),
            move || Ok(drained.synchronize()?),
        ))
    });
    table.add("cuda-async, 200 in one future", || {
        let nvidia = Nvidia::open(ptx, name)?;
        let (stream, work) = (nvidia.stream()?, nvidia.new_work(N, ELEMENTS)?);
        let submitted = Rc::new(RefCell::new(None::<Submitted>));
        let drained = Rc::clone(&submitted);
        Ok(Variant::batched(
            move |launches| {
                let operations = (0..launches).map(|_| work.operation().boxed());
                *submitted.borrow_mut() = Some(nvidia::submit(&stream, operations.collect())?);
                Ok(())
            },
            move || Ok(drained.take().map_or(Ok(()), pollster::block_on)?),
        ))
    });
    table.add("cuda-async, each awaited", || {
        let nvidia = Nvidia::open(ptx, name)?;
        let (stream, work) = (nvidia.stream()?, nvidia.new_work(N, ELEMENTS)?);
        Ok(Variant::complete(move || {
            nvidia::run(&stream, work.operation())
        }))
    });
    table.rows()
}

/// Measures two launches, of which the second is on another stream and reads what the first writes:
/// the host's time, or that until both are complete.
pub(crate) fn pairs(bench: &Bench, is_complete: bool) -> Result<Vec<Row>> {
    let (what, goal, sample_size) = match is_complete {
        false => (
            "two launches, the second on another stream and after the first",
            Goal::AtMost(1.06),
            PAIRS,
        ),
        true => (
            "the same two launches, to completion",
            Goal::None,
            SampleSize { batch: 1, ..PAIRS },
        ),
    };
    let raw = &bench.harness.raw;
    let (kernel, n) = (raw.vecadd()?, ELEMENTS as u64);
    let (streams, event) = ([raw.stream()?, raw.stream()?], raw.event()?);
    let operands = [raw.memory(BYTES)?, raw.memory(BYTES)?, raw.memory(BYTES)?];
    let both = || {
        streams[0].launch(kernel, operands.each_ref(), n)?;
        streams[0].record(&event)?;
        streams[1].wait_for(&event)?;
        streams[1].launch(kernel, operands.each_ref(), n)
    };
    let baseline = variant(is_complete, both, || streams[1].synchronize());
    let mut table = bench.table(("T3", what), goal, sample_size, baseline);
    table.add("Millstream", || {
        let kernels = sums::load(&bench.harness.device)?;
        let device = &bench.harness.device;
        let streams = Rc::new([device.stream()?, device.stream()?]);
        let a = streams[0].zeros(ELEMENTS)?;
        // No array is written twice in a batch, so that the first stream never waits.
        let mut arrays = Vec::new();
        for _ in 0..sample_size.batch {
            arrays.push((streams[0].zeros(ELEMENTS)?, streams[0].zeros(ELEMENTS)?));
        }
        let (mut turn, drained) = (0, Rc::clone(&streams));
        let both = move || {
            turn = (turn + 1) % arrays.len();
            let (between, last) = &mut arrays[turn];
            let grid = LaunchConfig::linear(ELEMENTS);
            kernels.vecadd(&streams[0], grid, &a, &a, &mut *between, n)?;
            Ok(kernels.vecadd(&streams[1], grid, &*between, &a, last, n)?)
        };
        Ok(variant(is_complete, both, move || {
            Ok(drained[1].synchronize()?)
        }))
    });
    table.add("cudarc", || {
        let cudarc = Cudarc::open()?;
        let streams = [cudarc.stream()?, cudarc.stream()?];
        let zeros = || streams[0].alloc_zeros(ELEMENTS);
        let mut arrays = Vec::new();
        for _ in 0..sample_size.batch {
            arrays.push(([zeros()?, zeros()?], zeros()?));
        }
        let (inputs, mut turn, drained) = ([zeros()?, zeros()?], 0, Arc::clone(&streams[1]));
        let both = move || {
            turn = (turn + 1) % arrays.len();
            let (between, last) = &mut arrays[turn];
            cudarc.launch(&streams[0], &inputs, &mut between[0])?;
            cudarc.launch(&streams[1], between, last)
        };
        Ok(variant(is_complete, both, move || {
            Ok(drained.synchronize()?)
        }))
    });
    for (who, tracks) in [
        ("cuda-core, unsafe, join", false),
        ("cuda-async, unsafe, join", true),
    ] {
        table.add(who, || {
            let nvidia = Nvidia::open(VECADD.0, VECADD.1)?;
            let (streams, works) = ([nvidia.stream()?, nvidia.stream()?], nvidia.pair(ELEMENTS)?);
            let drained = Arc::clone(&streams[1]);
            let both = move || {
                let launch = |at: usize| match tracks {
                    true => works[at].launch_untracked(&streams[at]),
                    false => works[at].launch(&streams[at]),
                };
                launch(0)?;
                streams[1].join(&streams[0])?;
                launch(1)
            };
            Ok(variant(is_complete, both, move || {
                Ok(drained.synchronize()?)
            }))
        });
    }
    table.add("cuda-async, each awaited", || {
        let nvidia = Nvidia::open(VECADD.0, VECADD.1)?;
        let (streams, works) = ([nvidia.stream()?, nvidia.stream()?], nvidia.pair(ELEMENTS)?);
        Ok(Variant::complete(move || {
            nvidia::run(&streams[0], works[0].operation())?;
            nvidia::run(&streams[1], works[1].operation())
        }))
    });
    table.rows()
}

/// Asks cuda-async to launch in conflict with a running kernel.
pub(crate) fn conflict(bench: &Bench) -> Result<Vec<Row>> {
    if !bench.is_wanted("cuda-async") {
        return Ok(Vec::new());
    }
    let vecadd = Nvidia::open(VECADD.0, VECADD.1)?;
    let gate = Nvidia::open(GATE.0, GATE.1)?;
    let flag = Flag::new(&bench.harness.raw)?;
    let [alone, joined] = nvidia::conflict(&vecadd, &gate, flag)?;
    let answer = format!("answer: {alone}; after Stream::join: {joined}");
    let what = "launch in conflict with a kernel that runs on another stream";
    Ok(vec![Row::absent("T3", what, answer).by("cuda-async")])
}
