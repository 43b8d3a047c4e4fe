//! The accesses of a block that happen before every later access of its live threads, which a later
//! record may replace.

use std::rc::Rc;

use super::access_record::{AccessRecord, Sharing, each};
use super::thread_clock::Epochs;
use crate::exec::registers::lanes;

/// The accesses of a block that happen before every later access of its live threads.
#[derive(Debug)]
pub(super) struct BeforeAll {
    /// For each thread, the last epoch of such accesses.
    epochs: Epochs,
    /// For each warp, the lowest of these epochs of its lanes.
    of_warps: Vec<u32>,
    /// A number that increases whenever the epochs do.
    phase: u32,
}

impl BeforeAll {
    pub(super) fn new(epochs: Epochs) -> Self {
        Self {
            of_warps: vec![0; epochs.len().div_ceil(32)],
            epochs,
            phase: 0,
        }
    }

    /// Sets the epochs, and begins a phase.
    pub(super) fn advance(&mut self, epochs: &Epochs) {
        self.epochs = Rc::clone(epochs);
        let warps = epochs.chunks(32);
        let lowest = warps.map(|epochs| epochs.iter().copied().min().unwrap_or(0));
        self.of_warps.clear();
        self.of_warps.extend(lowest);
        self.phase += 1;
    }

    pub(super) fn phase(&self) -> u32 {
        self.phase
    }

    pub(super) fn includes_lane(&self, record: &AccessRecord, lane: usize) -> bool {
        self.epochs[record.warp as usize * 32 + lane] >= record.epoch
    }

    /// Returns whether the accesses of all lanes of a record are among these.
    pub(super) fn includes(&self, record: &AccessRecord) -> bool {
        self.of_warps[record.warp as usize] >= record.epoch
            || lanes(record.lanes).all(|lane| self.includes_lane(record, lane))
    }
}

impl AccessRecord {
    /// Returns whether this record may replace `lane` of `hidden`, an access that happens before
    /// it.
    ///
    /// If so, this record inherits the epochs that decide the severity of a later race.
    pub(super) fn takes_over(
        &mut self,
        hidden: &Self,
        lane: usize,
        care: u8,
        (before_all, sharing): (&BeforeAll, Sharing),
    ) -> bool {
        let care = care & hidden.bytes & self.bytes;
        // Each race with this access is an error.
        if !self.kind.only_writes() {
            return true;
        }
        let other = hidden.errors_with(self, care);
        let worse = (other | hidden.strict_bytes()) & care;
        if worse == 0 {
            return true;
        }
        // A later access may race with this access and not with the hidden one.
        if !self.kind.races_like(hidden.kind) {
            return false;
        }
        let same_warp = (hidden.block, hidden.warp) == (self.block, self.warp);
        if same_warp && self.lanes == 1 << lane {
            for byte in each(worse) {
                let epoch = if other >> byte & 1 == 1 {
                    hidden.epoch
                } else {
                    hidden.strict[byte]
                };
                self.strict[byte] = self.strict[byte].max(epoch);
            }
            self.strict_for_others |= hidden.strict_for_others & care;
            return true;
        }
        let own_block = hidden.block == self.block && before_all.includes_lane(hidden, lane);
        match sharing {
            Sharing::Block => own_block,
            Sharing::Unordered if own_block => {
                self.strict_for_others |= worse;
                true
            }
            Sharing::Unordered | Sharing::Ordered => false,
        }
    }
}
