//! Collectives: operations in which the devices of a group take part together.
//!
//! [`Collectives`] is a group of devices of this process, or of the ranks of a [`world`]. It checks
//! the operands of a call and passes it to a backend. The direct backend consists of ordinary
//! tracked operations, copies between devices and kernels. It adds in the order of the ranks, so
//! its results are those of a plain loop, to the bit. The NCCL backend also connects ranks of
//! several processes.

mod calls;
mod communicators;
mod direct;
mod element;
mod fold;
mod group;
mod local_rank;
pub mod nccl;
mod operands;
mod operation;
mod several_processes;
#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests;
pub mod world;

use std::{fmt, panic::Location, sync::Arc};

use communicators::NcclBackend;
use direct::DirectBackend;
pub use element::{CollectiveElement, Reduce};
pub use group::Group;
use local_rank::LocalRank;
use operation::{Backend, CollectiveKind, CollectiveOp, Part};

use millstream::{
    __log as log, Device, Error, Result, UsageError, UsageErrorKind,
    groups::{check_alive, share_driver},
};

/// A group of devices that exchange and combine arrays.
///
/// Each device has a rank, its index in the group. A collective takes one array of each rank of
/// this process, in the order of [`local_ranks`](Self::local_ranks).
///
/// | call, on two devices | before | after |
/// |---|---|---|
/// | [`all_reduce(…, Sum)`](Self::all_reduce) | `[1, 2]`, `[10, 20]` | `[11, 22]`, `[11, 22]` |
/// | [`reduce(1, …, Sum)`](Self::reduce) | `[1, 2]`, `[10, 20]` | `[1, 2]`, `[11, 22]` |
/// | [`reduce_scatter(…, Sum)`](Self::reduce_scatter) | `[1, 2]`, `[10, 20]` | `[11]`, `[22]` |
/// | [`broadcast(0, …)`](Self::broadcast) | `[1, 2]`, any | `[1, 2]`, `[1, 2]` |
/// | [`all_gather`](Self::all_gather) | `[1]`, `[2]` | `[1, 2]`, `[1, 2]` |
/// | [`all_gather_uneven(&[1, 2], …)`](Self::all_gather_uneven) | `[1]`, `[2, 3]` | `[1, 2, 3]`, `[1, 2, 3]` |
/// | [`all_to_all`](Self::all_to_all) | `[1, 2]`, `[3, 4]` | `[1, 3]`, `[2, 4]` |
///
/// # Ordering
///
/// Calls return without waiting for device work. For each rank a collective runs on a stream that
/// all groups of its device share. Like every operation it runs after the earlier operations on
/// its arrays, and before the later ones, whichever streams and threads they come from; there is
/// nothing to synchronise. Threads may use one group, or groups with the same devices,
/// concurrently.
///
/// # Backends and determinism
///
/// More than two GPUs, and two without peer access, use NCCL if it can be loaded: the library that
/// `MILLSTREAM_NCCL` names, `libnccl.so.2`, or that of a Python package. NCCL adds in an order of
/// its own, which depends on the machine.
///
/// Without NCCL, on simulated devices and with [`direct`](Self::direct), collectives are kernels
/// and copies between the devices of one process. Reductions then combine the elements in the order
/// of the ranks, ((x₀ + x₁) + x₂) + …, whichever device does it. So every run gives the same bits,
/// those of a loop on the host, except for the payloads of NaNs.
///
/// # Failures
///
/// A usage error, a lost device and invalid contents are found before anything is enqueued. If a
/// device is lost while a collective is pending, the arrays of the other ranks that it was to write
/// are [poisoned](Error::Poisoned) until they are overwritten as a whole. After any other error of
/// the driver the contents of the arrays that the call was to write are unspecified.
///
/// With NCCL a group can be lost: another process ends or makes other calls, NCCL reports a
/// failure, or a [deadline](Self::set_deadline) passes. The calls that were not complete are then
/// [`Error::CollectiveLost`], which every use of the arrays that they were to write returns until
/// these are overwritten as a whole, and so does every later call of the group. Everything else
/// works on.
///
/// # Dropping
///
/// Dropping a group never waits: the collectives in flight complete, or are lost, as before. A
/// process that ends, however, takes with it what others wait for; [`close`](Self::close) waits.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_collective::{Collectives, Reduce};
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let collectives = Collectives::new(&devices)?;
/// let (s0, s1) = (devices[0].stream()?, devices[1].stream()?);
/// let mut a = s0.upload(&[1.0_f32, 2.0, 3.0])?;
/// let mut b = s1.upload(&[10.0_f32, 20.0, 30.0])?;
/// collectives.all_reduce(&mut [&mut a, &mut b], Reduce::Sum)?;
/// assert_eq!(s0.download(&a)?.wait()?, [11.0, 22.0, 33.0]);
/// assert_eq!(s1.download(&b)?.wait()?, [11.0, 22.0, 33.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Collectives {
    backend: Arc<dyn Backend>,
    /// The ranks of this process, in ascending order.
    locals: Arc<[LocalRank]>,
    /// The number of ranks of all processes.
    ranks: usize,
}

