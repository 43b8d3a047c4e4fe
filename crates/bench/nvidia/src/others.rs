//! Allocation, replays of graphs, and waiting.

#![allow(unsafe_code, reason = "allocates uninitialised arrays and captures")]

use std::{cell::RefCell, rc::Rc, sync::Arc, thread};

use anyhow::{Context, Result};
use cuda_async::device_operation::DeviceOp;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use millstream::LaunchConfig;

use crate::{
    cudarc::Cudarc,
    kernels::sums,
    launches::{GATE, VECADD},
    nvidia::{self, Nvidia, Submitted},
    raw::RawGraph,
    report::{Goal, Row},
    table::{Bench, variant},
    timing::{SampleSize, Variant},
    waiting,
};

const MIB: usize = 1 << 20;
const ALLOCATIONS: SampleSize = SampleSize::of(160, 100);

/// Measures allocating and dropping 1 MiB, without a value and filled with zeros.
pub(crate) fn allocate(bench: &Bench, fill: bool) -> Result<Vec<Row>> {
    let stream = bench.harness.raw.stream()?;
    let (what, goal) = match fill {
        false => ("allocate, drop: 1 MiB", Goal::AtMost(0.3)),
        true => ("allocate, fill with zeros, drop: 1 MiB", Goal::None),
    };
    let baseline = Variant::new(
        || stream.allocate_and_free(MIB, fill),
        || stream.synchronize(),
    );
    let mut table = bench.table(("T5", what), goal, ALLOCATIONS, baseline);
    table.add("Millstream", || {
        let stream = Rc::new(bench.harness.device.stream()?);
        let drained = Rc::clone(&stream);
        let work = move || {
            let array = match fill {
                true => stream.zeros::<u8>(MIB)?,
                // SAFETY: nothing reads it.
                false => unsafe { stream.uninit::<u8>(MIB) }?,
            };
            drop(array);
            Ok(())
        };
        Ok(Variant::new(work, move || Ok(drained.synchronize()?)))
    });
    table.add("cudarc", || {
        let stream = Cudarc::open()?.stream()?;
        let drained = Arc::clone(&stream);
        let work = move || {
            let array = match fill {
                true => stream.alloc_zeros::<u8>(MIB)?,
                // SAFETY: nothing reads it.
                false => unsafe { stream.alloc::<u8>(MIB) }?,
            };
            drop(array);
            Ok(())
        };
        Ok(Variant::new(work, move || Ok(drained.synchronize()?)))
    });
    table.add("cuda-core", || {
        let stream = Nvidia::open(VECADD.0, VECADD.1)?.stream()?;
        let drained = Arc::clone(&stream);
        let work = move || nvidia::allocate_and_drop(&stream, MIB, fill);
        Ok(Variant::new(work, move || {
            drained.synchronize()?;
            // The arrays are freed on a thread of cuda-core.
            thread::sleep(nvidia::FREED);
            Ok(())
        }))
    });
    table.rows()
}

const NODES: usize = 32;
const ELEMENTS: usize = 1024;
/// Few enough for a stream's queue.
const REPLAYS: SampleSize = SampleSize::of(160, 10);
const ONCE: SampleSize = SampleSize {
    batch: 1,
    ..REPLAYS
};

/// Measures the replay of a graph of kernels in a line, each from one of `links` arrays to the next
/// one: the host's time, or that until the device is done.
pub(crate) fn replays(
    bench: &Bench,
    what: &str,
    links: usize,
    is_complete: bool,
) -> Result<Vec<Row>> {
    let (goal, sample_size) = match is_complete {
        false => (Goal::AtMost(1.1), REPLAYS),
        true => (Goal::AtMost(1.01), ONCE),
    };
    let raw = &bench.harness.raw;
    let bytes = ELEMENTS * size_of::<f32>();
    let operands = [raw.memory(bytes)?, raw.memory(bytes)?, raw.memory(bytes)?];
    let stream = raw.stream()?;
    let graph = RawGraph::new(raw, raw.vecadd()?, operands.each_ref(), NODES)?;
    let baseline = variant(
        is_complete,
        || graph.launch(&stream),
        || stream.synchronize(),
    );
    let mut table = bench.table(("T11", what), goal, sample_size, baseline);
    table.add("Millstream", || {
        let device = &bench.harness.device;
        let (kernels, stream) = (sums::load(device)?, Rc::new(device.stream()?));
        let b = stream.zeros(ELEMENTS)?;
        let mut arrays = Vec::new();
        for _ in 0..links {
            arrays.push(stream.zeros(ELEMENTS)?);
        }
        let graph = device.record("launches", |r| {
            let recorded = r.stream()?;
            let (grid, n) = (LaunchConfig::linear(ELEMENTS), ELEMENTS as u64);
            for node in 0..NODES {
                let ends = [node % links, (node + 1) % links];
                let [from, to] = arrays.get_disjoint_mut(ends).expect("two of the arrays");
                kernels.vecadd(&recorded, grid, &*from, &b, to, n)?;
            }
            Ok(())
        })?;
        let drained = Rc::clone(&stream);
        Ok(variant(
            is_complete,
            move || {
                let _ = &arrays;
                Ok(graph.replay(&stream)?)
            },
            move || {
                if bench.small {
                    // Queries that become rare take for ever where only calls let time pass.
                    raw.synchronize()?;
                }
                Ok(drained.synchronize()?)
            },
        ))
    });
    table.add("cudarc", || {
        let cudarc = Cudarc::open()?;
        let stream = cudarc.stream()?;
        // SAFETY: one stream uses the arrays. A capture cannot wait for events recorded before it.
        unsafe { stream.context().disable_event_tracking() };
        let zeros = || stream.alloc_zeros(ELEMENTS);
        let mut arrays = Vec::new();
        for _ in 0..links {
            arrays.push([zeros()?, zeros()?]);
        }
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        for node in 0..NODES {
            let ends = [node % links, (node + 1) % links];
            let [from, to] = arrays.get_disjoint_mut(ends).expect("two of the arrays");
            cudarc.launch(&stream, from, &mut to[0])?;
        }
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags)?.context("the graph is empty")?;
        let work = move || {
            // Both are part of the graph, which keeps neither.
            let _ = (&arrays, &cudarc);
            Ok(graph.launch()?)
        };
        Ok(variant(
            is_complete,
            work,
            move || Ok(stream.synchronize()?),
        ))
    });
    let prepared = || -> Result<_> {
        let nvidia = Nvidia::open(VECADD.0, VECADD.1)?;
        let stream = nvidia.stream()?;
        let arrays = nvidia.arrays(links + 1, ELEMENTS)?;
        let work =
            |node| nvidia.work([node % links, links, (node + 1) % links].map(|at| &arrays[at]));
        let works: Vec<_> = (0..NODES).map(work).collect();
        Ok((nvidia::graph(&stream, &works)?, stream))
    };
    table.add("cuda-async, unsafe", || {
        let (graph, stream) = prepared()?;
        let drained = Arc::clone(&stream);
        let work = move || nvidia::replay_untracked(&graph, &stream);
        Ok(variant(is_complete, work, move || {
            Ok(drained.synchronize()?)
        }))
    });
    let who = match is_complete {
        false => "cuda-async, ten in one future",
        true => "cuda-async, awaited",
    };
    table.add(who, || {
        let (graph, stream) = prepared()?;
        if is_complete {
            return Ok(Variant::complete(move || {
                nvidia::run(&stream, graph.launch())
            }));
        }
        let submitted = Rc::new(RefCell::new(None::<Submitted>));
        let drained = Rc::clone(&submitted);
        let work = move |replays| {
            let operations = (0..replays).map(|_| graph.launch().boxed()).collect();
            *submitted.borrow_mut() = Some(nvidia::submit(&stream, operations)?);
            Ok(())
        };
        Ok(Variant::batched(work, move || {
            Ok(drained.take().map_or(Ok(()), pollster::block_on)?)
        }))
    });
    table.rows()
}

