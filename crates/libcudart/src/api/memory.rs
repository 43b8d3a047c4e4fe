//! Memory: allocations, pitched ones, pools, and the attributes of addresses.

use crate::{
    abi::{Extent, Pitched, Ptr, Stream},
    call::Call,
    codes::{Answer, INVALID_VALUE},
    driver::cu,
    export::exports,
    registry, version,
};

/// Allocates with a pitch. An empty allocation is null.
fn allocate_pitched(address: Ptr<usize>, pitch: Ptr<usize>, width: usize, rows: usize) -> Answer {
    address.check()?;
    pitch.check()?;
    if width == 0 || rows == 0 {
        pitch.set(0)?;
        return address.set(0);
    }
    /// The size of an element for which the driver chooses the pitch.
    const ELEMENT_BYTES: u32 = 4;
    cu!(
        cuMemAllocPitch_v2,
        address,
        pitch,
        width,
        rows,
        ELEMENT_BYTES
    )
}

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, and the attributes after it in `cuda.h`.
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;

/// `cudaPointerAttributes`, without the reserved words of CUDA 13.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PointerAttributes {
    /// Not registered, of the host, of a device, or managed.
    kind: i32,
    device: i32,
    device_pointer: usize,
    host_pointer: usize,
}

/// `cudaInvalidDeviceId`
const NO_DEVICE: i32 = -2;
const MANAGED: i32 = 3;

fn attributes_of(address: usize) -> Answer<PointerAttributes> {
    let mut found = PointerAttributes {
        kind: 0,
        device: NO_DEVICE,
        device_pointer: 0,
        host_pointer: address,
    };
    let known = cu!(cuPointerGetAttribute, &mut found.kind, MEMORY_TYPE, address);
    match known {
        Err(INVALID_VALUE) => return Ok(found),
        other => other?,
    }
    let mut is_managed = 0_u8;
    let _ = cu!(cuPointerGetAttribute, &mut is_managed, IS_MANAGED, address);
    if is_managed != 0 {
        found.kind = MANAGED;
    }
    found.host_pointer = 0;
    cu!(
        cuPointerGetAttribute,
        &mut found.device,
        DEVICE_ORDINAL,
        address
    )?;
    // Memory of a device has no address on the host.
    let _ = cu!(
        cuPointerGetAttribute,
        &mut found.device_pointer,
        DEVICE_POINTER,
        address
    );
    let _ = cu!(
        cuPointerGetAttribute,
        &mut found.host_pointer,
        HOST_POINTER,
        address
    );
    Ok(found)
}

/// Frees unless the address is null.
fn free_if_any(address: usize, free: impl FnOnce() -> Answer) -> Answer {
    if address == 0 { Ok(()) } else { free() }
}

/// Writes null for an empty allocation.
fn allocate(address: Ptr<usize>, bytes: usize, allocate: impl FnOnce() -> Answer) -> Answer {
    address.check()?;
    if bytes == 0 {
        address.set(0)
    } else {
        allocate()
    }
}

fn advise(address: usize, bytes: usize, advice: u32, place: usize) -> Answer {
    match version::major() {
        12 => cu!(cuMemAdvise, address, bytes, advice, place),
        _ => cu!(cuMemAdvise_v2, address, bytes, advice, place),
    }
}

fn prefetch(
    call: &Call,
    (address, bytes): (usize, usize),
    place: usize,
    flags: usize,
    stream: Stream,
) -> Answer {
    cu!(
        cuMemPrefetchAsync_v2,
        address,
        bytes,
        place,
        flags,
        call.stream(stream)
    )
}

exports! {
    Context [cudaMalloc] (_call, address: Ptr<usize>, bytes: usize) {
        allocate(address, bytes, || cu!(cuMemAlloc_v2, address, bytes))
    }

    Context [cudaFree] (_call, address: usize) {
        free_if_any(address, || cu!(cuMemFree_v2, address))
    }

    Context [cudaMallocHost] (_call, address: Ptr<usize>, bytes: usize) {
        allocate(address, bytes, || cu!(cuMemHostAlloc, address, bytes, 0))
    }

    Context [cudaHostAlloc] (_call, address: Ptr<usize>, bytes: usize, flags: u32) {
        allocate(address, bytes, || cu!(cuMemHostAlloc, address, bytes, flags))
    }

    Context [cudaFreeHost] (_call, address: usize) {
        free_if_any(address, || cu!(cuMemFreeHost, address))
    }

    Context [cudaMallocAsync, cudaMallocAsync_ptsz per_thread]
    (call, address: Ptr<usize>, bytes: usize, stream: Stream) {
        allocate(address, bytes, || cu!(cuMemAllocAsync, address, bytes, call.stream(stream)))
    }

    Context [cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz per_thread]
    (call, address: Ptr<usize>, bytes: usize, pool: usize, stream: Stream) {
        let stream = call.stream(stream);
        allocate(address, bytes, || cu!(cuMemAllocFromPoolAsync, address, bytes, pool, stream))
    }

    Context [cudaFreeAsync, cudaFreeAsync_ptsz per_thread]
    (call, address: usize, stream: Stream) {
        free_if_any(address, || cu!(cuMemFreeAsync, address, call.stream(stream)))
    }

    Context [cudaMallocPitch]
    (_call, address: Ptr<usize>, pitch: Ptr<usize>, width: usize, height: usize) {
        allocate_pitched(address, pitch, width, height)
    }

    Context [cudaMalloc3D] (_call, target: Ptr<Pitched>, extent: Extent) {
        target.check()?;
        let (mut address, mut pitch) = (0_usize, 0_usize);
        let Extent { width, height, depth } = extent;
        let rows = height.checked_mul(depth).ok_or(INVALID_VALUE)?;
        let [to, pitch_to] = [&mut address, &mut pitch].map(|it| {
            Ptr::of(std::ptr::from_mut(it).expose_provenance())
        });
        allocate_pitched(to, pitch_to, width, rows)?;
        target.set(Pitched { address, pitch, width, height })
    }

    Context [cudaPointerGetAttributes] (_call, target: Ptr<PointerAttributes>, address: usize) {
        target.check()?;
        target.set(attributes_of(address)?)
    }

    Context [cudaGetSymbolAddress] (_call, address: Ptr<usize>, symbol: usize) {
        address.check()?;
        address.set(registry::variable(symbol)?.0)
    }

    Context [cudaGetSymbolSize] (_call, bytes: Ptr<usize>, symbol: usize) {
        bytes.check()?;
        bytes.set(registry::variable(symbol)?.1)
    }

    /// The place is a device in CUDA 12, and a `cudaMemLocation` of 8 bytes in CUDA 13.
    Context [cudaMemAdvise] (_call, address: usize, bytes: usize, advice: u32, place: usize) {
        advise(address, bytes, advice, place)
    }

    Context [cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz per_thread]
    (call, address: usize, bytes: usize, place: usize, flags: usize, stream: Stream) {
        if version::major() > 12 {
            return prefetch(call, (address, bytes), place, flags, stream);
        }
        // CUDA 12 has no flags: the stream is in their place.
        let stream = call.stream(Stream(flags));
        cu!(cuMemPrefetchAsync, address, bytes, place, stream)
    }

    Context [cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync_v2_ptsz per_thread]
    (call, address: usize, bytes: usize, place: usize, flags: usize, stream: Stream) {
        prefetch(call, (address, bytes), place, flags, stream)
    }
}
