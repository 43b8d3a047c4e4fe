//! The same work with NVIDIA's cuda-core and cuda-async.

#![allow(unsafe_code, reason = "launches kernels, of whose operands it is sure")]

use std::{
    ffi::c_void,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{self, Poll, Waker},
    thread,
    time::Duration,
};

use anyhow::Result;
use cuda_async::{
    cuda_graph::CudaGraph,
    device_operation::{BoxedDeviceOp, DeviceOp, DeviceOpVec, value, with_context},
    error::DeviceError,
    launch::{AsyncKernelLaunch, AsyncKernelLaunchBuilder},
    scheduling_policies::SingleStream,
};
use cuda_core::{Context, DeviceBuffer, Function, LaunchConfig, RawDeviceBuffer, Stream};

use crate::raw::{BLOCK, Flag};

/// The time in which a thread of cuda-core frees the arrays of a batch.
pub(crate) const FREED: Duration = Duration::from_millis(5);

/// Operations that were submitted and are not known to be complete.
pub(crate) type Submitted = Pin<Box<dyn Future<Output = Result<(), DeviceError>>>>;

/// A context with a kernel whose parameters are arrays, the last of which it writes, and the number
/// of elements of each that its threads touch.
pub(crate) struct Nvidia {
    context: Arc<Context>,
    kernel: Arc<Function>,
}

impl Nvidia {
    pub(crate) fn open(ptx: &str, name: &str) -> Result<Self> {
        let context = Context::new(0)?;
        let module = context.load_module_from_ptx_src(ptx)?;
        let kernel = Arc::new(module.load_function(name)?);
        Ok(Self { context, kernel })
    }

    pub(crate) fn stream(&self) -> Result<Arc<Stream>> {
        Ok(self.context.new_stream()?)
    }

    pub(crate) fn arrays(&self, count: usize, elements: usize) -> Result<Vec<RawDeviceBuffer>> {
        let stream = self.stream()?;
        (0..count)
            .map(|_| Ok(DeviceBuffer::<f32>::zeroed(&stream, elements)?.into_storage()))
            .collect()
    }

    pub(crate) fn work<'a>(&self, arrays: impl IntoIterator<Item = &'a RawDeviceBuffer>) -> Work {
        let arrays: Vec<_> = arrays.into_iter().cloned().collect();
        let bytes = arrays.iter().map(RawDeviceBuffer::len_bytes).min();
        let n = bytes.unwrap_or(0) / size_of::<f32>();
        Work {
            kernel: Arc::clone(&self.kernel),
            arrays,
            n: n as u64,
            config: LaunchConfig {
                grid_dim: (n.div_ceil(BLOCK as usize) as u32, 1, 1),
                block_dim: (BLOCK, 1, 1),
                shared_mem_bytes: 0,
            },
        }
    }

    /// Describes a launch with arrays of its own.
    pub(crate) fn new_work(&self, arrays: usize, elements: usize) -> Result<Work> {
        let arrays = self.arrays(arrays, elements)?;
        Ok(self.work(&arrays))
    }

    /// Describes two launches of vecadd.cu, of which the second reads what the first writes.
    pub(crate) fn pair(&self, elements: usize) -> Result<[Work; 2]> {
        let arrays = self.arrays(3, elements)?;
        let [a, between, last] = [&arrays[0], &arrays[1], &arrays[2]];
        Ok([self.work([a, a, between]), self.work([between, a, last])])
    }

    /// Returns a launch that runs until the flag is raised and counts as a write of the array. The
    /// context's kernel is that of gate.cu.
    pub(crate) fn gate(&self, flag: Flag, array: &RawDeviceBuffer) -> AsyncKernelLaunch<'static> {
        let mut builder = AsyncKernelLaunchBuilder::new(Arc::clone(&self.kernel));
        builder.push_arg(flag.address());
        builder.retain_buffer(array.clone(), true);
        let config = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (1, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the argument is that of gate.cu; the flag's memory is never freed.
        unsafe { builder.finalize_unchecked(config) }
    }
}

/// A kernel and its operands.
pub(crate) struct Work {
    kernel: Arc<Function>,
    arrays: Vec<RawDeviceBuffer>,
    n: u64,
    config: LaunchConfig,
}

impl Work {
    /// Launches with cuda-core, which tracks nothing of a kernel.
    #[inline]
    pub(crate) fn launch(&self, stream: &Stream) -> Result<()> {
        let mut params = [std::ptr::from_ref(&self.n).cast_mut().cast::<c_void>(); 5];
        let mut addresses = [0; 4];
        for (at, array) in self.arrays.iter().enumerate() {
            addresses[at] = array.cu_deviceptr();
            params[at] = std::ptr::from_mut(&mut addresses[at]).cast();
        }
        let LaunchConfig {
            grid_dim,
            block_dim,
            shared_mem_bytes,
        } = self.config;
        let params = &mut params[..=self.arrays.len()];
        let kernel = &self.kernel;
        // SAFETY: the parameters are those of the kernel, whose threads touch `n` elements of each
        // array; the work outlives its launches, because their stream is drained before.
        Ok(unsafe {
            cuda_core::launch_kernel_on_stream(
                kernel,
                grid_dim,
                block_dim,
                shared_mem_bytes,
                stream,
                params,
            )
        }?)
    }

