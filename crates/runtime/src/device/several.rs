//! Several devices: opening all of them, and how data moves between two.

use super::open::open_all;
use crate::{Device, PeerStatus, Result, multi_device::peer_status};

impl Device {
    /// Opens all devices of the default driver, in the order of their ordinals: every GPU that
    /// NVIDIA's driver shows to this process, so that `CUDA_VISIBLE_DEVICES` applies. Without a GPU
    /// they are the devices of the process's simulated machine, which is one unless
    /// `MILLSTREAM_DEVICE=sim:devices=4` says otherwise. If `MILLSTREAM_DEVICE` names one GPU, only
    /// that one is opened.
    ///
    /// # Errors
    ///
    /// As [`Device::open`] for any of them.
    #[track_caller]
    pub fn all() -> Result<Vec<Self>> {
        open_all()
    }

    /// Returns how data moves between this device and another of the same driver.
    ///
    /// The first use of a pair turns peer access on in both directions and probes it by copies and
    /// kernels, which takes some ten milliseconds. The first copy between two devices does the same
    /// without the probe of kernels, which loads a module and may therefore wait for running
    /// kernels ([rule 53](crate::guide::semantics#rule-53)). The status of a pair does not change
    /// while both devices are open.
    ///
    /// # Errors
    ///
    /// If a device is lost.
    #[doc(alias(
        "cuDeviceCanAccessPeer",
        "cudaDeviceCanAccessPeer",
        "can_device_access_peer"
    ))]
    pub fn peer_status(&self, other: &Self) -> Result<PeerStatus> {
        let (one, other) = (self.state(), other.state());
        if !one.shares_driver(other) {
            return Ok(status_between_drivers());
        }
        peer_status(one, other)
    }
}

/// Returns the status of two devices of different drivers.
pub(super) fn status_between_drivers() -> PeerStatus {
    let reason = "the devices belong to different drivers".into();
    PeerStatus::Staged { reason }
}
