//! Deferred frees, and the stream on which memory used by several streams is freed.

use std::sync::Arc;

use parking_lot::Mutex;

use super::free::FreeingBlock;
use crate::{
    Result,
    context::{DeviceState, StreamState},
    sync::ranked::{Ranked, STREAM_FOR_FREES},
};

#[derive(Debug, Default)]
pub(crate) struct DeferredFrees {
    frees: Mutex<Vec<FreeingBlock>>,
    stream: Ranked<STREAM_FOR_FREES, Option<Arc<StreamState>>>,
}

impl DeferredFrees {
    pub(crate) fn defer(&self, device: &DeviceState, freed: FreeingBlock) {
        self.frees.lock().push(freed);
        device.set_deferred(true);
    }

    pub(crate) fn deferred_bytes(&self) -> u64 {
        self.frees
            .lock()
            .iter()
            .map(|freed| freed.block.bytes)
            .sum()
    }

    pub(crate) fn take_deferred(&self, device: &DeviceState) -> Vec<FreeingBlock> {
        let mut frees = self.frees.lock();
        device.set_deferred(false);
        std::mem::take(&mut *frees)
    }

    /// Returns the stream on which memory used by several streams is freed. `acquire` creates it on
    /// first use. Returns `None` instead of waiting for another thread that creates it.
    pub(crate) fn stream(
        &self,
        acquire: impl FnOnce() -> Result<Arc<StreamState>>,
    ) -> Option<Arc<StreamState>> {
        let mut stream = self.stream.try_lock()?;
        if stream.is_none() {
            *stream = acquire().ok();
        }
        stream.clone()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use millstream_driver::DevicePtr;
    use smallvec::SmallVec;

    use super::{
        super::free::{Contents, DroppedBlock},
        *,
    };
    use crate::{Device, tracker::StreamId};

    #[test]
    fn deferred_frees_count_as_allocated_until_taken() {
        let device = Device::simulated().expect("a simulated device opens");
        let state = device.state();
        let deferred = &state.memory().deferred;
        assert!(!state.has_deferred());
        for (address, bytes) in [(16, 100), (32, 7)] {
            let block = DroppedBlock {
                pointer: DevicePtr::from_raw(address),
                bytes,
                origin: StreamId::of(1),
                uses: SmallVec::new(),
                contents: Contents::Undefined,
            };
            let reservation = state.memory().budget.reserve_again(bytes);
            deferred.defer(state, FreeingBlock { block, reservation });
        }
        assert!(state.has_deferred());
        assert_eq!(deferred.deferred_bytes(), 107);
        assert_eq!(state.memory().budget.stats().allocated_bytes, 107);
        assert_eq!(deferred.take_deferred(state).len(), 2);
        assert!(!state.has_deferred() && deferred.take_deferred(state).is_empty());
        assert_eq!(deferred.deferred_bytes(), 0);
        assert_eq!(state.memory().budget.stats().allocated_bytes, 0);
    }

    #[test]
    fn memory_statistics_retry_deferred_frees() {
        let device = Device::simulated().expect("a simulated device opens");
        device.set_cache_limit(0);
        let stream = device.stream().expect("a stream is created");
        let array = stream.zeros::<u8>(100).expect("it fits");
        let locked = stream.state().shared.lock();
        std::thread::scope(|scope| scope.spawn(|| drop(array)).join()).expect("a free never fails");
        drop(locked);
        assert!(device.state().has_deferred());
        let memory = device.memory_stats().expect("the device is alive");
        assert_eq!((memory.allocations, memory.allocated_bytes), (0, 0));
    }
}
