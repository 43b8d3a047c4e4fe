//! Memory: allocations, pitched ones, pools, and the attributes of addresses.

use crate::{
    abi::{Extent, Pitched, Ptr, Stream},
    codes::{Answer, INVALID_VALUE},
    driver::cu,
    export::exports,
    registry,
};

/// Allocates rows, and returns the address and the pitch. An empty allocation is null.
fn allocate_rows(width: usize, rows: usize) -> Answer<(usize, usize)> {
    /// The size of an element for which the driver chooses the pitch.
    const ELEMENT_BYTES: u32 = 4;
    let (mut address, mut pitch) = (0_usize, 0_usize);
    if width > 0 && rows > 0 {
        cu!(
            cuMemAllocPitch_v2,
            &mut address,
            &mut pitch,
            width,
            rows,
            ELEMENT_BYTES
        )?;
    }
    Ok((address, pitch))
}

fn allocate_pitched(to: Ptr<usize>, pitch_to: Ptr<usize>, width: usize, height: usize) -> Answer {
    to.check()?;
    pitch_to.check()?;
    let (address, pitch) = allocate_rows(width, height)?;
    pitch_to.set(pitch)?;
    to.set(address)
}

fn allocate_box(target: Ptr<Pitched>, extent: Extent) -> Answer {
    target.check()?;
    let Extent {
        width,
        height,
        depth,
    } = extent;
    let rows = height.checked_mul(depth).ok_or(INVALID_VALUE)?;
    let (address, pitch) = allocate_rows(width, rows)?;
    target.set(Pitched {
        address,
        pitch,
        width,
        height,
    })
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
    let _ = cu! { cuPointerGetAttribute, &mut found.device_pointer, DEVICE_POINTER, address };
    let _ = cu! { cuPointerGetAttribute, &mut found.host_pointer, HOST_POINTER, address };
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

include!("../tables/memory.txt");
