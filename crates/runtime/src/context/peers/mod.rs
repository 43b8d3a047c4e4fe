//! Peer access: whether two devices can use each other's memory.
//!
//! A pair of devices is set up at its first use: each context gets access to the other (rule 39),
//! and each default pool becomes accessible to the other device (rule 38: access to pool memory is
//! set on the pool). Then a [probe](probe) copies a pattern and runs a kernel over the link in both
//! directions, because some drivers have returned wrong data without an error. A pair that is not
//! capable, cannot be set up or fails the probe is *staged*, for as long as both devices are open:
//! its copies go through host memory, and its kernels are refused.

#![allow(unsafe_code, reason = "makes the driver calls that set up peer access")]

mod probe;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use millstream_driver::{DriverError, ModuleHandle, ResultCode};
use parking_lot::Mutex;

use super::{DeviceState, realm};
use crate::{Result, disposal::log, tracker::DeviceNumber};

/// The way in which data moves between two devices.
///
/// ```
/// use millstream::{Device, PeerStatus, sim::{Gpu, SimConfig}};
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let one = Device::open_simulated(&gpu, 0)?;
/// let other = Device::open_simulated(&gpu, 1)?;
/// assert_eq!(one.peer_status(&other)?, PeerStatus::Direct);
/// assert_eq!(one.peer_status(&one)?, PeerStatus::Same);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerStatus {
    /// Both are the same device.
    Same,
    /// Each device accesses the other's memory: copies take the link between them, and kernels may
    /// have operands on the other device.
    Direct,
    /// Copies go through host memory, and kernels cannot use the other device's memory.
    Staged {
        /// The reason: the devices cannot access each other, a call failed, or the probe found
        /// wrong data.
        reason: Arc<str>,
    },
}

impl PeerStatus {
    /// Returns whether kernels may have operands on the other device.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        !matches!(self, Self::Staged { .. })
    }
}

/// The pairs of a device that were used, and the module of its probes.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// The status of each pair, kept at the device with the lower number.
    pairs: Mutex<BTreeMap<DeviceNumber, Arc<OnceLock<PeerStatus>>>>,
    module: Mutex<Option<ModuleHandle>>,
}

impl Peers {
    /// Takes the module of the probes, if one was loaded, to be unloaded.
    pub(crate) fn take_module(&self) -> Option<ModuleHandle> {
        self.module.lock().take()
    }
}

/// Returns how data moves between two devices of one driver, and sets the pair up on first use,
/// which takes some ten milliseconds. Other threads that need the same pair wait meanwhile.
///
/// # Errors
///
/// If a device is lost.
pub(crate) fn peer_status(one: &DeviceState, other: &DeviceState) -> Result<PeerStatus> {
    one.check_alive()?;
    other.check_alive()?;
    if one.context == other.context {
        return Ok(PeerStatus::Same);
    }
    let (first, second) = in_order(one, other);
    let pair = {
        let mut pairs = first.peers.pairs.lock();
        if !pairs.contains_key(&second.number()) {
            pairs.retain(|&number, _| realm::contains(number));
        }
        Arc::clone(pairs.entry(second.number()).or_default())
    };
    if let Some(status) = pair.get() {
        return Ok(status.clone());
    }
    let status = pair.get_or_init(|| set_up(first, second));
    // The set-up may have found a device lost.
    one.check_alive()?;
    other.check_alive()?;
    Ok(status.clone())
}

/// Returns how data moves between two devices of one driver, if the pair was set up before.
pub(crate) fn known_peer_status(one: &DeviceState, other: &DeviceState) -> Option<PeerStatus> {
    if one.context == other.context {
        return Some(PeerStatus::Same);
    }
    let (first, second) = in_order(one, other);
    let pair = Arc::clone(first.peers.pairs.lock().get(&second.number())?);
    pair.get().cloned()
}

/// Returns both devices, first the one that keeps the pair's status.
fn in_order<'a>(
    one: &'a DeviceState,
    other: &'a DeviceState,
) -> (&'a DeviceState, &'a DeviceState) {
    if one.number() < other.number() {
        (one, other)
    } else {
        (other, one)
    }
}

/// Sets the pair up in both directions.
fn set_up(first: &DeviceState, second: &DeviceState) -> PeerStatus {
    let reason = match enable(first, second) {
        Ok(None) => match probe::run(first, second) {
            Ok(None) => return PeerStatus::Direct,
            Ok(Some(reason)) => reason,
            Err(error) => format!("the probe of peer access failed: {error}"),
        },
        Ok(Some(reason)) => reason,
        Err(error) => format!("peer access cannot be turned on: {error}"),
    };
    let (one, other) = (first.to_string(), second.to_string());
    let why = reason.clone();
    log!(
        warn,
        one,
        other,
        why,
        "copies between two devices are staged through the host"
    );
    PeerStatus::Staged {
        reason: reason.into(),
    }
}

/// Turns peer access on in both directions. Returns the reason if the devices are not capable of it.
fn enable(first: &DeviceState, second: &DeviceState) -> Result<Option<String>> {
    let driver = &*first.driver;
    for (from, to) in [(first, second), (second, first)] {
        if !from.checked(driver.device_can_access_peer(from.ordinal, to.ordinal))? {
            return Ok(Some(format!("{from} cannot access memory of {to}")));
        }
    }
    for (from, to) in [(first, second), (second, first)] {
        // SAFETY: both contexts are alive.
        let enabled = unsafe { driver.context_enable_peer_access(from.context, to.context) };
        from.checked(enabled.or_else(accept_enabled))?;
        // SAFETY: the pool is the device's default pool, which lives as long as the device.
        let accessible = unsafe { driver.pool_set_access(to.pool, from.ordinal, true) };
        to.checked(accessible)?;
    }
    Ok(None)
}

/// Accepts that access was turned on before, by this library or another (rule 39: a second call is
/// an error).
fn accept_enabled(error: DriverError) -> Result<(), DriverError> {
    if error.code() == ResultCode::PEER_ACCESS_ALREADY_ENABLED {
        Ok(())
    } else {
        Err(error)
    }
}
