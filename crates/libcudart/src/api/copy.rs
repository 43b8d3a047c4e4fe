//! Copies and fills.

use crate::{
    abi::{Box3, DriverBox3, DriverSide, Extent, Pitched, Ptr, Stream},
    call::{Call, primary},
    codes::{
        Answer, INVALID_COPY_DIRECTION, INVALID_PITCH, INVALID_VALUE, NOT_SUPPORTED, refuse_if,
    },
    driver::cu,
    export::exports,
    registry,
};

/// The values of `cudaMemcpyKind`.
const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;
const ON_DEVICE: i32 = 3;
const DEFAULT: i32 = 4;

fn check_kind(kind: i32) -> Answer {
    refuse_if(!(0..=DEFAULT).contains(&kind), INVALID_COPY_DIRECTION)
}

/// Calls the driver's function of the legacy default stream or that of the calling thread's.
macro_rules! by_stream {
    ($call:ident, $legacy:ident, $per_thread:ident, $($argument:expr),*) => {
        if $call.per_thread {
            cu!($per_thread, $($argument),*)
        } else {
            cu!($legacy, $($argument),*)
        }
    };
}

/// Copies, and waits as the direction demands.
fn copy(call: &Call, to: usize, from: usize, bytes: usize, kind: i32) -> Answer {
    check_kind(kind)?;
    if bytes == 0 {
        return Ok(());
    }
    match kind {
        TO_DEVICE => by_stream!(call, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, to, from, bytes),
        TO_HOST => by_stream!(call, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, to, from, bytes),
        ON_DEVICE => by_stream!(call, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, to, from, bytes),
        _ => by_stream!(call, cuMemcpy, cuMemcpy_ptds, to, from, bytes),
    }
}

/// Enqueues a copy.
fn copy_async(
    call: &Call,
    (to, from, bytes): (usize, usize, usize),
    kind: i32,
    stream: Stream,
) -> Answer {
    check_kind(kind)?;
    let stream = call.stream(stream);
    if bytes == 0 {
        return Ok(());
    }
    match kind {
        TO_DEVICE => cu!(cuMemcpyHtoDAsync_v2, to, from, bytes, stream),
        TO_HOST => cu!(cuMemcpyDtoHAsync_v2, to, from, bytes, stream),
        ON_DEVICE => cu!(cuMemcpyDtoDAsync_v2, to, from, bytes, stream),
        _ => cu!(cuMemcpyAsync, to, from, bytes, stream),
    }
}

/// Returns the address of a part of a variable.
fn of_symbol(symbol: usize, offset: usize, bytes: usize) -> Answer<usize> {
    let (address, size) = registry::variable(symbol)?;
    let end = offset.checked_add(bytes);
    refuse_if(end.is_none_or(|end| end > size), INVALID_VALUE)?;
    Ok(address + offset)
}

/// The values of `CUmemorytype`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

/// Returns one side of a copy for the driver.
fn side(at: Extent, memory: Pitched, is_host: Option<bool>) -> DriverSide {
    let address = memory.address;
    let (memory_type, host, device) = match is_host {
        Some(true) => (HOST, address, 0),
        Some(false) => (DEVICE, 0, address),
        None => (UNIFIED, 0, address),
    };
    let Pitched { pitch, height, .. } = memory;
    DriverSide {
        at,
        memory_type,
        host,
        device,
        pitch,
        height,
        ..DriverSide::default()
    }
}

/// Returns a copy of boxes for the driver. Arrays are not supported.
pub(crate) fn driver_box(copied: &Box3) -> Answer<DriverBox3> {
    check_kind(copied.kind)?;
    let of_array = copied.source_array | copied.target_array != 0;
    refuse_if(of_array, NOT_SUPPORTED)?;
    let (from_host, to_host) = match copied.kind {
        0 => (Some(true), Some(true)),
        TO_DEVICE => (Some(true), Some(false)),
        TO_HOST => (Some(false), Some(true)),
        ON_DEVICE => (Some(false), Some(false)),
        _ => (None, None),
    };
    Ok(DriverBox3 {
        source: side(copied.source_at, copied.source, from_host),
        target: side(copied.target_at, copied.target, to_host),
        extent: copied.extent,
    })
}

/// The box of a copy of rows.
fn rows(
    (target, pitch): (usize, usize),
    source: (usize, usize),
    size: [usize; 2],
    kind: i32,
) -> Box3 {
    let [width, height] = size;
    let pitched = |address, pitch| Pitched {
        address,
        pitch,
        width,
        height,
    };
    Box3 {
        source: pitched(source.0, source.1),
        target: pitched(target, pitch),
        extent: Extent {
            width,
            height,
            depth: 1,
        },
        kind,
        ..Box3::default()
    }
}

