//! Peer calls, between the machine's first two devices.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use millstream_driver::{
    DeviceAttribute, DeviceOrdinal, Driver, P2pAttribute, PeerCopy, PeerCopy2d, ResultCode,
};

use crate::gpu::{
    harness::{Gpu, Outcome, check},
    modules::{SCALE_PTX, scale},
};

fn second() -> Result<Gpu, libtest_mimic::Failed> {
    Gpu::open(DeviceOrdinal::from_raw(1))
}

pub(crate) fn link_properties_agree_with_each_other(gpu: &Gpu) -> Outcome {
    let (cuda, one, other) = (&gpu.cuda, gpu.device, DeviceOrdinal::from_raw(1));
    let attribute = |attribute| cuda.device_p2p_attribute(attribute, one, other);
    let can_access = cuda.device_can_access_peer(one, other)?;
    check(
        attribute(P2pAttribute::ACCESS_SUPPORTED)? == i32::from(can_access),
        "the call and the attribute agree",
    )?;
    check(
        can_access || attribute(P2pAttribute::NATIVE_ATOMIC_SUPPORTED)? == 0,
        "native atomics take access",
    )?;
    attribute(P2pAttribute::PERFORMANCE_RANK)?;
    check(
        !cuda.device_can_access_peer(one, one)?,
        "a device is no peer of itself",
    )?;
    let same = cuda.device_p2p_attribute(P2pAttribute::PERFORMANCE_RANK, one, one);
    check(
        same.is_err_and(|error| error.code() == ResultCode::INVALID_DEVICE),
        "a device has no link to itself",
    )?;
    let address = cuda.device_pci_bus_id(one)?;
    let number = |attribute| cuda.device_attribute(one, attribute);
    let expected = format!(
        "{:04x}:{:02x}:{:02x}.0",
        number(DeviceAttribute::PCI_DOMAIN_ID)?,
        number(DeviceAttribute::PCI_BUS_ID)?,
        number(DeviceAttribute::PCI_DEVICE_ID)?
    );
    check(
        address.to_lowercase().ends_with(&expected),
        &format!("the PCI address {address} is {expected}"),
    )
}

pub(crate) fn copies_between_devices_need_no_access(gpu: &Gpu) -> Outcome {
    let other = second()?;
    let values: Vec<u32> = (0..64).collect();
    let source = gpu.alloc(256)?;
    gpu.write(source, &values)?;
    let target = other.alloc(256)?;
    other.synchronize()?;
    let copy = PeerCopy {
        target,
        target_context: other.context,
        source,
        source_context: gpu.context,
        bytes: 256,
    };
    // SAFETY: both ranges are live allocations of these contexts, idle before and until the stream
    // is synchronised.
    unsafe {
        other
            .cuda
            .copy_peer_async(other.context, &copy, other.stream)
    }?;
    check(
        other.read::<u32>(target, 64)? == values,
        "a contiguous copy copies",
    )?;
    other.write(target, &[0_u32; 64])?;
    // The second and third of each eight words, back to back.
    let rows = PeerCopy2d {
        target,
        target_pitch_bytes: 8,
        target_context: other.context,
        source: source.offset(4),
        source_pitch_bytes: 32,
        source_context: gpu.context,
        row_bytes: 8,
        rows: 8,
    };
    // SAFETY: as above.
    unsafe {
        other
            .cuda
            .copy_peer_2d_async(other.context, &rows, other.stream)
    }?;
    let expected: Vec<u32> = (0..8).flat_map(|row| [8 * row + 1, 8 * row + 2]).collect();
    let copied = other.read::<u32>(target, 64)?;
    check(
        copied[..16] == expected && copied[16..].iter().all(|&word| word == 0),
        &format!("a copy of rows copies: {copied:?}"),
    )?;
    let empty = PeerCopy2d { rows: 0, ..rows };
    // SAFETY: as above.
    unsafe {
        other
            .cuda
            .copy_peer_2d_async(other.context, &empty, other.stream)
    }?;
    gpu.free(source)?;
    other.free(target)
}

pub(crate) fn access_to_a_pool_lets_kernels_reach_its_memory(gpu: &Gpu) -> Outcome {
    let other = second()?;
    if !gpu.cuda.device_can_access_peer(other.device, gpu.device)? {
        let pool = gpu.cuda.default_pool(gpu.device)?;
        // SAFETY: the pool lives as long as the device.
        let refused = unsafe { gpu.cuda.pool_set_access(pool, other.device, true) };
        return check(refused.is_err(), "a device that is no peer gets no access");
    }
    let data = gpu.alloc(256)?;
    gpu.write(data, &[3.0_f32; 64])?;
    let pool = gpu.cuda.default_pool(gpu.device)?;
    // SAFETY: the pool lives as long as the device.
    unsafe { gpu.cuda.pool_set_access(pool, other.device, true) }?;
    let module = other.load(SCALE_PTX)?;
    // SAFETY: the module is loaded.
    let function = unsafe { other.cuda.module_function(other.context, module, "scale") }?;
    scale(&other, function, data, 2.0, 64)?;
    other.synchronize()?;
    check(
        gpu.read::<f32>(data, 64)? == [6.0; 64],
        "a kernel of the other device writes the memory",
    )?;
    gpu.free(data)?;
    gpu.synchronize()?;
    // SAFETY: its kernel has run, and the module is not used again.
    unsafe { other.cuda.module_unload(other.context, module) }?;
    // SAFETY: as above; no kernel of the other device accesses the pool.
    Ok(unsafe { gpu.cuda.pool_set_access(pool, other.device, false) }?)
}

pub(crate) fn peer_access_is_enabled_once(gpu: &Gpu) -> Outcome {
    let other = second()?;
    let enable = |peer| {
        // SAFETY: both contexts are retained.
        unsafe { gpu.cuda.context_enable_peer_access(gpu.context, peer) }
            .map_err(|error| error.code())
    };
    let itself = enable(gpu.context);
    check(
        itself == Err(ResultCode::PEER_ACCESS_UNSUPPORTED),
        &format!("a context and itself: {itself:?}"),
    )?;
    if !gpu.cuda.device_can_access_peer(gpu.device, other.device)? {
        let refused = enable(other.context);
        return check(
            refused == Err(ResultCode::PEER_ACCESS_UNSUPPORTED),
            &format!("a device that is no peer: {refused:?}"),
        );
    }
    let first = enable(other.context);
    check(first.is_ok(), &format!("the first call: {first:?}"))?;
    let again = enable(other.context);
    check(
        again == Err(ResultCode::PEER_ACCESS_ALREADY_ENABLED),
        &format!("the second call: {again:?}"),
    )
}
