//! Runs a warp until it pauses: the loop over its operations.

use super::barrier::{Arrival, BARRIERS};
use super::block::Shared;
use super::fault::FaultKind;
use super::observe::{Arrived, At, Observer};
use super::registers::{LANES, Registers, lanes};
use super::warp::{Group, NOWHERE, Pause, Wait, Warp, deadlock};
use super::{atomic, bits, call, convert, copy, extra, float, half, integer, mbarrier, system};
use crate::ptx::ir::{BarrierOp, GUARD_NEGATED, NO_GUARD, Op, Slot, Window, register_operations};

/// A thread that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) lane: usize,
    pub(super) pc: u32,
    pub(super) kind: FaultKind,
}

/// Runs the warp until it pauses.
///
/// This is inlined into one function for each set of processor features: see [`super::dispatch`].
#[inline(always)]
pub(super) fn run<O: Observer>(
    warp: &mut Warp,
    shared: &mut Shared<'_, '_>,
    observer: &mut O,
) -> Result<Pause, Failed> {
    let code = shared.code;
    let mut group = match select(warp, shared, observer)? {
        Some(group) => group,
        None => {
            return Ok(if warp.live == 0 {
                Pause::Done
            } else {
                Pause::Blocked
            });
        }
    };
    let mut stop = warp.stop(group.pc);
    loop {
        if group.pc >= stop {
            group = warp.regroup(group);
            stop = warp.stop(group.pc);
        }
        let instr = &code.instrs[group.pc as usize];
        let mask = if instr.guard == NO_GUARD {
            group.mask
        } else {
            let bits = warp.registers.predicate(instr.guard & !GUARD_NEGATED);
            group.mask
                & if instr.guard & GUARD_NEGATED == 0 {
                    bits
                } else {
                    !bits
                }
        };
        shared.counts.warp += u64::from(instr.counted);
        shared.counts.thread += u64::from(instr.counted * mask.count_ones());
        if mask == 0 {
            group.pc += 1;
            continue;
        }
        let failed = |(lane, kind)| Failed {
            lane,
            pc: group.pc,
            kind,
        };
        let at = At { pc: group.pc, mask };
        match instr.op {
            Op::Load(index) => {
                let access = &code.loads[index as usize];
                warp.may_wait |= access.synchronises;
                observer.load(warp, at, access);
                let (mut memory, cached) = shared.loads(&mut warp.local, index);
                memory
                    .load(&mut warp.registers, access, cached, mask)
                    .map_err(failed)?;
            }
            Op::Store(index) => {
                let access = &code.stores[index as usize];
                observer.store(warp, at, access);
                let (mut memory, cached) = shared.stores(&mut warp.local, index);
                memory
                    .store(&warp.registers, access, cached, mask)
                    .map_err(failed)?;
            }
            Op::Atomic(index) => {
                let operation = &code.atomics[index as usize];
                warp.may_wait |= atomic::may_wait(operation);
                let operands = O::ON.then(|| atomic::operands(&warp.registers, operation, mask));
                let (mut memory, cached) = shared.atomics(&mut warp.local, index);
                memory
                    .atomic(&mut warp.registers, operation, cached, mask)
                    .map_err(failed)?;
                if let Some(operands) = operands {
                    observer.atomic(warp, at, operation, &operands);
                }
            }
            Op::Branch { target } => {
                let rest = group.mask & !mask;
                let from = group.pc;
                group = Group {
                    pc: target,
                    mask,
                    wait: Wait::Nothing,
                };
                if rest != 0 {
                    warp.put(Group {
                        pc: from + 1,
                        mask: rest,
                        wait: Wait::Nothing,
                    });
                }
                if target <= from
                    && let Some(pause) = back(warp, shared, &group)?
                {
                    return Ok(pause);
                }
                stop = if warp.groups.is_empty() {
                    NOWHERE
                } else {
                    warp.stop(target)
                };
                continue;
            }
            Op::BranchIndexed { table, index } => {
                let targets = &code.tables[table as usize];
                let chosen = *warp.registers.word(index);
                let from = group.pc;
                for lane in lanes(mask) {
                    let Some(pc) = targets.get(chosen[lane] as usize) else {
                        let kind = FaultKind::InvalidBranch {
                            index: chosen[lane],
                            targets: targets.len() as u32,
                        };
                        return Err(Failed {
                            lane,
                            pc: from,
                            kind,
                        });
                    };
                    warp.put(Group {
                        pc: *pc,
                        mask: 1 << lane,
                        wait: Wait::Nothing,
                    });
                }
                let rest = group.mask & !mask;
                if rest != 0 {
                    warp.put(Group {
                        pc: from + 1,
                        mask: rest,
                        wait: Wait::Nothing,
                    });
                }
                let Some(next) = select(warp, shared, observer)? else {
                    return Ok(Pause::Blocked);
                };
                group = next;
                stop = warp.stop(group.pc);
                if group.pc <= from
                    && let Some(pause) = back(warp, shared, &group)?
                {
                    return Ok(pause);
                }
                continue;
            }
            Op::Call(_) | Op::Return => {
                call::run(warp, code, &group, mask).map_err(failed)?;
                let Some(next) = select(warp, shared, observer)? else {
                    return Ok(Pause::Blocked);
                };
                group = next;
                stop = warp.stop(group.pc);
                continue;
            }
            Op::Extra { f, d, a, b, c } => {
                extra::run(
                    &mut warp.registers,
                    mask,
                    code.extras[f as usize],
                    d,
                    [a, b, c],
                );
            }
            Op::System(index) => {
                let system = code.systems[index as usize];
                system::run(system, warp, shared, mask).map_err(failed)?;
            }
            Op::Copy(index) => {
                let copy = code.copies[index as usize];
                copy::run(&copy, warp, shared, mask).map_err(failed)?;
            }
            Op::Mbarrier(index) => {
                let operation = &code.mbarriers[index as usize];
                mbarrier::run(operation, warp, shared, observer, at).map_err(failed)?;
            }
            Op::Exit => {
                warp.exit(mask);
                shared.barriers.exit(mask.count_ones());
                observer.exited(warp, mask, shared.barriers);
                group.mask &= !mask;
                if group.mask == 0 {
                    match select(warp, shared, observer)? {
                        Some(next) => {
                            group = next;
                            stop = warp.stop(group.pc);
                            continue;
                        }
                        None => {
                            return Ok(if warp.live == 0 {
                                Pause::Done
                            } else {
                                Pause::Blocked
                            });
                        }
                    }
                }
                stop = warp.stop(group.pc + 1);
            }
            Op::Trap => {
                let lane = mask.trailing_zeros() as usize;
                return Err(Failed {
                    lane,
                    pc: group.pc,
                    kind: FaultKind::Trap,
                });
            }
            Op::Barrier(index) => {
                arrive(warp, shared, observer, index, at)?;
                let rest = group.mask & !mask;
                if rest != 0 {
                    warp.put(Group {
                        pc: group.pc + 1,
                        mask: rest,
                        wait: Wait::Nothing,
                    });
                }
                match select(warp, shared, observer)? {
                    Some(next) => {
                        group = next;
                        stop = warp.stop(group.pc);
                        continue;
                    }
                    None => return Ok(Pause::Blocked),
                }
            }
            Op::Exchange(index) => {
                let exchange = &code.exchanges[index as usize];
                let members = O::ON.then(|| *warp.registers.word(exchange.members));
                let waiting = warp.exchange(exchange, mask);
                if let Some(members) = members {
                    observer.exchanged(warp, exchange, &members, mask & !waiting);
                }
                if waiting != 0 {
                    warp.put(Group {
                        pc: group.pc,
                        mask: waiting,
                        wait: Wait::Lanes,
                    });
                    group.mask &= !waiting;
                    if group.mask == 0 {
                        match select(warp, shared, observer)? {
                            Some(next) => {
                                group = next;
                                stop = warp.stop(group.pc);
                                continue;
                            }
                            None => return Ok(Pause::Blocked),
                        }
                    }
                    stop = warp.stop(group.pc + 1);
                }
            }
            Op::ActiveMask { d } => warp.registers.set_word(d, mask, &[mask; LANES]),
            Op::Clock32 { d } => {
                warp.registers
                    .set_word(d, mask, &[shared.counts.warp as u32; LANES])
            }
            Op::Clock64 { d } => warp
                .registers
                .set_double(d, mask, &[shared.counts.warp; LANES]),
            Op::Fence { block_only } => observer.fence(warp, mask, block_only),
            Op::Pause => warp.may_wait = true,
            Op::Nop => {}
            op => arithmetic(&mut warp.registers, mask, op),
        }
        group.pc += 1;
    }
}

