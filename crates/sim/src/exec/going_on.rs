//! Kernels that go on after faults, so that one run lists all of them.
//!
//! The lanes whose instruction fails go without it: their results are zeros, and they write
//! nothing. A lane that executes `trap`, or whose assertion or call fails, ends. What leaves no
//! way to go on, such as a deadlock, still ends the launch, as do very many faults.

use super::fault::{KernelFault, KernelFaultKind};
use super::observer::{IssuePoint, Observer};
use super::registers::LANES;
use super::step::WarpFault;
use super::warp::Warp;
use super::warp_access::LaneFault;
use super::warp_context::WarpContext;
use super::{copy, image, system};
use crate::ptx::ir::{Op, RegisterClass};
use crate::ptx::{each_result, other_results};

/// The number of faults with which a launch ends: a loop may wait for a value that it cannot read.
const FAULTS_MAX: u64 = 1 << 18;

/// Returns whether a thread can go on after a fault.
fn goes_on(kind: &KernelFaultKind) -> bool {
    use KernelFaultKind as K;
    !matches!(
        kind,
        K::InvalidCall { .. }
            | K::CallDepth { .. }
            | K::NeverWoken { .. }
            | K::InvalidBranch { .. }
            | K::InvalidBarrier { .. }
            | K::BarrierDeadlock { .. }
            | K::InvalidBarrierObject { .. }
            | K::StepLimit { .. }
            | K::InvalidLaunch(_)
    )
}

impl WarpContext<'_, '_> {
    /// Notes the fault of a lane that goes on without the instruction. Fails with it if the launch
    /// ends.
    #[cold]
    pub(super) fn go_on(&self, warp: u32, pc: u32, of: LaneFault) -> Result<(), WarpFault> {
        let (lane, kind) = of;
        let Some(faults) = self.launch.keep_going.filter(|_| goes_on(&kind)) else {
            return Err(WarpFault::new(lane, pc, kind));
        };
        let thread = warp * 32 + lane as u32;
        let place = self.launch.place(self.kernel, self.block, thread, pc);
        let count = faults.add(KernelFault {
            kernel: self.kernel.name().into(),
            block: place.block,
            thread: place.thread,
            ptx_line: place.ptx_line,
            source_line: place.source.map(String::into_boxed_str),
            kind: kind.clone(),
        });
        if count < FAULTS_MAX {
            return Ok(());
        }
        Err(WarpFault::new(lane, pc, kind))
    }
}

/// Executes an instruction, again if it has failed: in all lanes at once or, if the launch goes on
/// after faults, in one after the other. Returns the lanes that fail, whose results become zeros.
#[cold]
pub(super) fn execute<O: Observer>(
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    IssuePoint { pc, mask }: IssuePoint,
    op: &Op,
) -> Result<u32, WarpFault> {
    let code = shared.code;
    let (mut refused, mut rest) = (0, mask);
    while rest != 0 {
        let lane = rest.trailing_zeros();
        let mask = if shared.launch.keep_going.is_some() {
            1 << lane
        } else {
            rest
        };
        rest &= !mask;
        let at = IssuePoint { pc, mask };
        let r = &mut warp.registers;
        let done = match *op {
            Op::Load(index) => {
                let (mut memory, cached) = shared.loads(&mut warp.local, index);
                memory.load(r, &code.loads[index as usize], cached, at.mask)
            }
            Op::Store(index) => {
                let (mut memory, cached) = shared.stores(&mut warp.local, index);
                memory.store(r, &code.stores[index as usize], cached, at.mask)
            }
            Op::Atomic(index) => {
                let (mut memory, cached) = shared.atomics(&mut warp.local, index);
                memory.atomic(r, &code.atomics[index as usize], cached, at.mask)
            }
            Op::Copy(index) => {
                let copy = code.copies[index as usize];
                copy::run(&copy, warp, shared, observer, at)
            }
            Op::Image(index) => {
                image::run(&code.images[index as usize], warp, shared, observer, at)
            }
            Op::SystemCall(index) => {
                system::run(code.system_calls[index as usize], warp, shared, at.mask)
            }
            _ => Err((lane as usize, KernelFaultKind::Trap)),
        };
        if let Err(fault) = done {
            shared.go_on(warp.index, pc, fault)?;
            refused |= at.mask;
        }
    }
    let mut zero = |class, slot| match class {
        RegisterClass::Word => warp.registers.set_word(slot, refused, &[0; LANES]),
        RegisterClass::Double => warp.registers.set_double(slot, refused, &[0; LANES]),
        RegisterClass::Predicate => warp.registers.set_predicate(slot, refused, 0),
    };
    match *op {
        _ if refused == 0 => {}
        Op::Load(_) => each_result(code, op, &mut zero),
        Op::Image(_) => other_results(code, op, &mut zero),
        Op::Atomic(index) => {
            let atomic = &code.atomics[index as usize];
            let high = atomic.high.and_then(|high| high.result);
            let class = RegisterClass::of(atomic.ty);
            atomic.result.iter().for_each(|slot| zero(class, *slot));
            high.iter()
                .for_each(|slot| zero(RegisterClass::Double, *slot));
        }
        _ => {}
    }
    Ok(refused)
}
