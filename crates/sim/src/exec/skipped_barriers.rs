//! The check for skipped barriers: threads that go around a `__syncthreads()` at which others wait,
//! and end.
//!
//! A thread that exits is not waited for, so that a kernel may return early. But an early return
//! and a branch around the barrier look alike at the exit. They differ in the code between: a
//! thread that has gone around a barrier executes something that the others reach only behind it.
//! For each barrier, the *end* is the first operation of such code: the barrier cannot be reached
//! from there, and every path from the barrier comes there, unless it branches to the end of the
//! kernel. A thread that has passed the end of a barrier and exits is missing at it.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::barrier::Barriers;
use super::kernel_error::{KernelError, KernelErrorKind};
use super::launch::{GlobalMemory, Launch};
use super::observer::{BarrierArrivalEvent, IssuePoint};
use crate::ptx::Kernel;
use crate::ptx::ir::{BarrierEnds, BarrierOp, Code, NO_GUARD, Op};

/// A thread that has exited: its number, the program counter of its exit, and the number of
/// completions of barrier 0 before.
#[derive(Clone, Copy, Debug)]
struct Exited {
    thread: u32,
    pc: u32,
    generation: u64,
}

/// The running check of one launch.
pub(super) struct SkippedBarriers<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    memory: &'a dyn GlobalMemory,
    /// The ends of barriers, each with its barrier.
    ends: &'a [(u32, u32)],
    /// The lanes of each warp that have passed the end of a barrier, by block, barrier and warp.
    past: BTreeMap<(u64, u32, u32), u32>,
    /// The first of these threads to exit, by block and barrier.
    exited: BTreeMap<(u64, u32), Exited>,
}

impl<'a> SkippedBarriers<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
        memory: &'a dyn GlobalMemory,
        is_on: bool,
    ) -> Self {
        let code = &kernel.code;
        let ends = || code.barrier_ends.get_or_init(|| barrier_ends(code));
        Self {
            kernel,
            launch,
            memory,
            ends: if is_on { &ends().ends } else { &[] },
            past: BTreeMap::new(),
            exited: BTreeMap::new(),
        }
    }

    /// Notes that lanes have reached an instruction.
    pub(super) fn reached(&mut self, (block, warp): (u64, u32), pc: u32, lanes: u32) {
        for (_, barrier) in self.ends.iter().filter(|(end, _)| *end == pc) {
            *self.past.entry((block, *barrier, warp)).or_default() |= lanes;
        }
    }

    /// Checks an arrival at a barrier for threads that have exited without it.
    pub(super) fn arrived(&mut self, block: u64, warp: u32, event: &BarrierArrivalEvent) {
        if let Some(gone) = self.exited.get(&(block, event.pc))
            && event.id == 0
            && gone.generation <= event.generation
        {
            let waits = (warp * 32 + event.mask.trailing_zeros(), event.pc);
            self.report(block, waits, (gone.thread, gone.pc));
        }
    }

    /// Checks threads that exit for barriers at which others wait for them.
    pub(super) fn exiting(
        &mut self,
        (block, warp): (u64, u32),
        at: IssuePoint,
        barriers: &Barriers,
    ) {
        for (_, barrier) in self.ends {
            let past = self.past.get(&(block, *barrier, warp)).unwrap_or(&0);
            if past & at.mask == 0 {
                continue;
            }
            let thread = warp * 32 + (past & at.mask).trailing_zeros();
            let state = barriers.state(0);
            if let Some(waits) = state.arrivals.iter().find(|of| of.pc == *barrier) {
                self.report(block, waits.place(), (thread, at.pc));
            }
            self.exited.entry((block, *barrier)).or_insert(Exited {
                thread,
                pc: at.pc,
                generation: state.generation,
            });
        }
    }

    /// Forgets the threads of a block that has ended.
    pub(super) fn leave(&mut self, block: u64) {
        self.past.retain(|(of, ..), _| *of != block);
        self.exited.retain(|(of, _), _| *of != block);
    }

    fn report(&self, block: u64, waits: (u32, u32), exits: (u32, u32)) {
        let access = |(thread, pc)| self.launch.place(self.kernel, block, thread, pc);
        self.memory.kernel_error(KernelError {
            kind: KernelErrorKind::SkippedBarrier,
            later: access(exits),
            earlier: Some(access(waits)),
        });
    }
}