/// Copies a box, on a stream unless the call waits.
fn copy_box(call: &Call, copied: &Box3, stream: Option<Stream>) -> Answer {
    let Extent {
        width,
        height,
        depth,
    } = copied.extent;
    let driver = driver_box(copied)?;
    // A row that is wider than its pitch is wrong even if there is only one.
    let is_wide = |side: &Pitched, at: Extent| {
        let end = width.checked_add(at.width);
        end.is_none_or(|end| end > side.pitch && (height > 1 || depth > 1))
    };
    let wide =
        is_wide(&copied.source, copied.source_at) || is_wide(&copied.target, copied.target_at);
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    refuse_if(wide, INVALID_PITCH)?;
    match stream {
        Some(stream) => cu!(cuMemcpy3DAsync_v2, &driver, call.stream(stream)),
        None => by_stream!(call, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, &driver),
    }
}

/// Fills rows of bytes, on a stream unless the call waits.
fn fill(
    call: &Call,
    (address, pitch): (usize, usize),
    value: i32,
    [width, height, depth]: [usize; 3],
    stream: Option<Stream>,
) -> Answer {
    let rows = height.checked_mul(depth).ok_or(INVALID_VALUE)?;
    if width == 0 || rows == 0 {
        return Ok(());
    }
    let value = value as u8;
    match stream {
        Some(stream) if rows == 1 => {
            cu!(cuMemsetD8Async, address, value, width, call.stream(stream))
        }
        Some(stream) => {
            let stream = call.stream(stream);
            cu!(
                cuMemsetD2D8Async,
                address,
                pitch,
                value,
                width,
                rows,
                stream
            )
        }
        None if rows == 1 => {
            by_stream!(
                call,
                cuMemsetD8_v2,
                cuMemsetD8_v2_ptds,
                address,
                value,
                width
            )
        }
        None => {
            by_stream!(
                call,
                cuMemsetD2D8_v2,
                cuMemsetD2D8_v2_ptds,
                address,
                pitch,
                value,
                width,
                rows
            )
        }
    }
}

/// Fills a box, slice by slice unless its slices follow each other.
fn fill_box(
    call: &Call,
    memory: Pitched,
    value: i32,
    extent: Extent,
    stream: Option<Stream>,
) -> Answer {
    let Extent {
        width,
        height,
        depth,
    } = extent;
    refuse_if(width > memory.pitch && height * depth > 1, INVALID_VALUE)?;
    if height == memory.height || depth <= 1 {
        return fill(
            call,
            (memory.address, memory.pitch),
            value,
            [width, height, depth],
            stream,
        );
    }
    let slice = memory
        .pitch
        .checked_mul(memory.height)
        .ok_or(INVALID_VALUE)?;
    (0..depth).try_for_each(|index| {
        let address = memory.address + index * slice;
        fill(
            call,
            (address, memory.pitch),
            value,
            [width, height, 1],
            stream,
        )
    })
}

/// `cudaMemcpy3DPeerParms`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PeerBox3 {
    source_array: usize,
    source_at: Extent,
    source: Pitched,
    source_device: i32,
    target_array: usize,
    target_at: Extent,
    target: Pitched,
    target_device: i32,
    extent: Extent,
}

fn peer_box(copied: &PeerBox3) -> Answer<DriverBox3> {
    let mut driver = driver_box(&Box3 {
        source_array: copied.source_array,
        source_at: copied.source_at,
        source: copied.source,
        target_array: copied.target_array,
        target_at: copied.target_at,
        target: copied.target,
        extent: copied.extent,
        kind: ON_DEVICE,
    })?;
    driver.source.context = primary(copied.source_device)?;
    driver.target.context = primary(copied.target_device)?;
    Ok(driver)
}

