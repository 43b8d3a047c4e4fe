//! Cooperative launches: the number of blocks that are resident together, and the workspace of the
//! grid's barrier.
//!
//! `cooperative_groups::this_grid().sync()` is code of the kernel. It counts the blocks that have
//! arrived in a word of memory, whose address a driver passes in the registers `%envreg1` and
//! `%envreg2`, and waits there for the others. All blocks of a cooperative launch must therefore
//! run at the same time.

use super::launch::{GlobalMemory, Launch, Region, TracedRegion};
use crate::memory::Backing;

/// The number of multiprocessors of the simulated device, those of an H200.
pub(crate) const MULTIPROCESSORS: u32 = 132;
/// The maximum number of resident threads of a multiprocessor.
pub(crate) const RESIDENT_THREADS: u32 = 2048;
/// The maximum number of resident blocks of a multiprocessor.
pub(crate) const RESIDENT_BLOCKS: u32 = 32;
/// The shared memory of a multiprocessor, in bytes.
pub(crate) const RESIDENT_SHARED_BYTES: u32 = 228 << 10;
/// The shared memory that each block takes in addition to its own, in bytes.
const RESERVED_SHARED_BYTES: u32 = 1 << 10;

/// The address of the workspace, outside of the ranges of device and host addresses.
const ADDRESS: u64 = 0x5900_0000_0000_0000;
/// The size of the workspace in bytes. Its first word holds this size, the second is the barrier.
const BYTES: u32 = 8;

/// Returns the maximum number of resident blocks of the device, for blocks of `threads` threads and
/// `shared_bytes` bytes of shared memory, static and dynamic. Registers are never the limit.
pub(crate) fn resident_blocks(threads: u32, shared_bytes: u32) -> u32 {
    let by_threads = RESIDENT_THREADS / threads.next_multiple_of(32).max(32);
    let by_shared = RESIDENT_SHARED_BYTES / shared_bytes.saturating_add(RESERVED_SHARED_BYTES);
    MULTIPROCESSORS * by_threads.min(by_shared).min(RESIDENT_BLOCKS)
}

/// Returns the address of a launch's workspace; 0 if the launch is not cooperative.
pub(super) fn workspace_address(launch: &Launch<'_>) -> u64 {
    if launch.cooperative { ADDRESS } else { 0 }
}

/// Returns whether an address is part of the workspace.
pub(super) fn is_workspace(address: u64) -> bool {
    (ADDRESS..ADDRESS + u64::from(BYTES)).contains(&address)
}

/// Global memory with the workspace of a cooperative launch.
pub(super) struct WithWorkspace<'a> {
    memory: &'a dyn GlobalMemory,
    workspace: &'a Backing,
}

impl<'a> WithWorkspace<'a> {
    /// Adds the workspace of a launch to its memory.
    pub(super) fn new(memory: &'a dyn GlobalMemory, workspace: &'a Backing) -> Self {
        Self { memory, workspace }
    }
}

/// Creates the workspace of a launch in which no block has arrived. Returns `None` if the host is
/// out of memory.
pub(super) fn workspace() -> Option<Backing> {
    let workspace = Backing::zeroed(BYTES as usize, 8)?;
    let bytes = workspace.shared_bytes();
    bytes.copy_from(0, &BYTES.to_le_bytes())?;
    Some(workspace)
}

impl GlobalMemory for WithWorkspace<'_> {
    fn inner(&self) -> Option<&dyn GlobalMemory> {
        Some(self.memory)
    }

    fn region(&self, address: u64) -> Option<Region<'_>> {
        if !is_workspace(address) {
            return self.memory.region(address);
        }
        Some(Region {
            base: ADDRESS,
            bytes: self.workspace.shared_bytes(),
            writable: true,
        })
    }

    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        if !is_workspace(address) {
            return self.memory.traced_region(address);
        }
        Some(TracedRegion {
            region: self.region(address)?,
            bitmap: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_blocks_and_shared_memory_bound_the_resident_blocks() {
        for (threads, shared_bytes, each) in [
            (1, 0, 32),
            (64, 0, 32),
            (65, 0, 21),
            (1024, 0, 2),
            (32, 48 << 10, 4),
            (32, 227 << 10, 1),
            (32, u32::MAX, 0),
        ] {
            assert_eq!(
                resident_blocks(threads, shared_bytes),
                each * MULTIPROCESSORS
            );
        }
    }
}
