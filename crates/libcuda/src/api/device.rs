//! Devices and their attributes.

use std::ffi::c_char;

use millstream_driver::{DeviceAttribute, DeviceOrdinal, P2pAttribute, ResultCode};

use crate::{
    abi::{Device, Out, Text},
    codes::{Answer, refuse_if},
    export::exports,
    process,
};

/// Returns the value of an attribute. Fails with `INVALID_VALUE` for a number that is none.
pub(crate) fn value_of(device: DeviceOrdinal, attribute: i32) -> Answer<i32> {
    let options = process::options()?;
    let index = device.as_raw() as usize;
    let version = options.cuda_version;
    let value = options.kind.attribute_for_driver(attribute, index, version);
    value.ok_or(ResultCode::INVALID_VALUE)
}

exports! {
    [cuDeviceGet]
    fn get(call, device: Out<Device>, ordinal: i32) {
        device.check()?;
        device.set(call.device(ordinal)?.as_raw())
    }

    [cuDeviceGetCount]
    fn count(call, count: Out<i32>) {
        count.set(call.process()?.device_count())
    }

    [cuDeviceGetName]
    fn name(call, name: Out<c_char>, length: i32, device: Device) {
        call.device(device)?;
        let length = usize::try_from(length).map_err(|_| ResultCode::INVALID_VALUE)?;
        name.set_text(process::options()?.kind.device_name, length)
    }

    [cuDeviceGetUuid, cuDeviceGetUuid_v2]
    fn uuid(call, uuid: Out<[u8; 16]>, device: Device) {
        let device = call.device(device)?;
        uuid.set(call.process()?.device_uuid(device)?)
    }

    [cuDeviceTotalMem_v2]
    fn total_memory(call, bytes: Out<usize>, device: Device) {
        let device = call.device(device)?;
        bytes.set(call.process()?.device_total_bytes(device)? as usize)
    }

    [cuDeviceGetAttribute]
    fn attribute(call, value: Out<i32>, attribute: i32, device: Device) {
        let device = call.device(device)?;
        value.check()?;
        value.set(value_of(device, attribute)?)
    }

    [cuDeviceComputeCapability]
    fn compute_capability(call, major: Out<i32>, minor: Out<i32>, device: Device) {
        let device = call.device(device)?;
        let value = |attribute: DeviceAttribute| value_of(device, attribute.as_raw());
        major.set(value(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?)?;
        minor.set(value(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?)
    }

    [cuDeviceGetPCIBusId]
    fn pci_bus_id(call, text: Out<c_char>, length: i32, device: Device) {
        let device = call.device(device)?;
        let id = call.process()?.device_pci_bus_id(device)?;
        let length = usize::try_from(length).map_err(|_| ResultCode::INVALID_VALUE)?;
        text.set_text(&id, length)
    }

    [cuDeviceGetByPCIBusId]
    fn by_pci_bus_id(call, device: Out<Device>, text: Text) {
        device.check()?;
        let wanted = text.get()?;
        let process = call.process()?;
        for ordinal in 0..process.device_count() {
            let id = process.device_pci_bus_id(DeviceOrdinal::from_raw(ordinal))?;
            if id.eq_ignore_ascii_case(&wanted) {
                return device.set(ordinal);
            }
        }
        Err(ResultCode::INVALID_DEVICE)
    }

    [cuDeviceCanAccessPeer]
    fn can_access_peer(call, can_access: Out<i32>, device: Device, peer: Device) {
        let (device, peer) = (call.device(device)?, call.device(peer)?);
        can_access.set(call.process()?.device_can_access_peer(device, peer)?.into())
    }

    [cuDeviceGetP2PAttribute]
    fn p2p_attribute(call, value: Out<i32>, attribute: i32, from: Device, to: Device) {
        let (from, to) = (call.device(from)?, call.device(to)?);
        let attribute = P2pAttribute::from_raw(attribute);
        value.set(call.process()?.device_p2p_attribute(attribute, from, to)?)
    }

    /// No device of this library supports it.
    [cuDeviceGetExecAffinitySupport]
    fn exec_affinity(call, supported: Out<i32>, kind: i32, device: Device) {
        call.device(device)?;
        refuse_if(kind != 0, ResultCode::INVALID_VALUE)?;
        supported.set(0)
    }
}