exports! {
    Context [cudaMemcpy, cudaMemcpy_ptds per_thread]
    (call, to: usize, from: usize, bytes: usize, kind: i32) {
        copy(call, to, from, bytes, kind)
    }

    Context [cudaMemcpyAsync, cudaMemcpyAsync_ptsz per_thread]
    (call, to: usize, from: usize, bytes: usize, kind: i32, stream: Stream) {
        copy_async(call, (to, from, bytes), kind, stream)
    }

    Context [cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds per_thread]
    (call, symbol: usize, from: usize, bytes: usize, offset: usize, kind: i32) {
        refuse_if(kind == TO_HOST || kind == 0, INVALID_COPY_DIRECTION)?;
        copy(call, of_symbol(symbol, offset, bytes)?, from, bytes, kind)
    }

    Context [cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds per_thread]
    (call, to: usize, symbol: usize, bytes: usize, offset: usize, kind: i32) {
        refuse_if(kind == TO_DEVICE || kind == 0, INVALID_COPY_DIRECTION)?;
        copy(call, to, of_symbol(symbol, offset, bytes)?, bytes, kind)
    }

    Context [cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz per_thread]
    (call, symbol: usize, from: usize, bytes: usize, offset: usize, kind: i32, stream: Stream) {
        refuse_if(kind == TO_HOST || kind == 0, INVALID_COPY_DIRECTION)?;
        copy_async(call, (of_symbol(symbol, offset, bytes)?, from, bytes), kind, stream)
    }

    Context [cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz per_thread]
    (call, to: usize, symbol: usize, bytes: usize, offset: usize, kind: i32, stream: Stream) {
        refuse_if(kind == TO_DEVICE || kind == 0, INVALID_COPY_DIRECTION)?;
        copy_async(call, (to, of_symbol(symbol, offset, bytes)?, bytes), kind, stream)
    }

    Context [cudaMemcpy2D, cudaMemcpy2D_ptds per_thread]
    (call, to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize,
     height: usize, kind: i32) {
        copy_box(call, &rows((to, to_pitch), (from, from_pitch), [width, height], kind), None)
    }

    Context [cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz per_thread]
    (call, to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize,
     height: usize, kind: i32, stream: Stream) {
        let copied = rows((to, to_pitch), (from, from_pitch), [width, height], kind);
        copy_box(call, &copied, Some(stream))
    }

    Context [cudaMemcpy3D, cudaMemcpy3D_ptds per_thread] (call, copied: Ptr<Box3>) {
        copy_box(call, &copied.get()?, None)
    }

    Context [cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz per_thread]
    (call, copied: Ptr<Box3>, stream: Stream) {
        copy_box(call, &copied.get()?, Some(stream))
    }

    Context [cudaMemcpy3DPeer, cudaMemcpy3DPeer_ptds per_thread] (call, copied: Ptr<PeerBox3>) {
        let driver = peer_box(&copied.get()?)?;
        by_stream!(call, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, &driver)
    }

    Context [cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz per_thread]
    (call, copied: Ptr<PeerBox3>, stream: Stream) {
        cu!(cuMemcpy3DPeerAsync, &peer_box(&copied.get()?)?, call.stream(stream))
    }

    Context [cudaMemcpyPeer]
    (_call, to: usize, to_device: i32, from: usize, from_device: i32, bytes: usize) {
        cu!(cuMemcpyPeer, to, primary(to_device)?, from, primary(from_device)?, bytes)
    }

    Context [cudaMemcpyPeerAsync]
    (call, to: usize, to_device: i32, from: usize, from_device: i32, bytes: usize,
     stream: Stream) {
        let (into, of) = (primary(to_device)?, primary(from_device)?);
        cu!(cuMemcpyPeerAsync, to, into, from, of, bytes, call.stream(stream))
    }

    Context [cudaMemset, cudaMemset_ptds per_thread]
    (call, address: usize, value: i32, bytes: usize) {
        fill(call, (address, 0), value, [bytes, 1, 1], None)
    }

    Context [cudaMemsetAsync, cudaMemsetAsync_ptsz per_thread]
    (call, address: usize, value: i32, bytes: usize, stream: Stream) {
        fill(call, (address, 0), value, [bytes, 1, 1], Some(stream))
    }

    Context [cudaMemset2D, cudaMemset2D_ptds per_thread]
    (call, address: usize, pitch: usize, value: i32, width: usize, height: usize) {
        fill(call, (address, pitch), value, [width, height, 1], None)
    }

    Context [cudaMemset2DAsync, cudaMemset2DAsync_ptsz per_thread]
    (call, address: usize, pitch: usize, value: i32, width: usize, height: usize,
     stream: Stream) {
        fill(call, (address, pitch), value, [width, height, 1], Some(stream))
    }

    Context [cudaMemset3D, cudaMemset3D_ptds per_thread]
    (call, memory: Pitched, value: i32, extent: Extent) {
        fill_box(call, memory, value, extent, None)
    }

    Context [cudaMemset3DAsync, cudaMemset3DAsync_ptsz per_thread]
    (call, memory: Pitched, value: i32, extent: Extent, stream: Stream) {
        fill_box(call, memory, value, extent, Some(stream))
    }
}
