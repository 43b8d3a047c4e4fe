//! The kinds of device that the simulated device can stand for: names, memory sizes, and the values
//! of all device attributes.
//!
//! A program reads attributes to size its launches and to choose between ways of working, so a kind
//! has a value for each attribute that CUDA 13.5 numbers. A value comes from one of four places:
//! the kind itself (`chips.rs`: published outputs of NVIDIA's deviceQuery, each named there), its
//! compute capability (`capability.rs`: the CUDA C++ Programming Guide), the same value for all
//! kinds (`values.rs`), or 0 for features that the simulated device does not have (`absent.rs`).
//!
//! Launches obey the limits of the simulated device, an H200's, for every kind; only the opt-in to
//! shared memory is limited by the kind.

mod absent;
mod attributes;
mod capability;
mod chips;
mod numbers;
mod since;
mod values;

#[cfg(test)]
mod tests;

pub use attributes::{ATTRIBUTES, number};
pub use chips::*;

use capability::Limits;

/// A kind of device.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name by which a user chooses the kind, in lower case.
    pub name: &'static str,
    /// The name that `cuDeviceGetName` returns.
    pub device_name: &'static str,
    /// The size of the real device's memory. The simulated device advertises less unless the user
    /// asks for more, because programs size their data by it.
    pub memory_bytes: u64,
    /// The limits of the kind's compute capability.
    limits: &'static Limits,
    multiprocessors: i32,
    /// The highest clock rate.
    clock_khz: i32,
    /// The highest clock rate of the memory.
    memory_clock_khz: i32,
    memory_bus_bits: i32,
    /// The size of the level 2 cache.
    l2_bytes: i32,
    copy_engines: i32,
    /// True if the memory has error correction.
    ecc: bool,
    /// The device's number at the PCI vendor 10DE, from the PCI ID repository.
    pci_device: u16,
}

impl Kind {
    /// Finds a kind by its name, in any case.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        KINDS
            .into_iter()
            .find(|kind| kind.name.eq_ignore_ascii_case(name))
    }

    /// Returns the compute capability: major and minor version.
    #[must_use]
    pub fn compute_capability(&self) -> (i32, i32) {
        self.limits.compute_capability
    }

    /// Returns the value of the attribute with this number for the device with the index `device`,
    /// or `None` if CUDA 13.5 has no such attribute.
    #[must_use]
    pub fn attribute(&self, number: i32, device: usize) -> Option<i32> {
        values::value(self, number, device).or_else(|| absent::is_absent(number).then_some(0))
    }

    /// Returns the value of an attribute as [`attribute`](Self::attribute) does, but `None` if a
    /// driver of this CUDA version does not have the attribute yet.
    #[must_use]
    pub fn attribute_for_driver(
        &self,
        number: i32,
        device: usize,
        cuda_version: i32,
    ) -> Option<i32> {
        since::has_attribute(cuda_version, number)
            .then(|| self.attribute(number, device))
            .flatten()
    }
}
