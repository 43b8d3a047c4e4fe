//! Launches of kernels, and of functions of the host.

use crate::{
    abi::{Dim3, Function, Ptr, Stream},
    call::{self, Call},
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
        let threads = threads.iter().product::<u64>();
        refuse_if(sizes.contains(&0), INVALID_CONFIGURATION)?;
        // Of a block, and then of each axis.
        let limits = limits()?;
        let limits = limits.map(|limit| u64::from(limit.unsigned_abs()));
        let is_large = sizes
            .iter()
            .zip(&limits[1..])
            .any(|(size, limit)| u64::from(*size) > *limit);
        refuse_if(is_large || threads > limits[0], INVALID_CONFIGURATION)
    }
}

/// Returns the largest number of threads of a block, and the largest size of each axis of blocks
/// and of grids.
fn limits() -> Answer<[i32; 7]> {
    let device = call::device()?;
    let mut limits = [0; 7];
    for (attribute, limit) in (1_u32..).zip(&mut limits) {
        cu!(cuDeviceGetAttribute, limit, attribute, device)?;
    }
    Ok(limits)
}

/// Enqueues a kernel.
pub(crate) fn launch(
    call: &Call,
    function: Function,
    shape: Shape,
    arguments: usize,
    stream: Stream,
    cooperative: bool,
) -> Answer {
    let kernel = registry::kernel(function)?;
    shape.check()?;
    let (Dim3 { x, y, z }, block, shared) = (shape.grid, shape.block, shape.shared);
    let shared = u32::try_from(shared).map_err(|_| INVALID_CONFIGURATION)?;
    let stream = call.stream(stream);
    let (a, b, c) = (block.x, block.y, block.z);
    if cooperative {
        let function = registry::function(Function(kernel))?;
        cu!(
            cuLaunchCooperativeKernel,
            function,
            x,
            y,
            z,
            a,
            b,
            c,
            shared,
            stream,
            arguments
        )
    } else {
        cu!(
            cuLaunchKernel,
            kernel,
            x,
            y,
            z,
            a,
            b,
            c,
            shared,
            stream,
            arguments,
            0
        )
    }
}

/// `cudaLaunchConfig_t`
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

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DriverConfiguration {
    grid: Dim3,
    block: Dim3,
    shared: u32,
    stream: usize,
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
        let kernel = registry::kernel(function)?;
        let Configuration { grid, block, shared, stream, attributes, attribute_count } =
            configuration.get()?;
        Shape { grid, block, shared }.check()?;
        let shared = u32::try_from(shared).map_err(|_| INVALID_CONFIGURATION)?;
        let stream = call.stream(stream);
        let configuration =
            DriverConfiguration { grid, block, shared, stream, attributes, attribute_count };
        cu!(cuLaunchKernelEx, &configuration, kernel, arguments, 0)
    }
}
