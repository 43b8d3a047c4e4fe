//! Deadlocks: the threads of a block that wait for others that can never arrive.

use std::collections::BTreeMap;

use super::barrier::Barriers;
use super::fault::{KernelFaultKind, ThreadGroup, WaitingThreads};
use super::kernel_access::coordinates;
use super::launch::Launch;
use super::registers::lanes;
use super::warp::{WaitReason, Warp, WarpSplit, exchange_at};
use crate::ptx::Kernel;
use crate::ptx::ir::{Code, Op};

/// Returns the fault of a split that can never continue, with the operation that it waits at.
pub(super) fn deadlock(code: &Code, split: &WarpSplit) -> KernelFaultKind {
    KernelFaultKind::BarrierDeadlock {
        what: split.waits_at(code),
        threads: Box::default(),
    }
}

impl WarpSplit {
    /// Returns the name of the operation that a waiting split waits at.
    pub(super) fn waits_at(&self, code: &Code) -> &'static str {
        match code.instrs[self.waiting_pc() as usize].op {
            Op::Barrier(index) => code.barriers[index as usize].name(),
            _ => exchange_at(code, self.pc).map_or("bar.warp.sync", |exchange| exchange.f.name()),
        }
    }

    /// Returns the program counter of the operation that a waiting split waits at.
    pub(super) fn waiting_pc(&self) -> u32 {
        // The program counter of a split that waits at a barrier is already past the barrier.
        self.pc - u32::from(matches!(self.wait, WaitReason::Barrier { .. }))
    }
}

/// Threads, given by their numbers, with the number of the first.
#[derive(Clone, Copy, Default)]
struct Numbers {
    count: u32,
    first: u32,
}

impl Numbers {
    /// Adds the lanes of a mask.
    fn add(&mut self, warp: &Warp, mask: u32) {
        if let Some(lane) = lanes(mask).next() {
            let first = warp.index * 32 + lane as u32;
            self.first = if self.count == 0 {
                first
            } else {
                self.first.min(first)
            };
            self.count += mask.count_ones();
        }
    }
}

/// A block that is stuck, or the warp of it that is.
pub(super) struct Stuck<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) launch: &'a Launch<'a>,
    pub(super) barriers: &'a Barriers,
    pub(super) warps: &'a [Warp],
}

impl Stuck<'_> {
    /// Adds to a deadlock the threads that wait, each group with those that it waits for, and the
    /// threads that have exited if a thread count may include them.
    pub(super) fn explain(&self, fault: &mut KernelFaultKind) {
        let KernelFaultKind::BarrierDeadlock { threads: stuck, .. } = fault else {
            return;
        };
        let splits = || {
            let splits = self.warps.iter().flat_map(|warp| {
                let splits = warp.splits.iter();
                splits.map(move |split| (warp, split))
            });
            splits.filter(|(_, split)| split.wait != WaitReason::Nothing)
        };
        let mut groups: BTreeMap<u32, (Numbers, Numbers, String)> = BTreeMap::new();
        let mut counted = BTreeMap::new();
        for (warp, split) in splits() {
            let pc = split.waiting_pc();
            let name = split.waits_at(&self.kernel.code);
            let (threads, missing, what) = groups.entry(pc).or_default();
            let is_first = threads.count == 0;
            threads.add(warp, split.mask);
            match split.wait {
                WaitReason::Barrier { id, .. } if is_first => {
                    *what = format!("{name} {id}");
                    let state = self.barriers.state(id);
                    match state.missing() {
                        Some((more, count)) => {
                            missing.count = more;
                            counted.insert(pc, count);
                        }
                        None => {
                            for other in self.warps {
                                missing.add(other, other.live & !state.arrived(other.index));
                            }
                        }
                    }
                }
                WaitReason::Barrier { .. } => {}
                _ => {
                    let members = exchange_at(&self.kernel.code, pc)
                        .map_or([0; 32], |exchange| *warp.registers.word(exchange.members));
                    let named = lanes(split.mask).fold(0, |all, lane| all | members[lane]);
                    let lane = split.mask.trailing_zeros() as usize & 31;
                    *what = format!("{name} {:#010x}", members[lane]);
                    missing.add(warp, named & warp.live & !split.mask);
                }
            }
        }
        let group = |pc: u32, threads: Numbers| ThreadGroup {
            threads: threads.count,
            first: coordinates(threads.first.into(), self.launch.block),
            ptx_line: self.kernel.line(pc),
            source_line: self.kernel.source(pc).map(String::into_boxed_str),
        };
        let groups = groups
            .into_iter()
            .map(|(pc, (threads, missing, what))| WaitingThreads {
                group: group(pc, threads),
                what: what.into(),
                missing: missing.count,
                first_missing: (!counted.contains_key(&pc))
                    .then(|| coordinates(missing.first.into(), self.launch.block)),
                count: counted.get(&pc).copied(),
            });
        stuck.waiting = groups.collect();
        if !counted.is_empty() {
            let mut ended: BTreeMap<u32, Numbers> = BTreeMap::new();
            for warp in self.warps {
                for (pc, mask) in &warp.exits {
                    ended.entry(*pc).or_default().add(warp, *mask);
                }
            }
            stuck.exited = ended
                .into_iter()
                .map(|(pc, threads)| group(pc, threads))
                .collect();
        }
    }
}
