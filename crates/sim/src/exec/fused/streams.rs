//! Streams: the fused blocks that access global memory.
//!
//! A stream is a run of register operations, loads and stores of global memory whose addresses do
//! not depend on values that it loads, and branches out of it, which usually no lane takes. It
//! executes all active lanes of a warp, or nothing. A first function, its *probe*, computes the
//! addresses and the branches, and stores nothing. Then `call` checks that no lane takes a branch,
//! that each address is that of the eight lanes' consecutive values, or of one value, within the
//! allocation that the access reached last, and that lanes of different chunks do not access what
//! one of them stores. It marks the accesses in the access bitmap, and calls the function that does
//! the rest for eight lanes at a time. Otherwise the operations are executed as if there were no
//! stream.

use std::ops::Range;
use std::sync::atomic::AtomicI32;

use super::assembler::{
    ADD_Q, Assembler, BROADCAST_Q, Condition, MASK_PS, OR, Operand, R11, RCX, STORE_Q, TEST, XOR,
};
use super::emit;
use super::live::{LiveRegisters, register_reads, register_result};
use super::loads::{ACCESSES_MAX, CREDIT, add_base, shared_load};
use super::values::{SCRATCH, Values};
use crate::ptx::ir::{
    Access, AccessSpace, AddressBase, Code, FusedAccess, FusedBase, FusedStream, GUARD_NEGATED,
    Instr, NO_GUARD, Op, RegisterClass, Slot, Un, Window,
};

/// The maximum number of operations of a block.
pub(super) const OPERATIONS_MAX: usize = 256;

/// The size of a [`Probe`](super::call::Probe), and the offsets of its flags.
const PROBE_BYTES: i32 = 16;
const STRAY: i32 = 8;
const DIFFER: i32 = 9;

/// A stream that is being found.
pub(super) struct Stream {
    pub(super) range: Range<usize>,
    /// True if it executes full warps only.
    pub(super) whole: bool,
    accesses: Vec<FusedAccess>,
    /// The register of each address, the size of the values there, and the operation that uses it
    /// first.
    addresses: Vec<(Slot, usize, usize)>,
}

/// Finds the streams of a kernel. A loop begins outside or with one. None of them overlap, but that
/// one with branches in front of its accesses is followed by the part behind them, which executes
/// the lanes that take none.
///
/// `all` has the registers that operations write.
pub(super) fn find(code: &Code, all: &LiveRegisters) -> Vec<Stream> {
    let mut heads = vec![false; code.instrs.len()];
    for (pc, instr) in (0..).zip(&code.instrs) {
        if let Op::Branch { target } = instr.op
            && target <= pc
        {
            heads[target as usize] = true;
        }
    }
    for target in code.tables.iter().flatten() {
        heads[*target as usize] = true;
    }
    let mut streams = Vec::new();
    let mut pc = 0;
    while pc < heads.len() {
        let (stream, end) = Stream::find(code, all, &heads, pc..heads.len());
        pc = end.max(pc + 1);
        let rest = stream.as_ref().and_then(|stream| {
            let mut branches = code.executed[stream.range.start..stream.addresses[0].2].iter();
            let branch = branches.rposition(|instr| matches!(instr.op, Op::Branch { .. }))?;
            let start = stream.range.start + branch + 1;
            Stream::find(code, all, &heads, start..stream.range.end).0
        });
        streams.extend(stream.map(|stream| Stream {
            whole: stream.whole || rest.is_some(),
            ..stream
        }));
        streams.extend(rest);
    }
    streams
}

impl Stream {
    /// Finds the stream that starts with an operation. Returns the operation behind it, too.
    fn find(
        code: &Code,
        all: &LiveRegisters,
        heads: &[bool],
        Range { start, end }: Range<usize>,
    ) -> (Option<Self>, usize) {
        let mut stream = Self {
            range: start..start,
            whole: false,
            accesses: Vec::new(),
            addresses: Vec::new(),
        };
        // The registers that depend on loaded values.
        let mut loaded = Vec::new();
        let mut bases = Vec::new();
        let mut pc = start;
        while pc < end && pc - start < OPERATIONS_MAX {
            let instr = &code.executed[pc];
            if pc > start && heads[pc] {
                break;
            }
            let mut depends = false;
            register_reads(code, instr, &mut |class, slot| {
                depends |= loaded.contains(&(class, slot));
            });
            let fits = match (instr.op, global_access(code, instr.op)) {
                (Op::Branch { target }, _) => {
                    instr.guard != NO_GUARD && !depends && target as usize > pc
                }
                (_, Some((access, is_store))) => {
                    instr.guard == NO_GUARD
                        && !loaded.contains(&(RegisterClass::Double, base(access)))
                        && stream.add(code, access, is_store, pc)
                }
                _ => is_fusable(code, &code.executed[start..pc], instr, &mut bases),
            };
            if !fits {
                break;
            }
            if let Some(result) = register_result(code, instr.op) {
                if depends || matches!(instr.op, Op::Load(_)) {
                    loaded.push(result);
                } else if instr.guard == NO_GUARD {
                    loaded.retain(|register| *register != result);
                }
            }
            pc += 1;
            // A branch behind the last access can only keep the stream from running.
            if !matches!(instr.op, Op::Branch { .. }) && stream.range.end == pc - 1
                || global_access(code, instr.op).is_some()
            {
                stream.range.end = pc;
            }
        }
        let end = if stream.accesses.is_empty() {
            pc
        } else {
            stream.range.end
        };
        let emitted = !stream.accesses.is_empty()
            && stream.probe(&mut Assembler::default(), code, all).is_some();
        (emitted.then_some(stream), end)
    }

