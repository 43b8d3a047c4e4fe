//! The memory state of a device and of a stream, stored in their slots.

use std::sync::{Arc, OnceLock};

use millstream_driver::{ContextHandle, Driver};

use super::{
    IdleFrees, SharedContext, StagingOptions, StagingPool,
    budget::{Budget, Frees},
    deferred::DeferredFrees,
    module_variables::ModuleVariables,
    staging_arena::CurrentArena,
};
use crate::context::{DeviceSlot, DeviceState, MemoryLayer, StreamSlot, StreamState};

/// The memory state of a device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    /// The device states that share the context.
    pub(crate) shared: Arc<SharedContext>,
    pub(super) budget: Arc<Budget>,
    pub(crate) staging: StagingPool,
    pub(crate) deferred: DeferredFrees,
    /// Shared with graphs that do not keep the device open.
    pub(crate) idle_frees: Arc<IdleFrees>,
    pub(super) module_variables: ModuleVariables,
    staging_options: OnceLock<StagingOptions>,
}

impl DeviceSlot for MemoryLayer {
    type Value = DeviceMemory;

    fn open(driver: &Arc<dyn Driver>, context: ContextHandle) -> DeviceMemory {
        DeviceMemory {
            shared: SharedContext::of(driver, context),
            budget: Arc::default(),
            staging: StagingPool::default(),
            deferred: DeferredFrees::default(),
            idle_frees: Arc::new(IdleFrees::new(context)),
            module_variables: ModuleVariables::default(),
            staging_options: OnceLock::new(),
        }
    }
}

impl DeviceState {
    /// Returns the device's memory state.
    #[inline]
    pub(crate) fn memory(&self) -> &DeviceMemory {
        &self.memory_slot
    }

    /// Returns the chunk sizes and threads of copies from and to pageable memory.
    pub(crate) fn staging_options(&self) -> &StagingOptions {
        self.memory()
            .staging_options
            .get_or_init(StagingOptions::default)
    }

    /// Sets the staging options, before the first such copy. Returns `false` if it is too late.
    pub(super) fn set_staging_options(&self, staging_options: StagingOptions) -> bool {
        self.memory()
            .staging_options
            .set(staging_options.usable())
            .is_ok()
    }
}

/// The memory state of a stream.
#[derive(Debug, Default)]
pub(crate) struct StreamMemory {
    pub(super) frees: Frees,
    pub(crate) arena: CurrentArena,
}

impl StreamSlot for MemoryLayer {
    type Value = StreamMemory;
}

impl StreamState {
    /// Returns the stream's memory state.
    #[inline]
    pub(crate) fn memory(&self) -> &StreamMemory {
        &self.memory_slot
    }
}
