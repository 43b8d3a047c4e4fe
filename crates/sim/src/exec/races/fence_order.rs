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
//! Of the morally strong accesses to a location, each write follows all others in communication
//! order, and each read follows the writes, and the reads in front of these (8.9.7). A location
//! therefore has the clocks of the fences before its writes, and of those before the reads since.
//! The clocks that a thread sees there follow it along base causality order, through barriers and
//! release patterns to other threads too, until a fence joins them.
//!
//! Two deviations leave fewer orders than the ISA. An order that only racing accesses force does
//! not count; the race between these is reported. A fence of block scope passes on what the thread
//! has seen of the fences of other blocks only within its block.

use std::mem;
use std::rc::Rc;

use smallvec::SmallVec;

use super::by_address::ByAddress;
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

impl DomainFences {
    fn pass(&mut self, passed: &ReleasedClock) {
        match &mut self.passed {
            Some(known) => known.join(passed),
            none => *none = Some(passed.clone()),
        }
    }
}

/// A value for each domain. Most kernels have one.
type ByDomain<T> = SmallVec<[(Domain, T); 1]>;

#[inline(always)]
fn of_domain<T: Default>(domains: &mut ByDomain<T>, domain: Domain) -> &mut T {
    let at = match domains.first() {
        Some((known, _)) if *known == domain => 0,
        _ => find_domain(domains, domain),
    };
    &mut domains[at].1
}

fn find_domain<T: Default>(domains: &mut ByDomain<T>, domain: Domain) -> usize {
    let at = domains.iter().position(|(known, _)| *known == domain);
    at.unwrap_or_else(|| {
        domains.push((domain, T::default()));
        domains.len() - 1
    })
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
        let domains = self.domains.as_ref().map_or(&[][..], |domains| domains);
        domains.iter().map(|(domain, fences)| (*domain, fences))
    }

    /// Joins the fences before lanes of a release and, if the release is itself a fence, this one.
    pub(super) fn join_release(&mut self, release: &ReleasedClock, lanes: u32) {
        self.join(&release.clock.fences);
        if release.fenced {
            let mut passed = release.clone();
            (passed.lanes, passed.fenced) = (lanes, false);
            self.domain_mut(None).pass(&passed);
        }
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
            if let Some(passed) = &fences.passed {
                known.pass(passed);
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

impl LocationOrder {
    /// Records a write, which follows the reads.
    fn follow_reads(&mut self) {
        if !self.reads.is_empty() {
            self.writes.extend(&mem::take(&mut self.reads));
        }
    }

    /// Records a write that is not morally strong with the accesses: later reads do not communicate
    /// with the writes before it.
    fn overwrite(&mut self) {
        if !self.writes.is_empty() {
            self.reads.extend(&mem::take(&mut self.writes));
        }
    }
}

/// The fences before the strong accesses to one location.
#[derive(Debug, Default)]
struct LocationFences {
    bytes: u64,
    /// The block of the last write, and whether it has block scope; `None` for a weak write.
    writer: Option<(u64, bool)>,
    /// By the domain of the accesses, which are morally strong with each other (8.7.2), and by that
    /// of the fences.
    orders: SmallVec<[(Domain, ByDomain<LocationOrder>); 1]>,
}

/// The fences before the strong accesses to one memory, by the address of the location.
#[derive(Debug, Default)]
pub(super) struct CommunicatedFences {
    locations: ByAddress<LocationFences>,
}

impl CommunicatedFences {
    /// Records a weak store.
    pub(super) fn overwrite(&mut self, address: u64, bytes: u64) {
        self.locations.each_near(address, bytes, |start, location| {
            if start + location.bytes > address {
                location.writer = None;
                let orders = location.orders.iter_mut().flat_map(|(_, orders)| orders);
                orders.for_each(|(_, order)| order.overwrite());
            }
        });
    }

    /// Records a strong access of a thread of `block` to a location, and what it communicates with.
    /// The access is in some domains.
    pub(super) fn communicate(
        &mut self,
        fences: &mut FenceOrder,
        (address, bytes): (u64, u64),
        write: bool,
        (block, domains): (u64, &[Domain]),
    ) {
        if fences.is_empty() && self.locations.get_mut(address).is_none() {
            return;
        }
        let location = self.locations.get_or_default(address);
        location.bytes = bytes;
        if write {
            for (accesses, orders) in &mut location.orders {
                let ours = domains.contains(accesses);
                for (_, order) in orders {
                    match ours {
                        true => order.follow_reads(),
                        false => order.overwrite(),
                    }
                }
            }
            location.writer = Some((block, !domains.contains(&None)));
        }
        for accesses in domains {
            // A read of a value from another domain precedes no write in communication order.
            let communicates = location.writer.is_none_or(|(writer, block_only)| {
                accesses.map_or(!block_only, |block| writer == block)
            });
            let orders = of_domain(&mut location.orders, *accesses);
            for (domain, fences) in fences.each() {
                let Some(passed) = fences.passed.as_ref().filter(|_| communicates) else {
                    continue;
                };
                let order = of_domain(orders, domain);
                match write {
                    true => order.writes.push(passed),
                    false => order.reads.push(passed),
                }
            }
            for (domain, order) in orders {
                let reaches = domain.is_none_or(|own| own == block);
                if reaches && !order.writes.is_empty() {
                    fences.domain_mut(*domain).seen.add_chain(&order.writes);
                }
            }
        }
        if write && let [one, other] = domains {
            location.share(*one, *other);
            location.share(*other, *one);
        }
    }
}

impl LocationFences {
    /// Puts the fences before a write that is in two domains into the second as well.
    fn share(&mut self, from: Domain, to: Domain) {
        let known: Vec<_> = of_domain(&mut self.orders, from)
            .iter_mut()
            .map(|(domain, order)| (*domain, order.writes.copied()))
            .collect();
        for (domain, writes) in known {
            let orders = of_domain(&mut self.orders, to);
            of_domain(orders, domain).writes.extend(&writes);
        }
    }
}
