//! Vector clocks: a thread's clock holds, for each other thread, the last epoch whose accesses
//! happen before the thread's next access.

use std::{collections::BTreeMap, rc::Rc};

use super::access_record::AccessRecord;
use super::fence_order::FenceOrder;
use super::release_chain::ReleasedClock;
use crate::exec::registers::lanes as each_lane;

/// For each thread of a block, by its number, the last epoch that happens before; 0 for none.
pub(super) type Epochs = Rc<Vec<u32>>;

/// The epochs of the threads of several blocks, by block number. Equal clocks share the allocation.
pub(super) type BlockClocks = Rc<BTreeMap<u64, Epochs>>;

/// A thread's vector clock. Its component for the thread itself is not meaningful: a thread's own
/// accesses always happen before its later ones.
#[derive(Clone, Debug)]
pub(super) struct ThreadClock {
    /// The epochs of the threads of the same block.
    pub(super) own: Epochs,
    /// The epochs of the threads of other blocks; an entry for the own block is ignored.
    pub(super) others: Option<BlockClocks>,
    /// The fences that precede in base causality order, and those that communicated.
    pub(super) fences: FenceOrder,
}

/// The joined clocks of threads of several blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct JoinedClock {
    blocks: Option<BlockClocks>,
    fences: FenceOrder,
}

impl JoinedClock {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_none() && self.fences.is_empty()
    }

    pub(super) fn join(&mut self, other: &Self) {
        if let Some(blocks) = &other.blocks {
            join_block_clocks(&mut self.blocks, blocks);
        }
        self.fences.join(&other.fences);
    }

    /// Joins lanes of a release into the clock.
    pub(super) fn add(&mut self, release: &ReleasedClock, lanes: u32) {
        let ReleasedClock { block, clock, .. } = release;
        if let Some(others) = &clock.others {
            join_block_clocks(&mut self.blocks, others);
        }
        let blocks = Rc::make_mut(self.blocks.get_or_insert_default());
        let epochs = blocks.entry(*block);
        let epochs = epochs.or_insert_with(|| Rc::clone(&clock.own));
        join_epochs(epochs, &clock.own);
        raise(epochs, (release.warp, release.epoch), lanes);
        self.fences.join_release(release, lanes);
    }

    /// Returns whether an access of a lane happens before.
    pub(super) fn includes(&self, record: &AccessRecord, lane: usize) -> bool {
        let epochs = || self.blocks.as_ref()?.get(&record.block);
        let thread = record.warp as usize * 32 + lane;
        epochs().is_some_and(|epochs| epochs[thread] >= record.epoch)
    }
}

impl ThreadClock {
    /// Joins another clock into this one: the maximum of each component.
    pub(super) fn join(&mut self, other: &Self) {
        join_epochs(&mut self.own, &other.own);
        if let Some(others) = &other.others {
            join_block_clocks(&mut self.others, others);
        }
        self.fences.join(&other.fences);
    }

    /// Raises the components of lanes of a warp of the block to `epoch`.
    pub(super) fn observe_lanes(&mut self, warp: u32, lanes: u32, epoch: u32) {
        raise(&mut self.own, (warp, epoch), lanes);
    }

    /// Returns the epochs of the threads of a block in the clock of a thread of `own`.
    #[inline]
    pub(super) fn of(&self, own: u64, block: u64) -> Option<&Epochs> {
        match block == own {
            true => Some(&self.own),
            false => self.others.as_ref()?.get(&block),
        }
    }

    /// Returns whether the clock of a thread of `block` includes the epoch of these lanes of a
    /// release.
    pub(super) fn covers(&self, block: u64, release: &ReleasedClock, lanes: u32) -> bool {
        let of_warp = (release.warp, release.epoch);
        let epochs = self.of(block, release.block);
        epochs.is_some_and(|epochs| reaches(epochs, of_warp, lanes))
    }

    pub(super) fn absorb_release(&mut self, block: u64, release: &ReleasedClock, lanes: u32) {
        let clock = &release.clock;
        if release.block == block {
            self.join(clock);
            self.observe_lanes(release.warp, lanes, release.epoch);
            self.fences.join_release(release, lanes);
            return;
        }
        if let Some(others) = &clock.others {
            self.absorb_blocks(block, others);
        }
        self.fences.join_release(release, lanes);
        let known = Rc::make_mut(self.others.get_or_insert_default());
        let epochs = known.entry(release.block);
        let epochs = epochs.or_insert_with(|| Rc::clone(&clock.own));
        join_epochs(epochs, &clock.own);
        raise(epochs, (release.warp, release.epoch), lanes);
    }

    /// Returns whether two clocks are one allocation, apart from their fences.
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        let same_others = match (&self.others, &other.others) {
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same_others && Rc::ptr_eq(&self.own, &other.own)
    }

