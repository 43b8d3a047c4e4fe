//! Collectives: operations in which the devices of a group take part together.
//!
//! [`Collectives`] checks the operands of a call and describes it as [`CollectiveOp`]s; a
//! [`Backend`] enqueues them.
//!
//! The [direct backend](direct) consists of ordinary tracked operations, copies between devices and
//! kernels. It adds in the order of the ranks, so its results are those of a plain loop, to the bit.

mod calls;
mod direct;
mod element;
mod fold;
mod group;
mod local_rank;
mod operands;
mod operation;

use std::{fmt, panic::Location, sync::Arc};

use direct::DirectBackend;
pub use element::{CollectiveElement, Reduce};
pub use group::Group;
use local_rank::LocalRank;
use operation::{Backend, CollectiveKind, CollectiveOp, Part};

use crate::{Device, Result, UsageError, UsageErrorKind};

/// A group of devices that exchange and combine arrays.
///
/// Each device has a rank, its index in the group. A collective takes one array of each rank of
/// this process, in the order of [`local_ranks`](Self::local_ranks).
///
/// # Ordering
///
/// Calls return without waiting for device work. For each rank a collective runs on a stream that
/// all groups of its device share. Like every operation it runs after the earlier operations on its
/// arrays, and before the later ones, whichever streams and threads they come from; there is nothing
/// to synchronise. Threads may use one group, or groups with the same devices, concurrently.
///
/// # Determinism
///
/// Reductions combine the elements in the order of the ranks, ((x₀ + x₁) + x₂) + …, whichever device
/// does it. So every run gives the same bits, those of a loop on the host, except for the payloads
/// of NaNs.
///
/// # Failures
///
/// A usage error is found before anything is enqueued. If a device is lost while a collective is
/// pending, the arrays of the other ranks that it was to write are
/// [poisoned](crate::Error::Poisoned) until they are overwritten as a whole. After any other error
/// of the driver the contents of the written arrays are unspecified.
///
/// ```
/// use millstream::{Collectives, Device, Reduce, sim::{Gpu, SimConfig}};
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
    /// The first group of two devices turns on peer access between them, which takes some ten
    /// milliseconds and waits for no other work. Devices without peer access exchange data through
    /// the host.
    ///
    /// ```
    /// use millstream::{Collectives, Device};
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
        check_devices(devices).map_err(|usage_error| usage_error.at(location))?;
        let locals: Arc<[LocalRank]> = devices
            .iter()
            .enumerate()
            .map(|(rank, device)| LocalRank::new(rank, device, location))
            .collect::<Result<_>>()?;
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
    ///
    /// ```
    /// use millstream::{Collectives, Device};
    ///
    /// let collectives = Collectives::new(&[Device::simulated()?])?;
    /// assert_eq!(collectives.ranks(), 1);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the ranks of this process, in ascending order: the order in which collectives take
    /// the arrays.
    ///
    /// ```
    /// use millstream::{Collectives, Device, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// assert_eq!(Collectives::new(&devices)?.local_ranks(), [0, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn local_ranks(&self) -> Vec<usize> {
        self.locals.iter().map(|local| local.rank).collect()
    }

    /// Returns the name of the implementation, for logs.
    ///
    /// ```
    /// use millstream::{Collectives, Device};
    ///
    /// let collectives = Collectives::new(&[Device::simulated()?])?;
    /// assert_eq!(collectives.backend(), "direct");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend.name()
    }

    /// Returns an error if a device is lost.
    fn check_alive(&self) -> Result<()> {
        let mut devices = self.locals.iter().map(LocalRank::device);
        devices.try_for_each(|device| device.check_alive())
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

impl fmt::Debug for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ranks) = (self.backend(), self.ranks);
        write!(f, "Collectives({name}, {ranks} ranks: {:?})", self.locals)
    }
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
        if !device.state().shares_driver(first.state()) {
            let (first, other) = first.told_apart(device);
            return refuse(UsageErrorKind::OtherDriver { first, other, rank });
        }
    }
    Ok(())
}
