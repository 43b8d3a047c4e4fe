//! Devices: opening, properties, health, closing.

mod health;
mod open;
mod properties;
mod streams;
mod teardown;

use millstream_driver::{ContextHandle, CurrentContext, Driver, DriverError};

pub use health::Health;
pub use open::Select;
pub use properties::{DeviceProperties, PciAddress, Uuid};

use crate::{Device, Result};

impl Device {
    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// How the device was chosen when it was first opened, for people: why it is simulated, if it
    /// is.
    #[must_use]
    pub fn selection_reason(&self) -> &str {
        &self.state().selection_reason
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

    /// The failure that made the device unusable, if one has been seen. [`health`](Self::health)
    /// says more.
    #[must_use]
    pub fn lost(&self) -> Option<DriverError> {
        self.state().lost().cloned()
    }

    /// Makes the device's context current on the calling thread until the guard is dropped, for
    /// functions of other libraries that work in the current one. They are to leave it current. The
    /// guard puts another library's context back.
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
