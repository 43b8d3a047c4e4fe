//! Peer access: whether two devices can use each other's memory.
//!
//! A pair of devices is set up at its first use: each context gets access to the other (rule 39),
//! and each default pool becomes accessible to the other device (rule 38: access to pool memory is
//! set on the pool). Then a [probe](probe) copies a pattern over the link in both directions, and
//! before the first kernel uses the link, another probe runs kernels over it, because some drivers
//! have returned wrong data without an error. A pair that is not capable, cannot be set up or fails
//! a probe is *staged*, for as long as both devices are open: its copies go through host memory,
//! and its kernels are refused.

#![allow(unsafe_code, reason = "makes the driver calls that set up peer access")]

mod probe;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use millstream_driver::{DriverError, ModuleHandle, ResultCode};
use parking_lot::Mutex;

use crate::{
    Result,
    context::{DeviceState, realm_contains},
    disposal::log,
    tracker::DeviceNumber,
};

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
    pairs: Mutex<BTreeMap<DeviceNumber, Arc<Pair>>>,
    /// The number of the device to which copies were last found to be direct, or 0: an answer
    /// without the lock. Written with `pairs` locked.
    last_direct: AtomicU64,
    module: Mutex<Option<ModuleHandle>>,
}

/// The status of a pair, as far as it is known. Kernels are probed later than copies, because
/// loading their module may wait for running kernels (rule 53).
#[derive(Debug, Default)]
struct Pair {
    copies: OnceLock<PeerStatus>,
    kernels: OnceLock<PeerStatus>,
}

impl Pair {
    /// Returns the status, if copies were probed: staged if any probe failed.
    fn status(&self) -> Option<&PeerStatus> {
        let copies = self.copies.get()?;
        match self.kernels.get() {
            Some(kernels) if copies.is_direct() => Some(kernels),
            _ => Some(copies),
        }
    }
}

impl Peers {
    /// Takes the module of the probes, if one was loaded, to be unloaded.
    pub(crate) fn take_module(&self) -> Option<ModuleHandle> {
        self.module.lock().take()
    }
}

/// Returns whether copies between two devices of one driver take their link. Turns access on and
/// probes copies at the first use of a pair, which takes some ten milliseconds. Other threads that
/// need the same pair wait meanwhile.
///
/// # Errors
///
/// If a device is lost.
#[inline]
pub(crate) fn copies_directly(one: &DeviceState, other: &DeviceState) -> Result<bool> {
    let (first, second) = in_order(one, other);
    // The submission of a direct copy checks that the devices are alive.
    if first
        .multi_device()
        .peers
        .last_direct
        .load(Ordering::Acquire)
        == second.number().get()
    {
        return Ok(true);
    }
    is_direct(first, second)
}

/// Returns whether data is copied directly between two devices, given in the order of their
/// numbers. Serves pairs that are not the first device's last.
#[inline(never)]
fn is_direct(first: &DeviceState, second: &DeviceState) -> Result<bool> {
    let is_direct = {
        let pairs = first.multi_device().peers.pairs.lock();
        let pair = pairs.get(&second.number());
        let is_direct = pair.and_then(|pair| pair.status().map(PeerStatus::is_direct));
        if is_direct == Some(true) {
            let number = second.number().get();
            first
                .multi_device()
                .peers
                .last_direct
                .store(number, Ordering::Release);
        }
        is_direct
    };
    if is_direct == Some(true) {
        return Ok(true);
    }
    first.check_alive()?;
    second.check_alive()?;
    if is_direct == Some(false) {
        return Ok(false);
    }
    Ok(prepared_pair(first, second)?
        .status()
        .is_some_and(PeerStatus::is_direct))
}

/// Returns how data moves between two devices of one driver. Sets the pair up like
/// [`copies_directly`], and probes kernels too, which may wait for running kernels.
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
    let pair = prepared_pair(first, second)?;
    if pair.copies.get().is_some_and(PeerStatus::is_direct) {
        pair.kernels
            .get_or_init(|| status(first, second, probe::kernels));
        {
            // Copies are staged too if the probe of kernels failed.
            let _pairs = first.multi_device().peers.pairs.lock();
            first
                .multi_device()
                .peers
                .last_direct
                .store(0, Ordering::Release);
        }
        one.check_alive()?;
        other.check_alive()?;
    }
    let status = pair.status();
    Ok(status.expect("the pair was prepared above").clone())
}

fn prepared_pair(first: &DeviceState, second: &DeviceState) -> Result<Arc<Pair>> {
    let pair = {
        let mut pairs = first.multi_device().peers.pairs.lock();
        if !pairs.contains_key(&second.number()) {
            pairs.retain(|&number, _| realm_contains(number));
        }
        Arc::clone(pairs.entry(second.number()).or_default())
    };
    pair.copies.get_or_init(|| {
        status(first, second, |first, second| {
            match enable(first, second)? {
                None => probe::copies(first, second),
                reason => Ok(reason),
            }
        })
    });
    // The set-up may have found a device lost.
    first.check_alive()?;
    second.check_alive()?;
    Ok(pair)
}

/// Returns how data moves between two devices of one driver, if the pair was set up before.
pub(crate) fn known_peer_status(one: &DeviceState, other: &DeviceState) -> Option<PeerStatus> {
    if one.context == other.context {
        return Some(PeerStatus::Same);
    }
    let (first, second) = in_order(one, other);
    let pair = Arc::clone(
        first
            .multi_device()
            .peers
            .pairs
            .lock()
            .get(&second.number())?,
    );
    pair.status().cloned()
}

/// Returns both devices, first the one that keeps the pair's status.
#[inline]
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

/// Runs a step of the set-up of a pair, which returns the reason if data cannot take the link.
fn status(
    first: &DeviceState,
    second: &DeviceState,
    step: impl FnOnce(&DeviceState, &DeviceState) -> Result<Option<String>>,
) -> PeerStatus {
    let reason = match step(first, second) {
        Ok(None) => return PeerStatus::Direct,
        Ok(Some(reason)) => reason,
        Err(error) => format!("the set-up of peer access failed: {error}"),
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

/// Turns peer access on in both directions. Returns the reason if the devices are not capable of
/// it.
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
