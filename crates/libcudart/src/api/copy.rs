//! Copies and fills. Those without a stream wait as their direction demands.

use crate::{
    abi::{Box3, DriverBox3, DriverSide, Extent, PeerBox3, Pitched, Ptr, Stream},
    api::image,
    call::{Call, primary},
    codes::{Answer, INVALID_COPY_DIRECTION, INVALID_PITCH, INVALID_VALUE, refuse_if},
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

/// Calls the driver's function for a stream, for the legacy default stream, or for that of the
/// calling thread.
macro_rules! by_stream {
    ($call:ident, $stream:ident, [$on:ident $legacy:ident $own:ident] $($argument:expr),*) => {
        match $stream {
            Some(stream) => cu!($on, $($argument,)* $call.stream(stream)),
            None if $call.per_thread => cu!($own, $($argument),*),
            None => cu!($legacy, $($argument),*),
        }
    };
}

fn copy(
    call: &Call,
    (to, from, bytes): (usize, usize, usize),
    kind: i32,
    stream: Option<Stream>,
) -> Answer {
    check_kind(kind)?;
    if bytes == 0 {
        return Ok(());
    }
    #[rustfmt::skip]
    return match kind {
        TO_DEVICE => by_stream!(call, stream,
            [cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds] to, from, bytes),
        TO_HOST => by_stream!(call, stream,
            [cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds] to, from, bytes),
        ON_DEVICE => by_stream!(call, stream,
            [cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoD_v2_ptds] to, from, bytes),
        _ => by_stream!(call, stream, [cuMemcpyAsync cuMemcpy cuMemcpy_ptds] to, from, bytes),
    };
}

/// Returns the address of a part of a variable, for a copy in a direction.
pub(crate) fn of_symbol(
    (symbol, offset, bytes): (usize, usize, usize),
    kind: i32,
    from_symbol: bool,
) -> Answer<usize> {
    let wrong = if from_symbol { TO_DEVICE } else { TO_HOST };
    refuse_if(kind == wrong || kind == 0, INVALID_COPY_DIRECTION)?;
    let (address, size) = registry::variable(symbol)?;
    let end = offset.checked_add(bytes);
    refuse_if(end.is_none_or(|end| end > size), INVALID_VALUE)?;
    Ok(address + offset)
}

/// The value of `CUmemorytype` for arrays.
pub(crate) const ARRAY: u32 = 3;

/// Returns the values of `CUmemorytype` for the source and the target: of the host, of a device, or
/// found by the address.
pub(crate) fn memory_types(kind: i32) -> Answer<(u32, u32)> {
    check_kind(kind)?;
    Ok(match kind {
        0 => (1, 1),
        TO_DEVICE => (1, 2),
        TO_HOST => (2, 1),
        ON_DEVICE => (2, 2),
        _ => (4, 4),
    })
}

/// Returns a copy of boxes for the driver. Positions in arrays, and the width of a copy of an
/// array, count elements.
pub(crate) fn driver_box(copied: &Box3) -> Answer<DriverBox3> {
    let (from, to) = memory_types(copied.kind)?;
    let side = |mut at: Extent, memory: Pitched, memory_type: u32, array: usize| {
        let mut extent = copied.extent;
        if array != 0 {
            let bytes = image::element_bytes(array)?;
            at.width = at.width.checked_mul(bytes).ok_or(INVALID_VALUE)?;
            extent.width = extent.width.checked_mul(bytes).ok_or(INVALID_VALUE)?;
        }
        let side = DriverSide {
            at,
            memory_type: if array == 0 { memory_type } else { ARRAY },
            host: if memory_type == 1 { memory.address } else { 0 },
            device: if memory_type == 1 { 0 } else { memory.address },
            array,
            pitch: memory.pitch,
            height: memory.height,
            ..DriverSide::default()
        };
        Ok::<_, i32>((side, extent))
    };
    let (source, extent) = side(copied.source_at, copied.source, from, copied.source_array)?;
    let (target, other) = side(copied.target_at, copied.target, to, copied.target_array)?;
    let extent = if copied.target_array == 0 {
        extent
    } else {
        other
    };
    Ok(DriverBox3 {
        source,
        target,
        extent,
    })
}

/// Enqueues a copy of a box that has bytes, of rows that fit in their pitches.
pub(crate) fn enqueue_box(call: &Call, driver: &DriverBox3, stream: Option<Stream>) -> Answer {
    let Extent {
        width,
        height,
        depth,
    } = driver.extent;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let is_wide = |side: &DriverSide| {
        let end = width.checked_add(side.at.width);
        let wide = end.is_none_or(|end| end > side.pitch && (height > 1 || depth > 1));
        wide && side.memory_type != ARRAY
    };
    refuse_if(
        is_wide(&driver.source) || is_wide(&driver.target),
        INVALID_PITCH,
    )?;
    by_stream!(call, stream, [cuMemcpy3DAsync_v2 cuMemcpy3D_v2 cuMemcpy3D_v2_ptds] driver)
}

/// Returns the box of a copy of rows, from and to an address with a pitch.
pub(crate) fn rows(
    (to, to_pitch): (usize, usize),
    (from, from_pitch): (usize, usize),
    (width, height): (usize, usize),
    kind: i32,
) -> Box3 {
    let pitched = |address, pitch| Pitched {
        address,
        pitch,
        width,
        height,
    };
    let (source, target) = (pitched(from, from_pitch), pitched(to, to_pitch));
    let extent = Extent {
        width,
        height,
        depth: 1,
    };
    Box3 {
        source,
        target,
        extent,
        kind,
        ..Box3::default()
    }
}

fn copy_box(call: &Call, copied: &Box3, stream: Option<Stream>) -> Answer {
    enqueue_box(call, &driver_box(copied)?, stream)
}

/// Fills rows of bytes.
fn fill(
    call: &Call,
    (address, pitch): (usize, usize),
    value: i32,
    (width, rows): (usize, usize),
    stream: Option<Stream>,
) -> Answer {
    let value = value as u8;
    match rows {
        _ if width == 0 || rows == 0 => Ok(()),
        1 => by_stream!(call, stream,
            [cuMemsetD8Async cuMemsetD8_v2 cuMemsetD8_v2_ptds] address, value, width),
        _ => by_stream!(call, stream,
            [cuMemsetD2D8Async cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds]
            address, pitch, value, width, rows),
    }
}

/// Fills a box, slice by slice.
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
    if width == 0 || height == 0 {
        return Ok(());
    }
    refuse_if(width > memory.pitch && height > 1, INVALID_VALUE)?;
    let slice = memory
        .pitch
        .checked_mul(memory.height)
        .ok_or(INVALID_VALUE)?;
    (0..depth).try_for_each(|index| {
        let address = memory.address.wrapping_add(index.wrapping_mul(slice));
        fill(
            call,
            (address, memory.pitch),
            value,
            (width, height),
            stream,
        )
    })
}

fn copy_peer_box(call: &Call, copied: &PeerBox3, stream: Option<Stream>) -> Answer {
    let kind = ON_DEVICE;
    let &PeerBox3 {
        source_array,
        source_at,
        source,
        target_array,
        target_at,
        ..
    } = copied;
    let (target, extent) = (copied.target, copied.extent);
    let mut driver = driver_box(&Box3 {
        source_array,
        source_at,
        source,
        target_array,
        target_at,
        target,
        extent,
        kind,
    })?;
    driver.source.context = primary(copied.source_device)?;
    driver.target.context = primary(copied.target_device)?;
    by_stream!(call, stream, [cuMemcpy3DPeerAsync cuMemcpy3DPeer cuMemcpy3DPeer_ptds] &driver)
}

include!("../tables/copies.txt");
