//! A warp: 32 threads that run together while their program counters are equal, and separately
//! after they diverge.
//!
//! The live threads are divided into warp splits, each with its own program counter. The split with
//! the lowest program counter runs. When it reaches the program counter of another split, it
//! absorbs that split; when it passes one, the other split runs instead. Splits therefore
//! reconverge after the code that divided them. A split that loops for long yields to the other
//! splits in turn, so that a thread can wait for a lock held by another thread of its warp; it
//! yields sooner if the loop contains memory operations that could be a wait for another thread.

use smallvec::SmallVec;

use super::barrier::Barriers;
use super::call::CallStacks;
use super::registers::{FULL, LANES, Registers, Words, lanes};
use super::special_registers::{special_value, special_words};
use super::warp_exchange::{self, OutsideMask};
use crate::ptx::ir::{BarrierOp, Code, Exchange, ExchangeOp, InitialValue, Op};

/// The number of backward branches that a warp may take before it yields.
const YIELD_BUDGET: i64 = 1 << 16;

/// The budget that a backward branch costs if its loop may be a wait.
const WAIT_COST: i64 = 1 << 10;

/// A program counter larger than every other.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The event that a warp split waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WaitReason {
    /// No event: the split can run.
    Nothing,
    /// The split waits for a generation of a block's barrier, at the program counter behind it.
    Barrier { id: u32, generation: u64 },
    /// The split waits for other lanes at the warp-wide operation at its program counter.
    Lanes,
}

/// The threads of a warp with the same program counter.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct WarpSplit {
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) wait: WaitReason,
}

impl WarpSplit {
    pub(super) fn running(pc: u32, mask: u32) -> Self {
        let wait = WaitReason::Nothing;
        Self { pc, mask, wait }
    }
}

/// The reason why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarpStatus {
    /// All threads have exited.
    Done,
    /// All live threads wait at the block's barriers.
    Blocked,
    /// The warp yields to others; `waiting` if it seems to wait for them.
    Yield { waiting: bool },
    /// The observer has preempted the warp.
    Preempted,
}

/// The launch configuration and position of a block, from which special registers are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockInfo<'a> {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) block_index: [u32; 3],
    pub(super) static_shared_bytes: u32,
    pub(super) dynamic_shared_bytes: u32,
    /// The address of the workspace of a cooperative launch; 0 for any other.
    pub(super) grid_workspace: u64,
    pub(super) variables: &'a [u64],
}

#[derive(Debug, Default, Hash)]
pub(super) struct Warp {
    pub(super) index: u32,
    /// True once the warp has started a block of the launch.
    started: bool,
    pub(super) registers: Registers,
    pub(super) local: Vec<u8>,
    pub(super) stacks: CallStacks,
    /// The mask of threads that have not exited.
    pub(super) live: u32,
    pub(super) splits: SmallVec<[WarpSplit; 4]>,
    /// The remaining part of [`YIELD_BUDGET`].
    yield_budget: i64,
    /// True if a memory operation that may be a wait was executed since the last backward branch.
    pub(super) may_wait: bool,
    /// True if such waits were part of the spent yield budget.
    waited: bool,
    /// True if the running split was selected in turn, rather than by the lowest program counter.
    round_robin: bool,
    /// True if the next split is to be selected in turn.
    round_robin_next: bool,
    /// The threads that have exited, by the program counter of their exit.
    pub(super) exits: SmallVec<[(u32, u32); 1]>,
    /// The lanes that have just converged at `bar.warp.sync`, by their member masks.
    pub(super) converged: SmallVec<[(u32, u32); 1]>,
}

impl Warp {
    /// Starts warp `index` of a block, with up to `threads` threads. The blocks that a warp starts
    /// are of one launch, and its index in them is the same.
    ///
    /// With `hoists`, the first block begins with the hoisted operations.
    pub(super) fn start(
        &mut self,
        index: u32,
        threads: u32,
        code: &Code,
        block_info: &BlockInfo<'_>,
        hoists: bool,
    ) {
        let first = !std::mem::replace(&mut self.started, true);
        self.index = index;
        self.live = if threads >= 32 {
            FULL
        } else {
            (1 << threads) - 1
        };
        self.splits.clear();
        self.exits.clear();
        let entry = if first && hoists {
            code.first_entry
        } else {
            code.entry
        };
        self.splits.push(WarpSplit::running(entry, self.live));
        self.yield_budget = YIELD_BUDGET;
        self.may_wait = false;
        self.waited = false;
        self.round_robin = false;
        self.round_robin_next = false;
        self.stacks.clear();
        self.local.clear();
        self.local.resize(code.local_bytes as usize * LANES, 0);
        if !first && !code.restart.everything {
            self.registers.clear(&code.restart);
            for (slot, special) in &code.restart.of_block {
                let values = special_words(*special, index, block_info);
                self.registers.set_word(*slot, FULL, &values);
            }
        } else {
            self.set_initial(code, block_info);
        }
    }