/// Chooses the group to run next; none if all wait for barriers of the block or have exited.
fn select<O: Observer>(
    warp: &mut Warp,
    shared: &Shared<'_, '_>,
    observer: &mut O,
) -> Result<Option<Group>, Failed> {
    let selected = warp.select(shared.code, shared.barriers);
    if O::ON {
        for (_, lanes) in std::mem::take(&mut warp.met) {
            observer.met(warp, lanes);
        }
    }
    selected.map_err(|group| Failed {
        lane: group.mask.trailing_zeros() as usize,
        pc: group.pc,
        kind: deadlock(shared.code, &group),
    })
}

/// Counts a backward branch of the running group: the warp may have to give way, or the launch to
/// end.
#[inline(always)]
fn back(warp: &mut Warp, shared: &Shared<'_, '_>, group: &Group) -> Result<Option<Pause>, Failed> {
    if shared.counts.warp > shared.step_limit {
        let lane = group.mask.trailing_zeros() as usize;
        return Err(Failed {
            lane,
            pc: group.pc,
            kind: FaultKind::StepLimit {
                limit: shared.step_limit,
            },
        });
    }
    Ok(warp.lose_patience().then(|| warp.give_way(*group)))
}

/// Lets the lanes arrive at a barrier of the block, and puts them on the list.
fn arrive<O: Observer>(
    warp: &mut Warp,
    shared: &mut Shared<'_, '_>,
    observer: &mut O,
    index: u32,
    At { pc, mask }: At,
) -> Result<(), Failed> {
    let barrier = &shared.code.barriers[index as usize];
    let lane = mask.trailing_zeros() as usize & 31;
    let id = warp.registers.word(barrier.id)[lane];
    let threads = barrier.threads.map(|slot| warp.registers.word(slot)[lane]);
    if id as usize >= BARRIERS || threads.is_some_and(|threads| threads == 0 || threads % 32 != 0) {
        return Err(Failed {
            lane,
            pc,
            kind: FaultKind::InvalidBarrier { id, threads },
        });
    }
    let here = |group: &Group| matches!(group.wait, Wait::Barrier { id: other, .. } if other == id);
    let arrived = warp
        .groups
        .iter()
        .filter(|group| here(group))
        .fold(mask, |all, group| all | group.mask);
    // The last lanes of a warp bring along those that do not exist or have exited.
    let padding = if arrived == warp.live {
        32 - warp.live.count_ones()
    } else {
        0
    };
    let generation = shared.barriers.arrive(&Arrival {
        id,
        threads,
        arriving: mask.count_ones(),
        padding,
        count_true: (warp.registers.predicate(barrier.predicate) & mask).count_ones(),
    });
    let arrived = Arrived {
        mask,
        id,
        generation,
        waits: barrier.f != BarrierOp::Arrive,
        counted: threads.is_some(),
    };
    observer.arrived(warp, &arrived, shared.barriers);
    let wait = match barrier.f {
        BarrierOp::Arrive => Wait::Nothing,
        _ => Wait::Barrier { id, generation },
    };
    warp.put(Group {
        pc: pc + 1,
        mask,
        wait,
    });
    Ok(())
}