    /// Adds an access. Returns `false` if there are too many.
    fn add(&mut self, code: &Code, access: &Access, is_store: bool, pc: usize) -> bool {
        let (slot, bytes) = (base(access), usize::from(access.width));
        let register = (RegisterClass::Double, slot);
        let same = |(known, width, from): &(Slot, usize, usize)| {
            let mut since = code.executed[*from..pc].iter();
            (*known, *width) == (slot, bytes)
                && !since.any(|instr| register_result(code, instr.op) == Some(register))
        };
        let address = self.addresses.iter().position(same);
        let (Op::Load(index) | Op::Store(index)) = code.executed[pc].op else {
            return false;
        };
        if self.accesses.len() == ACCESSES_MAX {
            return false;
        }
        // Narrow values cannot be stored for some lanes only.
        self.whole |= is_store && bytes < 4;
        self.accesses.push(FusedAccess {
            index,
            is_store,
            address: address.unwrap_or(self.addresses.len()),
            offset: access.address.offset,
            bytes,
        });
        if address.is_none() {
            self.addresses.push((slot, bytes, pc));
        }
        true
    }

    /// Emits the probe. Returns `None` if it would have to store registers.
    ///
    /// Its arguments are the register files and the probes. It returns in its lower half the lanes
    /// that take a branch, and in its upper half the bits of the addresses that some eight lanes
    /// do not have in a row.
    fn probe(&self, assembler: &mut Assembler, code: &Code, all: &LiveRegisters) -> Option<usize> {
        let (instrs, is_address) = self.slice(code);
        let entry = assembler.here();
        assembler.raw(&[0x31, 0xc0, 0x45, 0x31, 0xd2]); // xor eax, eax; xor r10d, r10d
        let top = assembler.here();
        let mut v = Values::new(assembler, code, &instrs, all, &[], false);
        v.refused = Some(false);
        let mut address = 0u8;
        for (at, instr) in instrs.iter().enumerate() {
            v.begin(at);
            match instr.op {
                _ if is_address[at] => {
                    let (slot, bytes, _) = self.addresses[usize::from(address)];
                    probe_address(&mut v, slot, bytes, address);
                    address += 1;
                }
                Op::Branch { .. } => {
                    let predicate = v.predicate(instr.guard & !GUARD_NEGATED);
                    v.vector(MASK_PS, R11, 0, predicate);
                    if instr.guard & GUARD_NEGATED != 0 {
                        v.assembler.raw_with(&[0x41, 0x81, 0xf3], 0xff); // xor r11d, 0xff
                    }
                    v.assembler.raw(&[0x44, 0x09, 0xd8]); // or eax, r11d
                }
                _ => emit::operation(&mut v, instr, &[])?,
            }
        }
        let (refused, rare) = (v.refused, v.rare);
        assembler.raw(&[0xc1, 0xc8, 8]); // ror eax, 8
        assembler.raw_with(&[0x48, 0x81, 0xc7], 32); // add rdi, 32
        assembler.raw_with(&[0x48, 0x81, 0xc6], 64); // add rsi, 64
        assembler.raw_with(&[0x48, 0x81, 0xc2], 1); // add rdx, 1
        let size = self.addresses.len() as i32 * PROBE_BYTES;
        assembler.raw_with(&[0x48, 0x81, 0xc1], size); // add rcx, …
        assembler.raw(&[0xf6, 0xc2, 3]); // test dl, 3
        let again = assembler.jump(Condition::NotZero);
        assembler.set_target(&again, top);
        assembler.raw(&[0x49, 0xc1, 0xe2, 32, 0x4c, 0x09, 0xd0]); // shl r10, 32; or rax, r10
        assembler.raw(&[0xc5, 0xf8, 0x77, 0xc3]); // vzeroupper; ret
        for rare in rare {
            rare.emit(assembler, 0);
        }
        (refused == Some(false)).then_some(entry)
    }

