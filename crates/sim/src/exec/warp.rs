//! A warp: 32 threads that run together where they are at the same place, and apart where they are
//! not.
//!
//! The threads that live are split into groups, each with its own program counter. The group with
//! the lowest one runs, until it comes to where another one is, which it takes along, or passes
//! one, which then runs instead: so groups meet again behind whatever divided them. A group that
//! goes around in a loop for long, most of all with memory operations that could be a wait for
//! another thread, gives way to the others in turn, so that a thread can wait for a lock that
//! another thread of its warp holds.

use smallvec::SmallVec;

use super::barrier::Barriers;
use super::call::Stacks;
use super::exchange;
use super::fault::FaultKind;
use super::registers::{FULL, LANES, Registers, Words, lanes};
use crate::ptx::ir::{BarrierOp, Code, Exchange, ExchangeOp, Initial, Op, Special};

/// Backward branches that a warp may take before it gives way.
const PATIENCE: i64 = 1 << 16;

/// What a backward branch costs of that when the loop may be a wait.
const WAIT_COST: i64 = 1 << 10;

/// Larger than any program counter.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
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
pub(super) struct Group {
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) wait: Wait,
}

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// All threads have exited.
    Done,
    /// All that live wait for the block's barriers.
    Blocked,
    /// It gives way to others; `waiting` if it seems to wait for them.
    Yield { waiting: bool },
}

/// What a block is, for special registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
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
    pub(super) stacks: Stacks,
    /// Threads that have not exited.
    pub(super) live: u32,
    /// The groups that do not run at the moment.
    pub(super) groups: SmallVec<[Group; 4]>,
    /// What is left of [`PATIENCE`].
    patience: i64,
    /// Whether a memory operation that could be a wait came since the last backward branch.
    pub(super) may_wait: bool,
    /// Whether such a wait is what used up the patience.
    waited: bool,
    /// Whether the group that runs was chosen in turn, not as the lowest.
    in_turn: bool,
    /// Whether the next one is to be chosen in turn.
    turn_next: bool,
    /// Lanes that have just met at `bar.warp.sync` from different places, by the members that they
    /// wait for.
    pub(super) met: SmallVec<[(u32, u32); 1]>,
}

impl Warp {
    /// Starts the warp `index` of a block.
    pub(super) fn start(&mut self, index: u32, threads: u32, code: &Code, shape: &Shape<'_>) {
        self.index = index;
        self.live = if threads >= 32 {
            FULL
        } else {
            (1 << threads) - 1
        };
        self.groups.clear();
        self.groups.push(Group {
            pc: code.entry,
            mask: self.live,
            wait: Wait::Nothing,
        });
        self.patience = PATIENCE;
        self.may_wait = false;
        self.waited = false;
        self.in_turn = false;
        self.turn_next = false;
        self.stacks.clear();
        self.local.clear();
        self.local.resize(code.local_bytes as usize * LANES, 0);
        self.registers.reset(code);
        for (slot, initial) in &code.initial_words {
            let values = match *initial {
                Initial::Constant(bits) => [bits as u32; LANES],
                Initial::Special(special) => special_words(special, index, shape),
            };
            self.registers.set_word(*slot, FULL, &values);
        }
        for (slot, initial) in &code.initial_doubles {
            let value = match *initial {
                Initial::Constant(bits) => bits,
                Initial::Special(special) => special_value(special, index, 0, shape),
            };
            self.registers.set_double(*slot, FULL, &[value; LANES]);
        }
        for (slot, value) in &code.initial_predicates {
            self.registers
                .set_predicate(*slot, FULL, if *value { FULL } else { 0 });
        }
    }