    /// Joins another clock into the clock of a thread of `block`.
    pub(super) fn absorb(&mut self, block: u64, known: &JoinedClock) {
        if let Some(blocks) = &known.blocks {
            self.absorb_blocks(block, blocks);
        }
        self.fences.join(&known.fences);
    }

    fn absorb_blocks(&mut self, block: u64, known: &BlockClocks) {
        if let Some(epochs) = known.get(&block) {
            join_epochs(&mut self.own, epochs);
        }
        if known.len() > 1 || !known.contains_key(&block) {
            join_block_clocks(&mut self.others, known);
        }
    }
}

/// Returns the lanes of a warp whose epochs are at least `epoch`.
pub(super) fn reached(epochs: &Epochs, (warp, epoch): (u32, u32), lanes: u32) -> u32 {
    let first = warp as usize * 32;
    // The last warp may have fewer lanes.
    let whole = epochs[first..].first_chunk::<32>();
    let Some(of_warp) = whole.filter(|_| !lanes.is_power_of_two()) else {
        let known = each_lane(lanes).filter(|lane| epochs[first + lane] >= epoch);
        return known.fold(0, |known, lane| known | 1 << lane);
    };
    let mut known = 0;
    for lane in 0..32 {
        known |= if of_warp[lane] >= epoch {
            1u32 << lane
        } else {
            0
        };
    }
    known & lanes
}

/// Returns whether the epochs of these lanes of a warp are at least `epoch`.
fn reaches(epochs: &Epochs, of_warp: (u32, u32), lanes: u32) -> bool {
    reached(epochs, of_warp, lanes) == lanes
}

/// Raises the epochs of these lanes of a warp to `epoch`.
fn raise(epochs: &mut Epochs, (warp, epoch): (u32, u32), lanes: u32) {
    if reaches(epochs, (warp, epoch), lanes) {
        return;
    }
    let first = warp as usize * 32;
    let epochs = Rc::make_mut(epochs);
    for lane in each_lane(lanes) {
        epochs[first + lane] = epochs[first + lane].max(epoch);
    }
}

fn join_epochs(into: &mut Epochs, from: &Epochs) {
    if Rc::ptr_eq(into, from) {
        return;
    }
    // Without a jump for each thread, this is vectorised.
    let pairs = into.iter().zip(from.iter());
    let (mut raises, mut lacks) = (0, 0);
    for (known, new) in pairs {
        raises |= u32::from(known < new);
        lacks |= u32::from(known > new);
    }
    match (raises, lacks) {
        (0, _) => return,
        (_, 0) => {
            *into = Rc::clone(from);
            return;
        }
        _ => {}
    }
    for (known, new) in Rc::make_mut(into).iter_mut().zip(from.iter()) {
        *known = (*known).max(*new);
    }
}

fn join_block_clocks(into: &mut Option<BlockClocks>, from: &BlockClocks) {
    let Some(known) = into else {
        *into = Some(Rc::clone(from));
        return;
    };
    if Rc::ptr_eq(known, from) {
        return;
    }
    let known = Rc::make_mut(known);
    for (block, epochs) in from.iter() {
        match known.get_mut(block) {
            Some(mine) => join_epochs(mine, epochs),
            None => {
                known.insert(*block, Rc::clone(epochs));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(own: &[u32]) -> ThreadClock {
        ThreadClock {
            own: Rc::new(own.to_vec()),
            others: None,
            fences: FenceOrder::default(),
        }
    }

    fn released(block: u64, clock: ThreadClock) -> ReleasedClock {
        ReleasedClock {
            block,
            warp: 0,
            lanes: 0,
            epoch: 0,
            clock,
            joined: false,
            fenced: false,
        }
    }

    #[test]
    fn a_join_keeps_the_maximum_of_each_component() {
        let mut clock_a = clock(&[1, 5, 0]);
        clock_a.join(&clock(&[2, 3, 0]));
        assert_eq!(*clock_a.own, [2, 5, 0]);
        clock_a.observe_lanes(0, 0b100, 7);
        clock_a.observe_lanes(0, 0b110, 4);
        assert_eq!(*clock_a.own, [2, 5, 7]);
    }

    #[test]
    fn released_clocks_are_acquired_and_released_again() {
        let mut told = JoinedClock::default();
        told.add(&released(0, clock(&[3, 0])), 0);
        let mut second = clock(&[0, 9]);
        second.absorb(1, &told);
        assert_eq!(*second.own, [0, 9]);
        let mut told_on = JoinedClock::default();
        told_on.add(&released(1, second), 0);
        let mut third = clock(&[0, 0]);
        third.absorb(2, &told_on);
        let others = third.others.unwrap();
        assert_eq!((*others[&0]).clone(), [3, 0]);
        assert_eq!((*others[&1]).clone(), [0, 9]);
    }
}
