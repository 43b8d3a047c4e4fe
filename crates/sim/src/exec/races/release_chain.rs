//! Release chains: the clocks that are released with the values of a location, in order.
//!
//! Under contention each thread releases its clock with a location and observes all clocks released
//! there before, so joining them at each access would take time proportional to the number of
//! threads. A chain only grows. A thread therefore observes it in constant time, by noting its
//! length, and joins clocks only at a fence or an acquire operation, those that it has not joined
//! before.
//!
//! A chain consists of links of a few releases each. A link has the joined clock of all links
//! before it, so that joining a chain takes no longer than joining one link. A release whose clock
//! includes all others of the chain, as that of a thread that has taken a lock, replaces them.
//!
//! A clock includes a release if it includes the epoch that ended with it, because epochs spread
//! only with the whole clock of their thread. Joined releases are an exception.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

use super::access_record::AccessRecord;
use super::thread_clock::{JoinedClock, ThreadClock};

const LINK_RELEASES: usize = 8;

/// The number of observations above which their clocks are joined.
const OBSERVED_MAX: usize = 4;

/// The clock of lanes of a warp at a release operation or fence.
///
/// The lanes' own components are stored apart, so that the threads of a warp can share the rest.
#[derive(Clone, Debug)]
pub(super) struct ReleasedClock {
    pub(super) block: u64,
    pub(super) warp: u32,
    pub(super) lanes: u32,
    pub(super) epoch: u32,
    pub(super) clock: ThreadClock,
    /// True if other releases have been joined, so that the epoch does not imply the whole clock.
    pub(super) joined: bool,
    /// True for a `fence.sc`: the releases that the clock's own fences leave out.
    pub(super) fenced: bool,
}

impl ReleasedClock {
    /// Returns whether the clock includes another release.
    pub(super) fn covers(&self, other: &Self) -> bool {
        if other.joined {
            return self.is_like(other) && other.lanes & !self.lanes == 0;
        }
        let own = (self.block, self.warp) == (other.block, other.warp)
            && self.epoch >= other.epoch
            && other.lanes & !self.lanes == 0;
        own || self.clock.covers(self.block, other, other.lanes)
    }

    /// Returns whether the releases differ only in their lanes.
    fn is_like(&self, other: &Self) -> bool {
        (self.block, self.warp, self.epoch) == (other.block, other.warp, other.epoch)
            && (self.joined, self.fenced) == (other.joined, other.fenced)
            && self.clock.is_shared_with(&other.clock)
            && self.clock.fences.is_shared_with(&other.clock.fences)
    }

    /// Joins another release into this one.
    pub(super) fn join(&mut self, other: &Self) {
        if self.covers(other) {
            return;
        }
        if other.covers(self) {
            *self = other.clone();
        } else if self.is_like(other) {
            self.lanes |= other.lanes;
        } else {
            let own = self.clone();
            self.clock.absorb_release(self.block, &own, own.lanes);
            self.clock.absorb_release(self.block, other, other.lanes);
            self.joined = true;
        }
    }
}

/// Some consecutive releases of a chain.
#[derive(Debug, Default)]
struct ReleaseLink {
    /// An allocation whose address tells the chain from others.
    chain: Rc<()>,
    /// The joined clock of the links before.
    before: JoinedClock,
    releases: RefCell<SmallVec<[ReleasedClock; 1]>>,
}

#[derive(Debug, Default)]
pub(super) struct ReleaseChain {
    link: Rc<ReleaseLink>,
    /// The number of changes of the chain.
    version: u64,
}

impl ReleaseChain {
    pub(super) fn is_empty(&self) -> bool {
        self.version == 0
    }

    /// Appends the releases of another chain.
    pub(super) fn extend(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let mut before = JoinedClock::default();
        self.observe().join_into(&mut before);
        other.observe().join_into(&mut before);
        self.begin_link(before);
        self.version += 1;
    }

    fn begin_link(&mut self, before: JoinedClock) {
        self.link = Rc::new(ReleaseLink {
            chain: Rc::clone(&self.link.chain),
            before,
            releases: RefCell::default(),
        });
    }

    /// Returns a chain of the same releases.
    pub(super) fn copied(&self) -> Self {
        let mut copied = Self::default();
        copied.extend(self);
        copied
    }

    pub(super) fn push(&mut self, release: &ReleasedClock) {
        let mut releases = self.link.releases.borrow_mut();
        if let Some(last) = releases.last_mut() {
            if last.is_like(release) {
                last.lanes |= release.lanes;
                self.version += 1;
                return;
            }
            if last.covers(release) {
                return;
            }
        }
        self.version += 1;
        let mut newest_first = releases.iter().rev();
        let covers_all =
            self.link.before.is_empty() && newest_first.all(|other| release.covers(other));
        if !covers_all && releases.len() < LINK_RELEASES {
            releases.push(release.clone());
            return;
        }
        drop(releases);
        let mut before = JoinedClock::default();
        if !covers_all {
            self.observe().join_into(&mut before);
        }
        self.begin_link(before);
        self.link.releases.borrow_mut().push(release.clone());
    }

    fn observe(&self) -> ChainObservation {
        let (releases, last_lanes) = self.link.extent();
        ChainObservation {
            version: self.version,
            link: Rc::clone(&self.link),
            releases,
            last_lanes,
        }
    }
}

