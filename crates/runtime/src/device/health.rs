//! `Health`: whether a device is alive.

use std::sync::Arc;

use millstream_driver::DriverError;

use crate::{Device, Suspect};

/// Whether a device is alive, by [`Device::health`].
///
/// ```
/// use millstream::{Device, Health};
/// assert!(matches!(Device::simulated()?.health(), Health::Alive));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Health {
    /// No failure has been seen that makes it unusable.
    Alive,
    /// A failure has made it unusable, in this process for good.
    #[non_exhaustive]
    Lost {
        /// The failure that was seen first.
        cause: DriverError,
        /// The operations that may have caused it: of each stream the first kernel that was not
        /// known to be done, for a copy or a fill of this library touches nothing that it may not.
        /// If there is none in any stream, the first operations of whatever sort.
        suspects: Arc<[Suspect]>,
    },
}

impl Device {
    /// Whether the device is alive, as far as anyone has seen: this asks no driver. Whoever waits
    /// is told of a loss by [`Error::DeviceLost`](crate::Error::DeviceLost).
    #[must_use]
    pub fn health(&self) -> Health {
        match self.state().loss() {
            None => Health::Alive,
            Some(loss) => Health::Lost {
                cause: loss.cause.clone(),
                suspects: Arc::clone(&loss.suspects),
            },
        }
    }
}
