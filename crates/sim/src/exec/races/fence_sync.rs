//! The effects of `fence.sc`, and of the accesses that decide the order of fences, on the clocks of
//! threads: see [`super::fence_order`].

use std::mem;

use smallvec::SmallVec;

use super::access_record::AccessRecord;
use super::block_threads::BlockThreads;
use super::fence_order::{CommunicatedFences, Domain, DomainFences, FenceOrder};
use super::release::StrongAccess;
use super::release_chain::ReleasedClock;
use super::thread_clock::ThreadClock;
use crate::exec::registers::lanes;

impl BlockThreads {
    /// The domains of a thread's fence or strong access.
    pub(super) fn domains(&self, block_only: bool) -> SmallVec<[Domain; 2]> {
        let mut domains = SmallVec::new();
        if !block_only {
            domains.push(None);
        }
        if self.summary.scoped {
            domains.push(Some(self.block));
        }
        domains
    }

    /// Records that a strong access communicates with the earlier ones to its location.
    pub(super) fn communicate_fences(
        &mut self,
        thread: usize,
        memory: &mut CommunicatedFences,
        address: u64,
        (how, domains): (StrongAccess, &[Domain]),
    ) {
        if !self.summary.sequential {
            return;
        }
        let order = &mut self.threads[thread].clock.fences;
        let by = (self.block, domains);
        memory.communicate(order, (address, how.bytes), how.write, by);
    }

    /// Joins the clocks of the fences that precede a `fence.sc` of these lanes into their clocks.
    ///
    /// Lanes with one clock keep one clock.
    pub(super) fn order_behind_fences(&mut self, warp: u32, mask: u32, block_only: bool) {
        let mut last: Option<(ThreadClock, ThreadClock)> = None;
        for lane in lanes(mask) {
            let thread = warp as usize * 32 + lane;
            let known = &self.threads[thread].clock;
            if known.fences.is_empty() {
                continue;
            }
            let same = |(before, _): &&(ThreadClock, ThreadClock)| {
                known.is_shared_with(before) && known.fences.is_shared_with(&before.fences)
            };
            if let Some((_, after)) = last.as_ref().filter(same) {
                self.threads[thread].clock = after.clone();
                continue;
            }
            let before = known.clone();
            for domain in self.domains(block_only) {
                let unseen = |(known, fences): (Domain, &DomainFences)| {
                    known == domain && !fences.seen.is_empty()
                };
                let known = &mut self.threads[thread].clock;
                if !known.fences.each().any(unseen) {
                    continue;
                }
                let seen = mem::take(&mut known.fences.domain_mut(domain).seen);
                let block = self.block;
                let thread = &mut self.threads[thread];
                let acquired = &mut thread.patterns.get_or_insert_default().acquired;
                acquired.acquire(&seen, &mut thread.clock, block);
            }
            last = Some((before, self.threads[thread].clock.clone()));
        }
    }

    /// Records that a thread has passed a `fence.sc`. Returns the clock that the fence releases.
    pub(super) fn pass_fence(&mut self, thread: usize, block_only: bool) -> ReleasedClock {
        let mut passed = self.released_clock(thread);
        passed.clock.fences = FenceOrder::default();
        for domain in self.domains(block_only) {
            let fences = &mut self.threads[thread].clock.fences;
            fences.domain_mut(domain).passed = Some(passed.clone());
        }
        if self.summary.scoped {
            return self.released_clock(thread);
        }
        // The thread has seen all fences that it knows of, and passed none behind this one, so that
        // the releases of a warp's lanes differ only in the lane.
        passed.fenced = true;
        passed
    }

    /// Returns whether a thread of the block has communicated with a fence behind an access, and no
    /// fence has followed.
    pub(super) fn have_seen_fence_behind(&self, record: &AccessRecord, lane: usize) -> bool {
        let mut orders = self.threads.iter().map(|thread| &thread.clock.fences);
        orders.any(|order| {
            let mut fences = order.each();
            fences.any(|(_, fences)| fences.seen.includes(record, lane))
        })
    }
}
