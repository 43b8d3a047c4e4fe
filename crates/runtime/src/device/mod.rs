//! Devices: opening, properties, health, closing.

mod health;
mod properties;
mod registry;
mod select;
mod teardown;
mod thread;

use std::{panic::Location, sync::Arc};

use millstream_driver::{ContextHandle, CurrentContext, DeviceOrdinal, Driver, DriverError};
use millstream_sim::{Gpu, SimConfig};

pub use health::Health;
pub use properties::{DeviceProperties, PciAddress, Uuid};
pub use select::Select;

use crate::{Device, Result, Stream};

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
        let _name = self.state().named("stream", Location::caller());
        Stream::new(self.state(), priority)
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
        let name = self.state().named("thread_stream", Location::caller());
        let own = thread::stream_of(self.state())?;
        drop(name);
        match own {
            Some(state) => Ok(Stream::borrowed(self.state(), state)),
            None => self.stream(),
        }
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// How the device was chosen when it was first opened, for people: why it is simulated, if it is.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.state().note
    }

    /// Whether the device is simulated.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.state().is_simulated
    }

    /// Major and minor number of the compute capability.
    #[must_use]
    pub fn compute_capability(&self) -> (i32, i32) {
        self.state().limits.compute_capability
    }

    /// Multiprocessors of the device.
    #[must_use]
    pub fn multiprocessors(&self) -> i32 {
        self.state().limits.multiprocessors
    }

    /// The failure that made the device unusable, if one has been seen. [`health`](Self::health) says more.
    #[must_use]
    pub fn lost(&self) -> Option<DriverError> {
        self.state().lost().cloned()
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
        self.state().check_alive()?;
        // SAFETY: the context lives as long as the device.
        let entered = unsafe { CurrentContext::enter(&*self.state().driver, self.state().context) };
        self.state().checked(entered)
    }

    /// The driver's context, for calls to other libraries.
    #[must_use]
    pub fn as_raw(&self) -> ContextHandle {
        self.state().context
    }

    /// Both devices as text, which says where each was opened if they have the same name.
    #[doc(hidden)]
    #[must_use]
    pub fn told_apart(&self, other: &Self) -> (String, String) {
        self.state().told_apart(other.state())
    }
}
