//! The interpreter loop: executes a warp's operations until the warp pauses.

use super::arrival::arrive;
use super::deadlock::deadlock;
use super::fault::KernelFaultKind;
use super::kernel_error::KernelErrorKind;
use super::observer::{IssuePoint, Observer};
use super::registers::{FULL, LANES, Registers, lanes};
use super::warp::{NOWHERE, WaitReason, Warp, WarpSplit, WarpStatus};
use super::warp_context::WarpContext;
use super::{
    atomic, bits, call, convert, extra, float, fused, going_on, half, integer, matrix, mbarrier,
};
use crate::ptx::ir::{ExchangeOp, GUARD_NEGATED, NO_GUARD, Op, Slot, Window, register_operations};

/// The fault of a warp's thread.
#[derive(Debug)]
pub(super) struct WarpFault {
    pub(super) lane: usize,
    pub(super) pc: u32,
    pub(super) kind: KernelFaultKind,
}

impl WarpFault {
    pub(super) fn new(lane: usize, pc: u32, kind: KernelFaultKind) -> Self {
        Self { lane, pc, kind }
    }
}

/// Runs the warp until it pauses.
///
/// The function is inlined into one function for each set of processor features: see
/// [`super::dispatch`].
#[inline(always)]
pub(super) fn run<O: Observer>(
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
) -> Result<WarpStatus, WarpFault> {
    let (code, instrs) = (shared.code, shared.instrs);
    let is_end = match code.barrier_ends.get() {
        Some(ends) if O::ON => &ends.is_end[..],
        _ => &[],
    };
    let only = if O::ON { None } else { warp.take_only() };
    let next = match only {
        Some(split) => Some(split),
        None => select(warp, shared, observer)?,
    };
    let Some(mut split) = next else {
        return Ok(warp.ended());
    };
    let mut stop = warp.stop(split.pc);
    let steps = O::ON && observer.steps();
    let keep_going = shared.launch.keep_going.is_some();
    loop {
        if split.pc >= stop {
            split = warp.reconverge(split);
            stop = warp.stop(split.pc);
        }
        let mut instr = &instrs[split.pc as usize];
        if !O::ON
            && let (Op::Fused(index), Some(fused)) = (instr.op, shared.fused)
        {
            let registers = &mut warp.registers;
            if let Some(end) = fused::run(fused, index, registers, shared, split.mask, stop) {
                split.pc = end;
                continue;
            }
            instr = &fused.blocks[index as usize].first;
        }
        if O::ON && is_end.get(split.pc as usize) == Some(&true) {
            observer.reached(warp, split.pc, split.mask);
        }
        let mask = if instr.guard == NO_GUARD {
            split.mask
        } else {
            let bits = warp.registers.predicate(instr.guard & !GUARD_NEGATED);
            split.mask
                & if instr.guard & GUARD_NEGATED == 0 {
                    bits
                } else {
                    !bits
                }
        };
        shared.counters.warp += u64::from(instr.counted);
        shared.counters.thread += u64::from(instr.counted * mask.count_ones());
        if steps {
            let at = IssuePoint { pc: split.pc, mask };
            observer.step(warp, at, split.mask);
        }
        if mask == 0 {
            split.pc += 1;
            continue;
        }
        let failed = |(lane, kind)| WarpFault::new(lane, split.pc, kind);
        let at = IssuePoint { pc: split.pc, mask };
        match instr.op {
            Op::Load(index) => {
                let access = &code.loads[index as usize];
                warp.may_wait |= access.synchronises;
                observer.load(warp, at, access);
                let (mut memory, cached) = shared.loads(&mut warp.local, index);
                let done = memory.load(&mut warp.registers, access, cached, mask);
                if done.is_err() {
                    going_on::execute(warp, shared, observer, at, &instr.op)?;
                }
            }
            Op::Store(index) => {
                let access = &code.stores[index as usize];
                observer.store(warp, at, access);
                let (mut memory, cached) = shared.stores(&mut warp.local, index);
                let done = memory.store(&warp.registers, access, cached, mask);
                if done.is_err() {
                    going_on::execute(warp, shared, observer, at, &instr.op)?;
                }
            }
            Op::Atomic(index) => {
                let operation = &code.atomics[index as usize];
                warp.may_wait |= atomic::may_wait(operation);
                let operands = O::ON.then(|| atomic::operands(&warp.registers, operation, mask));
                if keep_going {
                    going_on::execute(warp, shared, observer, at, &instr.op)?;
                } else {
                    let (mut memory, cached) = shared.atomics(&mut warp.local, index);
                    memory
                        .atomic(&mut warp.registers, operation, cached, mask)
                        .map_err(failed)?;
                }
                if let Some(operands) = operands {
                    observer.atomic(warp, at, operation, &operands);
                    if observer.preempts() {
                        split.pc += 1;
                        warp.splits.push(split);
                        return Ok(WarpStatus::Preempted);
                    }
                }
            }
            Op::Branch { target } => {
                let rest = split.mask & !mask;
                let from = split.pc;
                split = WarpSplit::running(target, mask);
                if rest != 0 {
                    warp.push_split(WarpSplit::running(from + 1, rest));
                }
                if target <= from
                    && let Some(pause) = back(warp, shared, &split)?
                {
                    return Ok(pause);
                }
                stop = if warp.splits.is_empty() {
                    NOWHERE
                } else {
                    warp.stop(target)
                };
                continue;
            }
            Op::BranchIndexed { table, index } => {
                let targets = &code.tables[table as usize];
                let chosen = *warp.registers.word(index);
                let from = split.pc;
                for lane in lanes(mask) {
                    let Some(pc) = targets.get(chosen[lane] as usize) else {
                        let kind = KernelFaultKind::InvalidBranch {
                            index: chosen[lane],
                            targets: targets.len() as u32,
                        };
                        return Err(WarpFault::new(lane, from, kind));
                    };
                    warp.push_split(WarpSplit::running(*pc, 1 << lane));
                }
                let rest = split.mask & !mask;
                if rest != 0 {
                    warp.push_split(WarpSplit::running(from + 1, rest));
                }
                let Some(next) = select(warp, shared, observer)? else {
                    return Ok(WarpStatus::Blocked);
                };
                split = next;
                stop = warp.stop(split.pc);
                if split.pc <= from
                    && let Some(pause) = back(warp, shared, &split)?
                {
                    return Ok(pause);
                }
                continue;
            }
            Op::Call(_) | Op::Return => {
                call::run(warp, code, &split, mask).map_err(failed)?;
                let Some(next) = select(warp, shared, observer)? else {
                    return Ok(WarpStatus::Blocked);
                };
                split = next;
                stop = warp.stop(split.pc);
                // A function that calls itself twice takes for ever without a branch.
                if let Some(pause) = back(warp, shared, &split)? {
                    return Ok(pause);
                }
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
            Op::Matrix(index) => {
                matrix::run(&mut warp.registers, &code.matrices[index as usize], mask);
            }
            Op::Copy(_) | Op::Image(_) => {
                going_on::execute(warp, shared, observer, at, &instr.op)?;
            }
            Op::Mbarrier(index) => {
                let operation = &code.mbarriers[index as usize];
                mbarrier::run(operation, warp, shared, observer, at).map_err(failed)?;
            }
            Op::Enter => {
                split.pc = code.entry;
                continue;
            }
            Op::Exit | Op::Trap | Op::SystemCall(_) => {
                let mut mask = mask;
                if let Op::Exit = instr.op {
                    observer.exiting(warp, at, shared.barriers);
                } else {
                    mask = going_on::execute(warp, shared, observer, at, &instr.op)?;
                    if mask == 0 {
                        split.pc += 1;
                        continue;
                    }
                }
                let live = warp.live;
                warp.exit(mask, split.pc);
                shared.barriers.exit(warp.index, live, mask);
                observer.exited(warp, mask, shared.barriers);
                split.mask &= !mask;
                if split.mask == 0 {
                    if !O::ON && warp.splits.is_empty() {
                        return Ok(warp.ended());
                    }
                    match select(warp, shared, observer)? {
                        Some(next) => {
                            split = next;
                            stop = warp.stop(split.pc);
                            continue;
                        }
                        None => return Ok(warp.ended()),
                    }
                }
                stop = warp.stop(split.pc + 1);
            }
            Op::Barrier(index) => {
                arrive(warp, shared, observer, index, at)?;
                let rest = split.mask & !mask;
                if rest != 0 {
                    warp.push_split(WarpSplit::running(split.pc + 1, rest));
                }
                match select(warp, shared, observer)? {
                    Some(next) => {
                        split = next;
                        stop = warp.stop(split.pc);
                        continue;
                    }
                    None => return Ok(WarpStatus::Blocked),
                }
            }
            Op::Exchange(index) => {
                let exchange = &code.exchanges[index as usize];
                let members = O::ON.then(|| *warp.registers.word(exchange.members));
                let (waiting, outside) = warp.exchange(exchange, mask);
                if let Some((lane, mask)) = outside {
                    let operation = exchange.f.name();
                    let kind = if let ExchangeOp::Together(_) = exchange.f {
                        KernelErrorKind::IncompleteWarp { operation, mask }
                    } else {
                        KernelErrorKind::NotInMask { operation, mask }
                    };
                    shared.report(kind, (warp.index * 32 + lane, split.pc), None);
                }
                if let Some(members) = members {
                    observer.exchanged(warp, exchange, &members, mask & !waiting);
                }
                if waiting != 0 {
                    warp.push_split(WarpSplit {
                        pc: split.pc,
                        mask: waiting,
                        wait: WaitReason::Lanes,
                    });
                    split.mask &= !waiting;
                    if split.mask == 0 {
                        match select(warp, shared, observer)? {
                            Some(next) => {
                                split = next;
                                stop = warp.stop(split.pc);
                                continue;
                            }
                            None => return Ok(WarpStatus::Blocked),
                        }
                    }
                    stop = warp.stop(split.pc + 1);
                }
            }
            Op::ActiveMask { d } => warp.registers.set_word(d, mask, &[mask; LANES]),
            Op::Clock32 { d } => {
                warp.registers
                    .set_word(d, mask, &[shared.counters.warp as u32; LANES])
            }
            Op::Clock64 { d } => warp
                .registers
                .set_double(d, mask, &[shared.counters.warp; LANES]),
            Op::Fence { order } => observer.fence(warp, mask, order),
            Op::Pause => warp.may_wait = true,
            Op::Nop | Op::Fused(_) => {}
            op => arithmetic(&mut warp.registers, mask, op),
        }
        split.pc += 1;
    }
}

/// Selects the warp split to run next; `None` if all splits wait for barriers of the block or have
/// exited.
fn select<O: Observer>(
    warp: &mut Warp,
    shared: &WarpContext<'_, '_>,
    observer: &mut O,
) -> Result<Option<WarpSplit>, WarpFault> {
    let selected = warp.select(shared.code, shared.barriers);
    if O::ON {
        for (_, lanes) in std::mem::take(&mut warp.converged) {
            observer.converged(warp, lanes);
        }
    }
    selected.map_err(|split| {
        WarpFault::new(
            split.mask.trailing_zeros() as usize,
            split.pc,
            deadlock(shared.code, &split),
        )
    })
}

/// Counts a backward branch or call of the running warp split, and returns the warp's status if it
/// must yield.
///
/// Fails at the step limit.
#[inline(always)]
fn back(
    warp: &mut Warp,
    shared: &WarpContext<'_, '_>,
    split: &WarpSplit,
) -> Result<Option<WarpStatus>, WarpFault> {
    if shared.counters.warp > shared.step_limit {
        let lane = split.mask.trailing_zeros() as usize;
        return Err(WarpFault::new(
            lane,
            split.pc,
            KernelFaultKind::StepLimit {
                limit: shared.step_limit,
            },
        ));
    }
    Ok(warp
        .spend_yield_budget()
        .then(|| warp.yield_to_others(*split)))
}

/// Executes an operation on registers, dispatched by the table of register operations.
#[inline(always)]
pub(super) fn arithmetic(r: &mut Registers, mask: u32, op: Op) {
    macro_rules! dispatch {
        ($(
            $(#[$doc:meta])*
            $name:ident $create:ident [$($param:ident: $ty:ty),*]
                $d:ident: $result:tt = $($slot:ident: $class:tt),+
                => $($does:ident)::+ ($($arg:expr),*);
        )*) => {
            match op {
                $(Op::$name { $($param,)* $d, $($slot),+ } => $($does)::+(r, mask, $($arg),*),)*
                // `run` executes these operations itself.
                Op::Clock32 { .. }
                | Op::Clock64 { .. }
                | Op::Load(_)
                | Op::Store(_)
                | Op::Atomic(_)
                | Op::Branch { .. }
                | Op::BranchIndexed { .. }
                | Op::Call(_)
                | Op::Return
                | Op::SystemCall(_)
                | Op::Copy(_)
                | Op::Mbarrier(_)
                | Op::Image(_)
                | Op::Matrix(_)
                | Op::Extra { .. }
                | Op::Fused(_)
                | Op::Enter
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

/// Executes an operation on registers in all lanes.
#[inline(never)]
pub(super) fn execute_alone(r: &mut Registers, op: Op) {
    arithmetic(r, FULL, op);
}

#[inline(always)]
fn is_space(r: &mut Registers, mask: u32, window: Window, d: Slot, a: Slot) {
    r.test2(mask, d, [a, a], |address: u64, _| {
        Window::of(address) == window
    });
}
