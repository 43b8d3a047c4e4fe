//! A warp: 32 threads that run together where they are at the same place, and apart where they are
//! not.
//!
//! The threads that live are split into warp splits, each with its own program counter. The warp
//! split with the lowest one runs, until it comes to where another one is, which it takes along, or
//! passes one, which then runs instead: so warp splits meet again behind whatever divided them. A
//! warp split that goes around in a loop for long, most of all with memory operations that could be
//! a wait for another thread, gives way to the others in turn, so that a thread can wait for a lock
//! that another thread of its warp holds.

use smallvec::SmallVec;

use super::barrier::Barriers;
use super::call::CallStacks;
use super::exchange;
use super::fault::KernelFaultKind;
use super::registers::{FULL, LANES, Registers, Words, lanes};
use crate::ptx::ir::{BarrierOp, Code, Exchange, ExchangeOp, InitialValue, Op, SpecialRegister};

/// Backward branches that a warp may take before it gives way.
const YIELD_BUDGET: i64 = 1 << 16;

/// What a backward branch costs of that when the loop may be a wait.
const WAIT_COST: i64 = 1 << 10;

/// Larger than any program counter.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What a warp split waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// Nothing: it can run.
    Nothing,
    /// A barrier of the block, and which completion of it. The program counter is behind the
    /// barrier.
    Barrier { id: u32, generation: u64 },
    /// Other lanes, at the operation between lanes where the program counter is.
    Lanes,
}

/// Threads of a warp at one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpSplit {
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) wait: WaitReason,
}

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarpStatus {
    /// All threads have exited.
    Done,
    /// All that live wait for the block's barriers.
    Blocked,
    /// It gives way to others; `waiting` if it seems to wait for them.
    Yield { waiting: bool },
}

/// What a block is, for special registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockInfo<'a> {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) block_index: [u32; 3],
    pub(super) static_shared_bytes: u32,
    pub(super) dynamic_shared_bytes: u32,
    pub(super) variables: &'a [u64],
}

/// A warp.
#[derive(Debug, Default)]
pub(super) struct Warp {
    pub(super) index: u32,
    pub(super) registers: Registers,
    pub(super) local: Vec<u8>,
    /// What calls have kept of each thread.
    pub(super) stacks: CallStacks,
    /// Threads that have not exited.
    pub(super) live: u32,
    /// The warp splits that do not run at the moment.
    pub(super) splits: SmallVec<[WarpSplit; 4]>,
    /// What is left of [`YIELD_BUDGET`].
    yield_budget: i64,
    /// Whether a memory operation that could be a wait came since the last backward branch.
    pub(super) may_wait: bool,
    /// Whether such a wait is what used up the yield budget.
    waited: bool,
    /// Whether the warp split that runs was chosen in turn, not as the lowest.
    round_robin: bool,
    /// Whether the next one is to be chosen in turn.
    round_robin_next: bool,
    /// Lanes that have just met at `bar.warp.sync` from different places, by the members that they
    /// wait for.
    pub(super) converged: SmallVec<[(u32, u32); 1]>,
}

