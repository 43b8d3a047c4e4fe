//! The division of a kernel's operations into fused blocks, and the machine code of each.

use std::ops::Range;

use super::assembler::{Assembler, Condition, EQUAL_D, MOVE_D, SIGN_EXTEND, UPPER_HALF, XOR};
use super::emit;
use super::live::{LiveRegisters, register_reads, register_result};
use super::loads::{WINDOW_BYTES, add_base, shared_load};
use super::rare::Rare;
use super::streams::{self, OPERATIONS_MAX, Stream, is_fusable};
use super::values::{COLLECTORS, INACTIVE, INACTIVE_HALVES, SCRATCH, Values};
use crate::ptx::ir::{
    Code, FusedBase, FusedBlock, FusedCode, GUARD_NEGATED, Instr, NO_GUARD, Op, RegisterClass, Slot,
};

/// The least number of operations that a block is worth its call for.
const OPERATIONS_MIN: usize = 2;

/// Translates a kernel. Returns `None` if it has no blocks, or if memory cannot be made executable.
pub(super) fn fuse(code: &Code) -> std::io::Result<Option<FusedCode>> {
    let mut instrs = code.executed.clone();
    let nowhere = vec![None; instrs.len()];
    let all = LiveRegisters::new(code, &instrs, &nowhere);
    let streams = streams::find(code, &all);
    let mut cuts = code.branch_targets();
    // Other code may enter a stream at the target of a branch, and then reads registers.
    let mut part_of = nowhere.clone();
    let mut part = 0;
    for Stream { range, .. } in &streams {
        for pc in range.clone() {
            if part_of[pc].is_none() {
                part += u32::from(pc == range.start || cuts[pc]);
                part_of[pc] = Some(part);
            }
        }
    }
    for Stream { range, .. } in &streams {
        for at in [range.start, range.end] {
            cuts[at.min(code.instrs.len() - 1)] |= at < code.instrs.len();
        }
    }
    let ranges = ranges(code, &cuts);
    let mut block_of = nowhere;
    for (number, range) in (0..).zip(&ranges) {
        block_of[range.clone()].fill(Some(number));
    }
    let live = LiveRegisters::new(code, &instrs, &block_of);
    let live_parts = LiveRegisters::new(code, &instrs, &part_of);
    let mut assembler = Assembler::default();
    let mut blocks: Vec<FusedBlock> = Vec::new();
    let ranges = ranges.into_iter().map(|range| (range, None));
    let streams = streams
        .into_iter()
        .map(|stream| (stream.range.clone(), Some(stream)));
    for (range, stream) in ranges.chain(streams) {
        let start = range.start;
        let otherwise = match instrs[start].op {
            Op::Fused(index) => Some(index),
            _ => None,
        };
        instrs[start] = Instr {
            op: Op::Fused(blocks.len() as u32),
            guard: NO_GUARD,
            counted: 0,
        };
        let live = if stream.is_some() { &live_parts } else { &live };
        let whole = stream.as_ref().is_some_and(|stream| stream.whole);
        let mut block = block(&mut assembler, code, live, range, whole);
        if let Some(stream) = stream {
            block.stream = stream.finish(&mut assembler, code, &all, otherwise);
        }
        blocks.push(block);
    }
    if blocks.is_empty() {
        return Ok(None);
    }
    let bytes = assembler.finish();
    let mut memory = memmap2::MmapMut::map_anon(bytes.len())?;
    memory.copy_from_slice(&bytes);
    Ok(Some(FusedCode {
        instrs,
        blocks,
        files: [code.words, code.doubles, code.predicates].map(|size| size as usize),
        memory: memory.make_exec()?,
    }))
}

