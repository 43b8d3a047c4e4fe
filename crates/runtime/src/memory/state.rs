//! The state that this layer keeps for a device and for a stream, in their slots.

use std::sync::{Arc, OnceLock};

use super::{
    IdleFrees, SharedContext, StagingOptions, StagingPool,
    budget::{Budget, Frees},
    deferred::DeferredFrees,
    staging_arena::CurrentArena,
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
    pub(crate) idle_frees: IdleFrees,
    staging_options: OnceLock<StagingOptions>,
}

impl DeviceMemory {
    fn new(device: &DeviceState) -> Self {
        Self {
            shared: SharedContext::of(device.driver.handle_space(), device.context),
            budget: Arc::default(),
            staging: StagingPool::default(),
            deferred: DeferredFrees::default(),
            idle_frees: IdleFrees::default(),
            staging_options: OnceLock::new(),
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
    pub(crate) fn staging_options(&self) -> &StagingOptions {
        self.memory()
            .staging_options
            .get_or_init(StagingOptions::default)
    }

    /// Sets that, before the first such copy; says whether it is not too late.
    pub(super) fn set_staging_options(&self, staging_options: StagingOptions) -> bool {
        self.memory()
            .staging_options
            .set(staging_options.usable())
            .is_ok()
    }
}

/// A stream's memory.
#[derive(Debug, Default)]
pub(crate) struct StreamMemory {
    pub(super) frees: Frees,
    pub(crate) arena: CurrentArena,
}

impl StreamState {
    /// The stream's memory.
    #[inline]
    pub(crate) fn memory(&self) -> &StreamMemory {
        self.memory_slot.get_or_make(StreamMemory::default)
    }
}
