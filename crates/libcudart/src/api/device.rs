//! Devices, their flags and limits, and the end of their contexts.

use crate::{
    abi::Ptr,
    call::{check_device, device, device_count, primary, reset, set_device},
    codes::{Answer, INVALID_DEVICE, INVALID_VALUE, refuse_if},
    driver::cu,
    export::exports,
};

/// `cudaDeviceMapHost`, which is always set.
const MAP_HOST: u32 = 8;

/// Gives a device a primary context, with flags if `which` is `cudaInitDeviceFlagsAreValid`.
fn initialise_device(ordinal: i32, flags: u32, which: u32) -> Answer {
    check_device(ordinal)?;
    refuse_if(which > 1, INVALID_VALUE)?;
    if which == 1 {
        cu!(cuDevicePrimaryCtxSetFlags_v2, ordinal, flags & !MAP_HOST)?;
    }
    primary(ordinal).map(drop)
}

fn flags_of_device() -> Answer<u32> {
    let (mut flags, mut active) = (0_u32, 0_i32);
    cu!(
        cuDevicePrimaryCtxGetState,
        device()?,
        &mut flags,
        &mut active
    )?;
    Ok(flags | MAP_HOST)
}

fn check_devices(ordinals: Ptr<i32>, count: i32) -> Answer {
    let count = usize::try_from(count).map_err(|_| INVALID_VALUE)?;
    (0..count).try_for_each(|index| check_device(ordinals.at(index).get()?))
}

fn check_pair(device: i32, peer: i32) -> Answer {
    check_device(device)?;
    check_device(peer)
}

include!("../tables/devices.txt");
