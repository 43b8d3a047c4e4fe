//! Launches of kernels, and of functions of the host.

use crate::{
    abi::{Dim3, Function, Ptr, Stream},
    call::Call,
    codes::{Answer, INVALID_CONFIGURATION, refuse_if},
    driver::cu,
    export::exports,
    registry,
};

/// The configuration of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    /// The bytes of dynamic shared memory.
    pub(crate) shared: usize,
}

impl Shape {
    pub(crate) const NONE: Self = Self {
        grid: Dim3 { x: 0, y: 0, z: 0 },
        block: Dim3 { x: 0, y: 0, z: 0 },
        shared: 0,
    };

    /// Fails with `cudaErrorInvalidConfiguration`, where the driver has an invalid value.
    fn check(&self) -> Answer {
        let (grid, block) = (self.grid, self.block);
        let sizes = [block.x, block.y, block.z, grid.x, grid.y, grid.z];
        let threads = [block.x, block.y, block.z].map(u64::from);
        let fits = (sizes.iter().zip(SIZES_MAX)).all(|(size, max)| (1..=max).contains(size))
            && threads.iter().product::<u64>() <= THREADS_MAX
            && u32::try_from(self.shared).is_ok();
        refuse_if(!fits, INVALID_CONFIGURATION)
    }
}

/// The limits of all devices since compute capability 3.0: of blocks, and of the axes of blocks and
/// of grids.
const THREADS_MAX: u64 = 1024;
const SIZES_MAX: [u32; 6] = [1024, 1024, 64, i32::MAX as u32, 65535, 65535];

/// Enqueues a kernel.
pub(crate) fn launch(
    call: &Call,
    function: Function,
    shape: Shape,
    arguments: usize,
    stream: Stream,
    cooperative: bool,
) -> Answer {
    let kernel = registry::launched(function)?;
    shape.check()?;
    let Shape {
        grid: Dim3 { x, y, z },
        block,
        shared,
    } = shape;
    let (stream, Dim3 { x: a, y: b, z: c }) = (call.stream(stream), block);
    if cooperative {
        let kernel = registry::function_of(kernel)?;
        cu! { cuLaunchCooperativeKernel, kernel, x, y, z, a, b, c, shared, stream, arguments }
    } else {
        cu! { cuLaunchKernel, kernel, x, y, z, a, b, c, shared, stream, arguments, 0 }
    }
}

/// `cudaLaunchConfig_t`, and `CUlaunchConfig` if the upper half of the shared size is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Stream,
    attributes: usize,
    attribute_count: u32,
}

exports! {
    Context [cudaLaunchKernel, cudaLaunchKernel_ptsz per_thread]
    (call, function: Function, grid: Dim3, block: Dim3, arguments: usize, shared: usize,
     stream: Stream) {
        launch(call, function, Shape { grid, block, shared }, arguments, stream, false)
    }

    Context [cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz per_thread]
    (call, function: Function, grid: Dim3, block: Dim3, arguments: usize, shared: usize,
     stream: Stream) {
        launch(call, function, Shape { grid, block, shared }, arguments, stream, true)
    }

    Context [cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz per_thread]
    (call, configuration: Ptr<Configuration>, function: Function, arguments: usize) {
        let kernel = registry::launched(function)?;
        let mut configuration = configuration.get()?;
        let Configuration { grid, block, shared, stream, .. } = configuration;
        Shape { grid, block, shared }.check()?;
        configuration.stream = Stream(call.stream(stream));
        cu!(cuLaunchKernelEx, &configuration, kernel, arguments, 0)
    }
}
