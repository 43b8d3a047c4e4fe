//! Calls at run time: of functions that call themselves, or through pointers.

use super::fault::FaultKind;
use super::place::Failure;
use super::registers::{LANES, lanes};
use super::warp::{Group, Wait, Warp};
use crate::ptx::ir::{Call, CallTarget, Callee, Code, Op};

/// How deep calls may nest.
const DEPTH_MAX: usize = 1024;

/// One call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Frame {
    callee: u32,
    /// Where the thread goes on.
    back: u32,
}

/// What the calls of one thread have put aside.
#[derive(Debug, Default)]
struct Stack {
    frames: Vec<Frame>,
    kept: Vec<u64>,
}

/// The calls of a warp's threads.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Empty until the first call.
    threads: Vec<Stack>,
}

impl Stacks {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        for thread in &mut self.threads {
            thread.frames.clear();
            thread.kept.clear();
        }
    }
}

/// Runs the call or return where `group` is, for `mask` of its lanes, and puts all its lanes on the
/// warp's list.
#[cold]
pub(super) fn run(warp: &mut Warp, code: &Code, group: &Group, mask: u32) -> Result<(), Failure> {
    warp.stacks.threads.resize_with(LANES, Stack::default);
    let op = code.instrs[group.pc as usize].op;
    for lane in lanes(mask) {
        let pc = match op {
            Op::Call(index) => enter(warp, code, &code.calls[index as usize], lane, group.pc + 1)?,
            _ => leave(warp, code, lane),
        };
        warp.put(Group {
            pc,
            mask: 1 << lane,
            wait: Wait::Nothing,
        });
    }
    let rest = group.mask & !mask;
    if rest != 0 {
        warp.put(Group {
            pc: group.pc + 1,
            mask: rest,
            wait: Wait::Nothing,
        });
    }
    Ok(())
}

/// The function that one lane calls.
fn callee(warp: &Warp, code: &Code, call: &Call, lane: usize) -> Result<u32, Failure> {
    let pointer = match call.target {
        CallTarget::Function(callee) => return Ok(callee),
        CallTarget::Pointer(slot) => warp.registers.double(slot)[lane],
    };
    let fits = |callee: &Callee| callee.address == pointer && callee.formals == call.actuals;
    let found = code.callees.iter().position(fits);
    match found {
        Some(callee) => Ok(callee as u32),
        None => Err((lane, FaultKind::InvalidCall { pointer })),
    }
}

/// Keeps what the function's registers hold, and returns where it begins.
fn enter(
    warp: &mut Warp,
    code: &Code,
    call: &Call,
    lane: usize,
    back: u32,
) -> Result<u32, Failure> {
    let index = callee(warp, code, call, lane)?;
    let callee = &code.callees[index as usize];
    let stack = &mut warp.stacks.threads[lane];
    if stack.frames.len() == DEPTH_MAX {
        let kind = FaultKind::CallDepth {
            function: callee.name.clone(),
            limit: DEPTH_MAX,
        };
        return Err((lane, kind));
    }
    stack.frames.push(Frame {
        callee: index,
        back,
    });
    warp.registers.keep(callee, lane, &mut stack.kept);
    Ok(callee.entry)
}

/// Gives the function's registers back what they held, and returns where the thread goes on.
fn leave(warp: &mut Warp, code: &Code, lane: usize) -> u32 {
    let stack = &mut warp.stacks.threads[lane];
    let frame = stack
        .frames
        .pop()
        .expect("a function's code is only reached by calls");
    let callee = &code.callees[frame.callee as usize];
    warp.registers.give_back(callee, lane, &mut stack.kept);
    frame.back
}
