//! Creation of streams, and one implicit stream per thread.
//!
//! A thread's stream does not keep the device open, and is retired when the thread ends.

use std::{
    cell::RefCell,
    panic::Location,
    sync::{Arc, Weak},
};

use bytemuck::Pod;

use crate::{
    Buffer, Device, Result, Stream,
    context::{DeviceState, StreamState, Visit},
};

impl Device {
    /// Creates a stream, or reuses an idle one whose handles were dropped.
    ///
    /// # Errors
    ///
    /// If the driver cannot create a stream, or the device is lost.
    #[track_caller]
    #[doc(alias(
        "cuStreamCreate",
        "cudaStreamCreate",
        "new_stream",
        "fork_default_stream"
    ))]
    pub fn stream(&self) -> Result<Stream> {
        self.stream_with_priority(0)
    }

    /// Creates a stream with this priority, clamped to the device's range. Lower numbers mean
    /// higher priority.
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    #[track_caller]
    #[doc(alias("cuStreamCreateWithPriority", "cudaStreamCreateWithPriority"))]
    pub fn stream_with_priority(&self, priority: i32) -> Result<Stream> {
        let _name = self.state().named("stream", Location::caller());
        Stream::new(self.state(), priority)
    }

    /// Returns a stream like [`stream`](Self::stream), but of the reused ones preferably one whose
    /// last operation wrote to one of these arrays, the earliest in the list: work on that array
    /// then needs no wait.
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    #[doc(hidden)]
    #[track_caller]
    pub fn stream_behind<'a, T: Pod>(
        &self,
        arrays: impl IntoIterator<Item = &'a Buffer<T>>,
    ) -> Result<Stream> {
        let _name = self.state().named("stream", Location::caller());
        let writes = arrays.into_iter().flat_map(Buffer::last_writes);
        let state = self.state().acquire_stream_behind(writes)?;
        Ok(Stream::acquired(self.state(), state))
    }

    /// Returns the calling thread's own stream of this device, created on first use. Threads do not
    /// share these streams, so none delays another. While the thread is destroying its thread-local
    /// variables, a new stream is returned instead.
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

/// A stream owned by a thread, retired when the thread ends.
struct ThreadStream {
    device: Weak<DeviceState>,
    state: Arc<StreamState>,
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        if let Some(device) = Visit::to(&self.device) {
            device.retire_stream(Arc::clone(&self.state));
        }
    }
}

thread_local! {
    static STREAMS: RefCell<Vec<ThreadStream>> = const { RefCell::new(Vec::new()) };
}

/// Returns the calling thread's stream of the device, created on first use, or `None` while the
/// thread is destroying its thread-local variables.
fn stream_of(device: &Arc<DeviceState>) -> Result<Option<Arc<StreamState>>> {
    let stream = STREAMS.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        streams.retain(|entry| entry.device.strong_count() > 0);
        let entry = streams
            .iter()
            .find(|entry| std::ptr::eq(entry.device.as_ptr(), Arc::as_ptr(device)));
        if let Some(entry) = entry {
            return Ok(Arc::clone(&entry.state));
        }
        let state = device.acquire_stream(0)?;
        streams.push(ThreadStream {
            device: Arc::downgrade(device),
            state: Arc::clone(&state),
        });
        Ok(state)
    });
    stream.ok().transpose()
}
