//! Devices: opening, properties, health, closing.

mod closed;
pub(crate) mod closing;
mod health;
mod open;
mod properties;
mod several;
mod streams;
mod teardown;
mod topology;

use millstream_driver::{ContextHandle, CurrentContext, Driver, DriverError};

pub use closed::Closed;
pub use health::Health;
pub use open::Select;
pub use properties::{DeviceProperties, PciAddress, Uuid};
pub use topology::{PeerLink, Topology, TopologyDevice};

use crate::{Device, Result};

impl Device {
    /// Returns the device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// Returns a text that explains how the device was chosen when it was first opened, and, if it
    /// is simulated, why.
    #[must_use]
    pub fn selection_reason(&self) -> &str {
        &self.state().selection_reason
    }

    /// Returns whether the device is simulated.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.state().is_simulated
    }

    /// Returns the major and minor number of the compute capability.
    #[must_use]
    pub fn compute_capability(&self) -> (i32, i32) {
        self.state().limits.compute_capability
    }

    /// Returns the number of multiprocessors.
    #[must_use]
    pub fn multiprocessors(&self) -> i32 {
        self.state().limits.multiprocessors
    }

    /// Returns the failure that made the device unusable, if one has been observed.
    /// [`health`](Self::health) also returns the suspects.
    #[must_use]
    pub fn lost(&self) -> Option<DriverError> {
        self.state().lost().cloned()
    }

    /// Makes the device's context current on the calling thread until the guard is dropped, for
    /// functions of other libraries that use the current context. They must leave it current.
    /// Dropping the guard restores the context that was current before.
    ///
    /// # Errors
    ///
    /// If the device does not belong to libcuda, such as a simulated one, or if it is lost.
    #[doc(hidden)]
    #[allow(unsafe_code, reason = "the device keeps its own context alive")]
    pub fn enter_context(&self) -> Result<CurrentContext<'_, dyn Driver>> {
        self.state().check_alive()?;
        // SAFETY: the context lives as long as the device.
        let entered = unsafe { CurrentContext::enter(&*self.state().driver, self.state().context) };
        self.state().checked(entered)
    }

    /// Returns the device's ordinal among those of its driver.
    #[must_use]
    pub fn ordinal(&self) -> i32 {
        self.state().ordinal.as_raw()
    }

    /// Returns the driver's context, for calls to other libraries.
    #[must_use]
    pub fn as_raw(&self) -> ContextHandle {
        self.state().context
    }

    /// Returns both devices as text. If their names are equal, the text says where each was opened.
    #[doc(hidden)]
    #[must_use]
    pub fn told_apart(&self, other: &Self) -> (String, String) {
        self.state().told_apart(other.state())
    }
}
