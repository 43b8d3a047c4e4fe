//! Waits of streams for values in memory, and writes of values.
//!
//! They are kernels of one thread: one that polls the value, and one that writes it behind a fence.
//! So they order streams as kernels that poll do, a wait that nothing can end fails at once, and a
//! capture makes them nodes of its graph, with the kind of a kernel.

use std::ffi::c_void;

use millstream_driver::{CaptureMode, ContextHandle, FunctionHandle, LaunchDims, ResultCode};

use crate::{
    abi::{Address, Handle, In},
    api::pointer::allocation,
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

const PTX: &str = include_str!("stream_values.ptx");

const KERNELS: [&str; 6] = [
    "cuStreamWaitValue32",
    "cuStreamWaitValue64",
    "cuStreamWriteValue32",
    "cuStreamWriteValue64",
    "cuStreamWriteValue32_NO_MEMORY_BARRIER",
    "cuStreamWriteValue64_NO_MEMORY_BARRIER",
];

/// `CU_STREAM_MEM_OP_WAIT_VALUE_32` and the other kinds of operations of a batch.
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const FLUSH: u32 = 3;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;
const BARRIER: u32 = 6;
/// The maximum number of operations of a batch.
const BATCH_MAX: u32 = 256;

/// `CU_STREAM_WAIT_VALUE_FLUSH`: there are no remote writes to flush.
const WAIT_FLUSH: u32 = 1 << 30;
/// `CU_STREAM_WAIT_VALUE_NOR`, the last condition.
const LAST_CONDITION: u32 = 3;
/// `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`
const NO_BARRIER: u32 = 1;

/// `CUstreamBatchMemOpParams`, a union of 48 bytes: the kind, with the flags of a barrier in the
/// upper half; the address, the value, the flags in the lower half; and two without use here.
type Operation = [u64; 6];

/// Returns the kernel of an operation, after checking its operands. A barrier needs none, since the
/// operations of a stream are in order.
fn checked(
    call: &Call,
    &[kind, address, _, flags, ..]: &Operation,
) -> Answer<Option<&'static str>> {
    let (kernel, bytes) = match (kind as u32, flags as u32) {
        (BARRIER, _) if kind >> 32 <= 1 => return Ok(None),
        (FLUSH, _) => return Err(ResultCode::NOT_SUPPORTED),
        (WAIT_32 | WAIT_64, flags) if flags & WAIT_FLUSH != 0 => {
            return Err(ResultCode::NOT_SUPPORTED);
        }
        (WAIT_32, ..=LAST_CONDITION) => (KERNELS[0], 4),
        (WAIT_64, ..=LAST_CONDITION) => (KERNELS[1], 8),
        (WRITE_32, 0) => (KERNELS[2], 4),
        (WRITE_64, 0) => (KERNELS[3], 8),
        (WRITE_32, NO_BARRIER) => (KERNELS[4], 4),
        (WRITE_64, NO_BARRIER) => (KERNELS[5], 8),
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    let found = allocation(call, address)?.ok_or(ResultCode::INVALID_VALUE)?;
    let left = found.base.as_raw() + found.bytes - address;
    let wrong = !address.is_multiple_of(bytes) || left < bytes;
    refuse_if(wrong, ResultCode::INVALID_VALUE)?;
    Ok(Some(kernel))
}

/// Returns a kernel in a context, which loads the module at its first use.
fn kernel(call: &Call, context: ContextHandle, name: &'static str) -> Answer<FunctionHandle> {
    let process = call.process()?;
    let known = |name| {
        let objects = process.objects.lock();
        objects.value_kernels.get(&(context, name)).copied()
    };
    if let Some(known) = known(name) {
        return Ok(known);
    }
    // A capture forbids to load a module, but not this call.
    let mode = process.exchange_capture_mode(CaptureMode::Relaxed);
    let loaded = process.module_load(context, PTX.as_bytes());
    process.exchange_capture_mode(mode);
    let module = loaded.map_err(|error| error.code())?;
    for name in KERNELS {
        let function = process.module_function(context, module, name)?;
        let mut objects = process.objects.lock();
        objects.value_kernels.insert((context, name), function);
    }
    known(name).ok_or(ResultCode::NOT_FOUND)
}

/// Enqueues operations, all or none.
fn enqueue(call: &Call, stream: Handle, operations: &[Operation]) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let kernels = operations.iter().map(|operation| checked(call, operation));
    let kernels: Answer<Vec<_>> = kernels.collect();
    let dims = LaunchDims {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
    };
    for ([_, address, value, flags, ..], name) in operations.iter().zip(kernels?) {
        let Some(name) = name else { continue };
        // Little-endian: a value of 4 bytes begins at the same address.
        let arguments = [address, value, flags].map(|word| (&raw const *word).cast::<c_void>());
        let function = kernel(call, context, name)?;
        let process = call.process()?;
        process.launch_kernel(context, function, &dims, stream, &arguments)?;
    }
    Ok(())
}

fn one(call: &Call, stream: Handle, kind: u32, address: Address, value: u64, flags: u32) -> Answer {
    // Only the first version of a write can be without a barrier.
    let is_first = !call.name.contains("_v2");
    let unordered = matches!(kind, WRITE_32 | WRITE_64) && flags == NO_BARRIER;
    refuse_if(unordered && !is_first, ResultCode::INVALID_VALUE)?;
    let operation = [kind.into(), address, value, flags.into(), 0, 0];
    enqueue(call, stream, &[operation])
}

exports! {
    [cuStreamWaitValue32, cuStreamWaitValue32_v2, cuStreamWaitValue32_ptsz per_thread,
     cuStreamWaitValue32_v2_ptsz per_thread]
    fn _(call, stream: Handle, address: Address, value: u32, flags: u32) {
        one(call, stream, WAIT_32, address, value.into(), flags)
    }

    [cuStreamWaitValue64, cuStreamWaitValue64_v2, cuStreamWaitValue64_ptsz per_thread,
     cuStreamWaitValue64_v2_ptsz per_thread]
    fn _(call, stream: Handle, address: Address, value: u64, flags: u32) {
        one(call, stream, WAIT_64, address, value, flags)
    }

    [cuStreamWriteValue32, cuStreamWriteValue32_v2, cuStreamWriteValue32_ptsz per_thread,
     cuStreamWriteValue32_v2_ptsz per_thread]
    fn _(call, stream: Handle, address: Address, value: u32, flags: u32) {
        one(call, stream, WRITE_32, address, value.into(), flags)
    }

    [cuStreamWriteValue64, cuStreamWriteValue64_v2, cuStreamWriteValue64_ptsz per_thread,
     cuStreamWriteValue64_v2_ptsz per_thread]
    fn _(call, stream: Handle, address: Address, value: u64, flags: u32) {
        one(call, stream, WRITE_64, address, value, flags)
    }

    [cuStreamBatchMemOp, cuStreamBatchMemOp_v2, cuStreamBatchMemOp_ptsz per_thread,
     cuStreamBatchMemOp_v2_ptsz per_thread]
    fn _(call, stream: Handle, count: u32, operations: In<Operation>, flags: u32) {
        refuse_if(count > BATCH_MAX || flags != 0, ResultCode::INVALID_VALUE)?;
        enqueue(call, stream, &operations.all(count as usize)?)
    }
}