/// Returns the ends of the kernel's barriers for the whole block. Barriers in functions that are
/// called have none.
fn barrier_ends(code: &Code) -> BarrierEnds {
    let flow = Flow::new(code);
    let is_barrier = |pc: &u32| match code.instrs[*pc as usize].op {
        Op::Barrier(index) => {
            let barrier = &code.barriers[index as usize];
            barrier.aligned && barrier.threads.is_none() && barrier.f != BarrierOp::Arrive
        }
        _ => false,
    };
    let barriers = (code.entry..code.instrs.len() as u32).filter(is_barrier);
    let ends = barriers.filter_map(|barrier| Some((flow.end_of(barrier)?, barrier)));
    let ends: Vec<_> = ends.collect();
    let mut is_end = vec![
        false;
        if ends.is_empty() {
            0
        } else {
            code.instrs.len()
        }
    ];
    ends.iter()
        .for_each(|(end, _)| is_end[*end as usize] = true);
    BarrierEnds { ends, is_end }
}

/// The control flow of a kernel's own operations.
struct Flow<'a> {
    code: &'a Code,
    next: Vec<SmallVec<[u32; 2]>>,
    /// Whether an operation only leads to the end of the kernel.
    exits: Vec<bool>,
}

impl<'a> Flow<'a> {
    fn new(code: &'a Code) -> Self {
        let next: Vec<_> = (0..code.instrs.len() as u32)
            .map(|pc| followers(code, pc))
            .collect();
        let mut exits = vec![false; next.len()];
        // A branch leads forwards to the common exit of a kernel.
        for pc in (0..next.len()).rev() {
            let instr = &code.instrs[pc];
            exits[pc] = instr.guard == NO_GUARD
                && match instr.op {
                    Op::Exit => true,
                    Op::Branch { .. } | Op::Nop => {
                        next[pc].first().is_some_and(|next| exits[*next as usize])
                    }
                    _ => false,
                };
        }
        Self { code, next, exits }
    }

    /// Returns the end of a barrier, if it has one.
    fn end_of(&self, barrier: u32) -> Option<u32> {
        // Behind a last loop, every end of the kernel is a conditional branch.
        let early = self.from(barrier + 1, None, true).is_some();
        let behind = self.from(barrier + 1, None, early)?;
        let targets = self.code.branch_targets();
        let starts = |pc: &u32| {
            let at = *pc as usize;
            let splits = at > 0 && self.next[at - 1].len() > 1;
            behind[at] && !self.exits[at] && (targets[at] || splits)
        };
        let mut candidates = (self.code.entry..self.next.len() as u32).filter(starts);
        candidates.find(|end| {
            let returns = |reached: Vec<bool>| reached[barrier as usize];
            self.from(barrier + 1, Some(*end), early).is_none()
                && self
                    .from(*end, None, early)
                    .is_some_and(|reached| !returns(reached))
        })
    }

    /// Returns the operations that are reached from one, or with `avoided` from one but not by way
    /// of that one. Returns `None` if the kernel cannot end there. With `early`, conditional
    /// branches to its end and conditional exits are early returns, which do not count.
    fn from(&self, start: u32, avoided: Option<u32>, early: bool) -> Option<Vec<bool>> {
        let mut reached = vec![false; self.next.len()];
        let (mut open, mut ends) = (vec![start], false);
        while let Some(pc) = open.pop() {
            let at = pc as usize;
            if Some(pc) == avoided || std::mem::replace(&mut reached[at], true) {
                continue;
            }
            ends |= self.exits[at];
            let conditional = early && self.next[at].len() > 1;
            let next = self.next[at].iter().copied();
            open.extend(next.filter(|next| !(conditional && self.exits[*next as usize])));
        }
        ends.then_some(reached)
    }
}

/// Returns the operations that may follow one.
fn followers(code: &Code, pc: u32) -> SmallVec<[u32; 2]> {
    let instr = &code.instrs[pc as usize];
    let mut next = match instr.op {
        Op::Branch { target } => SmallVec::from_slice(&[target]),
        Op::BranchIndexed { table, .. } => SmallVec::from_slice(&code.tables[table as usize]),
        Op::Exit | Op::Return | Op::Trap => SmallVec::new(),
        _ => SmallVec::from_slice(&[pc + 1]),
    };
    if instr.guard != NO_GUARD && !next.contains(&(pc + 1)) {
        next.push(pc + 1);
    }
    next.retain(|next| (*next as usize) < code.instrs.len());
    next
}
