//! The check of initialisation: uses of values of shared and local memory that was never written,
//! and accesses by an address in one variable of shared memory that reach another.
//!
//! Each bit of a register, and of shared and local memory, is defined or not (`shadow`), and
//! instructions propagate that (`propagation`). A load of memory that was never written is no error
//! by itself: a kernel may copy padding, or load a vector and use a part. It is one when an
//! undefined bit decides a branch, whether an instruction is executed, or an address, when it takes
//! part in an operation with other threads or is printed, or when it reaches global memory. The
//! value then counts as defined, so that one mistake is reported once.
//!
//! Global memory has no shadow: [`crate::race`] checks its initialisation by operations. A target
//! of `cp.async` counts as written from its start on: a read in flight is a race.

mod accesses;
mod matrix;
mod propagation;
mod shadow;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::kernel_error::{KernelError, KernelErrorKind};
use super::launch::{GlobalMemory, Launch};
use super::observer::IssuePoint;
use super::registers::{Doubles, FULL, LANES, Registers, Words, lanes};
use super::warp::Warp;
use super::{printf, step};
use crate::ptx::ir::{
    AccessSpace, AsyncCopy, Code, Exchange, ExchangeOp, GUARD_NEGATED, MbarrierOp, NO_GUARD, Op,
    RegisterClass, SystemCall, Window,
};
use crate::ptx::{Kernel, other_results, sources};

use RegisterClass::{Double, Predicate, Word};
use propagation::Operand;
use shadow::{Load, Register, Shadow, ShadowMemory, WarpShadow};

const DECIDES: &str = "a branch, or the execution of an instruction, depends on";
const ADDRESS: &str = "an address depends on";
const STORED: &str = "global memory receives";
const OPERAND: &str = "an operation with other threads, or a call, depends on";

/// A lane's place in memory: the window, and the offset there.
type Place = (usize, Window, u64);

/// The shadows of a block that has started and not ended.
struct BlockShadow {
    shared: ShadowMemory,
    warps: Vec<WarpShadow>,
}

/// The launch that is checked.
#[derive(Clone, Copy)]
struct Checked<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    memory: &'a dyn GlobalMemory,
}

/// The check of a launch, with the shadows of its blocks by their numbers.
pub(super) struct InitialisationCheck<'a> {
    of: Checked<'a>,
    blocks: BTreeMap<u64, BlockShadow>,
}

/// An instruction that a warp is about to execute in the lanes of a mask.
struct Step<'s, 'a> {
    of: Checked<'a>,
    code: &'a Code,
    block: u64,
    shared: &'s mut ShadowMemory,
    own: &'s mut WarpShadow,
    warp: &'s mut Warp,
    pc: u32,
    mask: u32,
}

impl<'a> InitialisationCheck<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
        memory: &'a dyn GlobalMemory,
    ) -> Self {
        let (of, blocks) = (
            Checked {
                kernel,
                launch,
                memory,
            },
            BTreeMap::new(),
        );
        Self { of, blocks }
    }

    pub(super) fn leave(&mut self, block: u64) {
        self.blocks.remove(&block);
    }

    /// Propagates shadows through an instruction that is about to execute in the lanes of `at`, of
    /// those in `reached` that have come to it, and reports its errors.
    pub(super) fn step(&mut self, block: u64, warp: &mut Warp, at: IssuePoint, reached: u32) {
        let shadows = self.blocks.entry(block);
        let shadows = shadows.or_insert_with(|| BlockShadow::new(self.of));
        let code = &self.of.kernel.code;
        let instr = code.instrs[at.pc as usize];
        let mut step = Step {
            of: self.of,
            code,
            block,
            shared: &mut shadows.shared,
            own: &mut shadows.warps[warp.index as usize],
            warp,
            pc: at.pc,
            mask: reached,
        };
        if instr.guard != NO_GUARD {
            step.uses((Predicate, instr.guard & !GUARD_NEGATED), DECIDES);
        }
        step.mask = at.mask;
        if at.mask != 0 {
            step.execute(&instr.op);
        }
    }
}

