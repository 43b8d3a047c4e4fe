//! `Stream`: a queue of device work, and the verbs that put work into it.

use std::{fmt, sync::Arc};

use millstream_driver::StreamHandle;

use super::{Device, DeviceState, StreamState};
use crate::{Result, UsageError, UsageErrorKind};

/// A queue of work for a device.
///
/// Operations of one stream run in the order in which they are called for (rule 16). Operations of
/// different streams run beside each other unless they touch the same memory and one of them writes
/// it: then the later one waits for the earlier one, on the device, whatever streams and threads
/// they come from. No method here blocks the host on device work.
///
/// Cloning a stream gives another handle of the same queue. Dropping the last handle lets its work
/// go on.
///
/// Streams are always non-blocking towards the legacy default stream (rule 18), which this library
/// never uses.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let (loader, worker) = (device.stream()?, device.stream()?);
/// let mut numbers = loader.upload(&[1_i32; 1000])?;
/// worker.fill(numbers.slice_mut(500..), 2)?; // waits for the upload, on the device
/// let sum: i32 = loader.download(&numbers)?.wait()?.iter().sum(); // waits for the fill, on the device
/// assert_eq!(sum, 1500);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Handle>,
}

/// What the handles of one stream share.
struct Handle {
    device: Arc<DeviceState>,
    state: Arc<StreamState>,
    /// Whether the last handle retires the stream; if not, someone else does.
    retires: bool,
}

impl Stream {
    pub(crate) fn new(device: &Arc<DeviceState>, priority: i32) -> Result<Self> {
        let state = device.acquire_stream(priority)?;
        Ok(Self {
            inner: Arc::new(Handle {
                device: Arc::clone(device),
                state,
                retires: true,
            }),
        })
    }

    /// A handle of a stream that someone else retires.
    pub(crate) fn borrowed(device: &Arc<DeviceState>, state: Arc<StreamState>) -> Self {
        Self {
            inner: Arc::new(Handle {
                device: Arc::clone(device),
                state,
                retires: false,
            }),
        }
    }

    /// The device on which the stream's work runs.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::from_state(Arc::clone(&self.inner.device))
    }

    /// The driver's handle, for calls to other libraries. What they enqueue is not tracked. It
    /// stays alive as long as the device does.
    #[must_use]
    pub fn as_raw(&self) -> StreamHandle {
        self.inner.state.handle
    }

    /// The stream's number on its device, from 1 in the order of creation. Suspects, timelines and
    /// the simulated device's reports use the same number. Streams of different devices may have
    /// equal numbers. A dropped stream that is handed out again keeps its number.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// assert_eq!([device.stream()?, device.stream()?].map(|stream| stream.id()), [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.state.number
    }

    pub(crate) fn device_state(&self) -> &Arc<DeviceState> {
        &self.inner.device
    }

    pub(crate) fn state(&self) -> &Arc<StreamState> {
        &self.inner.state
    }

    /// An error if the operand is not on the stream's device.
    #[inline]
    pub(crate) fn same_device(
        &self,
        operation: &'static str,
        operand: usize,
        device: &Arc<DeviceState>,
    ) -> Result<(), UsageError> {
        if Arc::ptr_eq(device, self.device_state()) {
            return Ok(());
        }
        Err(self.other_device(operation, operand, device))
    }

    #[cold]
    fn other_device(
        &self,
        operation: &'static str,
        operand: usize,
        device: &DeviceState,
    ) -> UsageError {
        let (operand_device, stream_device) = device.told_apart(self.device_state());
        UsageError::new(
            operation,
            UsageErrorKind::OtherDevice {
                operand,
                name: None,
                operand_device,
                stream_device,
            },
        )
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.retires {
            self.device.retire_stream(Arc::clone(&self.state));
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {})", self.id(), self.inner.device)
    }
}
