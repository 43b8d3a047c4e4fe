//! The page-locked memory of a device and of a stream, stored in their slots.

use std::sync::{Arc, OnceLock};

use millstream_driver::{ContextHandle, Driver};

use super::{IdleFrees, SharedContext, StagingOptions, StagingPool, staging_arena::CurrentArena};
use crate::context::{DeviceSlot, DeviceState, OpenSlot, PageLockedLayer, StreamSlot, StreamState};

#[derive(Debug)]
pub(crate) struct PageLocked {
    pub(crate) shared: Arc<SharedContext>,
    pub(crate) staging: StagingPool,
    /// Shared with graphs that do not keep the device open.
    pub(crate) idle_frees: Arc<IdleFrees>,
    staging_options: OnceLock<StagingOptions>,
}

impl DeviceSlot for PageLockedLayer {
    type Value = PageLocked;
}

impl OpenSlot for PageLockedLayer {
    fn open(driver: &Arc<dyn Driver>, context: ContextHandle) -> PageLocked {
        PageLocked {
            shared: SharedContext::of(driver, context),
            staging: StagingPool::default(),
            idle_frees: Arc::new(IdleFrees::new(context)),
            staging_options: OnceLock::new(),
        }
    }
}

impl DeviceState {
    #[inline]
    pub(crate) fn page_locked(&self) -> &PageLocked {
        &self.page_locked_slot
    }

    /// Returns the chunk sizes and threads of copies from and to pageable memory.
    pub(crate) fn staging_options(&self) -> &StagingOptions {
        let options = &self.page_locked().staging_options;
        options.get_or_init(StagingOptions::default)
    }

    /// Sets the staging options, before the first such copy. Returns `false` if it is too late.
    pub(crate) fn set_staging_options(&self, staging_options: StagingOptions) -> bool {
        let options = &self.page_locked().staging_options;
        options.set(staging_options.usable()).is_ok()
    }
}

impl StreamSlot for PageLockedLayer {
    type Value = CurrentArena;
}

impl StreamState {
    #[inline]
    pub(crate) fn arena(&self) -> &CurrentArena {
        &self.page_locked_slot
    }
}