impl BlockShadow {
    fn new(of: Checked<'_>) -> Self {
        let code = &of.kernel.code;
        let bytes = code.shared_bytes + of.launch.dynamic_shared_bytes;
        let mut shared = ShadowMemory::new(bytes as usize);
        for (name, start, bytes) in &code.shared_variables {
            // CUDA's libraries expect it to be zero.
            if name == "reserved shared memory" {
                shared.write(*start as usize, *bytes as usize, Shadow::default());
            }
        }
        let new_warp = |_| {
            let mut warp = WarpShadow::new(code.local_bytes as usize * LANES);
            for (register, start) in &code.shared_addresses {
                // Dynamic shared memory follows all other.
                let variable = code.shared_bytes.min(*start) + 1;
                let shadow = Shadow {
                    variable,
                    ..Shadow::default()
                };
                (0..LANES).for_each(|lane| warp.set(*register, lane, shadow));
            }
            warp
        };
        let threads = of.launch.block.iter().product::<u32>();
        let warps = (0..threads.div_ceil(32)).map(new_warp).collect();
        Self { shared, warps }
    }
}

impl Step<'_, '_> {
    fn thread(&self, lane: usize) -> u32 {
        self.warp.index * 32 + lane as u32
    }

    /// Reports the use of a register with undefined bits.
    fn uses(&mut self, register: Register, how: &str) {
        self.uses_bits(register, how, (self.mask, u64::MAX));
    }

    fn uses_bits(&mut self, register: Register, how: &str, (mask, bits): (u32, u64)) {
        for lane in lanes(self.own.marked(register, mask)) {
            let shadow = self.own.get(register, lane);
            if shadow.bits & bits != 0 {
                self.report(lane, shadow, how);
                self.own.set(register, lane, Shadow { bits: 0, ..shadow });
            }
        }
    }

    fn report(&self, lane: usize, shadow: Shadow, how: &str) {
        if let Some(load) = shadow.load {
            let memory = self.memory_text(load.window, load.offset, load.bytes);
            let text = format!("{how} uninitialised {memory}");
            self.error(KernelErrorKind::UninitialisedUse { text }, lane, Some(load));
        }
    }

    fn error(&self, kind: KernelErrorKind, lane: usize, load: Option<Load>) {
        let Checked {
            kernel,
            launch,
            memory,
        } = self.of;
        let place = |thread, pc| launch.place(kernel, self.block, thread, pc);
        memory.kernel_error(KernelError {
            kind,
            later: place(self.thread(lane), self.pc),
            earlier: load.map(|load| place(load.thread, load.pc)),
        });
    }

    fn memory_text(&self, window: Window, offset: u64, bytes: u64) -> String {
        let (start, memory) = match window {
            Window::Shared => {
                let (range, name) = self.of.launch.shared_variable(self.code, offset);
                let size = range.end - range.start;
                let text = format!("{name} ({size} bytes of shared memory)");
                (range.start, text)
            }
            _ => (0, "the thread's local memory".to_owned()),
        };
        let first = offset.saturating_sub(start);
        format!("bytes {first}..{} of {memory}", first + bytes)
    }

    fn execute(&mut self, op: &Op) {
        let code = self.code;
        match *op {
            Op::Load(index) => self.access(&code.loads[index as usize], false),
            Op::Store(index) => self.access(&code.stores[index as usize], true),
            Op::Atomic(index) => self.atomic(&code.atomics[index as usize]),
            Op::Exchange(index) => self.exchange(&code.exchanges[index as usize]),
            Op::Matrix(index) => self.matrix(&code.matrices[index as usize]),
            Op::Extra { d, .. } => self.operation(op, (Word, d)),
            _ => match op.register_result() {
                Some(result) => self.operation(op, result),
                None => self.other(op),
            },
        }
    }

    /// Propagates shadows through an operation on registers.
    fn operation(&mut self, op: &Op, result: Register) {
        let mut operands = SmallVec::<[Register; 4]>::new();
        sources(self.code, op, &mut |class, slot| {
            operands.push((class, slot))
        });
        let marked = operands.iter().map(|of| self.own.marked(*of, self.mask));
        let marked = marked.fold(0, |all, marked| all | marked);
        let all = match result.0 {
            Word => u64::from(u32::MAX),
            Double => u64::MAX,
            Predicate => 1,
        };
        let count = propagation::bitwise(op);
        let is_bitwise = count > 0 && marked != 0;
        let changed = is_bitwise.then(|| self.changed(op, result, &operands[..count]));
        let same = operands.len() > 1 && operands[0] == operands[1];
        let mut shadows = [Shadow::default(); LANES];
        for lane in lanes(marked) {
            let mut x = [Operand::default(); 4];
            for (x, operand) in x.iter_mut().zip(&operands) {
                x.value = value(&self.warp.registers, *operand, lane);
                x.shadow = self.own.get(*operand, lane);
            }
            let bits = match changed {
                Some(_) if x[count..].iter().any(|of| of.shadow.bits != 0) => all,
                Some(changed) => changed[lane],
                None => propagation::undefined(op, all, &x, same),
            };
            shadows[lane] = Shadow {
                bits,
                load: x.iter().find_map(|of| of.shadow.load),
                variable: propagation::variable(op, &x),
            };
        }
        for lane in lanes(self.mask) {
            self.own.set(result, lane, shadows[lane]);
            if let Op::Carry32 { f, .. } | Op::Carry64 { f, .. } = op
                && let Some(flag) = f.write
            {
                let bits = u64::from(shadows[lane].bits != 0);
                let shadow = shadows[lane].number(bits);
                self.own.set((Predicate, flag), lane, shadow);
            }
        }
    }

