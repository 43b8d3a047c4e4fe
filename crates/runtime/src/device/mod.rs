//! `Device`: a GPU, real or simulated, and the way to get one.

mod attention;
mod closing;
mod events;
mod health;
mod limits;
mod names;
mod properties;
mod registry;
mod select;
mod slots;
mod sources;
mod state;
mod stream_state;
mod streams;
mod tenancy;
mod thread;

use std::{any::Any, fmt, panic::Location, sync::Arc};

use bytemuck::Pod;
use millstream_driver::{ContextHandle, CurrentContext, DeviceOrdinal, Driver, DriverError};
use millstream_sim::{Gpu, SimConfig};

pub(crate) use attention::ForeignCall;
pub(crate) use events::PooledEvent;
pub(crate) use health::probably;
pub use health::{Health, Suspect};
pub use properties::{DeviceProperties, PciAddress, Uuid};
pub use select::Select;
pub(crate) use sources::wait_for_source;
pub(crate) use state::DeviceState;
pub(crate) use stream_state::{Awaited, Lane, StreamState};

use crate::{Pinned, Result, Stream, copy::Tuning, timeline::Timeline};

/// A GPU. Cheap to clone; everything made from it keeps it open.
///
/// Opening the same GPU twice, also from independent parts of a program, gives the same device: work submitted through
/// either is ordered with work submitted through the other.
///
/// When nobody holds it any more it is closed: what it has made is given back, at once if its work is over, and else by a
/// thread that waits for that. Page-locked memory and modules are given back only while none of this library's streams in
/// the context has work, for to free them waits for all of it (rule 30). What other libraries have enqueued in the same
/// context cannot be seen from here: the end of that work is then waited for where the last handle is dropped.
///
/// # After `fork`
///
/// A forked child opens devices of its own: the library starts the threads anew that it needs, for futures and copies
/// too. That holds if no other thread of the parent was inside a call of this library at the fork, since the child
/// inherits every lock as it was then. A device of the parent answers the child with an error. CUDA itself refuses to
/// work in the child of a process that has used it; simulated devices work.
///
/// # Examples
///
/// ```
/// use millstream::{Device, Select};
///
/// let device = Device::open(Select::Auto)?; // a GPU if there is one, else a simulated one
/// println!("{device}: {}", device.note());
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    state: Arc<DeviceState>,
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// If there is no such device, or nothing that can drive it; the error lists what was looked for. `Auto` never fails
    /// for want of a GPU.
    #[track_caller]
    pub fn open(select: Select) -> Result<Self> {
        select::open(select)
    }

    /// The number of GPUs that [`Select::Cuda`] can open, by ordinals from 0: those that NVIDIA's driver
    /// shows to this process, and none without such a driver. Simulated devices are not among them: a
    /// program makes as many as it likes.
    ///
    /// ```
    /// use millstream::{Device, Select};
    ///
    /// for ordinal in 0..Device::count()? {
    ///     let device = Device::open(Select::Cuda(ordinal))?;
    ///     println!("{device}: {:?}", device.properties()?);
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is a driver that is too old, or does not start.
    pub fn count() -> Result<i32> {
        select::count()
    }

    /// Opens a new simulated device with the default settings.
    ///
    /// # Errors
    ///
    /// None is known.
    #[track_caller]
    pub fn simulated() -> Result<Self> {
        Self::of(&Gpu::new(SimConfig::default()), 0)
    }

    /// Opens a device of a simulated GPU that the caller keeps a handle to.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::default());
    /// let device = Device::of(&gpu, 0)?;
    /// let hold = gpu.hold(device.stream()?.as_raw());
    /// drop(hold);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the simulated GPU has no device of this ordinal.
    #[track_caller]
    pub fn of(gpu: &Gpu, ordinal: i32) -> Result<Self> {
        registry::open(
            gpu.driver(),
            DeviceOrdinal::from_raw(ordinal),
            "simulated, as asked for",
        )
    }

    /// Opens a device of any driver: one that counts calls, or makes them fail, in front of another.
    ///
    /// # Errors
    ///
    /// If the driver has no device of this ordinal.
    ///
    /// # Safety
    ///
    /// The driver does what [`Driver`] says: among other things, pointers that it gives out are valid memory, and copies
    /// touch no other.
    #[allow(
        unsafe_code,
        reason = "passes on the contract of a driver that safe code could not vouch for"
    )]
    #[track_caller]
    pub unsafe fn with_driver(driver: Arc<dyn Driver>, ordinal: i32) -> Result<Self> {
        registry::open(
            driver,
            DeviceOrdinal::from_raw(ordinal),
            "a driver of the caller's",
        )
    }

    /// A new stream, or an idle one that nobody holds any more.
    ///
    /// # Errors
    ///
    /// If the driver has none to give, or the device is lost.
    #[track_caller]
    pub fn stream(&self) -> Result<Stream> {
        self.stream_with_priority(0)
    }

    /// A stream of this priority, clamped to what the device has; lower numbers go first.
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    #[track_caller]
    pub fn stream_with_priority(&self, priority: i32) -> Result<Stream> {
        let _name = self.state.named("stream", Location::caller());
        Stream::new(&self.state, priority)
    }

    /// The calling thread's own stream of this device, made on first use. Two threads never share one, so that neither
    /// holds the other up. While the thread ends and destroys its variables, a new stream instead.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// assert_eq!(device.thread_stream()?.id(), device.thread_stream()?.id());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    #[track_caller]
    pub fn thread_stream(&self) -> Result<Stream> {
        let name = self.state.named("thread_stream", Location::caller());
        let own = thread::stream_of(&self.state)?;
        drop(name);
        match own {
            Some(state) => Ok(Stream::borrowed(&self.state, state)),
            None => self.stream(),
        }
    }

    /// An array of `len` zeros in page-locked host memory.
    ///
    /// # Errors
    ///
    /// If so much memory cannot be page-locked, the elements need an alignment of more than a page, 4096 bytes, or the
    /// device is lost.
    #[track_caller]
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<Pinned<T>> {
        Pinned::zeroed(&self.state, len, Location::caller())
    }

    /// An array in page-locked host memory with the elements of `source`.
    ///
    /// # Errors
    ///
    /// As [`pinned`](Self::pinned).
    #[track_caller]
    pub fn pinned_from<T: Pod>(&self, source: &[T]) -> Result<Pinned<T>> {
        let mut pinned = self.pinned(source.len())?;
        pinned.write()?.copy_from_slice(source);
        Ok(pinned)
    }

    /// Begins to note down every operation of the device, until the timeline is finished or dropped.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn timeline(&self) -> Result<Timeline> {
        Timeline::begin(&self.state)
    }

    /// Sets how copies of pageable memory are cut and shared out: for measurements and tests. `false` if such a copy was
    /// made already, or this was set before.
    #[doc(hidden)]
    pub fn set_tuning(&self, tuning: Tuning) -> bool {
        self.state.set_tuning(tuning)
    }

    /// The value of type `T` that the device keeps for a crate above this one; the first time, the one that `make` gives.
    /// Of several made at once, one is kept. Nothing is locked while it is made.
    ///
    /// It is dropped when the device is closed, so it must not hold what keeps the device open: no handle of it, of its
    /// streams or of its arrays.
    #[doc(hidden)]
    pub fn slot<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.state.slots.get_or_make(make)
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// How the device was chosen when it was first opened, for people: why it is simulated, if it is.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.state.note
    }

    /// Whether the device is simulated.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.state.is_simulated
    }

    /// Major and minor number of the compute capability.
    #[must_use]
    pub fn compute_capability(&self) -> (i32, i32) {
        self.state.limits.compute_capability
    }

    /// Multiprocessors of the device.
    #[must_use]
    pub fn multiprocessors(&self) -> i32 {
        self.state.limits.multiprocessors
    }

    /// The failure that made the device unusable, if one has been seen. [`health`](Self::health) says more.
    #[must_use]
    pub fn lost(&self) -> Option<DriverError> {
        self.state.lost().cloned()
    }

    /// Makes the device's context current on the calling thread until the guard is dropped, for functions of other
    /// libraries that work in the current one. They are to leave it current. The guard puts another library's context
    /// back.
    ///
    /// # Errors
    ///
    /// If the device is none of libcuda's, a simulated one for instance, or is lost.
    #[doc(hidden)]
    #[allow(unsafe_code, reason = "the device keeps its own context alive")]
    pub fn enter_context(&self) -> Result<CurrentContext<'_, dyn Driver>> {
        self.state.check_alive()?;
        // SAFETY: the context lives as long as the device.
        let entered = unsafe { CurrentContext::enter(&*self.state.driver, self.state.context) };
        self.state.checked(entered)
    }

    /// The driver's context, for calls to other libraries.
    #[must_use]
    pub fn as_raw(&self) -> ContextHandle {
        self.state.context
    }

    /// Both devices as text, which says where each was opened if they have the same name.
    #[doc(hidden)]
    #[must_use]
    pub fn told_apart(&self, other: &Self) -> (String, String) {
        self.state.told_apart(&other.state)
    }

    pub(crate) fn from_state(state: Arc<DeviceState>) -> Self {
        Self { state }
    }

    pub(crate) fn state(&self) -> &Arc<DeviceState> {
        &self.state
    }
}

impl PartialEq for Device {
    /// Whether both are the same device.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.state)
    }
}