impl ReleaseLink {
    /// Returns the number of releases and the lanes of the last of them.
    fn extent(&self) -> (usize, u32) {
        let releases = self.releases.borrow();
        (releases.len(), releases.last().map_or(0, |last| last.lanes))
    }

    fn is_of_chain(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.chain, &other.chain)
    }
}

/// An observation of the first releases of a chain.
#[derive(Clone, Debug)]
struct ChainObservation {
    version: u64,
    link: Rc<ReleaseLink>,
    /// The number of releases of the link, and the lanes of the last of them.
    releases: usize,
    last_lanes: u32,
}

impl ChainObservation {
    /// Calls `each` with the releases of the link, the newest first, each with its lanes, except
    /// for the first `skipped` ones.
    fn each(&self, skipped: usize, mut each: impl FnMut(&ReleasedClock, u32)) {
        let releases = self.link.releases.borrow();
        let observed = releases.iter().take(self.releases).enumerate();
        for (index, release) in observed.skip(skipped).rev() {
            let is_last = index + 1 == self.releases;
            each(
                release,
                if is_last {
                    self.last_lanes
                } else {
                    release.lanes
                },
            );
        }
    }

    fn is_in_link(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.link, &other.link)
    }

    fn is_of_chain(&self, other: &Self) -> bool {
        self.link.is_of_chain(&other.link)
    }

    /// Extends the observation to the present end of its chain.
    fn extend_to(&mut self, chain: &ReleaseChain) {
        if !Rc::ptr_eq(&self.link, &chain.link) {
            self.link = Rc::clone(&chain.link);
        }
        self.version = chain.version;
        (self.releases, self.last_lanes) = self.link.extent();
    }

    /// Joins the observed clocks into the released clocks `known`.
    fn join_into(&self, known: &mut JoinedClock) {
        known.join(&self.link.before);
        self.each(0, |release, lanes| known.add(release, lanes));
    }
}

/// Clocks that a thread has observed.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// The last observation of each of a few chains.
    chains: SmallVec<[ChainObservation; OBSERVED_MAX]>,
    /// The joined clock of further observations.
    joined: JoinedClock,
}

impl Observed {
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.joined.is_empty()
    }

    /// Adds all releases of a chain so far.
    pub(super) fn add_chain(&mut self, chain: &ReleaseChain) {
        let mut chains = self.chains.iter_mut();
        match chains.find(|known| known.link.is_of_chain(&chain.link)) {
            Some(known) => known.extend_to(chain),
            None => self.insert(chain.observe()),
        }
    }

    /// Adds an observation. The later one of a chain includes the earlier ones.
    fn add(&mut self, observation: &ChainObservation) {
        let mut chains = self.chains.iter_mut();
        match chains.find(|known| known.is_of_chain(observation)) {
            Some(known) if known.version >= observation.version => {}
            Some(known) => known.clone_from(observation),
            None => self.insert(observation.clone()),
        }
    }

    fn insert(&mut self, observation: ChainObservation) {
        if self.chains.len() >= OBSERVED_MAX {
            for observation in self.chains.drain(..) {
                observation.join_into(&mut self.joined);
            }
        }
        self.chains.push(observation);
    }

    /// Adds other observations.
    pub(super) fn add_all(&mut self, other: &Self) {
        for observation in &other.chains {
            self.add(observation);
        }
        self.joined.join(&other.joined);
    }

    /// Returns whether an access of another thread is among those that were released.
    pub(super) fn includes(&self, record: &AccessRecord, lane: usize) -> bool {
        let mut all = self.joined.clone();
        for observation in &self.chains {
            observation.join_into(&mut all);
        }
        all.includes(record, lane)
    }
}

/// The observations that a thread has acquired last, which later ones of the same chains extend.
#[derive(Clone, Debug, Default)]
pub(super) struct Acquired {
    chains: SmallVec<[ChainObservation; OBSERVED_MAX]>,
}

impl Acquired {
    /// Joins observed clocks into the clock of a thread of `block`, except for what the thread has
    /// acquired before.
    pub(super) fn acquire(&mut self, observed: &Observed, clock: &mut ThreadClock, block: u64) {
        clock.absorb(block, &observed.joined);
        for observation in &observed.chains {
            let mut known = self.chains.iter_mut();
            let known = known.find(|known| known.is_of_chain(observation));
            if known
                .as_ref()
                .is_some_and(|known| known.version >= observation.version)
            {
                continue;
            }
            // The last release of the known ones may have got further lanes.
            let skipped = match known.as_ref().filter(|known| known.is_in_link(observation)) {
                Some(known) => known.releases.saturating_sub(1),
                None => {
                    clock.absorb(block, &observation.link.before);
                    0
                }
            };
            observation.each(skipped, |release, lanes| {
                if release.joined || !clock.covers(block, release, lanes) {
                    clock.absorb_release(block, release, lanes);
                }
            });
            match known {
                Some(known) => *known = observation.clone(),
                None => {
                    if self.chains.len() >= OBSERVED_MAX {
                        self.chains.remove(0);
                    }
                    self.chains.push(observation.clone());
                }
            }
        }
    }
}
