//! The accounting of a memory pool of the stream-ordered allocator: bytes used, reserved and
//! released (rules 31 to 36).
//!
//! Addresses are never reused, so a pool is pure accounting: it decides which bytes an allocation
//! may count against. A freed block counts as used until its free has run. Then it is idle: first
//! for the freeing stream only, and for every stream once the host has synchronised (rule 34). An
//! allocation on the freeing stream may already use the bytes of a pending free.

use std::collections::BTreeMap;

use millstream_driver::{PoolUsage, StreamHandle};

use crate::ids::OpId;

/// The growth step of a pool in bytes, the granularity of a physical allocation.
const STEP_BYTES: u64 = 2 << 20;

/// An enqueued free that has not run.
#[derive(Debug)]
struct PendingFree {
    op: OpId,
    stream: StreamHandle,
    /// The bytes not yet reused by later allocations.
    bytes: u64,
}

/// The kinds of reuse of memory that another stream freed, which may be turned off for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reuse {
    /// Reuse of memory whose free has run (`CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`).
    pub(crate) opportunistic: bool,
    /// Reuse of memory whose free is pending, behind that free
    /// (`CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`).
    pub(crate) internal_dependencies: bool,
}

impl Reuse {
    /// No reuse across streams before the host has synchronised.
    pub(crate) const NONE: Self = Self {
        opportunistic: false,
        internal_dependencies: false,
    };
}

