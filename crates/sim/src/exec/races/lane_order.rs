//! The order of the lanes of two accesses, found for all lanes with one clock at once.

use smallvec::SmallVec;

use super::access_record::AccessRecord;
use super::block_threads::BlockThreads;
use super::observation::ObservationLog;
use crate::exec::registers::lanes;

/// The lanes of an access that is being recorded, grouped by their clocks.
pub(super) struct LaterLanes<'a> {
    pub(super) by: &'a AccessRecord,
    pub(super) threads: &'a BlockThreads,
    first: u32,
    /// The groups other than the first. Most accesses have none.
    rest: SmallVec<[u32; 1]>,
    /// False if no access of another block happens before any of the lanes.
    knows_others: bool,
}

impl<'a> LaterLanes<'a> {
    pub(super) fn new(by: &'a AccessRecord, threads: &'a BlockThreads) -> Self {
        let (first, rest) = threads.by_clock(by.warp, by.lanes);
        let knows_others = |group: &u32| {
            let thread = by.warp as usize * 32 + group.trailing_zeros() as usize;
            threads.threads[thread].clock.others.is_some()
        };
        Self {
            knows_others: knows_others(&first) || rest.iter().any(knows_others),
            by,
            threads,
            first,
            rest,
        }
    }

    /// Returns whether no lane of an earlier access happens before these lanes, without a search if
    /// they have several clocks.
    pub(super) fn are_unordered_after(&self, earlier: &AccessRecord) -> bool {
        if !self.knows_others && earlier.block != self.by.block {
            return true;
        }
        let known = self.group(earlier, self.first).known;
        self.rest.is_empty() && known | self.own(earlier) == 0
    }

    /// Returns which lanes of an earlier access happen before which of these lanes.
    pub(super) fn order_after(&self, earlier: &AccessRecord) -> LaneOrder {
        let mut order = LaneOrder {
            first: self.group(earlier, self.first),
            rest: SmallVec::new(),
            own: self.own(earlier),
            observed: SmallVec::new(),
        };
        if !self.rest.is_empty() {
            let groups = self.rest.iter().map(|lanes| self.group(earlier, *lanes));
            order.rest.extend(groups);
        }
        order
    }

    fn group(&self, earlier: &AccessRecord, lanes: u32) -> OrderedLanes {
        let thread = self.by.warp as usize * 32 + lanes.trailing_zeros() as usize;
        let known = self.threads.lanes_before(earlier, thread);
        OrderedLanes { lanes, known }
    }

    /// Returns the lanes of both accesses that are the same thread.
    fn own(&self, earlier: &AccessRecord) -> u32 {
        match (earlier.block, earlier.warp) == (self.by.block, self.by.warp) {
            true => earlier.lanes & self.by.lanes,
            false => 0,
        }
    }
}

/// Later lanes with one clock, and the earlier lanes that happen before them.
#[derive(Clone, Copy)]
struct OrderedLanes {
    lanes: u32,
    known: u32,
}

/// The order of the lanes of an earlier access before those of a later one.
pub(super) struct LaneOrder {
    first: OrderedLanes,
    rest: SmallVec<[OrderedLanes; 1]>,
    /// The lanes of both accesses that are the same thread.
    own: u32,
    /// Later lanes, and the earlier lanes that they have observed in this memory word alone.
    observed: SmallVec<[(usize, u32); 1]>,
}

impl LaneOrder {
    /// Adds the order of a strong write before later lanes that follow an observation of it.
    pub(super) fn observe(
        &mut self,
        earlier: &AccessRecord,
        log: &ObservationLog,
        later: &LaterLanes<'_>,
    ) {
        let candidates = AccessRecord {
            lanes: self.candidates(earlier),
            ..*earlier
        };
        if candidates.lanes == 0 {
            return;
        }
        for lane in lanes(later.by.lanes) {
            let thread = later.by.warp as usize * 32 + lane;
            let observed = log.observed(&candidates, later.threads, thread);
            if observed != 0 {
                self.observed.push((lane, observed));
            }
        }
    }

    /// Returns the earlier lanes that happen before any later lane.
    pub(super) fn before_any(&self) -> u32 {
        let rest = self.rest.iter().fold(0, |any, group| any | group.known);
        let observed = self.observed.iter().fold(0, |any, (_, known)| any | known);
        self.own | self.first.known | rest | observed
    }

    /// Returns the earlier lanes that may race with a later one.
    pub(super) fn candidates(&self, earlier: &AccessRecord) -> u32 {
        let rest = self.rest.iter();
        let known_by_all = rest.fold(self.first.known, |all, group| all & group.known);
        earlier.lanes & !known_by_all
    }

    /// Returns the later lanes that race with an earlier one.
    pub(super) fn racing_with(&self, earlier_lane: usize) -> u32 {
        let groups = [self.first].into_iter().chain(self.rest.iter().copied());
        let unordered = groups.filter(|group| group.known >> earlier_lane & 1 == 0);
        let racing = unordered.fold(0, |racing, group| racing | group.lanes);
        let observed = self.observed.iter();
        let observed = observed.filter(|(_, known)| known >> earlier_lane & 1 == 1);
        let ordered = observed.fold(self.own & 1 << earlier_lane, |ordered, (lane, _)| {
            ordered | 1 << lane
        });
        racing & !ordered
    }
}