/// Returns the longest runs of operations with vector code that are not divided by `cuts`.
fn ranges(code: &Code, cuts: &[bool]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut run = 0..0;
    let mut bases = Vec::new();
    let mut end = |run: Range<usize>| {
        let real = code.executed[run.clone()]
            .iter()
            .filter(|instr| instr.op != Op::Nop);
        if real.count() >= OPERATIONS_MIN {
            ranges.push(run);
        }
    };
    // The hoisted operations behind the kernel's own are executed once only.
    for (pc, instr) in code.executed[..code.instrs.len()].iter().enumerate() {
        let fits = !cuts[pc] && run.len() < OPERATIONS_MAX;
        if fits && is_fusable(code, &code.executed[run.clone()], instr, &mut bases) {
            run.end += 1;
            continue;
        }
        end(run);
        bases.clear();
        run = pc..pc + usize::from(is_fusable(code, &[], instr, &mut bases));
        if run.is_empty() {
            run = pc + 1..pc + 1;
        }
    }
    end(run);
    ranges
}

/// Emits the function of a block.
///
/// Its arguments are the three register files, the mask of active lanes and the windows of the
/// loads, and for a stream the addresses of its accesses; with `whole`, the mask has all lanes. It
/// processes eight lanes at a time, and returns the number of active lanes of its guarded
/// operations that count.
fn block(
    assembler: &mut Assembler,
    code: &Code,
    live: &LiveRegisters,
    range: Range<usize>,
    whole: bool,
) -> FusedBlock {
    let instrs = &code.executed[range.clone()];
    let mut bases = Vec::new();
    for instr in instrs {
        if let Op::Load(index) = instr.op
            && let Some((base, _)) = shared_load(&code.loads[index as usize])
        {
            add_base(&mut bases, base);
        }
    }
    let alive = without_dead(code, live, instrs);
    let has_doubles = instrs.iter().any(|instr| {
        let result = register_result(code, instr.op);
        let is_double = result.is_some_and(|(class, _)| class == RegisterClass::Double);
        is_double || matches!(instr.op, Op::Store(_))
    });
    let mut collected = Vec::new();
    for instr in instrs {
        if let Some((class, slot)) = register_result(code, instr.op)
            && class == RegisterClass::Predicate
            && live.has(class, slot)
            && !collected.contains(&slot)
            && collected.len() < COLLECTORS.len()
        {
            collected.push(slot);
        }
    }
    let collectors = &COLLECTORS[..collected.len()];
    let rex = |collector: &u8| 0x40 | u8::from(*collector > 7);
    let entry = assembler.here();
    for collector in collectors {
        assembler.raw(&[rex(collector), 0x50 | collector & 7]); // push
    }
    assembler.raw(&[0x31, 0xc0]); // xor eax, eax
    let top = assembler.here();
    for collector in collectors {
        assembler.raw(&[rex(collector), 0xc1, 0xe8 | collector & 7, 8]); // shr collector, 8
    }
    assembler.raw(&[0x44, 0x0f, 0xb6, 0xd1]); // movzx r10d, cl
    assembler.raw(&[0xc1, 0xc9, 0x08]); // ror ecx, 8
    assembler.raw_with(&[0x41, 0x81, 0xfa], 0xff); // cmp r10d, 0xff
    let full = assembler.jump(Condition::Zero);
    assembler.raw(&[0x45, 0x85, 0xd2]); // test r10d, r10d
    let none = assembler.jump(Condition::Zero);
    let mut rare = Vec::new();
    let mut emit = |assembler: &mut Assembler, masked| {
        let parts = (&bases[..], &collected[..]);
        rare.append(&mut body(assembler, code, live, &alive, parts, masked));
    };
    let masked = (!whole).then(|| {
        emit(assembler, Some(has_doubles));
        assembler.jump(Condition::Always)
    });
    assembler.land(&full);
    emit(assembler, None);
    assembler.land(&none);
    if let Some(masked) = &masked {
        assembler.land(masked);
    }
    assembler.raw_with(&[0x48, 0x81, 0xc7], 32); // add rdi, 32
    assembler.raw_with(&[0x48, 0x81, 0xc6], 64); // add rsi, 64
    assembler.raw_with(&[0x48, 0x81, 0xc2], 1); // add rdx, 1
    assembler.raw_with(&[0x49, 0x81, 0xc0], bases.len() as i32 * WINDOW_BYTES); // add r8, …
    assembler.raw_with(&[0x49, 0x81, 0xc1], 8); // add r9, 8
    // The predicates begin at a multiple of 4.
    assembler.raw(&[0xf6, 0xc2, 3]); // test dl, 3
    let again = assembler.jump(Condition::NotZero);
    assembler.set_target(&again, top);
    for (slot, collector) in collected.iter().zip(collectors) {
        // The mask is in ecx again, and rdx is 4 bytes behind its start.
        let at = (slot * 4).cast_signed() - 4;
        let rex = 0x44 | u8::from(*collector > 7);
        assembler.raw_with(&[0x44, 0x8b, 0x9a], at); // mov r11d, [rdx+at]
        assembler.raw(&[rex, 0x31, 0xd8 | collector & 7]); // xor collector, r11d
        let rex = 0x40 | u8::from(*collector > 7);
        assembler.raw(&[rex, 0x21, 0xc8 | collector & 7]); // and collector, ecx
        let rex = 0x40 | u8::from(*collector > 7) << 2;
        assembler.raw_with(&[rex, 0x31, 0x82 | (collector & 7) << 3], at); // xor [rdx+at], …
    }
    for collector in collectors.iter().rev() {
        assembler.raw(&[rex(collector), 0x58 | collector & 7]); // pop
    }
    assembler.raw(&[0xc5, 0xf8, 0x77, 0xc3]); // vzeroupper; ret
    for rare in rare {
        rare.emit(assembler, collectors.len());
    }
    let count = |guarded: bool| {
        let counted = instrs
            .iter()
            .filter(|instr| (instr.guard != NO_GUARD) == guarded)
            .map(|instr| instr.counted);
        counted.sum::<u32>()
    };
    FusedBlock {
        range: range.start as u32..range.end as u32,
        first: instrs[0],
        counted: count(false) + count(true),
        unguarded: count(false),
        bases,
        entry,
        stream: None,
    }
}