impl Default for Reuse {
    /// Both kinds, as for a new pool.
    fn default() -> Self {
        Self {
            opportunistic: true,
            internal_dependencies: true,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    usage: PoolUsage,
    reuse: Reuse,
    /// The number of reserved bytes kept at a synchronisation.
    release_threshold: u64,
    /// The frees that have not run, in the order of enqueueing.
    pending: Vec<PendingFree>,
    /// The idle bytes reserved for their freeing stream.
    idle_of: BTreeMap<StreamHandle, u64>,
    /// The idle bytes available to every stream.
    idle_anywhere: u64,
}

impl Pool {
    /// Takes `bytes` for an allocation on `stream`, growing the pool by at most `room`. Returns the
    /// frees of other streams that the allocation must wait for on the device (rule 35: reuse
    /// across streams), or `None` if the pool cannot provide the bytes; then it is unchanged.
    pub(crate) fn take(
        &mut self,
        bytes: u64,
        stream: StreamHandle,
        room: u64,
        reuse: Reuse,
    ) -> Option<Vec<OpId>> {
        let pending = |own: bool| {
            self.pending
                .iter()
                .filter(|free| (free.stream == stream) == own)
                .map(|free| free.bytes)
                .sum::<u64>()
        };
        let own_pending = pending(true).min(bytes);
        let idle = if reuse.opportunistic {
            self.idle_anywhere + self.idle_of.values().sum::<u64>()
        } else {
            self.idle_anywhere + self.idle_of.get(&stream).copied().unwrap_or(0)
        };
        let from_idle = idle.min(bytes - own_pending);
        let missing = bytes - own_pending - from_idle;
        let grown = missing.next_multiple_of(STEP_BYTES).min(room);
        let from_others = missing.saturating_sub(grown);
        if from_others > 0 && (!reuse.internal_dependencies || pending(false) < from_others) {
            return None;
        }
        self.consume_pending(own_pending, |free| free.stream == stream);
        self.consume_idle(from_idle, stream);
        self.usage.reserved_bytes += grown;
        self.idle_anywhere += grown.saturating_sub(missing);
        // Bytes of pending frees still count as used; they pass from the old block to the new one.
        self.usage.used_bytes += from_idle + missing.min(grown);
        self.note_peaks();
        Some(self.consume_pending(from_others, |free| free.stream != stream))
    }

    /// Takes `bytes` from the pending frees that `fits` selects, and returns the operations of
    /// those frees.
    fn consume_pending(
        &mut self,
        mut bytes: u64,
        fits: impl Fn(&PendingFree) -> bool,
    ) -> Vec<OpId> {
        let mut frees = Vec::new();
        for free in self.pending.iter_mut().filter(|free| fits(free)) {
            let part = free.bytes.min(bytes);
            if part == 0 {
                continue;
            }
            free.bytes -= part;
            bytes -= part;
            frees.push(free.op);
        }
        // A free whose bytes were all reused releases nothing when it runs.
        self.pending.retain(|free| free.bytes > 0);
        frees
    }

    /// Takes `bytes` from the idle bytes: first the stream's own, then the ones available to all,
    /// then other streams'.
    fn consume_idle(&mut self, mut bytes: u64, stream: StreamHandle) {
        let mut consume = |idle: &mut u64| {
            let part = bytes.min(*idle);
            *idle -= part;
            bytes -= part;
        };
        if let Some(own) = self.idle_of.get_mut(&stream) {
            consume(own);
        }
        consume(&mut self.idle_anywhere);
        self.idle_of.values_mut().for_each(consume);
    }

    fn note_peaks(&mut self) {
        let usage = &mut self.usage;
        usage.used_peak_bytes = usage.used_peak_bytes.max(usage.used_bytes);
        usage.reserved_peak_bytes = usage.reserved_peak_bytes.max(usage.reserved_bytes);
    }

    pub(crate) fn free_enqueued(&mut self, op: OpId, stream: StreamHandle, bytes: u64) {
        self.pending.push(PendingFree { op, stream, bytes });
    }

    /// Makes the bytes of a free that has run idle.
    pub(crate) fn free_ran(&mut self, op: OpId) {
        if let Some(at) = self.pending.iter().position(|free| free.op == op) {
            let free = self.pending.remove(at);
            self.usage.used_bytes -= free.bytes;
            *self.idle_of.entry(free.stream).or_default() += free.bytes;
        }
    }

    /// Makes the bytes of a block idle that a call freed after waiting for the device.
    pub(crate) fn freed_synchronously(&mut self, bytes: u64) {
        self.usage.used_bytes -= bytes;
        self.idle_anywhere += bytes;
    }

    /// Makes idle bytes available to every stream, and releases the ones above the threshold, after
    /// the host has synchronised (rules 34 and 36: reuse and release follow a synchronisation).
    pub(crate) fn synchronised(&mut self) {
        self.idle_anywhere += std::mem::take(&mut self.idle_of).into_values().sum::<u64>();
        self.trim(self.release_threshold);
    }

    /// Releases idle bytes until `keep` bytes are reserved. Bytes whose free the host has not
    /// observed stay reserved (rule 36).
    pub(crate) fn trim(&mut self, keep: u64) {
        let surplus = self.usage.reserved_bytes.saturating_sub(keep);
        let back = surplus.min(self.idle_anywhere);
        self.idle_anywhere -= back;
        self.usage.reserved_bytes -= back;
    }

    /// Sets the kinds of reuse across streams.
    pub(crate) fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// Returns the kinds of reuse across streams.
    pub(crate) fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Returns the number of reserved bytes kept at a synchronisation.
    pub(crate) fn release_threshold(&self) -> u64 {
        self.release_threshold
    }

    /// Makes the current number of reserved bytes the peak.
    pub(crate) fn reset_reserved_peak(&mut self) {
        self.usage.reserved_peak_bytes = self.usage.reserved_bytes;
    }

    /// Makes the current number of used bytes the peak.
    pub(crate) fn reset_used_peak(&mut self) {
        self.usage.used_peak_bytes = self.usage.used_bytes;
    }

    /// Sets the number of reserved bytes kept at a synchronisation.
    pub(crate) fn set_release_threshold(&mut self, bytes: u64) {
        self.release_threshold = bytes;
    }

    pub(crate) fn usage(&self) -> PoolUsage {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn stream(n: usize) -> StreamHandle {
        StreamHandle::from_raw(n)
    }

    #[test]
    fn a_pending_free_serves_its_stream_at_once_and_others_after_a_wait() {
        let mut pool = Pool::default();
        assert_eq!(
            pool.take(2 * MIB, stream(1), 2 * MIB, Reuse::default()),
            Some(vec![])
        );
        pool.free_enqueued(OpId(5), stream(1), 2 * MIB);
        assert_eq!(
            pool.take(2 * MIB, stream(1), 0, Reuse::default()),
            Some(vec![])
        );
        pool.free_enqueued(OpId(6), stream(1), 2 * MIB);
        assert_eq!(pool.take(MIB, stream(2), 0, Reuse::NONE), None);
        assert_eq!(
            pool.take(MIB, stream(2), 0, Reuse::default()),
            Some(vec![OpId(6)])
        );
        assert_eq!(pool.usage().used_bytes, 2 * MIB);
        pool.free_ran(OpId(5));
        pool.free_ran(OpId(6));
        assert_eq!(pool.usage().used_bytes, MIB);
        assert_eq!(pool.usage().reserved_bytes, 2 * MIB);
    }

    #[test]
    fn each_kind_of_reuse_across_streams_can_be_turned_off() {
        let only_behind_frees = Reuse {
            opportunistic: false,
            ..Reuse::default()
        };
        let only_idle = Reuse {
            internal_dependencies: false,
            ..Reuse::default()
        };
        let mut pool = Pool::default();
        pool.take(MIB, stream(1), MIB, Reuse::default()).unwrap();
        pool.free_enqueued(OpId(1), stream(1), MIB);
        assert_eq!(pool.take(MIB, stream(2), 0, only_idle), None);
        let behind = pool.take(MIB, stream(2), 0, only_behind_frees);
        assert_eq!(behind, Some(vec![OpId(1)]));
        pool.free_enqueued(OpId(2), stream(2), MIB);
        pool.free_ran(OpId(2));
        assert_eq!(pool.take(MIB, stream(3), 0, only_behind_frees), None);
        assert_eq!(pool.take(MIB, stream(3), 0, only_idle), Some(vec![]));
    }

    #[test]
    fn idle_bytes_above_the_threshold_are_released_at_a_synchronisation() {
        let mut pool = Pool::default();
        pool.set_release_threshold(4 * MIB);
        pool.take(10 * MIB, stream(1), 100 * MIB, Reuse::default())
            .unwrap();
        pool.free_enqueued(OpId(1), stream(1), 10 * MIB);
        pool.free_ran(OpId(1));
        pool.trim(0);
        assert_eq!(
            pool.usage().reserved_bytes,
            10 * MIB,
            "the host has not observed the free yet"
        );
        pool.synchronised();
        assert_eq!(pool.usage().reserved_bytes, 4 * MIB);
        assert_eq!(pool.usage().reserved_peak_bytes, 10 * MIB);
        pool.trim(MIB);
        assert_eq!(pool.usage().reserved_bytes, MIB);
        pool.reset_reserved_peak();
        pool.reset_used_peak();
        assert_eq!(pool.usage().reserved_peak_bytes, MIB);
        assert_eq!(pool.usage().used_peak_bytes, 0);
        assert_eq!(pool.usage().used_bytes, 0);
    }

    #[test]
    fn a_failed_allocation_takes_nothing() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(MIB, stream(1), MIB - 1, Reuse::default()), None);
        assert_eq!(pool.usage(), PoolUsage::default());
        assert_eq!(
            pool.take(MIB, stream(1), MIB, Reuse::default()),
            Some(vec![])
        );
        assert_eq!(pool.usage().reserved_bytes, MIB);
    }
}
