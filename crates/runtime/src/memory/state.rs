//! The memory state of a device and of a stream, stored in their slots.

use std::sync::Arc;

use super::{
    budget::{Budget, Frees},
    deferred::DeferredFrees,
    module_variables::ModuleVariables,
};
use crate::context::{DeviceSlot, DeviceState, MemoryLayer, StreamSlot, StreamState};

#[derive(Debug, Default)]
pub(crate) struct DeviceMemory {
    pub(super) budget: Arc<Budget>,
    pub(crate) deferred: DeferredFrees,
    pub(super) module_variables: ModuleVariables,
}

impl DeviceSlot for MemoryLayer {
    type Value = DeviceMemory;
}

impl DeviceState {
    #[inline]
    pub(crate) fn memory(&self) -> &DeviceMemory {
        &self.memory_slot
    }
}

#[derive(Debug, Default)]
pub(crate) struct StreamMemory {
    pub(super) frees: Frees,
}

impl StreamSlot for MemoryLayer {
    type Value = StreamMemory;
}

impl StreamState {
    #[inline]
    pub(crate) fn memory(&self) -> &StreamMemory {
        &self.memory_slot
    }
}
