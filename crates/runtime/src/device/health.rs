//! `Health`: the state of a device, alive or lost.

use std::sync::Arc;

use millstream_driver::DriverError;

use crate::{Device, error::Suspect};

/// The state of a device, as returned by [`Device::health`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Health {
    /// No failure that makes the device unusable has been observed.
    Alive,
    /// A failure has made the device unusable for the rest of the process.
    #[non_exhaustive]
    Lost {
        /// The first failure that was observed.
        cause: DriverError,
        /// The operations that may have caused the loss: for each stream, the first kernel or graph
        /// that was not known to be complete. Copies and fills of this library access only valid
        /// memory, so they are suspects only if no stream has such a kernel: then each stream's
        /// first incomplete operation is listed.
        suspects: Arc<[Suspect]>,
    },
}

impl Device {
    /// Returns the state of the device as far as it has been observed, without a driver call.
    /// Waiting for an operation of a lost device returns
    /// [`Error::DeviceLost`](crate::Error::DeviceLost).
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
