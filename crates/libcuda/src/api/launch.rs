//! Kernel launches.

use std::ffi::c_void;

use millstream_driver::{ContextHandle, FunctionHandle, LaunchAttributes, LaunchDims, ResultCode};

use crate::{
    abi::{Handle, In, LaunchAttributeFields, LaunchConfigFields},
    api::library,
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

/// The pointers to the arguments of a launch, of which CUDA has two forms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    /// One pointer for each parameter.
    pub(crate) pointers: In<*const c_void>,
    /// Pairs of a key and a value that describe a buffer with all arguments.
    pub(crate) extra: In<*const c_void>,
}

/// Enqueues a kernel. The blocks of a cooperative launch may wait for each other.
fn launch(
    call: &Call,
    function: Handle,
    (dims, cooperative): (&LaunchDims, bool),
    stream: Handle,
    arguments: Arguments,
) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let (function, pointers) = resolve(call, function, context, arguments)?;
    let process = call.process()?;
    if cooperative {
        let attributes = LaunchAttributes {
            cooperative,
            ..LaunchAttributes::default()
        };
        process.launch_kernel_with(context, function, dims, &attributes, stream, &pointers)
    } else {
        process.launch_kernel(context, function, dims, stream, &pointers)
    }
}

/// Returns the kernel of a function or of a library, and the pointers to its arguments.
pub(crate) fn resolve(
    call: &Call,
    function: Handle,
    context: ContextHandle,
    arguments: Arguments,
) -> Answer<(FunctionHandle, Vec<*const c_void>)> {
    let (function, entry) = if library::is_kernel(call, function)? {
        library::function_in(call, function, context)?
    } else {
        call.function_of_module(function)?
    };
    let params = &entry.details.params;
    let pointers = match buffer(arguments.extra)? {
        Some(_) if !arguments.pointers.is_null() => return Err(ResultCode::INVALID_VALUE),
        Some((start, bytes)) => {
            let end = params.last().map_or(0, |param| param.end);
            refuse_if(
                bytes < end || end > 0 && start.is_null(),
                ResultCode::INVALID_VALUE,
            )?;
            let at = |offset| start.wrapping_byte_add(offset);
            params.iter().map(|param| at(param.start)).collect()
        }
        None => arguments.pointers.all(params.len())?,
    };
    Ok((function, pointers))
}

/// Returns address and size of the buffer that `extra` describes, if the program passes one.
fn buffer(extra: In<*const c_void>) -> Answer<Option<(*const c_void, usize)>> {
    /// `CU_LAUNCH_PARAM_END`, `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`
    const END: usize = 0;
    const POINTER: usize = 1;
    const SIZE: usize = 2;
    if extra.is_null() {
        return Ok(None);
    }
    let (mut pointer, mut bytes) = (std::ptr::null(), None);
    for index in 0.. {
        let key = extra.at(2 * index)?;
        match key.addr() {
            END => break,
            POINTER => pointer = extra.at(2 * index + 1)?,
            SIZE => bytes = Some(In::<usize>::of(extra.at(2 * index + 1)?).get()?),
            _ => return Err(ResultCode::INVALID_VALUE),
        }
    }
    Ok(bytes.map(|bytes| (pointer, bytes)))
}

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`
const COOPERATIVE: u32 = 2;

/// Accepts a launch attribute that is a hint, or makes the launch cooperative. One that would
/// change the meaning of the launch, and is not simulated, fails with `NOT_SUPPORTED`.
fn accept(attribute: &LaunchAttributeFields) -> Answer {
    match attribute.id {
        // IGNORE, ACCESS_POLICY_WINDOW, SYNCHRONIZATION_POLICY,
        // CLUSTER_SCHEDULING_POLICY_PREFERENCE, PRIORITY, MEM_SYNC_DOMAIN_MAP, MEM_SYNC_DOMAIN,
        // PREFERRED_SHARED_MEMORY_CARVEOUT; and PROGRAMMATIC_STREAM_SERIALIZATION, which allows an
        // overlap with the kernel before and does not require it.
        0 | 1 | 3 | 5 | 6 | 8 | 9 | 10 | 14 => Ok(()),
        COOPERATIVE => Ok(()),
        // CLUSTER_DIMENSION, PREFERRED_CLUSTER_DIMENSION: clusters of one block are none.
        4 | 11 if attribute.value[..3].iter().all(|&blocks| blocks <= 1) => Ok(()),
        4 | 7 | 11..=13 => Err(ResultCode::NOT_SUPPORTED),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

exports! {
    [cuLaunchKernel, cuLaunchKernel_ptsz per_thread]
    fn kernel(
        call, function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, stream: Handle, pointers: In<*const c_void>,
        extra: In<*const c_void>
    ) {
        let dims = LaunchDims {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
        };
        let arguments = Arguments { pointers, extra };
        launch(call, function, (&dims, false), stream, arguments)
    }

    [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz per_thread]
    fn cooperative_kernel(
        call, function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, stream: Handle, pointers: In<*const c_void>
    ) {
        let dims = LaunchDims {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
        };
        let extra = In::of(std::ptr::null::<*const c_void>());
        let arguments = Arguments { pointers, extra };
        launch(call, function, (&dims, true), stream, arguments)
    }

    [cuLaunchKernelEx, cuLaunchKernelEx_ptsz per_thread]
    fn with_config(
        call, config: In<LaunchConfigFields>, function: Handle, pointers: In<*const c_void>,
        extra: In<*const c_void>
    ) {
        let config = config.get()?;
        let dims = LaunchDims {
            grid: config.grid,
            block: config.block,
            shared_bytes: config.shared_bytes,
        };
        let mut cooperative = false;
        for attribute in config.attributes.all(config.attribute_count as usize)? {
            accept(&attribute)?;
            cooperative |= attribute.id == COOPERATIVE && attribute.value[0] != 0;
        }
        let arguments = Arguments { pointers, extra };
        launch(call, function, (&dims, cooperative), config.stream, arguments)
    }
}