    /// Lets the warp start a block of another launch.
    pub(super) fn forget_launch(&mut self) {
        self.started = false;
        self.converged.clear();
    }

    /// Returns the bytes of its registers and local memory.
    pub(super) fn bytes(&self) -> usize {
        self.registers.bytes() + self.local.capacity()
    }

    /// Sets all registers to their initial values.
    fn set_initial(&mut self, code: &Code, block_info: &BlockInfo<'_>) {
        let index = self.index;
        self.registers.reset(code);
        for (slot, initial) in &code.initial_words {
            let values = match *initial {
                InitialValue::Constant(bits) => [bits as u32; LANES],
                InitialValue::Special(special) => special_words(special, index, block_info),
            };
            self.registers.set_word(*slot, FULL, &values);
        }
        for (slot, initial) in &code.initial_doubles {
            let value = match *initial {
                InitialValue::Constant(bits) => bits,
                InitialValue::Special(special) => special_value(special, index, 0, block_info),
            };
            self.registers.set_double(*slot, FULL, &[value; LANES]);
        }
        for (slot, value) in &code.initial_predicates {
            self.registers
                .set_predicate(*slot, FULL, if *value { FULL } else { 0 });
        }
    }

    /// Removes the split to run next from the list, joined with all splits at the same program
    /// counter that do not wait at a barrier of the block.
    ///
    /// Returns `None` if all splits wait at barriers of the block or have exited.
    ///
    /// # Errors
    /// A split that waits for lanes that can never arrive.
    pub(super) fn select(
        &mut self,
        code: &Code,
        barriers: &Barriers,
    ) -> Result<Option<WarpSplit>, WarpSplit> {
        self.release(code, barriers);
        if let Some(split) = self.take_only() {
            return Ok(Some(split));
        }
        self.round_robin = std::mem::take(&mut self.round_robin_next) && self.splits.len() > 1;
        let ready = self
            .splits
            .iter()
            .enumerate()
            .filter(|(_, split)| split.wait == WaitReason::Nothing);
        let chosen = if self.round_robin {
            ready.map(|(at, _)| at).next()
        } else {
            ready.min_by_key(|(_, split)| split.pc).map(|(at, _)| at)
        };
        let Some(at) = chosen else {
            if self.release_warp_barrier(code) {
                return self.select(code, barriers);
            }
            let all_wait_for_block = self
                .splits
                .iter()
                .any(|split| matches!(split.wait, WaitReason::Barrier { .. }));
            return match self.splits.first() {
                Some(split) if !all_wait_for_block => Err(*split),
                _ => Ok(None),
            };
        };
        let mut split = self.splits.remove(at);
        self.join(&mut split);
        Ok(Some(split))
    }

    /// Removes the split to run next, as [`Self::select`] does, if it is the only one and can run.
    #[inline(always)]
    pub(super) fn take_only(&mut self) -> Option<WarpSplit> {
        match self.splits[..] {
            [split] if split.wait == WaitReason::Nothing => {
                self.round_robin = false;
                self.round_robin_next = false;
                self.splits.clear();
                Some(split)
            }
            _ => None,
        }
    }

    /// Resumes the splits whose barriers have completed, and writes the reductions' results.
    fn release(&mut self, code: &Code, barriers: &Barriers) {
        for split in &mut self.splits {
            let WaitReason::Barrier { id, generation } = split.wait else {
                continue;
            };
            let Some(result) = barriers.completed(id, generation) else {
                continue;
            };
            split.wait = WaitReason::Nothing;
            if let Some(Op::Barrier(index)) =
                code.instrs.get(split.pc as usize - 1).map(|instr| instr.op)
            {
                let all = |holds: bool| if holds { FULL } else { 0 };
                match code.barriers[index as usize].f {
                    BarrierOp::CountTrue(d) => {
                        self.registers
                            .set_word(d, split.mask, &[result.count_true; LANES]);
                    }
                    BarrierOp::All(d) => {
                        self.registers.set_predicate(
                            d,
                            split.mask,
                            all(result.count_true == result.arrived),
                        );
                    }
                    BarrierOp::Any(d) => {
                        self.registers
                            .set_predicate(d, split.mask, all(result.count_true > 0));
                    }
                    BarrierOp::Sync | BarrierOp::Arrive => {}
                }
            }
        }
    }

    /// Releases the splits that wait at `bar.warp.sync`, at any program counters, if together they
    /// include all lanes that each waits for. Returns whether any split was released.
    fn release_warp_barrier(&mut self, code: &Code) -> bool {
        let mut waits = [None; LANES];
        for split in self
            .splits
            .iter()
            .filter(|split| split.wait == WaitReason::Lanes)
        {
            let exchange = exchange_at(code, split.pc);
            if let Some(exchange) = exchange.filter(|of| of.f == ExchangeOp::Barrier) {
                let members = self.registers.word(exchange.members);
                lanes(split.mask).for_each(|lane| waits[lane] = Some(members[lane]));
            }
        }
        // Lanes wait for others with the same member mask.
        let complete = |lane: usize| {
            let named = waits[lane].map(|members| members & self.live);
            named.is_some_and(|named| lanes(named).all(|other| waits[other] == waits[lane]))
        };
        let mut released = false;
        self.converged.clear();
        for split in &mut self.splits {
            if split.wait == WaitReason::Lanes && lanes(split.mask).all(complete) {
                let members = waits.map(Option::unwrap_or_default);
                add_converged(&mut self.converged, &members, split.mask);
                *split = WarpSplit::running(split.pc + 1, split.mask);
                released = true;
            }
        }
        released
    }