/// Replaces the operations whose results nothing reads, such as the addresses of a stream.
fn without_dead(code: &Code, live: &LiveRegisters, instrs: &[Instr]) -> Vec<Instr> {
    let mut read = Vec::new();
    let mut alive = instrs.to_vec();
    for instr in alive.iter_mut().rev() {
        if let Some(result) = register_result(code, instr.op) {
            let is_read = read.contains(&result);
            if instr.guard == NO_GUARD {
                read.retain(|register| *register != result);
            }
            if !is_read && !live.has(result.0, result.1) && !matches!(instr.op, Op::Load(_)) {
                instr.op = Op::Nop;
            }
        }
        register_reads(code, instr, &mut |class, slot| read.push((class, slot)));
    }
    alive
}

/// Emits the operations for eight lanes: all of them active, or, with `masked`, those of r10; then
/// it says whether the block has 64-bit results.
fn body(
    assembler: &mut Assembler,
    code: &Code,
    live: &LiveRegisters,
    instrs: &[Instr],
    (bases, collected): (&[FusedBase], &[Slot]),
    masked: Option<bool>,
) -> Vec<Rare> {
    let mut values = Values::new(assembler, code, instrs, live, collected, masked.is_some());
    if let Some(has_doubles) = masked {
        values.vector(MOVE_D, INACTIVE, 0, 10);
        values.expand(INACTIVE, INACTIVE);
        values.vector(XOR, SCRATCH[0], SCRATCH[0], SCRATCH[0]);
        values.vector(EQUAL_D, INACTIVE, INACTIVE, SCRATCH[0]);
        if has_doubles {
            let [low, high] = INACTIVE_HALVES;
            values.vector(SIGN_EXTEND, low, 0, INACTIVE);
            values.vector_with(UPPER_HALF, INACTIVE, 0, high, 1);
            values.vector(SIGN_EXTEND, high, 0, high);
        }
    }
    for (at, instr) in instrs.iter().enumerate() {
        values.begin(at);
        if let Op::Branch { .. } = instr.op {
            // No lane takes it.
            continue;
        }
        if instr.guard != NO_GUARD && instr.counted != 0 {
            values.count_guard(
                instr.guard & !GUARD_NEGATED,
                instr.guard & GUARD_NEGATED != 0,
            );
            values.begin(at);
        }
        let emitted = emit::operation(&mut values, instr, bases);
        debug_assert!(emitted.is_some(), "{instr:?} has vector code");
    }
    values.finish();
    values.rare
}