/// Runs an operation on registers, by the table of them.
#[inline(always)]
fn arithmetic(r: &mut Registers, mask: u32, op: Op) {
    macro_rules! dispatch {
        ($(
            $(#[$doc:meta])*
            $name:ident [$($param:ident: $ty:ty),*] $d:ident = $($slot:ident: $class:tt),+ => $($does:ident)::+ ($($arg:expr),*);
        )*) => {
            match op {
                $(Op::$name { $($param,)* $d, $($slot),+ } => $($does)::+(r, mask, $($arg),*),)*
                // `run` handles these itself.
                Op::Clock32 { .. }
                | Op::Clock64 { .. }
                | Op::Load(_)
                | Op::Store(_)
                | Op::Atomic(_)
                | Op::Branch { .. }
                | Op::BranchIndexed { .. }
                | Op::Call(_)
                | Op::Return
                | Op::System(_)
                | Op::Copy(_)
                | Op::Mbarrier(_)
                | Op::Extra { .. }
                | Op::Exit
                | Op::Trap
                | Op::Barrier(_)
                | Op::Exchange(_)
                | Op::ActiveMask { .. }
                | Op::Fence { .. }
                | Op::Pause
                | Op::Nop => {}
            }
        };
    }
    register_operations!(dispatch);
}

#[inline(always)]
fn is_space(r: &mut Registers, mask: u32, window: Window, d: Slot, a: Slot) {
    r.p_dd(mask, d, a, a, |address, _| Window::of(address) == window);
}
