//! Release and acquire patterns of the PTX memory model (PTX ISA, 8.8): the clocks that threads
//! release with the values of memory locations, and acquire when they read them.
//!
//! A *release pattern* on a location is a release operation on it, or a release operation on it or
//! a fence before a strong write of it. An *acquire pattern* is an acquire operation on a location,
//! or a strong read of it, other than that of a `red`, before an acquire operation on it or a
//! fence. A release pattern synchronises with an acquire pattern (8.9.4) if
//!
//! 1. the read observes the write (8.9.2): it reads its value, or that of the last of a chain of
//!    atomics that each read the value of the one before, and
//! 2. in each link of the chain, the scope of either access includes the thread of the other
//!    (8.7.2), and
//! 3. the scopes of the first operation of the release pattern and of the last operation of the
//!    acquire pattern each include the thread of the other.
//!
//! A pattern affects the operations before its first operation or behind its last one. They are in
//! base causality order (8.9.5), which is transitive, so that clocks pass on through barriers and
//! further patterns. Fence-SC order is in [`super::fence_order`], and what observation order adds
//! for one location in [`super::observation`].
//!
//! A location therefore has the clocks released so far, by the scope of the first operation, and
//! the thread and scope of the last write, which decide whether the next access is a link of the
//! chain. A thread keeps the clocks that it has observed until a fence acquires them.

use std::collections::BTreeMap;
use std::mem;

use super::access_record::AccessRecord;
use super::block_threads::BlockThreads;
use super::by_address::ByAddress;
use super::fence_order::{CommunicatedFences, Domain};
use super::release_chain::{Acquired, Observed, ReleaseChain, ReleasedClock};
use crate::ptx::ir::MemoryOrder;

/// The number of locations for which a thread remembers its release operations and reads.
const LOCATIONS_MAX: usize = 8;

/// The effect of a strong access on the clocks of its location and its thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct StrongAccess {
    /// The size of the access in bytes.
    pub(super) bytes: u64,
    pub(super) read: bool,
    /// True if the access writes; false for a compare-and-swap that failed.
    pub(super) write: bool,
    pub(super) acquire: bool,
    pub(super) release: bool,
    /// True if the access has block scope.
    pub(super) block_only: bool,
    pub(super) reduction: bool,
}

/// Clocks observed by a thread of a block, by the scope of the release.
#[derive(Clone, Debug, Default)]
struct ObservedClocks {
    /// The clocks released at a scope wider than the block.
    to_all: Observed,
    /// The clocks that threads of the same block released, at any scope.
    to_block: Observed,
}

impl ObservedClocks {
    /// Adds the clocks released with the value of a location to a thread of `block`.
    fn add(&mut self, location: &ReleaseClocks, block: u64) {
        for (observed, chain) in [
            (&mut self.to_all, location.to_all.as_ref()),
            (&mut self.to_block, location.to_block.get(&block)),
        ] {
            if let Some(chain) = chain {
                observed.add_chain(chain);
            }
        }
    }

    /// Takes the clocks that an acquire operation or a fence acquires.
    fn take(&mut self, block_only: bool) -> Self {
        let to_all = match block_only {
            true => Observed::default(),
            false => mem::take(&mut self.to_all),
        };
        let to_block = mem::take(&mut self.to_block);
        Self { to_all, to_block }
    }

    fn is_empty(&self) -> bool {
        self.to_all.is_empty() && self.to_block.is_empty()
    }
}

/// A thread's clock at its last release operations or fences, by their scope.
#[derive(Clone, Debug, Default)]
struct ScopedReleases {
    /// The clock at the last one of a scope wider than the block.
    to_all: Option<ReleasedClock>,
    /// The clock at the last one of any scope.
    to_block: Option<ReleasedClock>,
}

impl ScopedReleases {
    fn record(&mut self, clock: ReleasedClock, block_only: bool) {
        if !block_only {
            self.to_all = Some(clock.clone());
        }
        self.to_block = Some(clock);
    }
}

/// A thread's release operations on a location, and the clocks that it has observed there.
#[derive(Clone, Debug)]
struct LocationPatterns {
    global: bool,
    address: u64,
    releases: ScopedReleases,
    observed: ObservedClocks,
}

