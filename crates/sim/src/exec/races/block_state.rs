//! What the race check knows of one block.

use super::{
    block_threads::BlockThreads, code_summary::CodeSummary, copies_in_flight::CopiesInFlight,
    race_model::RaceModel, release::ReleasedMemory, shadow_pages::ShadowMemory,
};

/// A block that has started and not ended.
pub(super) struct BlockState {
    pub(super) threads: BlockThreads,
    pub(super) shared: ShadowMemory,
    /// The clocks released in shared memory.
    pub(super) released: ReleasedMemory,
    pub(super) copies: CopiesInFlight,
}

impl BlockState {
    pub(super) fn new(block: u64, threads: u32, summary: CodeSummary, model: RaceModel) -> Self {
        Self {
            threads: BlockThreads::new(block, threads, summary, model),
            shared: ShadowMemory::default(),
            released: ReleasedMemory::default(),
            copies: CopiesInFlight::default(),
        }
    }
}