    /// Returns the operations that the addresses and branches depend on, and whether each stands
    /// for an address that it moves to itself.
    fn slice(&self, code: &Code) -> (Vec<Instr>, Vec<bool>) {
        let mut needed = Vec::new();
        let mut slice = Vec::new();
        for pc in self.range.clone().rev() {
            let mut instr = code.executed[pc];
            let first = self.addresses.iter().find(|(_, _, first)| *first == pc);
            let result = register_result(code, instr.op);
            if let Some((slot, ..)) = first {
                needed.push((RegisterClass::Double, *slot));
                instr.op = Op::un64(Un::Move, *slot, *slot);
                slice.push((instr, true));
                continue;
            }
            let is_needed = result.is_some_and(|result| needed.contains(&result));
            if !matches!(instr.op, Op::Branch { .. }) && !is_needed {
                continue;
            }
            if instr.guard == NO_GUARD {
                needed.retain(|register| Some(*register) != result);
            }
            register_reads(code, &instr, &mut |class, slot| needed.push((class, slot)));
            slice.push((instr, false));
        }
        slice.into_iter().rev().unzip()
    }

    /// Emits the probe, and returns what a block needs to be a stream.
    pub(super) fn finish(
        self,
        assembler: &mut Assembler,
        code: &Code,
        all: &LiveRegisters,
        otherwise: Option<u32>,
    ) -> Option<FusedStream> {
        let probe = self.probe(assembler, code, all)?;
        Some(FusedStream {
            addresses: self.addresses.len(),
            accesses: self.accesses,
            probe,
            whole: self.whole,
            otherwise,
            credit: AtomicI32::new(CREDIT),
        })
    }
}

/// Emits the check of the addresses in a 64-bit register for values of `bytes`, and stores the
/// first address and the outcome.
fn probe_address(v: &mut Values<'_>, slot: Slot, bytes: usize, number: u8) {
    let at = i32::from(number) * PROBE_BYTES;
    let [first, stray] = SCRATCH;
    let lanes = v.double(slot);
    let other = v.register();
    v.vector(STORE_Q, lanes[0], 0, Operand::Memory(RCX, at));
    v.vector(BROADCAST_Q, first, 0, lanes[0]);
    for (flag, step) in [(STRAY, bytes), (DIFFER, 0)] {
        for (half, to) in [stray, other].into_iter().enumerate() {
            let mut expected = first;
            if step > 0 {
                let distance = |lane: usize| ((half * 4 + lane / 2) * step) as u32;
                let distances =
                    std::array::from_fn(|lane| if lane % 2 == 0 { distance(lane) } else { 0 });
                let distances = v.assembler.constant(distances);
                v.vector(ADD_Q, to, first, distances);
                expected = to;
            }
            v.vector(XOR, to, expected, lanes[half]);
        }
        v.vector(OR, stray, stray, other);
        v.vector(TEST, stray, 0, stray);
        // setnz r11b; movzx r11d, r11b; mov [rcx+…], r11b
        v.assembler
            .raw(&[0x41, 0x0f, 0x95, 0xc3, 0x45, 0x0f, 0xb6, 0xdb]);
        v.assembler.raw_with(&[0x44, 0x88, 0x99], at + flag);
        if flag == STRAY {
            // shl r11d, …; or r10d, r11d
            v.assembler
                .raw(&[0x41, 0xc1, 0xe3, number, 0x45, 0x09, 0xda]);
        }
    }
}

/// Returns the load or store of global memory that an operation is, if a stream can contain it, and
/// whether it is a store.
fn global_access(code: &Code, op: Op) -> Option<(&Access, bool)> {
    let (access, is_store) = match op {
        Op::Load(index) => (&code.loads[index as usize], false),
        Op::Store(index) => (&code.stores[index as usize], true),
        _ => return None,
    };
    let fits = matches!(
        access.space,
        AccessSpace::Generic | AccessSpace::Is(Window::Global)
    ) && matches!(access.address.base, AddressBase::Double(_))
        && access.count == 1
        && access.double == (access.width == 8)
        && matches!(access.sign_extend, 0 | 32)
        && !access.synchronises;
    fits.then_some((access, is_store))
}

fn base(access: &Access) -> Slot {
    match access.address.base {
        AddressBase::Double(slot) => slot,
        _ => 0,
    }
}

/// Returns whether an operation can follow others in a block, and adds its address register.
pub(super) fn is_fusable(
    code: &Code,
    before: &[Instr],
    instr: &Instr,
    bases: &mut Vec<FusedBase>,
) -> bool {
    if let Op::Store(_) = instr.op {
        return false;
    }
    if let Op::Load(index) = instr.op {
        let Some((base, _)) = shared_load(&code.loads[index as usize]) else {
            return false;
        };
        let class = base_class(base);
        let written = before
            .iter()
            .any(|instr| register_result(code, instr.op) == Some((class, base.slot)));
        return instr.guard == NO_GUARD && !written && add_base(bases, base);
    }
    let live = LiveRegisters::default();
    let mut assembler = Assembler::default();
    let mut values = Values::new(
        &mut assembler,
        code,
        std::slice::from_ref(instr),
        &live,
        &[],
        false,
    );
    emit::operation(&mut values, instr, &[]).is_some()
}

fn base_class(base: FusedBase) -> RegisterClass {
    if base.double {
        RegisterClass::Double
    } else {
        RegisterClass::Word
    }
}