/// The beginnings of a thread's release and acquire patterns.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadPatterns {
    /// The fences before the thread's next writes.
    fences: ScopedReleases,
    /// The clocks observed by strong reads that no fence has acquired yet.
    observed: ObservedClocks,
    pub(super) acquired: Acquired,
    /// The patterns that operations on the same location complete.
    locations: Vec<LocationPatterns>,
}

impl ThreadPatterns {
    fn existing_location(&mut self, global: bool, address: u64) -> Option<&mut LocationPatterns> {
        let mut locations = self.locations.iter_mut();
        locations.find(|known| (known.global, known.address) == (global, address))
    }

    fn location(&mut self, global: bool, address: u64) -> &mut LocationPatterns {
        if self.existing_location(global, address).is_none() {
            if self.locations.len() >= LOCATIONS_MAX {
                self.locations.remove(0);
            }
            self.locations.push(LocationPatterns {
                global,
                address,
                releases: ScopedReleases::default(),
                observed: ObservedClocks::default(),
            });
        }
        self.existing_location(global, address)
            .expect("the location was added")
    }
}

#[derive(Debug, Default)]
struct ReleaseClocks {
    bytes: u64,
    /// The block of the last write.
    writer: u64,
    /// True if the last write has block scope.
    block_only: bool,
    to_all: Option<ReleaseChain>,
    /// The clocks released at any scope, by the block of the releasing thread.
    to_block: BTreeMap<u64, ReleaseChain>,
}

impl ReleaseClocks {
    fn releases_to(&self, block: u64) -> bool {
        self.to_all.is_some() || self.to_block.contains_key(&block)
    }
}

/// The clocks released in one memory, by the address of the location.
#[derive(Debug, Default)]
pub(super) struct ReleasedMemory {
    locations: ByAddress<Option<ReleaseClocks>>,
    pub(super) fences: CommunicatedFences,
}

impl ReleasedMemory {
    /// Drops the clocks of the locations that a weak store overwrites.
    pub(super) fn overwrite(&mut self, address: u64, bytes: u64) {
        self.fences.overwrite(address, bytes);
        self.locations.each_near(address, bytes, |start, location| {
            location.take_if(|location| start + location.bytes > address);
        });
    }
}

impl BlockThreads {
    /// Applies the effects of a thread's strong access to a location of `memory`.
    pub(super) fn synchronise(
        &mut self,
        thread: usize,
        memory: &mut ReleasedMemory,
        (global, address): (bool, u64),
        (how, domains): (StrongAccess, &[Domain]),
    ) {
        // Without release operations and fences, there is nothing to acquire.
        if !self.summary.releases {
            return;
        }
        let block = self.block;
        self.communicate_fences(thread, &mut memory.fences, address, (how, domains));
        if let Some(released) = memory.locations.get_mut(address)
            && let Some(location) = released
        {
            let same_block = location.writer == block;
            let linked = same_block || !(location.block_only || how.block_only);
            if how.read && linked {
                self.observe(thread, (global, address), location, how);
            }
            if how.write && !(how.read && linked) {
                *released = None;
            }
        }
        if self.summary.patterns && how.read && how.acquire {
            let patterns = self.threads[thread].patterns.as_mut();
            let known = patterns.and_then(|patterns| patterns.existing_location(global, address));
            if let Some(location) = known {
                let observed = location.observed.take(how.block_only);
                self.acquire(thread, &observed, how.block_only);
            }
        }
        if how.write {
            self.release(thread, memory, (global, address), how);
        }
    }

    /// Records that a thread's strong read observes the clocks of a location.
    fn observe(
        &mut self,
        thread: usize,
        (global, address): (bool, u64),
        location: &ReleaseClocks,
        how: StrongAccess,
    ) {
        let block = self.block;
        // PTX ISA, 8.8 (release and acquire patterns): the read of a `red` begins no pattern.
        if !location.releases_to(block) || how.reduction {
            return;
        }
        if how.acquire || self.model.lenient_acquire {
            let mut observed = ObservedClocks::default();
            observed.add(location, block);
            self.acquire(thread, &observed, how.block_only);
            if !how.block_only {
                return;
            }
        }
        let by_location = self.summary.patterns;
        let patterns = self.patterns_mut(thread);
        patterns.observed.add(location, block);
        if by_location {
            let here = patterns.location(global, address);
            here.observed.add(location, block);
        }
    }