    /// Returns a launch for cuda-async, which tracks its arrays.
    #[inline]
    pub(crate) fn operation(&self) -> AsyncKernelLaunch<'static> {
        let mut builder = AsyncKernelLaunchBuilder::new(Arc::clone(&self.kernel));
        for (at, array) in self.arrays.iter().enumerate() {
            // SAFETY: the kernel's parameters are arrays of this length.
            unsafe { builder.push_device_ptr(array.cu_deviceptr()) };
            builder.retain_buffer(array.clone(), at + 1 == self.arrays.len());
        }
        builder.push_arg(self.n);
        // SAFETY: as in `launch`.
        unsafe { builder.finalize_unchecked(self.config) }
    }

    /// Enqueues the launch, and releases the arrays from tracking at once.
    #[inline]
    pub(crate) fn launch_untracked(&self, stream: &Arc<Stream>) -> Result<()> {
        // SAFETY: the arrays live until the stream is drained, and their accesses are ordered by
        // the caller's streams; results are not checked.
        Ok(unsafe { self.operation().async_on(stream) }?)
    }

    /// Returns the launch and a copy of the first element of its last array to `target`, which is
    /// page-locked and outlives the operation.
    pub(crate) fn and_download(
        &self,
        target: *mut f32,
    ) -> impl DeviceOp<Output = Result<(), cuda_core::DriverError>> + use<> {
        let source = self.arrays[self.arrays.len() - 1].cu_deviceptr();
        let target = target.addr();
        self.operation().then(move |()| {
            with_context(move |context| {
                let stream = context.get_cuda_stream().cu_stream();
                let target = std::ptr::with_exposed_provenance_mut::<f32>(target);
                let bytes = size_of::<f32>();
                // SAFETY: both hold an element; the caller keeps the target.
                value(unsafe {
                    cuda_core::memory::memcpy_dtoh_async(target, source, bytes, stream)
                })
            })
        })
    }
}

/// Submits operations on a stream in one future, which holds the leases of their arrays until it is
/// complete or dropped.
pub(crate) fn submit(
    stream: &Arc<Stream>,
    operations: Vec<BoxedDeviceOp<()>>,
) -> Result<Submitted> {
    let policy = SingleStream::from_stream(Arc::clone(stream));
    let future = DeviceOpVec::new(operations).schedule(&policy)?;
    let mut submitted: Submitted = Box::pin(async move { future.await.map(drop) });
    Ok(match poll(&mut submitted) {
        Poll::Ready(done) => {
            done?;
            Box::pin(async { Ok(()) })
        }
        Poll::Pending => submitted,
    })
}

fn poll(submitted: &mut Submitted) -> Poll<Result<(), DeviceError>> {
    submitted
        .as_mut()
        .poll(&mut task::Context::from_waker(Waker::noop()))
}

/// Awaits an operation on a stream.
pub(crate) fn run<T: Send>(
    stream: &Arc<Stream>,
    operation: impl DeviceOp<Output = T>,
) -> Result<T> {
    let policy = SingleStream::from_stream(Arc::clone(stream));
    Ok(pollster::block_on(operation.schedule(&policy)?)?)
}

pub(crate) fn graph(stream: &Arc<Stream>, works: &[Work]) -> Result<CudaGraph<()>> {
    Ok(CudaGraph::scope(stream, |scope| {
        works
            .iter()
            .try_for_each(|work| scope.record(work.operation()))
    })?)
}

/// Enqueues the graph, and releases its arrays from tracking at once.
#[inline]
pub(crate) fn replay_untracked(graph: &CudaGraph<()>, stream: &Arc<Stream>) -> Result<()> {
    // SAFETY: graph and arrays live until the stream is drained, the only one that uses them.
    Ok(unsafe { graph.launch().async_on(stream) }?)
}

/// Allocates bytes, in the stream's order or filled with zeros, and drops them.
#[inline]
pub(crate) fn allocate_and_drop(stream: &Arc<Stream>, bytes: usize, fill: bool) -> Result<()> {
    let array = match fill {
        true => DeviceBuffer::<u8>::zeroed(stream, bytes)?,
        // SAFETY: nothing reads it.
        false => unsafe { DeviceBuffer::<u8>::uninitialized_async(stream, bytes) }?,
    };
    drop(array);
    Ok(())
}

/// Returns cuda-async's answer to a launch on a second stream that reads what a running kernel of
/// the first writes, and to the same after the second stream was made to wait for the first.
pub(crate) fn conflict(vecadd: &Nvidia, gate: &Nvidia, flag: Flag) -> Result<[String; 2]> {
    let (first, second) = (vecadd.stream()?, vecadd.stream()?);
    let arrays = vecadd.arrays(2, 1)?;
    // Until a thread of cuda-core has freed earlier arrays: a free waits for running kernels.
    thread::sleep(FREED);
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        flag.raise();
    });
    let running = submit(&first, vec![gate.gate(flag, &arrays[0]).boxed()])?;
    let answer = || {
        let work = vecadd.work([&arrays[0], &arrays[0], &arrays[1]]);
        match submit(&second, vec![work.operation().boxed()]) {
            Ok(_) => String::from("accepted"),
            Err(error) => format!("{error:#}"),
        }
    };
    let alone = answer();
    second.join(&first)?;
    let answers = [alone, answer()];
    pollster::block_on(running)?;
    opener.join().expect("the opener does not panic");
    Ok(answers)
}