    /// Returns the bits of a bitwise operation's result that change with the undefined bits of its
    /// operands: it is executed for each choice of zeros or ones for those of each operand.
    fn changed(&mut self, op: &Op, result: Register, operands: &[Register]) -> Doubles {
        let r = &mut self.warp.registers;
        let registers = || operands.iter().copied().chain([result]);
        let kept: SmallVec<[Doubles; 4]> = registers().map(|of| values(r, of)).collect();
        let (mut zeros, mut changed) = ([0; LANES], [0; LANES]);
        for choice in 0..1 << operands.len() {
            for (at, operand) in operands.iter().enumerate() {
                let chosen = |lane: usize| {
                    let bits = self.own.get(*operand, lane).bits;
                    let ones = if choice >> at & 1 == 1 { bits } else { 0 };
                    kept[at][lane] & !bits | ones
                };
                write(r, *operand, &std::array::from_fn(chosen));
            }
            step::execute_alone(r, *op);
            let found = values(r, result);
            zeros = if choice == 0 { found } else { zeros };
            changed = std::array::from_fn(|lane| changed[lane] | found[lane] ^ zeros[lane]);
        }
        registers()
            .zip(&kept)
            .for_each(|(register, values)| write(r, register, values));
        changed
    }

    /// Propagates shadows through an operation between lanes: a shuffle moves them, and all others
    /// use their operand.
    fn exchange(&mut self, exchange: &Exchange) {
        use ExchangeOp as E;
        let (f, a, d, p) = (exchange.f, exchange.a, exchange.d, exchange.p);
        let controls = [exchange.members, exchange.b, exchange.c];
        let is_shuffle = f.name() == "shfl.sync";
        let mut used = SmallVec::<[Register; 3]>::from_slice(&[(Word, exchange.members)]);
        match f {
            E::Barrier | E::Elect | E::Together(_) => {}
            _ if is_shuffle => used.extend([(Word, exchange.b), (Word, exchange.c)]),
            E::VoteAll | E::VoteAny | E::VoteUniform | E::VoteBallot => used.push((Predicate, a)),
            E::MatchAny64 | E::MatchAll64 => used.push((Double, a)),
            _ => used.push((Word, a)),
        }
        for register in used {
            self.uses(register, OPERAND);
        }
        let is_vote = matches!(f, E::VoteAll | E::VoteAny | E::VoteUniform);
        let result = (if is_vote { Predicate } else { Word }, d);
        let mut moved = [Shadow::default(); LANES];
        let mut done = match f {
            E::Barrier | E::Together(_) => 0,
            _ => self.mask,
        };
        if is_shuffle && !controls.contains(&a) {
            // A shuffle of the lanes' numbers tells where each value comes from; 0 for nowhere.
            let r = &mut self.warp.registers;
            let (kept, flags) = ([*r.word(a), *r.word(d)], p.map(|p| r.predicate(p)));
            let numbers: Words = std::array::from_fn(|lane| lane as u32 + 1);
            r.set_word(a, FULL, &numbers);
            done &= !self.warp.exchange(exchange, self.mask).0;
            let r = &mut self.warp.registers;
            for (lane, from) in r.word(d).iter().enumerate() {
                let from = from.checked_sub(1).filter(|_| done >> lane & 1 == 1);
                let from = from.map(|from| self.own.get((Word, a), from as usize));
                moved[lane] = from.unwrap_or_default();
            }
            r.set_word(d, FULL, &kept[1]);
            r.set_word(a, FULL, &kept[0]);
            p.zip(flags)
                .iter()
                .for_each(|(p, flags)| r.set_predicate(*p, FULL, *flags));
        }
        for lane in lanes(done) {
            self.own.set(result, lane, moved[lane]);
            p.iter()
                .for_each(|p| self.own.set((Predicate, *p), lane, Shadow::default()));
        }
    }

