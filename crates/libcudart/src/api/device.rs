//! Devices, their flags and limits, and the end of their contexts.

use crate::{
    abi::Ptr,
    call::{check_device, device, device_count, enter, initialise, primary, reset, set_device},
    codes::{INVALID_DEVICE, INVALID_VALUE, refuse_if},
    driver::cu,
    export::exports,
};

/// `cudaDeviceMapHost`, which is always set.
const MAP_HOST: u32 = 8;

/// `cudaInitDeviceFlagsAreValid`
const FLAGS_ARE_VALID: u32 = 1;

exports! {
    Nothing [cudaGetDeviceCount] (_call, count: Ptr<i32>) {
        count.set(0)?;
        count.set(device_count()?)
    }

    Nothing [cudaGetDevice] (_call, ordinal: Ptr<i32>) {
        ordinal.set(device()?)
    }

    Nothing [cudaSetDevice] (_call, ordinal: i32) {
        set_device(ordinal)
    }

    Nothing [cudaInitDevice] (_call, ordinal: i32, flags: u32, which: u32) {
        check_device(ordinal)?;
        refuse_if(which & !FLAGS_ARE_VALID != 0, INVALID_VALUE)?;
        if which & FLAGS_ARE_VALID != 0 {
            cu!(cuDevicePrimaryCtxSetFlags_v2, ordinal, flags & !MAP_HOST)?;
        }
        primary(ordinal).map(drop)
    }

    /// The first device will do.
    Device [cudaChooseDevice] (_call, ordinal: Ptr<i32>, properties: usize) {
        refuse_if(properties == 0, INVALID_VALUE)?;
        ordinal.set(0)
    }

    Device [cudaSetValidDevices] (_call, ordinals: Ptr<i32>, count: i32) {
        for index in 0..usize::try_from(count).map_err(|_| INVALID_VALUE)? {
            check_device(ordinals.at(index).get()?)?;
        }
        Ok(())
    }

    Nothing [cudaSetDeviceFlags] (_call, flags: u32) {
        let device = device()?;
        cu!(cuDevicePrimaryCtxSetFlags_v2, device, flags & !MAP_HOST)
    }

    Nothing [cudaGetDeviceFlags] (_call, flags: Ptr<u32>) {
        let (mut known, mut active) = (0_u32, 0_i32);
        cu!(cuDevicePrimaryCtxGetState, device()?, &mut known, &mut active)?;
        flags.set(known | MAP_HOST)
    }

    Nothing [cudaDeviceReset, cudaThreadExit] (_call) {
        reset()
    }

    Context [cudaDeviceEnablePeerAccess] (_call, peer: i32, flags: u32) {
        cu!(cuCtxEnablePeerAccess, primary(peer)?, flags)
    }

    Context [cudaDeviceDisablePeerAccess] (_call, peer: i32) {
        cu!(cuCtxDisablePeerAccess, primary(peer)?)
    }

    Device [cudaDeviceCanAccessPeer] (_call, can: Ptr<i32>, device: i32, peer: i32) {
        check_device(device)?;
        check_device(peer)?;
        cu!(cuDeviceCanAccessPeer, can, device, peer)
    }

    Device [cudaDeviceGetByPCIBusId] (_call, device: Ptr<i32>, id: Ptr<u8>) {
        cu!(cuDeviceGetByPCIBusId, device, id).map_err(|_| INVALID_DEVICE)
    }

    /// Waits for all work of the device.
    Nothing [cudaDeviceSynchronize, cudaThreadSynchronize] (_call) {
        initialise()?;
        enter()?;
        cu!(cuCtxSynchronize)
    }
}