    /// Joins the splits at the program counter of `split` that wait at no barrier of the block.
    fn join(&mut self, split: &mut WarpSplit) {
        self.splits.retain(|other| {
            let here = other.pc == split.pc && !matches!(other.wait, WaitReason::Barrier { .. });
            if here {
                split.mask |= other.mask;
            }
            !here
        });
    }

    /// Returns the program counter at which the running split, now at `pc`, must reconverge.
    pub(super) fn stop(&self, pc: u32) -> u32 {
        let stops = self.splits.iter().filter(|split| match split.wait {
            WaitReason::Nothing => !self.round_robin || split.pc >= pc,
            WaitReason::Lanes => split.pc >= pc,
            WaitReason::Barrier { .. } => false,
        });
        stops.map(|split| split.pc).min().unwrap_or(NOWHERE)
    }

    /// Joins the splits at the running split's program counter, or switches to the split with the
    /// lowest one. Called when the running split has reached or passed its stop.
    pub(super) fn reconverge(&mut self, mut split: WarpSplit) -> WarpSplit {
        self.join(&mut split);
        if !self.round_robin {
            let lowest = self
                .splits
                .iter_mut()
                .filter(|other| other.wait == WaitReason::Nothing);
            if let Some(lowest) = lowest.min_by_key(|other| other.pc)
                && lowest.pc < split.pc
            {
                std::mem::swap(lowest, &mut split);
                self.join(&mut split);
            }
        }
        split
    }

    /// Adds a split to the list, joined with an equal one in program counter and wait.
    pub(super) fn push_split(&mut self, split: WarpSplit) {
        let same = self
            .splits
            .iter_mut()
            .find(|other| other.pc == split.pc && other.wait == split.wait);
        match same {
            Some(other) => other.mask |= split.mask,
            None => self.splits.push(split),
        }
    }

    /// Charges a backward branch to the yield budget, and returns whether the warp must yield.
    #[inline(always)]
    pub(super) fn spend_yield_budget(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.may_wait);
        self.waited |= waiting;
        self.yield_budget -= if waiting { WAIT_COST } else { 1 };
        self.yield_budget <= 0
    }

    /// Makes the warp yield at its next backward branch: it waits for other threads of the block.
    pub(super) fn yield_soon(&mut self) {
        self.yield_budget = self.yield_budget.min(1);
    }

    /// Appends the running split to the list, so that the other splits run in turn.
    pub(super) fn yield_to_others(&mut self, split: WarpSplit) -> WarpStatus {
        self.yield_budget = YIELD_BUDGET;
        self.round_robin_next = true;
        self.splits.push(split);
        WarpStatus::Yield {
            waiting: std::mem::take(&mut self.waited),
        }
    }

    /// Returns the status of a warp without a split to run.
    pub(super) fn ended(&self) -> WarpStatus {
        if self.live == 0 {
            WarpStatus::Done
        } else {
            WarpStatus::Blocked
        }
    }

    /// Removes exited threads, and lets the splits that wait for other lanes try again.
    pub(super) fn exit(&mut self, mask: u32, pc: u32) {
        self.live &= !mask;
        self.exits.push((pc, mask));
        for split in &mut self.splits {
            if split.wait == WaitReason::Lanes {
                split.wait = WaitReason::Nothing;
            }
        }
    }

    /// Executes an exchange for the lanes in `mask`, and returns the lanes that must wait.
    #[inline(always)]
    pub(super) fn exchange(
        &mut self,
        exchange: &Exchange,
        mask: u32,
    ) -> (u32, Option<OutsideMask>) {
        warp_exchange::run(&mut self.registers, exchange, mask, self.live)
    }
}

/// Adds lanes to the groups of converged lanes, grouped by their member masks.
pub(super) fn add_converged(converged: &mut SmallVec<[(u32, u32); 1]>, members: &Words, mask: u32) {
    for lane in lanes(mask) {
        match converged.iter_mut().find(|(of, _)| *of == members[lane]) {
            Some((_, converged)) => *converged |= 1 << lane,
            None => converged.push((members[lane], 1 << lane)),
        }
    }
}

pub(super) fn exchange_at(code: &Code, pc: u32) -> Option<&Exchange> {
    match code.instrs.get(pc as usize)?.op {
        Op::Exchange(index) => code.exchanges.get(index as usize),
        _ => None,
    }
}
