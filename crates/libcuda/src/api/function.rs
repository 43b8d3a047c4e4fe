//! Functions: the kernels of modules, and their attributes and parameters.

use std::{
    ffi::c_char,
    ops::{Range, RangeInclusive},
};

use millstream_driver::{
    DeviceAttribute, DeviceOrdinal, FunctionAttribute, FunctionHandle, ResultCode,
};

use crate::{
    abi::{Handle, Out},
    api::{device, library},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    objects::FunctionEntry,
};

/// The number of registers of a thread up to which blocks of every size fit into a multiprocessor.
/// The device has no register allocator: PTX's virtual registers are counted up to this limit.
const REGISTERS_MAX: u32 = 64;

/// Resolves a handle where CUDA accepts a function, or a kernel in its place.
pub(crate) fn resolve(call: &Call, raw: Handle) -> Answer<(FunctionHandle, FunctionEntry)> {
    if library::is_kernel(call, raw)? {
        return library::function_in(call, raw, call.context()?);
    }
    call.function_of_module(raw)
}

/// Returns the index and the values of an attribute that a program can set and that has no effect.
fn hint_of(attribute: i32) -> Answer<(usize, RangeInclusive<i32>)> {
    match attribute {
        // PREFERRED_SHARED_MEMORY_CARVEOUT, NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
        // CLUSTER_SCHEDULING_POLICY_PREFERENCE
        9 => Ok((0, -1..=100)),
        14 => Ok((1, 0..=1)),
        15 => Ok((2, 0..=2)),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

pub(crate) fn value_of(
    call: &Call,
    function: FunctionHandle,
    entry: &FunctionEntry,
    attribute: i32,
) -> Answer<i32> {
    let details = &entry.details;
    let of_device = |attribute: DeviceAttribute| -> Answer<i32> {
        let ordinal = call.context_entry(entry.context)?.device;
        device::value_of(DeviceOrdinal::from_raw(ordinal), attribute.as_raw())
    };
    Ok(match attribute {
        // MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, MAX_DYNAMIC_SHARED_SIZE_BYTES
        0 | 1 | 8 => {
            let attribute = FunctionAttribute::from_raw(attribute);
            call.process()?
                .function_attribute(entry.context, function, attribute)?
        }
        // CONST_SIZE_BYTES
        2 => details.constant_bytes as i32,
        // LOCAL_SIZE_BYTES
        3 => details.local_bytes as i32,
        // NUM_REGS
        4 => details.registers.min(REGISTERS_MAX) as i32,
        // PTX_VERSION: the architecture that the PTX is for. BINARY_VERSION: the one of the device,
        // for which a driver compiles it.
        5 | 6 => match details.target {
            Some(target) if attribute == 5 => target as i32,
            _ => {
                10 * of_device(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?
                    + of_device(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?
            }
        },
        // CACHE_MODE_CA
        7 => 0,
        // CLUSTER_SIZE_MUST_BE_SET, REQUIRED_CLUSTER_WIDTH to DEPTH: no kernel requires clusters.
        10..=13 => 0,
        // DEVICE_NODE_UPDATE_SUPPORTED, SHARED_MEMORY_MODE
        16 | 17 => 0,
        _ => entry.hints[hint_of(attribute)?.0],
    })
}

pub(crate) fn set_value(
    call: &Call,
    function: FunctionHandle,
    entry: &FunctionEntry,
    attribute: i32,
    value: i32,
) -> Answer {
    match attribute {
        // MAX_DYNAMIC_SHARED_SIZE_BYTES
        8 => {
            let device = DeviceOrdinal::from_raw(call.context_entry(entry.context)?.device);
            let limit = DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
            let limit = device::value_of(device, limit.as_raw())?;
            if value > limit - entry.details.shared_bytes as i32 {
                return Err(ResultCode::INVALID_VALUE);
            }
            let attribute = FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES;
            call.process()?
                .function_set_attribute(entry.context, function, attribute, value)
        }
        // REQUIRED_CLUSTER_WIDTH to DEPTH, SHARED_MEMORY_MODE: only the default is supported.
        11..=13 | 17 => refuse_if(value != 0, ResultCode::NOT_SUPPORTED),
        _ => {
            let (index, values) = hint_of(attribute)?;
            refuse_if(!values.contains(&value), ResultCode::INVALID_VALUE)?;
            let mut objects = call.process()?.objects.lock();
            let entry = objects.functions.get_mut(&function);
            entry.ok_or(ResultCode::INVALID_HANDLE)?.hints[index] = value;
            Ok(())
        }
    }
}

/// Writes offset and size of a parameter.
pub(crate) fn write_param(
    params: &[Range<usize>],
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Answer {
    let param = params.get(index).ok_or(ResultCode::INVALID_VALUE)?;
    offset.set(param.start)?;
    bytes.set_if_wanted(param.len());
    Ok(())
}

exports! {
    [cuFuncGetAttribute]
    fn attribute(call, value: Out<i32>, attribute: i32, function: Handle) {
        value.check()?;
        let (handle, entry) = resolve(call, function)?;
        value.set(value_of(call, handle, &entry, attribute)?)
    }

    [cuFuncSetAttribute]
    fn set_attribute(call, function: Handle, attribute: i32, value: i32) {
        let (handle, entry) = resolve(call, function)?;
        set_value(call, handle, &entry, attribute, value)
    }

    /// Hints without effect.
    [cuFuncSetCacheConfig, cuFuncSetSharedMemConfig]
    fn set_config(call, function: Handle, config: i32) {
        resolve(call, function)?;
        refuse_if(!(0..=3).contains(&config), ResultCode::INVALID_VALUE)
    }

    /// Without effect: only `cuLaunch`, which is not supported, uses it. PyCUDA calls it always.
    [cuFuncSetBlockShape]
    fn set_block_shape(call, function: Handle, x: i32, y: i32, z: i32) {
        resolve(call, function)?;
        refuse_if([x, y, z].iter().any(|side| *side <= 0), ResultCode::INVALID_VALUE)
    }

    [cuFuncGetModule]
    fn module(call, module: Out<Handle>, function: Handle) {
        module.set(resolve(call, function)?.1.module.as_raw())
    }

    [cuFuncGetName]
    fn name(call, name: Out<*const c_char>, function: Handle) {
        name.check()?;
        let (_, entry) = resolve(call, function)?;
        name.set(call.process()?.objects.lock().name(&entry.details.name))
    }

    [cuFuncGetParamInfo]
    fn param_info(call, function: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        let (_, entry) = resolve(call, function)?;
        write_param(&entry.details.params, index, offset, bytes)
    }

    /// A module is loaded as a whole.
    [cuFuncIsLoaded]
    fn is_loaded(call, state: Out<i32>, function: Handle) {
        const LOADED: i32 = 1;
        call.function_of_module(function)?;
        state.set(LOADED)
    }

    [cuFuncLoad]
    fn load(call, function: Handle) {
        let (handle, entry) = call.function_of_module(function)?;
        call.process()?.function_load(entry.context, handle)
    }
}
