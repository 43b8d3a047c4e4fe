//! Counts of what is alive, for tests that look for leaks.

/// What lives in a simulated GPU.
///
/// ```
/// # use millstream_sim::{Gpu, Ledger, SimConfig};
/// assert_eq!(Gpu::new(SimConfig::new()).ledger(), Ledger::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Primary contexts.
    pub contexts: usize,
    /// Streams made and not given up; the default streams are not counted.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules.
    pub modules: usize,
    /// Device memory given out on all devices and not yet freed, in bytes: a pending free still counts.
    pub device_bytes: u64,
    /// Page-locked host memory, registered memory included, in bytes.
    pub pinned_bytes: u64,
    /// Managed memory, in bytes.
    pub managed_bytes: u64,
    /// Operations enqueued and not yet run.
    pub pending_operations: usize,
}
