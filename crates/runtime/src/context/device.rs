//! `Device`: a handle of a device.

use std::{any::Any, fmt, sync::Arc};

use super::DeviceState;

/// A GPU. Cheap to clone; everything made from it keeps it open.
///
/// Opening the same GPU twice, also from independent parts of a program, gives the same device:
/// work submitted through either is ordered with work submitted through the other.
///
/// When nobody holds it any more it is closed: what it has made is given back, at once if its work
/// is over, and else by a thread that waits for that. Page-locked memory and modules are given back
/// only while none of this library's streams in the context has work, for to free them waits for
/// all of it (rule 30). What other libraries have enqueued in the same context cannot be seen from
/// here: the end of that work is then waited for where the last handle is dropped.
///
/// # After `fork`
///
/// A forked child opens devices of its own: the library starts the threads anew that it needs, for
/// futures and copies too. That holds if no other thread of the parent was inside a call of this
/// library at the fork, since the child inherits every lock as it was then. A device of the parent
/// answers the child with an error. CUDA itself refuses to work in the child of a process that has
/// used it; simulated devices work.
///
/// # Examples
///
/// ```
/// use millstream::{Device, Select};
///
/// let device = Device::open(Select::Auto)?; // a GPU if there is one, else a simulated one
/// println!("{device}: {}", device.selection_reason());
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    state: Arc<DeviceState>,
}

impl Device {
    /// The value of type `T` that the device keeps for a crate above this one; the first time, the
    /// one that `make` gives. Of several made at once, one is kept. Nothing is locked while it is
    /// made.
    ///
    /// It is dropped when the device is closed, so it must not hold what keeps the device open: no
    /// handle of it, of its streams or of its arrays.
    #[doc(hidden)]
    pub fn slot<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.state.slots.get_or_make(make)
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
