//! The streams of a device, and each thread's own one.
//!
//! A thread's own stream does not keep the device open, and is retired when the thread ends.

use std::{
    cell::RefCell,
    panic::Location,
    sync::{Arc, Weak},
};

use crate::{
    Device, Result, Stream,
    context::{DeviceState, StreamState},
};

impl Device {
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

    /// The calling thread's own stream of this device, made on first use. Two threads never share
    /// one, so that neither holds the other up. While the thread ends and destroys its variables, a
    /// new stream instead.
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
        let own = stream_of(self.state())?;
        drop(name);
        match own {
            Some(state) => Ok(Stream::borrowed(self.state(), state)),
            None => self.stream(),
        }
    }
}

/// A stream that belongs to a thread.
struct ThreadStream {
    device: Weak<DeviceState>,
    state: Arc<StreamState>,
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            device.retire_stream(Arc::clone(&self.state));
        }
    }
}

thread_local! {
    static STREAMS: RefCell<Vec<ThreadStream>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread's stream of the device, made on first use. `None` while the thread ends: it
/// has none any more.
fn stream_of(device: &Arc<DeviceState>) -> Result<Option<Arc<StreamState>>> {
    let found = STREAMS.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        streams.retain(|known| known.device.strong_count() > 0);
        let known = streams
            .iter()
            .find(|known| std::ptr::eq(known.device.as_ptr(), Arc::as_ptr(device)));
        if let Some(known) = known {
            return Ok(Arc::clone(&known.state));
        }
        let state = device.acquire_stream(0)?;
        streams.push(ThreadStream {
            device: Arc::downgrade(device),
            state: Arc::clone(&state),
        });
        Ok(state)
    });
    found.ok().transpose()
}
