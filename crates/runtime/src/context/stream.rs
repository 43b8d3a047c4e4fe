//! `Stream`: a handle to a queue of device work.

use std::{fmt, sync::Arc};

use millstream_driver::StreamHandle;

use super::{Device, DeviceState, StreamState, adopted::Keeper, adoption::leave};
use crate::{Result, UsageError, UsageErrorKind};

/// A queue of device work, as a CUDA stream.
///
/// Operations of one stream run in the order of the calls ([rule 16]: a stream is first in, first
/// out). Operations of different streams run concurrently unless they access the same memory and
/// one of them writes it: then the later one waits for the earlier one, on the device, whatever
/// streams and threads they come from. Methods return without waiting for device work, except
/// [`synchronize`](Self::synchronize) and transfers beyond the [staging
/// limit](Device::set_staging_limit).
///
/// Cloning a stream returns another handle to the same queue. When the last handle is dropped, the
/// pending work continues.
///
/// Streams are created as non-blocking: they do not synchronise with the legacy default stream
/// ([rule 18]), which this library never uses.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let (loader, worker) = (device.stream()?, device.stream()?);
/// let mut numbers = loader.upload(&[1_i32; 1000])?;
/// worker.fill(numbers.slice_mut(500..), 2)?; // waits for the upload, on the device
/// // Waits for the fill, on the device.
/// let sum: i32 = loader.download(&numbers)?.wait()?.iter().sum();
/// assert_eq!(sum, 1500);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// [rule 16]: crate::guide::semantics#rule-16
/// [rule 18]: crate::guide::semantics#rule-18
#[derive(Clone)]
#[doc(alias("CUstream", "cudaStream_t", "CudaStream", "torch.cuda.Stream"))]
pub struct Stream {
    inner: Arc<Handle>,
}

pub(super) struct Handle {
    device: Arc<DeviceState>,
    state: Arc<StreamState>,
    end: End,
}

/// What the drop of a stream's last handle does.
enum End {
    Retire,
    /// Nothing: the owner retires the stream.
    Borrowed,
    /// Lets go of a stream of another library, whose companion is then retired.
    Leave(Arc<StreamState>),
}

impl Stream {
    pub(crate) fn new(device: &Arc<DeviceState>, priority: i32) -> Result<Self> {
        Ok(Self::acquired(device, device.acquire_stream(priority)?))
    }

    /// Creates the only handle to a stream that is not retired.
    pub(crate) fn acquired(device: &Arc<DeviceState>, state: Arc<StreamState>) -> Self {
        Self {
            inner: Arc::new(Handle {
                device: Arc::clone(device),
                state,
                end: End::Retire,
            }),
        }
    }

    /// Creates a handle to a stream that its owner retires.
    pub(crate) fn borrowed(device: &Arc<DeviceState>, state: Arc<StreamState>) -> Self {
        Self {
            inner: Arc::new(Handle {
                device: Arc::clone(device),
                state,
                end: End::Borrowed,
            }),
        }
    }

    /// Creates a handle to a stream of another library, of the device's context. `keeper` is
    /// dropped when the stream is not needed any more.
    pub(crate) fn adopt(
        device: &Arc<DeviceState>,
        raw: StreamHandle,
        keeper: Keeper,
    ) -> Result<Self> {
        if device.streams.iter().next().is_none() {
            // The first stream of a device is its own: it tells whether the device still works.
            let own = device.acquire_stream(0)?;
            device.retire_stream(own);
        }
        let new_handle = |owner, companion: Arc<StreamState>| {
            *companion.owner.lock() = Some(Arc::clone(&owner));
            Arc::new(Handle {
                device: Arc::clone(device),
                state: companion,
                end: End::Leave(owner),
            })
        };
        let inner = device
            .adoption_slot
            .adopt(device, raw, keeper, new_handle)?;
        Ok(Self { inner })
    }

    /// Returns the device on which the stream's work runs.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::from_state(Arc::clone(&self.inner.device))
    }

    /// Returns the driver's handle, for calls to other libraries. Work that they enqueue is not
    /// tracked. The handle is valid as long as the device is open.
    #[must_use]
    pub fn as_raw(&self) -> StreamHandle {
        self.owner_state().handle
    }

    /// Returns the stream's number on its device, counted from 1 in the order of creation.
    /// Suspects, timelines and the simulated device's reports use the same number. Streams of
    /// different devices may have equal numbers. A dropped stream that is reused keeps its number.
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

    /// Returns the state of the owner's stream if this one is adopted, or else its own: the stream
    /// on which other libraries enqueue.
    pub(crate) fn owner_state(&self) -> &Arc<StreamState> {
        match &self.inner.end {
            End::Leave(owner) => owner,
            End::Retire | End::Borrowed => &self.inner.state,
        }
    }

    /// Returns an error if the operand is not on the stream's device.
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
                advice: "",
            },
        )
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        match &self.end {
            End::Retire => {}
            End::Borrowed => return,
            End::Leave(owner) => leave(&self.device, owner, &self.state),
        }
        self.device.retire_stream(Arc::clone(&self.state));
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {})", self.id(), self.inner.device)
    }
}