/// Measures a launch and the download of one number of its result, until the waiting thread goes
/// on. A long kernel takes longer than any of them spins.
pub(crate) fn awaited(bench: &Bench, is_long: bool) -> Result<Vec<Row>> {
    let (what, goal, elements) = match is_long {
        false => (
            "launch, download of one number, .await",
            Goal::AtMost(1.05),
            256,
        ),
        true if bench.small => ("the same of a longer kernel", Goal::None, 1 << 14),
        true => ("the same of a longer kernel", Goal::None, 1 << 25),
    };
    let raw = &bench.harness.raw;
    let (kernel, stream) = (raw.vecadd()?, raw.stream()?);
    let memory = || raw.memory(elements * size_of::<f32>());
    let (operands, landing) = (
        [memory()?, memory()?, memory()?],
        raw.pinned(size_of::<f32>())?,
    );
    let enqueue = || {
        stream.launch(kernel, operands.each_ref(), elements as u64)?;
        stream.download(&landing, &operands[2], size_of::<f32>())
    };
    let baseline = Variant::complete(|| {
        enqueue()?;
        while !stream.is_idle()? {}
        Ok(())
    });
    let mut table = bench.table(("T9", what), goal, ONCE, baseline);
    table.add("Millstream", || {
        let device = &bench.harness.device;
        let (kernels, stream) = (sums::load(device)?, device.stream()?);
        let (a, mut c) = (stream.zeros(elements)?, stream.zeros(elements)?);
        Ok(Variant::complete(move || {
            let grid = LaunchConfig::linear(elements);
            kernels.vecadd(&stream, grid, &a, &a, &mut c, elements as u64)?;
            pollster::block_on(stream.download(c.slice(..1))?)?;
            Ok(())
        }))
    });
    table.add("cuda-async", || {
        let nvidia = Nvidia::open(VECADD.0, VECADD.1)?;
        let (stream, work) = (nvidia.stream()?, nvidia.new_work(3, elements)?);
        let landing = raw.pinned(size_of::<f32>())?;
        Ok(Variant::complete(move || {
            Ok(nvidia::run(
                &stream,
                work.and_download(landing.start().cast()),
            )??)
        }))
    });
    table.add("raw, cuStreamSynchronize", || {
        Ok(Variant::complete(|| {
            enqueue()?;
            stream.synchronize()
        }))
    });
    table.rows()
}

/// Measures the processor time of waiting, and counts the wake-ups without futures.
pub(crate) fn load(bench: &Bench) -> Result<Vec<Row>> {
    let harness = &bench.harness;
    let mut rows = Vec::new();
    // Before the threads of the others exist.
    if bench.is_wanted("Millstream") && !bench.small {
        rows.extend([waiting::load(harness)?, waiting::idle(harness)?]);
    }
    if bench.is_wanted("cuda-async") {
        let gate = Nvidia::open(GATE.0, GATE.1)?;
        let (stream, arrays) = (gate.stream()?, gate.arrays(1, 1)?);
        let busy = waiting::load_of(harness, |flag| {
            nvidia::run(&stream, gate.gate(flag, &arrays[0]))
        })?;
        // The first dropped array starts a thread that frees it.
        drop(arrays);
        let idle = waiting::idle_of(&["cuda-async-reac", "cuda-resource-r"])?;
        for row in [busy, idle] {
            rows.push(Row {
                goal: Goal::None,
                ..row.by("cuda-async")
            });
        }
    }
    Ok(rows)
}
