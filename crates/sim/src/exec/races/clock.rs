//! What threads know of each other: for each thread, up to which of its stamps all that it did
//! comes before.

use std::{collections::BTreeMap, sync::Arc};

/// Of each thread of a block, by its number, the last stamp known; 0 for nothing.
pub(super) type Stamps = Arc<Vec<u32>>;

/// What is known of blocks, by their numbers. Shared by all who know the same.
pub(super) type Known = Arc<BTreeMap<u64, Stamps>>;

/// What a thread knows of the others. Of itself it knows everything, whatever stands here.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Of its own block.
    pub(super) own: Stamps,
    /// Of other blocks; what stands there of its own counts for nothing.
    pub(super) others: Option<Known>,
}

impl Clock {
    /// Knows what either does.
    pub(super) fn join(&mut self, other: &Self) {
        join_stamps(&mut self.own, &other.own);
        if let Some(others) = &other.others {
            join_known(&mut self.others, others);
        }
    }

    /// Knows what a thread of the block did up to a stamp.
    pub(super) fn note(&mut self, thread: usize, stamp: u32) {
        if self.own[thread] < stamp {
            Arc::make_mut(&mut self.own)[thread] = stamp;
        }
    }

    /// Adds all that a thread of `block` knows by this to what is known.
    pub(super) fn tell(&self, block: u64, known: &mut Option<Known>) {
        if let Some(others) = &self.others {
            join_known(known, others);
        }
        let known = Arc::make_mut(known.get_or_insert_default());
        match known.get_mut(&block) {
            Some(stamps) => join_stamps(stamps, &self.own),
            None => {
                known.insert(block, Arc::clone(&self.own));
            }
        }
    }

    /// Takes over what is known, as a thread of `block`.
    pub(super) fn learn(&mut self, block: u64, known: &Known) {
        if let Some(stamps) = known.get(&block) {
            join_stamps(&mut self.own, stamps);
        }
        if known.len() > 1 || !known.contains_key(&block) {
            join_known(&mut self.others, known);
        }
    }
}

fn join_stamps(into: &mut Stamps, from: &Stamps) {
    if Arc::ptr_eq(into, from) {
        return;
    }
    let pairs = || into.iter().zip(from.iter());
    if pairs().all(|(known, new)| known >= new) {
        return;
    }
    if pairs().all(|(known, new)| known <= new) {
        *into = Arc::clone(from);
        return;
    }
    for (known, new) in Arc::make_mut(into).iter_mut().zip(from.iter()) {
        *known = (*known).max(*new);
    }
}

fn join_known(into: &mut Option<Known>, from: &Known) {
    let Some(known) = into else {
        *into = Some(Arc::clone(from));
        return;
    };
    if Arc::ptr_eq(known, from) {
        return;
    }
    let known = Arc::make_mut(known);
    for (block, stamps) in from.iter() {
        match known.get_mut(block) {
            Some(mine) => join_stamps(mine, stamps),
            None => {
                known.insert(*block, Arc::clone(stamps));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(own: &[u32]) -> Clock {
        Clock {
            own: Arc::new(own.to_vec()),
            others: None,
        }
    }

    #[test]
    fn joining_keeps_the_later_of_each() {
        let mut clock_a = clock(&[1, 5, 0]);
        clock_a.join(&clock(&[2, 3, 0]));
        assert_eq!(*clock_a.own, [2, 5, 0]);
        clock_a.note(2, 7);
        clock_a.note(2, 4);
        assert_eq!(*clock_a.own, [2, 5, 7]);
    }

    #[test]
    fn what_is_told_is_learnt_by_others_and_handed_on() {
        let mut told = None;
        clock(&[3, 0]).tell(0, &mut told);
        let mut second = clock(&[0, 9]);
        second.learn(1, told.as_ref().unwrap());
        assert_eq!(*second.own, [0, 9]);
        let mut told_on = None;
        second.tell(1, &mut told_on);
        let mut third = clock(&[0, 0]);
        third.learn(2, told_on.as_ref().unwrap());
        let others = third.others.unwrap();
        assert_eq!((*others[&0]).clone(), [3, 0]);
        assert_eq!((*others[&1]).clone(), [0, 9]);
    }
}