    /// Joins observed clocks into the clock of a thread: an acquire operation or a fence.
    fn acquire(&mut self, thread: usize, observed: &ObservedClocks, block_only: bool) {
        if observed.is_empty() {
            return;
        }
        let block = self.block;
        let thread = &mut self.threads[thread];
        let acquired = &mut thread.patterns.get_or_insert_default().acquired;
        acquired.acquire(&observed.to_block, &mut thread.clock, block);
        if !block_only {
            acquired.acquire(&observed.to_all, &mut thread.clock, block);
        }
    }

    /// Records the clocks that a thread's strong write releases at a location.
    ///
    /// The caller begins a new epoch if the access is a release operation.
    fn release(
        &mut self,
        thread: usize,
        memory: &mut ReleasedMemory,
        (global, address): (bool, u64),
        how: StrongAccess,
    ) {
        let now = how.release.then(|| self.released_clock(thread));
        if let Some(clock) = &now
            && self.summary.patterns
        {
            let patterns = self.patterns_mut(thread);
            let location = patterns.location(global, address);
            location.releases.record(clock.clone(), how.block_only);
        }
        let (block, scoped) = (self.block, self.summary.scoped);
        let patterns = self.threads[thread].patterns.as_deref();
        let known = |known: &&LocationPatterns| (known.global, known.address) == (global, address);
        let here = patterns.and_then(|patterns| patterns.locations.iter().find(known));
        let fences = patterns.map(|patterns| &patterns.fences);
        let before = here.map(|here| &here.releases);
        let some = |releases: Option<&ScopedReleases>| {
            releases.is_some_and(|releases| releases.to_block.is_some())
        };
        let location = match now.is_some() || some(fences) || some(before) {
            true => Some(
                memory
                    .locations
                    .get_or_default(address)
                    .get_or_insert_default(),
            ),
            false => memory.locations.get_mut(address).and_then(Option::as_mut),
        };
        if let Some(location) = location {
            let mut push = |to_all: Option<&ReleasedClock>, to_block: Option<&ReleasedClock>| {
                if let Some(clock) = to_all {
                    location.to_all.get_or_insert_default().push(clock);
                }
                // Without block scopes in the kernel, the clocks released to all blocks suffice.
                if let Some(clock) = to_block.filter(|_| scoped) {
                    location.to_block.entry(block).or_default().push(clock);
                }
            };
            push(now.as_ref().filter(|_| !how.block_only), now.as_ref());
            for releases in [fences, before].into_iter().flatten() {
                push(releases.to_all.as_ref(), releases.to_block.as_ref());
            }
            (location.bytes, location.writer) = (how.bytes, block);
            location.block_only = how.block_only;
        }
    }

    /// Records a fence of a thread: it acquires what the thread's strong reads have observed, and
    /// the thread's later strong writes release its clock.
    pub(super) fn fence(
        &mut self,
        thread: usize,
        MemoryOrder {
            acquire,
            release,
            block_only,
            sequential,
            ..
        }: MemoryOrder,
    ) {
        if acquire && let Some(patterns) = &mut self.threads[thread].patterns {
            let observed = patterns.observed.take(block_only);
            self.acquire(thread, &observed, block_only);
        }
        let passed = sequential.then(|| self.pass_fence(thread, block_only));
        if release {
            let clock = passed.unwrap_or_else(|| self.released_clock(thread));
            let patterns = self.patterns_mut(thread);
            patterns.fences.record(clock, block_only);
        }
    }

    pub(super) fn released_clock(&self, thread: usize) -> ReleasedClock {
        let warp = thread as u32 / 32;
        ReleasedClock {
            block: self.block,
            warp,
            lanes: 1 << (thread % 32),
            epoch: self.epoch(warp),
            clock: self.threads[thread].clock.clone(),
            joined: false,
            fenced: false,
        }
    }

    pub(super) fn patterns_mut(&mut self, thread: usize) -> &mut ThreadPatterns {
        self.threads[thread].patterns.get_or_insert_default()
    }

    /// Returns whether a thread of the block has observed a release of an access without acquiring
    /// it.
    pub(super) fn has_observed(&self, record: &AccessRecord, lane: usize) -> bool {
        let threads = self.threads.iter();
        let mut patterns = threads.filter_map(|thread| thread.patterns.as_ref());
        patterns.any(|patterns| {
            let ObservedClocks { to_all, to_block } = &patterns.observed;
            to_all.includes(record, lane) || to_block.includes(record, lane)
        }) || self.have_seen_fence_behind(record, lane)
    }
}
