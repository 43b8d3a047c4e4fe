//! Fence-SC order (PTX ISA, 8.9.3): the order of the `fence.sc` operations of different threads,
//! each of which synchronises with those behind it (8.9.4).
//!
//! A launch decides the order as it runs, and another run may decide it otherwise. Therefore only
//! the orders count that the values read leave no choice about. Fence F precedes fence G in every
//! possible order exactly if F precedes an access in base causality order, that access communicates
//! with one that precedes G, and the scopes of F and G include each other's thread: with G in front
//! of F, the second access would precede the first one in causality order, which the axioms of
//! coherence and causality forbid (8.10.1, 8.10.6).
//!
//! Of the accesses to a location, each write follows all others in communication order, and each
//! read follows the writes, and the reads in front of these (8.9.7). A location therefore has the
//! clocks of the fences before its writes, and of those before the reads since. The clocks that a
//! thread sees there follow it along base causality order, through barriers and release patterns
//! to other threads too, until a fence joins them.
//!
//! Two deviations make the order weaker than the ISA's: an order that only a data race forces does
//! not count, and neither does one between fences of different blocks or scopes that is forced by
//! a fence of block scope between them.

use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use smallvec::SmallVec;

use super::release_chain::{Observed, ReleaseChain, ReleasedClock};

/// The fences among which an order is considered: those of one block or, if `None`, those whose
/// scope is wider than a block.
pub(super) type Domain = Option<u64>;

#[derive(Clone, Debug, Default)]
pub(super) struct DomainFences {
    /// The joined clock of the fences that precede in base causality order.
    pub(super) passed: Option<ReleasedClock>,
    /// The fences that communicated, which the next fence comes behind.
    pub(super) seen: Observed,
}

/// A value for each domain. Most kernels have one.
type ByDomain<T> = SmallVec<[(Domain, T); 1]>;

fn of_domain<T: Default>(domains: &mut ByDomain<T>, domain: Domain) -> &mut T {
    let at = domains.iter().position(|(known, _)| *known == domain);
    let at = at.unwrap_or_else(|| {
        domains.push((domain, T::default()));
        domains.len() - 1
    });
    &mut domains[at].1
}

/// The fences that precede a thread's next operation.
#[derive(Clone, Debug, Default)]
pub(super) struct FenceOrder {
    /// Equal orders of several threads share the allocation.
    domains: Option<Rc<ByDomain<DomainFences>>>,
}

impl FenceOrder {
    pub(super) fn is_empty(&self) -> bool {
        self.domains.is_none()
    }

    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.domains, &other.domains) {
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    pub(super) fn domain_mut(&mut self, domain: Domain) -> &mut DomainFences {
        let domains = Rc::make_mut(self.domains.get_or_insert_default());
        of_domain(domains, domain)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (Domain, &DomainFences)> {
        let domains = self.domains.iter().flat_map(|domains| domains.iter());
        domains.map(|(domain, fences)| (*domain, fences))
    }

    #[inline]
    pub(super) fn join(&mut self, other: &Self) {
        if other.domains.is_none() || self.is_shared_with(other) {
            return;
        }
        if self.domains.is_none() {
            self.clone_from(other);
            return;
        }
        for (domain, fences) in other.each() {
            let known = self.domain_mut(domain);
            match (&mut known.passed, &fences.passed) {
                (Some(known), Some(passed)) => known.join(passed),
                (none @ None, passed) => none.clone_from(passed),
                (Some(_), None) => {}
            }
            known.seen.add_all(&fences.seen);
        }
    }
}

/// The fences before the accesses to one location.
#[derive(Debug, Default)]
struct LocationOrder {
    /// The fences before the writes, and before the reads that precede a write.
    writes: ReleaseChain,
    /// The fences before the reads since the last write.
    reads: ReleaseChain,
}

/// The fences before the strong accesses to one location, each of which is morally strong with each
/// other (8.7.2).
#[derive(Debug)]
struct LocationFences {
    bytes: u64,
    /// The block of all accesses, if they are of one block.
    block: Option<u64>,
    /// True if one of the accesses has block scope.
    block_only: bool,
    domains: ByDomain<LocationOrder>,
}

/// The fences before the strong accesses to one memory, by the address of the location.
#[derive(Debug, Default)]
pub(super) struct CommunicatedFences {
    locations: BTreeMap<u64, LocationFences>,
}

impl CommunicatedFences {
    /// Records a weak store: later reads do not communicate with the writes before it.
    pub(super) fn overwrite(&mut self, address: u64, bytes: u64) {
        if self.locations.is_empty() {
            return;
        }
        let end = address.saturating_add(bytes);
        // A location is at most 16 bytes long.
        let near = self.locations.range_mut(address.saturating_sub(15)..end);
        for (_, location) in near.filter(|(start, location)| *start + location.bytes > address) {
            for (_, order) in &mut location.domains {
                order.reads.extend(&order.writes);
                order.writes = ReleaseChain::default();
            }
        }
    }

    /// Records a strong access of a thread of `block` to a location, and what it communicates with.
    pub(super) fn communicate(
        &mut self,
        fences: &mut FenceOrder,
        (address, bytes): (u64, u64),
        write: bool,
        (block, block_only): (u64, bool),
    ) {
        let passed: ByDomain<ReleasedClock> = fences
            .each()
            .filter_map(|(domain, fences)| Some((domain, fences.passed.clone()?)))
            .collect();
        if passed.is_empty() && !self.locations.contains_key(&address) {
            return;
        }
        let fresh = || LocationFences {
            bytes,
            block: Some(block),
            block_only: false,
            domains: SmallVec::new(),
        };
        let location = self.locations.entry(address).or_insert_with(fresh);
        let same_block = location.block == Some(block);
        if !same_block && (location.block_only || block_only) {
            *location = fresh();
        } else if !same_block {
            location.block = None;
        }
        location.block_only |= block_only;
        location.bytes = bytes;
        for (domain, order) in &mut location.domains {
            if write {
                order.writes.extend(&mem::take(&mut order.reads));
            }
            let reaches = domain.is_none_or(|own| own == block);
            if reaches && !order.writes.is_empty() {
                fences.domain_mut(*domain).seen.add(order.writes.observe());
            }
        }
        for (domain, passed) in passed {
            let order = of_domain(&mut location.domains, domain);
            match write {
                true => order.writes.push(&passed),
                false => order.reads.push(&passed),
            }
        }
    }
}
