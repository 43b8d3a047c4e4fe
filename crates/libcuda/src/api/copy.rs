//! Copies of bytes and of rows, synchronous and asynchronous.

use millstream_driver::{Copy2d, DevicePtr, Memory2d, ResultCode, Side2d, StreamHandle};

use crate::{
    abi::{Address, Copy2dFields, Handle, In, Out, Side2dFields},
    api::{copy_3d, pointer::allocation},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

/// Returns device memory as an operand.
fn device(pointer: Address) -> Memory2d {
    Memory2d::Device(DevicePtr::from_raw(pointer))
}

/// Returns an address of the unified address space as an operand. An address that belongs to no
/// allocation is pageable host memory, unless no host memory can be there.
fn unified(call: &Call, pointer: Address) -> Answer<Memory2d> {
    /// The first address that no host memory has.
    const HOST_END: Address = 1 << 47;
    if pointer >= HOST_END || allocation(call, pointer)?.is_some() {
        return Ok(device(pointer));
    }
    let host = std::ptr::with_exposed_provenance_mut(pointer as usize);
    Ok(Memory2d::Host(host))
}

/// Copies on the default stream and blocks as the direction requires.
fn copy(call: &Call, target: Memory2d, source: Memory2d, bytes: usize) -> Answer {
    let context = call.context()?;
    let stream = call.default_stream;
    call.process()?
        .copy_synchronous(context, target, source, bytes, stream)
}

fn copy_async(
    call: &Call,
    target: Memory2d,
    source: Memory2d,
    bytes: usize,
    stream: Handle,
) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let process = call.process()?;
    match (target, source) {
        (Memory2d::Device(target), Memory2d::Device(source)) => {
            process.copy_device_to_device_async(context, target, source, bytes, stream)
        }
        (Memory2d::Device(target), Memory2d::Host(source)) => {
            process.copy_host_to_device_async(context, target, source, bytes, stream)
        }
        (Memory2d::Host(target), Memory2d::Device(source)) => {
            process.copy_device_to_host_async(context, target, source, bytes, stream)
        }
        // The form between two host addresses is synchronous in either case (rule 11).
        (Memory2d::Host(_), Memory2d::Host(_)) => {
            process.copy_synchronous(context, target, source, bytes, stream)
        }
    }
}

/// `CUmemcpyAttributes`: an order of access, two hints of locations, and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAttributeFields {
    access_order: i32,
    _location_hints: [i32; 4],
    flags: u32,
}

const _: () = assert!(size_of::<CopyAttributeFields>() == 24);

/// The copies of a batch: their operands, and the attributes with the first copy of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) targets: In<Address>,
    pub(crate) sources: In<Address>,
    pub(crate) sizes: In<usize>,
    pub(crate) count: usize,
    pub(crate) attributes: In<CopyAttributeFields>,
    pub(crate) starts: In<usize>,
    pub(crate) attributes_count: usize,
}

impl Batch {
    /// Checks the attributes, which are hints on the simulated device: pageable sources are read
    /// within the call, others in the order of the stream, and every order of access allows that.
    fn check(&self) -> Answer {
        refuse_if(
            self.attributes_count > self.count,
            ResultCode::INVALID_VALUE,
        )?;
        let starts = self.starts.all(self.attributes_count)?;
        let rising = starts.first() == Some(&0) && starts.is_sorted_by(|one, next| one < next);
        if !rising || starts.last().is_none_or(|last| *last >= self.count) {
            return Err(ResultCode::INVALID_VALUE);
        }
        let attributes = self.attributes.all(self.attributes_count)?;
        let valid = |it: &CopyAttributeFields| (1..=3).contains(&it.access_order) && it.flags <= 1;
        refuse_if(!attributes.iter().all(valid), ResultCode::INVALID_VALUE)
    }
}

/// `cuMemcpyBatchAsync`. The copies run in their order, as CUDA allows them to. `failed` receives
/// the index of a copy that fails.
pub(crate) fn batch(call: &Call, batch: &Batch, failed: Out<usize>, stream: Handle) -> Answer {
    failed.set_if_wanted(usize::MAX);
    let (_, resolved) = call.stream(stream)?;
    refuse_if(resolved == StreamHandle::LEGACY, ResultCode::INVALID_VALUE)?;
    batch.check()?;
    for index in 0..batch.count {
        let enqueued = any_async(
            call,
            batch.targets.at(index)?,
            batch.sources.at(index)?,
            batch.sizes.at(index)?,
            stream,
        );
        if enqueued.is_err() {
            failed.set_if_wanted(index);
            return enqueued;
        }
    }
    Ok(())
}