    /// Takes the group that is to run next off the list, with all that wait for lanes at the same
    /// place.
    pub(super) fn select(
        &mut self,
        code: &Code,
        barriers: &Barriers,
    ) -> Result<Option<Group>, Group> {
        self.release(code, barriers);
        self.in_turn = std::mem::take(&mut self.turn_next) && self.groups.len() > 1;
        let ready = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.wait == Wait::Nothing);
        let chosen = if self.in_turn {
            ready.map(|(at, _)| at).next()
        } else {
            ready.min_by_key(|(_, group)| group.pc).map(|(at, _)| at)
        };
        let Some(at) = chosen else {
            if self.release_warp_barrier(code) {
                return self.select(code, barriers);
            }
            let all_wait_for_block = self
                .groups
                .iter()
                .any(|group| matches!(group.wait, Wait::Barrier { .. }));
            return match self.groups.first() {
                Some(group) if !all_wait_for_block => Err(*group),
                _ => Ok(None),
            };
        };
        let mut group = self.groups.remove(at);
        self.join(&mut group);
        Ok(Some(group))
    }

    /// Lets those run whose barrier has completed, and gives them the reduction's result.
    fn release(&mut self, code: &Code, barriers: &Barriers) {
        for group in &mut self.groups {
            let Wait::Barrier { id, generation } = group.wait else {
                continue;
            };
            let Some(result) = barriers.completed(id, generation) else {
                continue;
            };
            group.wait = Wait::Nothing;
            if let Some(Op::Barrier(index)) =
                code.instrs.get(group.pc as usize - 1).map(|instr| instr.op)
            {
                let all = |holds: bool| if holds { FULL } else { 0 };
                match code.barriers[index as usize].f {
                    BarrierOp::CountTrue(d) => {
                        self.registers
                            .set_word(d, group.mask, &[result.count_true; LANES]);
                    }
                    BarrierOp::All(d) => {
                        self.registers.set_predicate(
                            d,
                            group.mask,
                            all(result.count_true == result.arrived),
                        );
                    }
                    BarrierOp::Any(d) => {
                        self.registers
                            .set_predicate(d, group.mask, all(result.count_true > 0));
                    }
                    BarrierOp::Sync | BarrierOp::Arrive => {}
                }
            }
        }
    }

    /// Lets the groups go that wait at `bar.warp.sync`, at whatever places, if together they are
    /// all that each waits for.
    fn release_warp_barrier(&mut self, code: &Code) -> bool {
        let waits = |group: &Group| match exchange_at(code, group.pc) {
            Some(exchange) if group.wait == Wait::Lanes => exchange.f == ExchangeOp::Barrier,
            _ => false,
        };
        let arrived = self
            .groups
            .iter()
            .filter(|group| waits(group))
            .fold(0, |all, group| all | group.mask);
        let (registers, live) = (&self.registers, self.live);
        let complete = |group: &Group| {
            waits(group)
                && exchange_at(code, group.pc).is_some_and(|exchange| {
                    let members = registers.word(exchange.members);
                    lanes(group.mask).all(|lane| members[lane] & live & !arrived == 0)
                })
        };
        let mut released = false;
        self.met.clear();
        for group in &mut self.groups {
            if complete(group) {
                if let Some(exchange) = exchange_at(code, group.pc) {
                    let members = registers.word(exchange.members);
                    meet(&mut self.met, members, group.mask);
                }
                *group = Group {
                    pc: group.pc + 1,
                    mask: group.mask,
                    wait: Wait::Nothing,
                };
                released = true;
            }
        }
        released
    }

    /// Adds to `group` all others at its place that do not wait for the block.
    fn join(&mut self, group: &mut Group) {
        self.groups.retain(|other| {
            let here = other.pc == group.pc && !matches!(other.wait, Wait::Barrier { .. });
            if here {
                group.mask |= other.mask;
            }
            !here
        });
    }

    /// The program counter at which the running group, now at `pc`, has to look at the others.
    pub(super) fn stop(&self, pc: u32) -> u32 {
        let stops = self.groups.iter().filter(|group| match group.wait {
            Wait::Nothing => !self.in_turn || group.pc >= pc,
            Wait::Lanes => group.pc >= pc,
            Wait::Barrier { .. } => false,
        });
        stops.map(|group| group.pc).min().unwrap_or(NOWHERE)
    }

    /// Called where the running group has reached or passed its stop: joins those here, or gives
    /// way to one further back.
    pub(super) fn regroup(&mut self, mut group: Group) -> Group {
        self.join(&mut group);
        if !self.in_turn {
            let lowest = self
                .groups
                .iter_mut()
                .filter(|other| other.wait == Wait::Nothing);
            if let Some(lowest) = lowest.min_by_key(|other| other.pc)
                && lowest.pc < group.pc
            {
                std::mem::swap(lowest, &mut group);
                self.join(&mut group);
            }
        }
        group
    }

    /// Puts a group on the list, together with those of the same kind at its place.
    pub(super) fn put(&mut self, group: Group) {
        let same = self
            .groups
            .iter_mut()
            .find(|other| other.pc == group.pc && other.wait == group.wait);
        match same {
            Some(other) => other.mask |= group.mask,
            None => self.groups.push(group),
        }
    }

    /// Counts a backward branch; true if the warp has to give way.
    #[inline(always)]
    pub(super) fn lose_patience(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.may_wait);
        self.waited |= waiting;
        self.patience -= if waiting { WAIT_COST } else { 1 };
        self.patience <= 0
    }

    /// Makes the warp give way at the next backward branch: what it waits for is up to other
    /// threads of the block.
    pub(super) fn expect_others(&mut self) {
        self.patience = self.patience.min(1);
    }

    /// Puts the running group at the list's end, to let the others run in turn.
    pub(super) fn give_way(&mut self, group: Group) -> Pause {
        self.patience = PATIENCE;
        self.turn_next = true;
        self.groups.push(group);
        Pause::Yield {
            waiting: std::mem::take(&mut self.waited),
        }
    }

    /// Removes threads that have exited, which may be what others of the warp wait for.
    pub(super) fn exit(&mut self, mask: u32) {
        self.live &= !mask;
        for group in &mut self.groups {
            if group.wait == Wait::Lanes {
                group.wait = Wait::Nothing;
            }
        }
    }

    /// Runs an exchange for `mask` of the running group's lanes, and returns those that wait.
    pub(super) fn exchange(&mut self, exchange: &Exchange, mask: u32) -> u32 {
        exchange::run(&mut self.registers, exchange, mask, self.live)
    }
}

