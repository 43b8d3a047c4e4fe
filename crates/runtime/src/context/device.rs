//! `Device`: a handle to a GPU.

use std::{any::Any, fmt, sync::Arc};

use super::DeviceState;

/// A handle to a GPU. It is cheap to clone, and everything created from it keeps the device open.
///
/// Opening the same GPU twice, even from independent parts of a program, returns the same device:
/// work submitted through one handle is ordered with work submitted through the other.
///
/// Dropping the last handle closes the device: its resources are freed, at once if its work is
/// complete, and otherwise by a thread that waits for completion. Page-locked memory and modules
/// are freed only while none of this library's streams has pending work, on this device or another,
/// because freeing them waits until the devices are idle ([rule 30]); otherwise another device
/// frees them later. Work that other libraries have enqueued is not visible to this library, so the
/// thread that drops the last handle may wait for it.
///
/// # After `fork`
///
/// A forked child opens its own devices: the library restarts the threads that it needs for futures
/// and copies. This requires that no other thread of the parent was inside a call of this library
/// at the fork, since the child inherits every lock in its state at the fork. Calls on a device of
/// the parent return an error in the child. CUDA itself cannot be used in the child of a process
/// that has used it; simulated devices can.
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
///
/// [rule 30]: crate::guide::semantics#rule-30
#[derive(Clone)]
#[doc(alias(
    "cuDevicePrimaryCtxRetain",
    "cudaSetDevice",
    "CudaContext",
    "CudaDevice",
    "torch.device"
))]
pub struct Device {
    state: Arc<DeviceState>,
}

impl Device {
    /// Returns the value of type `T` that the device keeps for a crate above this one, and creates
    /// it with `make` on first use. If several threads create it concurrently, one value is kept.
    /// No lock is held while `make` runs.
    ///
    /// The value is dropped when the device is closed, so it must not hold anything that keeps the
    /// device open: no handle to the device, its streams or its arrays.
    #[doc(hidden)]
    pub fn slot<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.state.slots.get_or_make(make)
    }

    /// Calls this function whenever an allocation of the device fails, before its error is
    /// returned: to release what can be made again. It returns whether it has released anything;
    /// then the allocation is tried once more.
    ///
    /// It is kept until the device is closed, so what holds for the values of [`slot`](Self::slot)
    /// holds for what it captures.
    #[doc(hidden)]
    pub fn on_memory_shortage(&self, release: impl Fn() -> bool + Send + Sync + 'static) {
        self.state.slots.add_release(Arc::new(release));
    }

    pub(crate) fn from_state(state: Arc<DeviceState>) -> Self {
        Self { state }
    }

    pub(crate) fn state(&self) -> &Arc<DeviceState> {
        &self.state
    }
}

impl PartialEq for Device {
    /// Returns whether both handles refer to the same device.
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
