//! The state that this layer keeps for a device and for a stream, in their slots.

use std::sync::{Arc, OnceLock};

use super::{
    Parked, SharedContext, StagingOptions, StagingPool,
    budget::{Budget, Frees},
    deferred::DeferredFrees,
    section::CurrentSection,
};
use crate::context::{DeviceState, StreamState};

/// A device's memory.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    /// Who else has the context open.
    pub(crate) shared: Arc<SharedContext>,
    pub(super) budget: Arc<Budget>,
    pub(crate) staging: StagingPool,
    pub(crate) deferred: DeferredFrees,
    pub(crate) parked: Parked,
    tuning: OnceLock<StagingOptions>,
}

impl DeviceMemory {
    fn new(device: &DeviceState) -> Self {
        Self {
            shared: SharedContext::of(device.driver.handle_space(), device.context),
            budget: Arc::default(),
            staging: StagingPool::default(),
            deferred: DeferredFrees::default(),
            parked: Parked::default(),
            tuning: OnceLock::new(),
        }
    }
}

impl DeviceState {
    /// The device's memory.
    #[inline]
    pub(crate) fn memory(&self) -> &DeviceMemory {
        self.memory_slot.get_or_make(|| DeviceMemory::new(self))
    }

    /// How copies of pageable memory are cut and shared out.
    pub(crate) fn tuning(&self) -> &StagingOptions {
        self.memory().tuning.get_or_init(StagingOptions::default)
    }

    /// Sets that, before the first such copy; says whether it is not too late.
    pub(super) fn set_staging_options(&self, tuning: StagingOptions) -> bool {
        self.memory().tuning.set(tuning.usable()).is_ok()
    }
}

/// A stream's memory.
#[derive(Debug, Default)]
pub(crate) struct StreamMemory {
    pub(super) frees: Frees,
    pub(crate) section: CurrentSection,
}

impl StreamState {
    /// The stream's memory.
    #[inline]
    pub(crate) fn memory(&self) -> &StreamMemory {
        self.memory_slot.get_or_make(StreamMemory::default)
    }
}