    /// Reports undefined operands of an operation all of whose operands matter, and whose results
    /// are defined.
    fn other(&mut self, op: &Op) {
        let (code, mask) = (self.code, self.mask);
        let mut forgotten = SmallVec::<[Register; 8]>::new();
        let mut written = None;
        match *op {
            Op::Mbarrier(index) => {
                let object = &code.mbarriers[index as usize];
                // The state is an operand of a wait, and otherwise a result.
                if !matches!(object.f, MbarrierOp::Wait { .. }) {
                    forgotten.extend(object.state.map(|slot| (Double, slot)));
                }
                if object.f == MbarrierOp::Init {
                    written = Some((object.space, object.address, 8));
                }
            }
            Op::Copy(index) => {
                if let AsyncCopy::Start { target, bytes, .. } = code.copies[index as usize] {
                    written = Some((AccessSpace::Is(Window::Shared), target, bytes));
                }
            }
            Op::SystemCall(index) => self.print(&code.system_calls[index as usize]),
            // A call keeps the registers of functions, and a return restores them.
            Op::Call(_) | Op::Return => {
                for of in &code.callees {
                    forgotten.extend(of.words.clone().map(|slot| (Word, slot)));
                    forgotten.extend(of.doubles.clone().map(|slot| (Double, slot)));
                    forgotten.extend(of.predicates.clone().map(|slot| (Predicate, slot)));
                }
            }
            _ => {}
        }
        let how = match op {
            Op::BranchIndexed { .. } | Op::Call(_) => DECIDES,
            Op::Image(_) | Op::Copy(_) | Op::Mbarrier(_) => ADDRESS,
            _ => OPERAND,
        };
        let mut used = SmallVec::<[Register; 8]>::new();
        sources(code, op, &mut |class, slot| used.push((class, slot)));
        used.retain(|register| !forgotten.contains(register));
        used.iter().for_each(|register| self.uses(*register, how));
        if let Some((space, address, bytes)) = written {
            for place in self.places((space, address), bytes) {
                self.write(place, bytes, Shadow::default());
            }
        }
        other_results(code, op, &mut |class, slot| forgotten.push((class, slot)));
        for register in forgotten {
            let marked = lanes(self.own.marked(register, mask));
            marked.for_each(|lane| self.own.set(register, lane, Shadow::default()));
        }
    }

    /// Reports undefined arguments of `printf`, which lie in local memory.
    fn print(&mut self, call: &SystemCall) {
        let SystemCall::Print {
            format,
            arguments: a,
            ..
        } = *call
        else {
            return;
        };
        for lane in lanes(self.mask) {
            let [format, mut at] = [format, a].map(|slot| self.warp.registers.double(slot)[lane]);
            let mut places = SmallVec::<[(u64, usize); 8]>::new();
            let mut next = |bytes: u64| {
                at = at.next_multiple_of(bytes);
                places.push((at, bytes as usize));
                at += bytes;
                0
            };
            let byte = |at| {
                let region = self.of.memory.region(at)?;
                let byte = region.bytes.load_u8((at - region.base) as usize)?;
                (byte != 0).then_some(byte)
            };
            let text: Vec<u8> = (format..).map_while(byte).collect();
            printf::format(&text, &mut next, &mut |_| Some(Vec::new()));
            for (address, bytes) in places {
                let (window, offset) = AccessSpace::Generic.place(address);
                let printed = self.read((lane, window, offset), bytes);
                if printed.bits != 0 {
                    self.report(lane, printed, "`printf` prints");
                    self.write((lane, window, offset), bytes, Shadow::default());
                }
            }
        }
    }
}

fn value(r: &Registers, (class, slot): Register, lane: usize) -> u64 {
    match class {
        Word => r.word(slot)[lane].into(),
        Double => r.double(slot)[lane],
        Predicate => (r.predicate(slot) >> lane & 1).into(),
    }
}

fn values(r: &Registers, register: Register) -> Doubles {
    std::array::from_fn(|lane| value(r, register, lane))
}

fn write(r: &mut Registers, (class, slot): Register, values: &Doubles) {
    match class {
        Word => r.set_word(slot, FULL, &values.map(|value| value as u32)),
        Double => r.set_double(slot, FULL, values),
        Predicate => {
            let bits = (0..LANES).fold(0, |all, lane| all | (values[lane] as u32) << lane);
            r.set_predicate(slot, FULL, bits);
        }
    }
}
