//! Kernels that wait.

use std::{ops::Range, sync::Arc, time::Instant};

use crate::{
    exec::{CheckFindings, KernelFaults, WaitingGrid},
    memory::{AccessBitmap, AllocationInfo},
};

/// What a kernel has done before it ends, for the race checker.
#[derive(Default)]
pub(crate) struct KernelRecord {
    /// The accesses of each allocation, by its base address.
    pub(crate) accesses: Vec<(u64, Arc<AllocationInfo>, Box<AccessBitmap>)>,
    /// The blocks of the heap that it allocated, and those that it freed.
    pub(crate) heap: [Vec<Arc<AllocationInfo>>; 2],
    pub(crate) findings: CheckFindings,
    /// The faults after which it has gone on.
    pub(crate) faults: KernelFaults,
    /// The addresses of bytes that an operation wrote while it waited for them.
    pub(crate) waited: Vec<Range<u64>>,
}

/// A kernel that has started, and waits for a write unless it runs.
#[derive(Default)]
pub(crate) struct WaitingKernel {
    pub(crate) grid: Option<Box<WaitingGrid>>,
    pub(crate) record: KernelRecord,
    /// The virtual time of its start.
    pub(crate) start_ns: u64,
    /// The virtual time since then, and the part of it in which it has worked.
    pub(crate) elapsed_ns: u64,
    worked_ns: u64,
    /// Set if the host can write a polled byte without a call.
    pub(crate) host_can_write: bool,
    /// The real time at which it began to wait.
    pub(crate) since: Option<Instant>,
}

impl WaitingKernel {
    /// Notes that the kernel has worked for this duration in all.
    pub(crate) fn works_until(&mut self, worked_ns: u64) {
        let more_ns = worked_ns.saturating_sub(self.worked_ns);
        self.worked_ns = worked_ns;
        self.elapsed_ns = self.elapsed_ns.saturating_add(more_ns);
    }

    pub(crate) fn polled(&self) -> &[(u64, Box<[u8]>)] {
        self.grid.as_ref().map_or(&[], |grid| &grid.polled)
    }
}