impl Collectives {
    /// Creates a group of these devices. Each device has one rank, its index.
    ///
    /// More than two GPUs are connected by NCCL if it can be loaded, which takes up to some
    /// seconds. Otherwise, as with [`direct`](Self::direct), the first group of two devices turns
    /// on peer access between them, which takes some ten milliseconds and waits for no other work;
    /// devices without peer access exchange data through the host.
    ///
    /// ```
    /// use millstream::Device;
    /// use millstream_collective::Collectives;
    ///
    /// let collectives = Collectives::new(&Device::all()?)?;
    /// assert_eq!(collectives.local_ranks().len(), collectives.ranks());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no device, a device is passed twice, two devices belong to different drivers, or
    /// one is lost.
    #[track_caller]
    pub fn new(devices: &[Device]) -> Result<Self> {
        let location = Location::caller();
        let locals = local_ranks(devices, location)?;
        if wants_nccl(&locals)? {
            match crate::nccl::load() {
                Ok(library) => return Self::over_nccl(library, locals, location),
                Err(error) => log!(info, %error, "collectives use peer copies"),
            }
        }
        Self::over_links(locals)
    }

    /// Creates a group of these devices whose collectives are kernels and copies between them, with
    /// the same results on every run: see [Backends and
    /// determinism](Self#backends-and-determinism).
    ///
    /// ```
    /// use millstream::Device;
    /// use millstream_collective::Collectives;
    ///
    /// let collectives = Collectives::direct(&[Device::simulated()?])?;
    /// assert_eq!(collectives.backend(), "direct");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn direct(devices: &[Device]) -> Result<Self> {
        Self::over_links(local_ranks(devices, Location::caller())?)
    }

    /// Creates a group of these devices that NCCL connects, which takes up to some seconds.
    ///
    /// ```no_run
    /// use millstream::Device;
    /// use millstream_collective::Collectives;
    ///
    /// let collectives = Collectives::by_nccl(&Device::all()?)?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); also if NCCL cannot be loaded or does not connect the devices, as for
    /// simulated ones.
    #[track_caller]
    pub fn by_nccl(devices: &[Device]) -> Result<Self> {
        let location = Location::caller();
        let locals = local_ranks(devices, location)?;
        if let Some(device) = locals
            .iter()
            .map(LocalRank::device)
            .find(Device::is_simulated)
        {
            return Err(Error::unavailable(format!("NCCL cannot use {device}")));
        }
        let library = crate::nccl::load().map_err(Error::unavailable)?;
        Self::over_nccl(library, locals, location)
    }

    fn over_nccl(
        library: Arc<dyn crate::nccl::Nccl>,
        locals: Arc<[LocalRank]>,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let group = communicators::in_process(library, Arc::clone(&locals), true, location)?;
        let backend = NcclBackend::new(group)?;
        let ranks = locals.len();
        Ok(Self::with_backend(Arc::new(backend), locals, ranks))
    }

    fn over_links(locals: Arc<[LocalRank]>) -> Result<Self> {
        let backend = DirectBackend::new(Arc::clone(&locals))?;
        let ranks = locals.len();
        Ok(Self::with_backend(Arc::new(backend), locals, ranks))
    }

    /// Creates a group of `ranks` ranks, of which `locals` are in this process, in ascending order.
    fn with_backend(backend: Arc<dyn Backend>, locals: Arc<[LocalRank]>, ranks: usize) -> Self {
        debug_assert!(locals.is_sorted_by(|one, next| one.rank < next.rank));
        Self {
            backend,
            locals,
            ranks,
        }
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the ranks of this process, in ascending order: the order in which collectives take
    /// the arrays.
    #[must_use]
    pub fn local_ranks(&self) -> Vec<usize> {
        self.locals.iter().map(|local| local.rank).collect()
    }

    /// Returns the name of the implementation, for logs.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend.name()
    }

    /// Returns an error if a device is lost.
    fn check_alive(&self) -> Result<()> {
        let mut devices = self.locals.iter().map(LocalRank::device);
        devices.try_for_each(|device| check_alive(&device))
    }

    /// Enqueues operations whose operands were checked, except those without elements.
    fn submit(&self, mut group: Vec<CollectiveOp<'_>>) -> Result<()> {
        self.check_alive()?;
        group.retain(|operation| !operation.is_empty());
        if group.is_empty() {
            return Ok(());
        }
        self.backend.submit(&group)
    }
}

