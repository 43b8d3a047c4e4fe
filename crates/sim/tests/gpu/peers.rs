//! The properties of the link between the machine's first two devices.

use millstream_driver::{DeviceOrdinal, P2pAttribute};

use crate::{conformance::prelude::*, gpu::Outcome};

pub(crate) fn link_properties_agree_with_each_other(dev: &DeviceHarness) -> Outcome {
    let (driver, one, other) = (&dev.driver, dev.device, DeviceOrdinal::from_raw(1));
    let attribute = |attribute| driver.device_p2p_attribute(attribute, one, other);
    let can_access = driver.device_can_access_peer(one, other)?;
    check(
        can_access || attribute(P2pAttribute::NATIVE_ATOMIC_SUPPORTED)? == 0,
        "native atomics take access",
    )?;
    attribute(P2pAttribute::PERFORMANCE_RANK)?;
    check(
        !driver.device_can_access_peer(one, one)?,
        "a device is no peer of itself",
    )?;
    let same = driver.device_p2p_attribute(P2pAttribute::PERFORMANCE_RANK, one, one);
    check(
        same.is_err_and(|error| error.code() == ResultCode::INVALID_DEVICE),
        "a device has no link to itself",
    )?;
    let address = driver.device_pci_bus_id(one)?;
    let expected = format!(
        "{:04x}:{:02x}:{:02x}.0",
        dev.attribute(DeviceAttribute::PCI_DOMAIN_ID)?,
        dev.attribute(DeviceAttribute::PCI_BUS_ID)?,
        dev.attribute(DeviceAttribute::PCI_DEVICE_ID)?
    );
    check(
        address.to_lowercase().ends_with(&expected),
        &format!("the PCI address {address} is {expected}"),
    )
}
