//! Run-time calls: calls of recursive functions and calls through pointers.

use super::fault::KernelFaultKind;
use super::registers::{LANES, lanes};
use super::warp::{Warp, WarpSplit};
use super::warp_access::LaneFault;
use crate::ptx::ir::{Call, CallTarget, Callee, Code, Op};

const DEPTH_MAX: usize = 1024;

/// The frame of a call that has not returned.
#[derive(Clone, Copy, Debug, Hash)]
struct CallFrame {
    callee: u32,
    /// The program counter at which the thread continues after the call.
    return_pc: u32,
}

/// The call stack of one thread: its frames and its saved registers.
#[derive(Debug, Default, Hash)]
struct CallStack {
    frames: Vec<CallFrame>,
    saved: Vec<u64>,
}

/// The call stacks of a warp's threads.
#[derive(Debug, Default, Hash)]
pub(super) struct CallStacks {
    /// One stack per lane; empty until the warp's first call.
    threads: Vec<CallStack>,
}

impl CallStacks {
    /// Drops all frames and saved registers.
    pub(super) fn clear(&mut self) {
        for thread in &mut self.threads {
            thread.frames.clear();
            thread.saved.clear();
        }
    }
}

/// Executes the call or return at `split` for the lanes in `mask`, and pushes splits with all of
/// its lanes onto the warp's list.
#[cold]
pub(super) fn run(
    warp: &mut Warp,
    code: &Code,
    split: &WarpSplit,
    mask: u32,
) -> Result<(), LaneFault> {
    warp.stacks.threads.resize_with(LANES, CallStack::default);
    let op = code.instrs[split.pc as usize].op;
    for lane in lanes(mask) {
        let pc = match op {
            Op::Call(index) => enter(warp, code, &code.calls[index as usize], lane, split.pc + 1)?,
            _ => leave(warp, code, lane),
        };
        warp.push_split(WarpSplit::running(pc, 1 << lane));
    }
    let rest = split.mask & !mask;
    if rest != 0 {
        warp.push_split(WarpSplit::running(split.pc + 1, rest));
    }
    Ok(())
}

/// Returns the index of the function that one lane calls, or a fault for an invalid pointer.
fn callee(warp: &Warp, code: &Code, call: &Call, lane: usize) -> Result<u32, LaneFault> {
    let pointer = match call.target {
        CallTarget::Function(callee) => return Ok(callee),
        CallTarget::Pointer(slot) => warp.registers.double(slot)[lane],
    };
    let fits = |callee: &Callee| callee.address == pointer && callee.formals == call.actuals;
    let callee = code.callees.iter().position(fits);
    match callee {
        Some(callee) => Ok(callee as u32),
        None => Err((lane, KernelFaultKind::InvalidCall { pointer })),
    }
}

/// Pushes a frame, saves the callee's registers, and returns the callee's entry.
fn enter(
    warp: &mut Warp,
    code: &Code,
    call: &Call,
    lane: usize,
    return_pc: u32,
) -> Result<u32, LaneFault> {
    let index = callee(warp, code, call, lane)?;
    let callee = &code.callees[index as usize];
    let stack = &mut warp.stacks.threads[lane];
    if stack.frames.len() == DEPTH_MAX {
        let kind = KernelFaultKind::CallDepth {
            function: callee.name.clone(),
            limit: DEPTH_MAX,
        };
        return Err((lane, kind));
    }
    stack.frames.push(CallFrame {
        callee: index,
        return_pc,
    });
    warp.registers.keep(callee, lane, &mut stack.saved);
    Ok(callee.entry)
}

/// Pops a frame, restores the callee's registers, and returns the address to continue at.
fn leave(warp: &mut Warp, code: &Code, lane: usize) -> u32 {
    let stack = &mut warp.stacks.threads[lane];
    let frame = stack
        .frames
        .pop()
        .expect("no call frame for a return: function code is entered only by calls");
    let callee = &code.callees[frame.callee as usize];
    warp.registers.give_back(callee, lane, &mut stack.saved);
    frame.return_pc
}