// A panic leaves a group consistent: its locks are not held while code of users runs.
impl std::panic::UnwindSafe for Collectives {}
impl std::panic::RefUnwindSafe for Collectives {}

impl fmt::Debug for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ranks) = (self.backend(), self.ranks);
        write!(f, "Collectives({name}, {ranks} ranks: {:?})", self.locals)
    }
}

/// Returns whether NCCL is the better choice for a group: for more than two GPUs, and for two that
/// cannot access each other's memory. Between two H200s linked by NVLink the direct backend takes
/// four fifths of NCCL's time (docs/measurements/2026-11-22-h200-several-devices.md).
fn wants_nccl(locals: &[LocalRank]) -> Result<bool> {
    match locals {
        [one, two] if !one.device().is_simulated() => {
            Ok(!one.device().peer_status(&two.device())?.is_direct())
        }
        _ => Ok(locals.len() > 2 && locals.iter().all(|local| !local.device().is_simulated())),
    }
}

fn local_ranks(
    devices: &[Device],
    location: &'static Location<'static>,
) -> Result<Arc<[LocalRank]>> {
    check_devices(devices).map_err(|usage_error| usage_error.at(location))?;
    devices
        .iter()
        .enumerate()
        .map(|(rank, device)| LocalRank::new(rank, device, location))
        .collect()
}

/// Returns an error if the devices cannot form a group.
fn check_devices(devices: &[Device]) -> Result<(), UsageError> {
    const OPERATION: &str = "Collectives::new";
    let refuse = |problem| Err(UsageError::new(OPERATION, problem));
    let Some(first) = devices.first() else {
        return refuse(UsageErrorKind::NoDevices);
    };
    for (rank, device) in devices.iter().enumerate() {
        if let Some(earlier) = devices[..rank].iter().position(|known| known == device) {
            return refuse(UsageErrorKind::RepeatedDevice {
                device: device.to_string(),
                first: earlier,
                second: rank,
            });
        }
        if !share_driver(first, device) {
            let (first, other) = first.told_apart(device);
            return refuse(UsageErrorKind::OtherDriver { first, other, rank });
        }
    }
    Ok(())
}