/// Adds lanes to those that have met, each to the ones with the same members.
pub(super) fn meet(met: &mut SmallVec<[(u32, u32); 1]>, members: &Words, mask: u32) {
    for lane in lanes(mask) {
        match met.iter_mut().find(|(of, _)| *of == members[lane]) {
            Some((_, met)) => *met |= 1 << lane,
            None => met.push((members[lane], 1 << lane)),
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

/// What a group that can never go on waits at.
pub(super) fn deadlock(code: &Code, group: &Group) -> FaultKind {
    let what = match group.wait {
        Wait::Barrier { .. } => "bar.sync",
        _ => exchange_at(code, group.pc).map_or("bar.warp.sync", |exchange| exchange.f.name()),
    };
    FaultKind::BarrierDeadlock { what }
}

/// A special register of all lanes, by the shortest way: most are the same for all of a warp.
fn special_words(special: Special, warp: u32, shape: &Shape<'_>) -> Words {
    match special {
        Special::Tid(axis) => {
            let [x, y, _] = shape.block;
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
        Special::LaneId
        | Special::LaneMaskEq
        | Special::LaneMaskLe
        | Special::LaneMaskLt
        | Special::LaneMaskGe
        | Special::LaneMaskGt => {
            std::array::from_fn(|lane| special_value(special, warp, lane, shape) as u32)
        }
        special => [special_value(special, warp, 0, shape) as u32; LANES],
    }
}

fn special_value(special: Special, warp: u32, lane: usize, shape: &Shape<'_>) -> u64 {
    let lane = lane as u32;
    let thread = warp * 32 + lane;
    let [x, y, _] = shape.block;
    let tid = [thread % x, thread / x % y, thread / x / y];
    let value = match special {
        Special::Tid(axis) => tid[usize::from(axis)],
        Special::Ntid(axis) => shape.block[usize::from(axis)],
        Special::Ctaid(axis) => shape.block_index[usize::from(axis)],
        Special::Nctaid(axis) => shape.grid[usize::from(axis)],
        Special::LaneId => lane,
        Special::WarpId => warp,
        Special::WarpCount => shape.block.iter().product::<u32>().div_ceil(32),
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLe => FULL >> (31 - lane),
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskGe => FULL << lane,
        Special::LaneMaskGt => FULL << lane << 1,
        Special::DynamicSharedBytes => shape.dynamic_shared_bytes,
        Special::TotalSharedBytes => shape.static_shared_bytes + shape.dynamic_shared_bytes,
        Special::DynamicShared(offset) => {
            return u64::from(shape.static_shared_bytes).wrapping_add(offset.cast_unsigned());
        }
        Special::Variable(index, offset) => {
            let address = shape.variables.get(index as usize).copied().unwrap_or(0);
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
            let shape = Shape {
                grid: [4, 5, 6],
                block,
                block_index: [3, 2, 1],
                static_shared_bytes: 7,
                dynamic_shared_bytes: 9,
                variables: &[],
            };
            let axes = (0..3).flat_map(|axis| {
                let of_axis: [fn(u8) -> Special; 4] =
                    [Special::Tid, Special::Ntid, Special::Ctaid, Special::Nctaid];
                of_axis.map(|special| special(axis))
            });
            let others = [
                Special::LaneId,
                Special::WarpId,
                Special::WarpCount,
                Special::LaneMaskGt,
            ];
            for special in axes.chain(others) {
                for warp in 0..3 {
                    let long = |lane| special_value(special, warp, lane, &shape) as u32;
                    let words = special_words(special, warp, &shape);
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