impl Warp {
    /// Starts the warp `index` of a block.
    pub(super) fn start(
        &mut self,
        index: u32,
        threads: u32,
        code: &Code,
        block_info: &BlockInfo<'_>,
    ) {
        self.index = index;
        self.live = if threads >= 32 {
            FULL
        } else {
            (1 << threads) - 1
        };
        self.splits.clear();
        self.splits.push(WarpSplit {
            pc: code.entry,
            mask: self.live,
            wait: WaitReason::Nothing,
        });
        self.yield_budget = YIELD_BUDGET;
        self.may_wait = false;
        self.waited = false;
        self.round_robin = false;
        self.round_robin_next = false;
        self.stacks.clear();
        self.local.clear();
        self.local.resize(code.local_bytes as usize * LANES, 0);
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

    /// Takes the warp split that is to run next off the list, with all that wait for lanes at the
    /// same place.
    pub(super) fn select(
        &mut self,
        code: &Code,
        barriers: &Barriers,
    ) -> Result<Option<WarpSplit>, WarpSplit> {
        self.release(code, barriers);
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

    /// Lets those run whose barrier has completed, and gives them the reduction's result.
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

    /// Lets the warp splits go that wait at `bar.warp.sync`, at whatever places, if together they
    /// are all that each waits for.
    fn release_warp_barrier(&mut self, code: &Code) -> bool {
        let waits = |split: &WarpSplit| match exchange_at(code, split.pc) {
            Some(exchange) if split.wait == WaitReason::Lanes => exchange.f == ExchangeOp::Barrier,
            _ => false,
        };
        let arrived = self
            .splits
            .iter()
            .filter(|split| waits(split))
            .fold(0, |all, split| all | split.mask);
        let (registers, live) = (&self.registers, self.live);
        let complete = |split: &WarpSplit| {
            waits(split)
                && exchange_at(code, split.pc).is_some_and(|exchange| {
                    let members = registers.word(exchange.members);
                    lanes(split.mask).all(|lane| members[lane] & live & !arrived == 0)
                })
        };
        let mut released = false;
        self.converged.clear();
        for split in &mut self.splits {
            if complete(split) {
                if let Some(exchange) = exchange_at(code, split.pc) {
                    let members = registers.word(exchange.members);
                    add_converged(&mut self.converged, members, split.mask);
                }
                *split = WarpSplit {
                    pc: split.pc + 1,
                    mask: split.mask,
                    wait: WaitReason::Nothing,
                };
                released = true;
            }
        }
        released
    }

    /// Adds to `split` all others at its place that do not wait for the block.
    fn join(&mut self, split: &mut WarpSplit) {
        self.splits.retain(|other| {
            let here = other.pc == split.pc && !matches!(other.wait, WaitReason::Barrier { .. });
            if here {
                split.mask |= other.mask;
            }
            !here
        });
    }

    /// The program counter at which the running warp split, now at `pc`, has to look at the others.
    pub(super) fn stop(&self, pc: u32) -> u32 {
        let stops = self.splits.iter().filter(|split| match split.wait {
            WaitReason::Nothing => !self.round_robin || split.pc >= pc,
            WaitReason::Lanes => split.pc >= pc,
            WaitReason::Barrier { .. } => false,
        });
        stops.map(|split| split.pc).min().unwrap_or(NOWHERE)
    }

    /// Called where the running warp split has reached or passed its stop: joins those here, or
    /// gives way to one further back.
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

    /// Puts a warp split on the list, together with those of the same kind at its place.
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

    /// Counts a backward branch; true if the warp has to give way.
    #[inline(always)]
    pub(super) fn spend_yield_budget(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.may_wait);
        self.waited |= waiting;
        self.yield_budget -= if waiting { WAIT_COST } else { 1 };
        self.yield_budget <= 0
    }

    /// Makes the warp give way at the next backward branch: what it waits for is up to other
    /// threads of the block.
    pub(super) fn yield_soon(&mut self) {
        self.yield_budget = self.yield_budget.min(1);
    }

    /// Puts the running warp split at the list's end, to let the others run in turn.
    pub(super) fn yield_to_others(&mut self, split: WarpSplit) -> WarpStatus {
        self.yield_budget = YIELD_BUDGET;
        self.round_robin_next = true;
        self.splits.push(split);
        WarpStatus::Yield {
            waiting: std::mem::take(&mut self.waited),
        }
    }

    /// Removes threads that have exited, which may be what others of the warp wait for.
    pub(super) fn exit(&mut self, mask: u32) {
        self.live &= !mask;
        for split in &mut self.splits {
            if split.wait == WaitReason::Lanes {
                split.wait = WaitReason::Nothing;
            }
        }
    }

    /// Runs an exchange for `mask` of the running warp split's lanes, and returns those that wait.
    pub(super) fn exchange(&mut self, exchange: &Exchange, mask: u32) -> u32 {
        exchange::run(&mut self.registers, exchange, mask, self.live)
    }
}

/// Adds lanes to those that have met, each to the ones with the same members.
pub(super) fn add_converged(converged: &mut SmallVec<[(u32, u32); 1]>, members: &Words, mask: u32) {
    for lane in lanes(mask) {
        match converged.iter_mut().find(|(of, _)| *of == members[lane]) {
            Some((_, converged)) => *converged |= 1 << lane,
            None => converged.push((members[lane], 1 << lane)),
        }
    }
}

/// The exchange at `pc`, if one is there.
pub(super) fn exchange_at(code: &Code, pc: u32) -> Option<&Exchange> {
    match code.instrs.get(pc as usize)?.op {
        Op::Exchange(index) => code.exchanges.get(index as usize),
        _ => None,
    }
}

/// What a warp split that can never go on waits at.
pub(super) fn deadlock(code: &Code, split: &WarpSplit) -> KernelFaultKind {
    let what = match split.wait {
        WaitReason::Barrier { .. } => "bar.sync",
        _ => exchange_at(code, split.pc).map_or("bar.warp.sync", |exchange| exchange.f.name()),
    };
    KernelFaultKind::BarrierDeadlock { what }
}

/// A special register of all lanes, by the shortest way: most are the same for all of a warp.
fn special_words(special: SpecialRegister, warp: u32, block_info: &BlockInfo<'_>) -> Words {
    match special {
        SpecialRegister::Tid(axis) => {
            let [x, y, _] = block_info.block;
            let first = warp * 32;
            let mut at = [first % x, first / x % y, first / x / y];
            std::array::from_fn(|_| {
                let value = at[usize::from(axis)];
                at[0] += 1;
                if at[0] == x {
                    at = [0, at[1] + 1, at[2]];
                    if at[1] == y {
                        at = [0, 0, at[2] + 1];
                    }
                }
                value
            })
        }
        SpecialRegister::LaneId
        | SpecialRegister::LaneMaskEq
        | SpecialRegister::LaneMaskLe
        | SpecialRegister::LaneMaskLt
        | SpecialRegister::LaneMaskGe
        | SpecialRegister::LaneMaskGt => {
            std::array::from_fn(|lane| special_value(special, warp, lane, block_info) as u32)
        }
        special => [special_value(special, warp, 0, block_info) as u32; LANES],
    }
}

fn special_value(
    special: SpecialRegister,
    warp: u32,
    lane: usize,
    block_info: &BlockInfo<'_>,
) -> u64 {
    let lane = lane as u32;
    let thread = warp * 32 + lane;
    let [x, y, _] = block_info.block;
    let tid = [thread % x, thread / x % y, thread / x / y];
    let value = match special {
        SpecialRegister::Tid(axis) => tid[usize::from(axis)],
        SpecialRegister::Ntid(axis) => block_info.block[usize::from(axis)],
        SpecialRegister::Ctaid(axis) => block_info.block_index[usize::from(axis)],
        SpecialRegister::Nctaid(axis) => block_info.grid[usize::from(axis)],
        SpecialRegister::LaneId => lane,
        SpecialRegister::WarpId => warp,
        SpecialRegister::WarpCount => block_info.block.iter().product::<u32>().div_ceil(32),
        SpecialRegister::LaneMaskEq => 1 << lane,
        SpecialRegister::LaneMaskLe => FULL >> (31 - lane),
        SpecialRegister::LaneMaskLt => (1 << lane) - 1,
        SpecialRegister::LaneMaskGe => FULL << lane,
        SpecialRegister::LaneMaskGt => FULL << lane << 1,
        SpecialRegister::DynamicSharedBytes => block_info.dynamic_shared_bytes,
        SpecialRegister::TotalSharedBytes => {
            block_info.static_shared_bytes + block_info.dynamic_shared_bytes
        }
        SpecialRegister::DynamicShared(offset) => {
            return u64::from(block_info.static_shared_bytes).wrapping_add(offset.cast_unsigned());
        }
        SpecialRegister::Variable(index, offset) => {
            let address = block_info
                .variables
                .get(index as usize)
                .copied()
                .unwrap_or(0);
            return address.wrapping_add(offset.cast_unsigned());
        }
    };
    u64::from(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_ways_to_special_registers_end_where_the_long_ones_do() {
        for block in [[5, 7, 2], [33, 1, 1], [1, 1, 40], [2, 3, 5], [16, 16, 1]] {
            let block_info = BlockInfo {
                grid: [4, 5, 6],
                block,
                block_index: [3, 2, 1],
                static_shared_bytes: 7,
                dynamic_shared_bytes: 9,
                variables: &[],
            };
            let axes = (0..3).flat_map(|axis| {
                let of_axis: [fn(u8) -> SpecialRegister; 4] = [
                    SpecialRegister::Tid,
                    SpecialRegister::Ntid,
                    SpecialRegister::Ctaid,
                    SpecialRegister::Nctaid,
                ];
                of_axis.map(|special| special(axis))
            });
            let others = [
                SpecialRegister::LaneId,
                SpecialRegister::WarpId,
                SpecialRegister::WarpCount,
                SpecialRegister::LaneMaskGt,
            ];
            for special in axes.chain(others) {
                for warp in 0..3 {
                    let long = |lane| special_value(special, warp, lane, &block_info) as u32;
                    let words = special_words(special, warp, &block_info);
                    assert_eq!(
                        words,
                        std::array::from_fn(long),
                        "{special:?} of warp {warp} of {block:?}"
                    );
                }
            }
        }
    }
}