/// Returns the memory of one side of a copy of rows, `offset` bytes behind its address. Arrays are
/// not supported.
pub(crate) fn memory_at(
    call: &Call,
    memory_type: u32,
    host: *mut u8,
    address: Address,
    offset: usize,
) -> Answer<Memory2d> {
    let address = address.wrapping_add(offset as u64);
    match memory_type {
        1 if host.is_null() => Err(ResultCode::INVALID_VALUE),
        1 => Ok(Memory2d::Host(host.wrapping_add(offset))),
        2 => Ok(device(address)),
        3 => Err(ResultCode::NOT_SUPPORTED),
        4 => unified(call, address),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

fn side(call: &Call, fields: &Side2dFields, copy: &Copy2dFields) -> Answer<Side2d> {
    let pitch_bytes = if fields.pitch == 0 {
        copy.width_bytes
    } else {
        fields.pitch
    };
    let offset = fields.y.checked_mul(pitch_bytes);
    let offset = offset.and_then(|rows| rows.checked_add(fields.x_bytes));
    let offset = offset.ok_or(ResultCode::INVALID_VALUE)?;
    let Side2dFields {
        memory_type,
        host,
        device,
        ..
    } = *fields;
    Ok(Side2d {
        memory: memory_at(call, memory_type, host, device, offset)?,
        pitch_bytes,
    })
}

fn rows(call: &Call, copy: In<Copy2dFields>) -> Answer<Copy2d> {
    let fields = copy.get()?;
    Ok(Copy2d {
        source: side(call, &fields.source, &fields)?,
        target: side(call, &fields.target, &fields)?,
        width_bytes: fields.width_bytes,
        height: fields.height,
    })
}

/// Copies between two contexts, behind all work of these and of the current one, and in front of
/// the work that is enqueued later, with which CUDA serialises such a copy.
pub(crate) fn serialised(
    call: &Call,
    contexts: [Handle; 2],
    copy: impl FnOnce() -> Answer,
) -> Answer {
    let (current, process) = (call.context()?, call.process()?);
    let [one, other] = contexts.map(|handle| call.context_of_handle(handle));
    for context in [one?, other?, current] {
        process.context_synchronize(context)?;
    }
    copy()?;
    process.context_synchronize(current)
}

exports! {
    [cuMemcpy, cuMemcpy_ptds per_thread]
    fn any(call, target: Address, source: Address, bytes: usize) {
        let (target, source) = (unified(call, target)?, unified(call, source)?);
        copy(call, target, source, bytes)
    }

    [cuMemcpyAsync, cuMemcpyAsync_ptsz per_thread]
    fn any_async(call, target: Address, source: Address, bytes: usize, stream: Handle) {
        let (target, source) = (unified(call, target)?, unified(call, source)?);
        copy_async(call, target, source, bytes, stream)
    }

    [cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds per_thread]
    fn host_to_device(call, target: Address, source: *mut u8, bytes: usize) {
        copy(call, device(target), Memory2d::Host(source), bytes)
    }

    [cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz per_thread]
    fn host_to_device_async(call, target: Address, source: *mut u8, bytes: usize, stream: Handle) {
        copy_async(call, device(target), Memory2d::Host(source), bytes, stream)
    }

    [cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds per_thread]
    fn device_to_host(call, target: *mut u8, source: Address, bytes: usize) {
        copy(call, Memory2d::Host(target), device(source), bytes)
    }

    [cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz per_thread]
    fn device_to_host_async(call, target: *mut u8, source: Address, bytes: usize, stream: Handle) {
        copy_async(call, Memory2d::Host(target), device(source), bytes, stream)
    }

    [cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds per_thread]
    fn device_to_device(call, target: Address, source: Address, bytes: usize) {
        copy(call, device(target), device(source), bytes)
    }

    [cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz per_thread]
    fn device_to_device_async(
        call, target: Address, source: Address, bytes: usize, stream: Handle
    ) {
        copy_async(call, device(target), device(source), bytes, stream)
    }

    [cuMemcpyPeer, cuMemcpyPeer_ptds per_thread]
    fn peer(
        call, target: Address, target_context: Handle, source: Address, source_context: Handle,
        bytes: usize
    ) {
        let contexts = [target_context, source_context];
        serialised(call, contexts, || device_to_device(call, target, source, bytes))
    }

    [cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz per_thread]
    fn peer_async(
        call, target: Address, target_context: Handle, source: Address, source_context: Handle,
        bytes: usize, stream: Handle
    ) {
        call.context_of_handle(target_context)?;
        call.context_of_handle(source_context)?;
        device_to_device_async(call, target, source, bytes, stream)
    }

    [
        cuMemcpy2D_v2,
        cuMemcpy2D_v2_ptds per_thread,
        cuMemcpy2DUnaligned_v2,
        cuMemcpy2DUnaligned_v2_ptds per_thread
    ]
    fn of_rows(call, copy: In<Copy2dFields>) {
        let context = call.context()?;
        if let Some(fields) = copy_3d::of_array(&copy.get()?) {
            return copy_3d::copy(call, &fields, (context, call.default_stream), false);
        }
        let copy = rows(call, copy)?;
        call.process()?
            .copy_2d_synchronous(context, &copy, call.default_stream)
    }

    [cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz per_thread]
    fn of_rows_async(call, copy: In<Copy2dFields>, stream: Handle) {
        let (context, stream) = call.stream(stream)?;
        if let Some(fields) = copy_3d::of_array(&copy.get()?) {
            return copy_3d::copy(call, &fields, (context, stream), true);
        }
        let copy = rows(call, copy)?;
        call.process()?.copy_2d_async(context, &copy, stream)
    }

    [cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz per_thread]
    fn _(
        call, targets: In<Address>, sources: In<Address>, sizes: In<usize>, count: usize,
        attributes: In<CopyAttributeFields>, starts: In<usize>, attributes_count: usize,
        failed: Out<usize>, stream: Handle
    ) {
        let batch =
            Batch { targets, sources, sizes, count, attributes, starts, attributes_count };
        self::batch(call, &batch, failed, stream)
    }

    [cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz per_thread]
    fn _(
        call, targets: In<Address>, sources: In<Address>, sizes: In<usize>, count: usize,
        attributes: In<CopyAttributeFields>, starts: In<usize>, attributes_count: usize,
        stream: Handle
    ) {
        let batch =
            Batch { targets, sources, sizes, count, attributes, starts, attributes_count };
        self::batch(call, &batch, Out::null(), stream)
    }
}
