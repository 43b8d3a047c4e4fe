//! The program under valgrind. It creates arrays, launches until all queues and tables have their
//! final size, and then launches inside the one function whose instructions are counted.

#![allow(
    unsafe_code,
    reason = "opens a device of a driver that does nothing, calls that driver, and changes a graph"
)]

use std::{
    ffi::c_void,
    hint::black_box,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use anyhow::{Result, ensure};
use millstream::{Buffer, Device, LaunchConfig, PeerStatus, Stream, device::Topology};
use millstream_driver::{
    ContextHandle, DeviceOrdinal, DevicePtr, Driver, FunctionHandle, LaunchDims, ModuleHandle,
    PeerCopy, StreamHandle,
};
use millstream_region::{Array, Keep, RegionExt, region};
use millstream_testkit::null::NullDriver;
use ndarray::{Array1, Axis, Ix1, Ix2};

use super::cases::{Case, Pattern};
use crate::{kernels::sums, targets::ten_operations};

const STREAMS: usize = 8;
const ELEMENTS: usize = 64;
/// So many elements that several blocks share a reduction of them.
const SHARED_ELEMENTS: usize = 1 << 20;

/// Applies ten scans, each of which takes a kernel.
#[region]
fn ten_scans(x: &Array<f32, Ix1>) -> Array<f32, Ix1> {
    let mut y = x.clone();
    for _ in 0..10 {
        y = y.cumsum(Axis(0));
    }
    y
}

/// Applies weights and biases of the columns, and a function.
#[region]
fn layer(x: &Array<f32, Ix2>, weight: &Array<f32, Ix1>, bias: &Array<f32, Ix1>) -> Array<f32, Ix2> {
    (x * weight + bias).relu()
}

#[region]
fn softmax(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let powers = (x - x.max_keepdims(&[Axis(1)])).exp();
    &powers / powers.sum_keepdims(&[Axis(1)])
}

/// Runs a case with `launches` counted launches or regions.
pub(crate) fn run(case: &Case, launches: usize) -> Result<()> {
    // Until everything is set up, all is done at once.
    let null = Arc::new(NullDriver::new(0));
    let driver: Arc<dyn Driver> = Arc::<NullDriver>::clone(&null);
    match case.pattern {
        Pattern::Raw => return raw(&*driver, launches),
        Pattern::RawPeerCopy => return raw_peer_copy(&*driver, launches),
        _ => {}
    }
    // SAFETY: this program reads no data that the driver would have to write, and the driver's host
    // memory is real.
    let device = unsafe { Device::with_driver(Arc::clone(&driver), 0) }?;
    let warm_up = case.warm_up();
    let run = |launch: &mut dyn FnMut(usize)| {
        (0..warm_up).for_each(&mut *launch);
        counted_launches(warm_up..warm_up + launches, launch);
    };
    if case.pattern.is_region() {
        let few = Array::from_host(&device, &Array1::<f32>::zeros(ELEMENTS))?;
        null.lag.store(case.lag, Relaxed);
        run_regions(&device, case.pattern, (&few, warm_up + launches), run)?;
    } else if case.pattern.is_graph() {
        null.lag.store(case.lag, Relaxed);
        run_graphs(&device, case.pattern, run)?;
    } else if case.pattern == Pattern::PeerCopy {
        // SAFETY: as above.
        let other = unsafe { Device::with_driver(driver, 1) }?;
        let stream = device.stream()?;
        let source = stream.zeros::<f32>(ELEMENTS)?;
        let mut target = other.stream()?.zeros::<f32>(ELEMENTS)?;
        stream.copy(&source, &mut target)?;
        let topology = Topology::of(&[device, other])?;
        let status = topology.link(0, 1).and_then(|link| link.status.clone());
        ensure!(
            status == Some(PeerStatus::Direct),
            "the copy was {status:?}"
        );
        null.lag.store(case.lag, Relaxed);
        run(&mut |_| {
            let copied = stream.copy(&source, &mut target);
            copied.expect("the driver never fails");
        });
    } else {
        let mut work = Work::new(&device, case)?;
        null.lag.store(case.lag, Relaxed);
        run(&mut |number| work.launch(number).expect("the driver never fails"));
    }
    Ok(())
}

/// Runs the regions of a case, called so many times by `run`.
fn run_regions(
    device: &Device,
    pattern: Pattern,
    (few, calls): (&Array<f32, Ix1>, usize),
    run: impl Fn(&mut dyn FnMut(usize)),
) -> Result<()> {
    const NEVER: &str = "the driver never fails";
    device.set_region_graphs(pattern != Pattern::RegionLaunches);
    match pattern {
        Pattern::PreparedRegion | Pattern::PreparedScans => {
            let prepared = device.prepare(few, |g, x| match pattern {
                Pattern::PreparedRegion => ten_operations(g, x),
                _ => ten_scans(g, x),
            })?;
            run(&mut |_| drop(prepared.call(few).expect(NEVER)));
        }
        Pattern::Region => run(&mut |_| drop(ten_operations(device, few).expect(NEVER))),
        // Arrays that a region returns have no stream of their own.
        Pattern::RegionLengths => {
            let array = |more| device.region(|g| Keep(g.zeros::<f32, _>(ELEMENTS + more)));
            let arrays = (0..calls).map(|more| array(more)?.wait());
            let arrays = arrays.collect::<millstream_region::Result<Vec<_>>>()?;
            run(&mut |call| drop(ten_operations(device, &arrays[call]).expect(NEVER)));
        }
        Pattern::RegionRows | Pattern::RegionSoftmax => {
            let array = |more| device.region(|g| Keep(g.zeros::<f32, _>((2 + more, ELEMENTS))));
            let arrays = (0..calls).map(|more| array(more)?.wait());
            let arrays = arrays.collect::<millstream_region::Result<Vec<_>>>()?;
            run(&mut |call| match pattern {
                Pattern::RegionRows => drop(layer(device, &arrays[call], few, few).expect(NEVER)),
                _ => drop(softmax(device, &arrays[call]).expect(NEVER)),
            });
        }
        Pattern::RegionSum => {
            let many = device.region(|g| Keep(g.zeros::<f32, _>(SHARED_ELEMENTS)))?;
            let many = many.wait()?;
            let sum = || device.region(|g| Keep(g.array(&many).sum()))?.wait();
            run(&mut |_| drop(sum().expect(NEVER)));
        }
        Pattern::RegionDependent => {
            let mut x = few.clone();
            run(&mut |_| {
                let pending = device.region(|g| Keep(g.array(few) * g.array(&x) + g.array(few)));
                x = pending.and_then(|pending| pending.wait()).expect(NEVER);
            });
        }
        _ => run(&mut |_| drop(ten_scans(device, few).expect(NEVER))),
    }
    Ok(())
}

/// Replays the graph of a case, called by `run`.
fn run_graphs(
    device: &Device,
    pattern: Pattern,
    run: impl Fn(&mut dyn FnMut(usize)),
) -> Result<()> {
    const NEVER: &str = "the driver never fails";
    let (kernels, stream) = (sums::load(device)?, device.stream()?);
    let (a, b) = (stream.zeros(ELEMENTS)?, stream.zeros(ELEMENTS)?);
    let mut c = stream.zeros(ELEMENTS)?;
    let mut graph = device.record("launch", |r| {
        let grid = LaunchConfig::linear(ELEMENTS);
        kernels.vecadd(&r.stream()?, grid, &a, &b, &mut c, ELEMENTS as u64)
    })?;
    run(&mut |_| {
        if pattern == Pattern::GraphChange {
            let mut kernel = graph.node("vecadd").expect("there is one such kernel");
            // SAFETY: the arrays have this length.
            unsafe { kernel.set_scalar(3, ELEMENTS as u64) }.expect("it is a number");
        }
        graph.replay(&stream).expect(NEVER);
    });
    Ok(())
}

/// Calls `launch` once per number. Valgrind counts this function and its callees by its name.
#[inline(never)]
fn counted_launches(numbers: std::ops::Range<usize>, launch: &mut dyn FnMut(usize)) {
    for number in numbers {
        launch(black_box(number));
    }
}

/// Streams and live arrays, half of the arrays for reading and half for writing.
struct Work {
    pattern: Pattern,
    kernels: sums::Kernels,
    streams: Vec<Stream>,
    read: Vec<Buffer<f32>>,
    written: Vec<Buffer<f32>>,
}

impl Work {
    fn new(device: &Device, case: &Case) -> Result<Self> {
        ensure!(case.live >= 4, "at least four arrays");
        let streams = (0..STREAMS)
            .map(|_| device.stream())
            .collect::<Result<Vec<_>, _>>()?;
        let arrays = |count| {
            (0..count)
                .map(|_| streams[0].zeros(ELEMENTS))
                .collect::<Result<Vec<_>, _>>()
        };
        // Each stream has an array to write, however many arrays are alive.
        let written = (case.live / 2).max(STREAMS);
        Ok(Self {
            pattern: case.pattern,
            kernels: sums::load(device)?,
            read: arrays(case.live.saturating_sub(written).max(2))?,
            written: arrays(written)?,
            streams,
        })
    }

    fn launch(&mut self, number: usize) -> millstream::Result<()> {
        let turn = number % STREAMS;
        let (stream, first, second, target) = match self.pattern {
            Pattern::OneStream => {
                let reads = self.read.len();
                let target = number % self.written.len();
                (0, 2 * number % reads, (2 * number + 1) % reads, target)
            }
            Pattern::Chain => (turn, 0, 1, 0),
            Pattern::HandOver => (0, 0, 1, 0),
            Pattern::Readers | Pattern::FanInAndOut => (turn, 0, 1, turn),
            _ => {
                unreachable!("it has no work of this kind")
            }
        };
        let grid = LaunchConfig::linear(ELEMENTS);
        let stream = &self.streams[stream];
        let target = &mut self.written[target];
        if self.pattern == Pattern::FanInAndOut && turn == STREAMS - 1 {
            let (first, second) = self.read.split_at_mut(1);
            return self.kernels.vecadd(
                stream,
                grid,
                &second[0],
                &*target,
                &mut first[0],
                ELEMENTS as u64,
            );
        }
        let (first, second) = (&self.read[first], &self.read[second]);
        self.kernels
            .vecadd(stream, grid, first, second, &mut *target, ELEMENTS as u64)?;
        if self.pattern == Pattern::HandOver {
            drop(target.lend_mut(&self.streams[1])?);
        }
        Ok(())
    }
}

/// Counts the same launch without Millstream.
fn raw(driver: &dyn Driver, launches: usize) -> Result<()> {
    let context: ContextHandle = driver.primary_context_retain(DeviceOrdinal::from_raw(0))?;
    // SAFETY: this driver requires nothing of its caller.
    let stream: StreamHandle = unsafe { driver.stream_create(context, true, 0) }?;
    // SAFETY: as above.
    let module: ModuleHandle = unsafe { driver.module_load(context, &[]) }?;
    // SAFETY: as above.
    let function: FunctionHandle = unsafe { driver.module_function(context, module, "vecadd") }?;
    let (addresses, n) = ([0x1000_u64, 0x2000, 0x3000], ELEMENTS as u64);
    let dims = LaunchDims {
        grid: [1, 1, 1],
        block: [ELEMENTS as u32, 1, 1],
        shared_bytes: 0,
    };
    counted_launches(0..launches, &mut |_| {
        let [a, b, c] = addresses
            .each_ref()
            .map(|address| std::ptr::from_ref(address).cast::<c_void>());
        let params = [a, b, c, std::ptr::from_ref(&n).cast()];
        // SAFETY: as above.
        unsafe { driver.launch_kernel(context, function, &dims, stream, &params) }
            .expect("the driver never fails");
    });
    Ok(())
}

/// Counts the same copy without Millstream.
fn raw_peer_copy(driver: &dyn Driver, copies: usize) -> Result<()> {
    let [source_context, target_context] = [
        driver.primary_context_retain(DeviceOrdinal::from_raw(0))?,
        driver.primary_context_retain(DeviceOrdinal::from_raw(1))?,
    ];
    // SAFETY: this driver requires nothing of its caller.
    let stream: StreamHandle = unsafe { driver.stream_create(source_context, true, 0) }?;
    let copy = PeerCopy {
        target: DevicePtr::from_raw(0x1000),
        target_context,
        source: DevicePtr::from_raw(0x2000),
        source_context,
        bytes: ELEMENTS * size_of::<f32>(),
    };
    counted_launches(0..copies, &mut |_| {
        // SAFETY: as above.
        unsafe { driver.copy_peer_async(source_context, &copy, stream) }
            .expect("the driver never fails");
    });
    Ok(())
}
