//! The stream-ordered allocator's pool: bytes used, kept and given back (rules 31 to 36).
//!
//! Addresses are never reused, so a pool is bookkeeping: which bytes an allocation may count as its
//! own. A freed block counts as used until its free has run. Then it is idle, first for the stream
//! that freed it, and for every stream once the host has synchronised (rule 34). A pending free
//! already serves later allocations of its own stream.

use std::collections::BTreeMap;

use millstream_driver::{PoolUsage, StreamHandle};

use crate::ids::OpId;

/// A pool grows in steps of this many bytes, the granularity of a physical allocation.
const STEP_BYTES: u64 = 2 << 20;

#[derive(Debug)]
struct PendingFree {
    op: OpId,
    stream: StreamHandle,
    bytes: u64,
}

/// The default pool of one device.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    usage: PoolUsage,
    release_threshold: u64,
    pending: Vec<PendingFree>,
    idle_of: BTreeMap<StreamHandle, u64>,
    idle_anywhere: u64,
}

impl Pool {
    /// Takes `bytes` for an allocation on `stream`, growing by at most `room`. Answers the frees of
    /// other streams that the allocation has to wait for on the device (rule 35), or `None` if the
    /// bytes cannot be had; then nothing is taken.
    pub(crate) fn take(
        &mut self,
        bytes: u64,
        stream: StreamHandle,
        room: u64,
        across_streams: bool,
    ) -> Option<Vec<OpId>> {
        let pending = |own: bool| {
            self.pending
                .iter()
                .filter(|free| (free.stream == stream) == own)
                .map(|free| free.bytes)
                .sum::<u64>()
        };
        let own_pending = pending(true).min(bytes);
        let idle = if across_streams {
            self.idle_anywhere + self.idle_of.values().sum::<u64>()
        } else {
            self.idle_anywhere + self.idle_of.get(&stream).copied().unwrap_or(0)
        };
        let from_idle = idle.min(bytes - own_pending);
        let missing = bytes - own_pending - from_idle;
        let grown = missing.next_multiple_of(STEP_BYTES).min(room);
        let from_others = missing.saturating_sub(grown);
        if from_others > 0 && (!across_streams || pending(false) < from_others) {
            return None;
        }
        self.consume_pending(own_pending, |free| free.stream == stream);
        self.consume_idle(from_idle, stream);
        self.usage.reserved_bytes += grown;
        self.idle_anywhere += grown.saturating_sub(missing);
        // Bytes of pending frees are still counted as used; they pass from the old block to the new
        // one.
        self.usage.used_bytes += from_idle + missing.min(grown);
        self.note_peaks();
        Some(self.consume_pending(from_others, |free| free.stream != stream))
    }

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
        // A free whose bytes have all passed on has nothing to give when it runs.
        self.pending.retain(|free| free.bytes > 0);
        frees
    }

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

    /// A free of `bytes` has been enqueued.
    pub(crate) fn free_enqueued(&mut self, op: OpId, stream: StreamHandle, bytes: u64) {
        self.pending.push(PendingFree { op, stream, bytes });
    }

    /// An enqueued free has run.
    pub(crate) fn free_ran(&mut self, op: OpId) {
        if let Some(at) = self.pending.iter().position(|free| free.op == op) {
            let free = self.pending.remove(at);
            self.usage.used_bytes -= free.bytes;
            *self.idle_of.entry(free.stream).or_default() += free.bytes;
        }
    }

    /// A block was freed by a call that waited for the device.
    pub(crate) fn freed_synchronously(&mut self, bytes: u64) {
        self.usage.used_bytes -= bytes;
        self.idle_anywhere += bytes;
    }

    /// The host has synchronised: idle bytes serve every stream, and those above the threshold go
    /// back (rules 34, 36).
    pub(crate) fn synchronised(&mut self) {
        self.idle_anywhere += std::mem::take(&mut self.idle_of).into_values().sum::<u64>();
        self.trim(self.release_threshold);
    }

    /// Gives idle bytes back until `keep` are reserved. Bytes whose free the host has not observed
    /// stay (rule 36).
    pub(crate) fn trim(&mut self, keep: u64) {
        let surplus = self.usage.reserved_bytes.saturating_sub(keep);
        let back = surplus.min(self.idle_anywhere);
        self.idle_anywhere -= back;
        self.usage.reserved_bytes -= back;
    }

    /// Sets how much stays at a synchronisation.
    pub(crate) fn set_release_threshold(&mut self, bytes: u64) {
        self.release_threshold = bytes;
    }

    /// The figures.
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
    fn a_pending_free_serves_its_own_stream_at_once_and_others_by_a_wait() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(2 * MIB, stream(1), 2 * MIB, true), Some(vec![]));
        pool.free_enqueued(OpId(5), stream(1), 2 * MIB);
        assert_eq!(pool.take(2 * MIB, stream(1), 0, true), Some(vec![]));
        pool.free_enqueued(OpId(6), stream(1), 2 * MIB);
        assert_eq!(pool.take(MIB, stream(2), 0, false), None);
        assert_eq!(pool.take(MIB, stream(2), 0, true), Some(vec![OpId(6)]));
        assert_eq!(pool.usage().used_bytes, 2 * MIB);
        pool.free_ran(OpId(5));
        pool.free_ran(OpId(6));
        assert_eq!(pool.usage().used_bytes, MIB);
        assert_eq!(pool.usage().reserved_bytes, 2 * MIB);
    }

    #[test]
    fn idle_bytes_go_back_at_a_synchronisation_down_to_the_threshold() {
        let mut pool = Pool::default();
        pool.set_release_threshold(4 * MIB);
        pool.take(10 * MIB, stream(1), 100 * MIB, true).unwrap();
        pool.free_enqueued(OpId(1), stream(1), 10 * MIB);
        pool.free_ran(OpId(1));
        pool.trim(0);
        assert_eq!(pool.usage().reserved_bytes, 10 * MIB, "not observed yet");
        pool.synchronised();
        assert_eq!(pool.usage().reserved_bytes, 4 * MIB);
        assert_eq!(pool.usage().reserved_peak_bytes, 10 * MIB);
        pool.trim(MIB);
        assert_eq!(pool.usage().reserved_bytes, MIB);
        assert_eq!(pool.usage().used_bytes, 0);
    }

    #[test]
    fn what_cannot_be_had_takes_nothing() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(MIB, stream(1), MIB - 1, true), None);
        assert_eq!(pool.usage(), PoolUsage::default());
        assert_eq!(pool.take(MIB, stream(1), MIB, true), Some(vec![]));
        assert_eq!(pool.usage().reserved_bytes, MIB);
    }
}
