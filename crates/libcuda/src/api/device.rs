//! Devices and their attributes.

use std::ffi::c_char;

use millstream_driver::{DeviceAttribute, DeviceOrdinal, P2pAttribute, ResultCode};

use crate::{
    abi::{Device, Out, Text},
    call::Call,
    codes::Answer,
    process,
};

/// `cuDeviceGet`
pub(crate) fn get(call: &Call, device: Out<Device>, ordinal: i32) -> Answer {
    device.check()?;
    device.set(call.device(ordinal)?.as_raw())
}

/// `cuDeviceGetCount`
pub(crate) fn count(call: &Call, count: Out<i32>) -> Answer {
    count.set(call.process()?.device_count())
}

/// `cuDeviceGetName`
pub(crate) fn name(call: &Call, name: Out<c_char>, length: i32, device: Device) -> Answer {
    call.device(device)?;
    let length = usize::try_from(length).map_err(|_| ResultCode::INVALID_VALUE)?;
    name.set_text(process::options()?.kind.device_name, length)
}

/// `cuDeviceGetUuid`
pub(crate) fn uuid(call: &Call, uuid: Out<[u8; 16]>, device: Device) -> Answer {
    let device = call.device(device)?;
    uuid.set(call.process()?.device_uuid(device)?)
}

/// `cuDeviceTotalMem`
pub(crate) fn total_memory(call: &Call, bytes: Out<usize>, device: Device) -> Answer {
    let device = call.device(device)?;
    bytes.set(call.process()?.device_total_bytes(device)? as usize)
}

/// `cuDeviceGetAttribute`
pub(crate) fn attribute(call: &Call, value: Out<i32>, attribute: i32, device: Device) -> Answer {
    let device = call.device(device)?;
    value.check()?;
    value.set(value_of(device, attribute)?)
}

/// Returns the value of an attribute. Fails with `INVALID_VALUE` for a number that is none.
pub(crate) fn value_of(device: DeviceOrdinal, attribute: i32) -> Answer<i32> {
    let options = process::options()?;
    let index = device.as_raw() as usize;
    let version = options.cuda_version;
    let value = options.kind.attribute_for_driver(attribute, index, version);
    value.ok_or(ResultCode::INVALID_VALUE)
}

/// `cuDeviceComputeCapability`
pub(crate) fn compute_capability(
    call: &Call,
    major: Out<i32>,
    minor: Out<i32>,
    device: Device,
) -> Answer {
    let device = call.device(device)?;
    let value = |attribute: DeviceAttribute| value_of(device, attribute.as_raw());
    major.set(value(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?)?;
    minor.set(value(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?)
}

/// `cuDeviceGetPCIBusId`
pub(crate) fn pci_bus_id(call: &Call, text: Out<c_char>, length: i32, device: Device) -> Answer {
    let device = call.device(device)?;
    let id = call.process()?.device_pci_bus_id(device)?;
    let length = usize::try_from(length).map_err(|_| ResultCode::INVALID_VALUE)?;
    text.set_text(&id, length)
}

/// `cuDeviceGetByPCIBusId`
pub(crate) fn by_pci_bus_id(call: &Call, device: Out<Device>, text: Text) -> Answer {
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

/// `cuDeviceCanAccessPeer`
pub(crate) fn can_access_peer(
    call: &Call,
    can_access: Out<i32>,
    device: Device,
    peer: Device,
) -> Answer {
    let (device, peer) = (call.device(device)?, call.device(peer)?);
    can_access.set(call.process()?.device_can_access_peer(device, peer)?.into())
}

/// `cuDeviceGetP2PAttribute`
pub(crate) fn p2p_attribute(
    call: &Call,
    value: Out<i32>,
    attribute: i32,
    from: Device,
    to: Device,
) -> Answer {
    let (from, to) = (call.device(from)?, call.device(to)?);
    let attribute = P2pAttribute::from_raw(attribute);
    value.set(call.process()?.device_p2p_attribute(attribute, from, to)?)
}

/// `cuDeviceGetExecAffinitySupport`: no device of this library supports it.
pub(crate) fn exec_affinity(call: &Call, supported: Out<i32>, kind: i32, device: Device) -> Answer {
    call.device(device)?;
    if kind != 0 {
        return Err(ResultCode::INVALID_VALUE);
    }
    supported.set(0)
}
