//! Frees that were put off, and the stream on which memory used by several streams is freed.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    Result,
    device::StreamState,
    submit::Freed,
    sync::{AtomicBool, Ordering},
};

/// The device's frees in waiting.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// Whether `put_off` may hold something; read on every submission.
    any: AtomicBool,
    put_off: Mutex<Vec<Freed>>,
    stream: Mutex<Option<Arc<StreamState>>>,
}

impl Reclaim {
    /// Keeps a free for later.
    pub(crate) fn put_off(&self, freed: Freed) {
        self.put_off.lock().push(freed);
        self.any.store(true, Ordering::Release);
    }

    /// Bytes whose frees were put off.
    pub(crate) fn put_off_bytes(&self) -> u64 {
        self.put_off.lock().iter().map(|freed| freed.bytes).sum()
    }

    /// Whether something may have been put off.
    #[inline]
    pub(crate) fn has_put_off(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes all that was put off.
    pub(crate) fn take_put_off(&self) -> Vec<Freed> {
        let mut put_off = self.put_off.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *put_off)
    }

    /// The stream on which memory is freed that several streams have used, made by `acquire` on first use.
    pub(crate) fn stream(
        &self,
        acquire: impl FnOnce() -> Result<Arc<StreamState>>,
    ) -> Result<Arc<StreamState>> {
        let mut stream = self.stream.lock();
        if let Some(stream) = &*stream {
            return Ok(Arc::clone(stream));
        }
        let made = acquire()?;
        *stream = Some(Arc::clone(&made));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use millstream_driver::DevicePtr;
    use smallvec::SmallVec;

    use super::*;
    use crate::tracker::StreamId;

    #[test]
    fn what_is_put_off_counts_until_it_is_taken() {
        let reclaim = Reclaim::default();
        assert!(!reclaim.has_put_off());
        for (address, bytes) in [(16, 100), (32, 7)] {
            reclaim.put_off(Freed {
                pointer: DevicePtr::from_raw(address),
                bytes,
                home: StreamId::of(1),
                uses: SmallVec::new(),
            });
        }
        assert!(reclaim.has_put_off());
        assert_eq!(reclaim.put_off_bytes(), 107);
        assert_eq!(reclaim.take_put_off().len(), 2);
        assert!(!reclaim.has_put_off() && reclaim.take_put_off().is_empty());
        assert_eq!(reclaim.put_off_bytes(), 0);
    }
}
