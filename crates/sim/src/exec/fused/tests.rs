//! Random register programs under random masks, executed by machine code and by the interpreter.

use millstream_testkit::share;

use crate::exec::fused::{blocks, call};
use crate::exec::registers::{FULL, LANES, Registers};
use crate::exec::step::arithmetic;
use crate::exec::warp_context::Counters;
use crate::ptx::ir::{
    Bin, Code, Compare, CompareFloat, FloatBin, FloatMode, FloatUn, GUARD_NEGATED, InitialValue,
    Instr, Join, NO_GUARD, Narrow, Op, PredOp, Prmt, RegisterClass, Round, Shift, Slot, Tri, Un,
    Widen, Word1, Word3,
};

/// The numbers of named registers; the constants of 32 and 64 bits follow.
const NAMED: Slot = 6;
const CONSTANTS: Slot = 6;

/// Singles around zeros, subnormals, 1, the bounds of integers, infinities and NaNs, and high
/// halves of such doubles.
#[rustfmt::skip]
const SPECIAL: [u32; 20] = [
    0, 1, 0x007f_ffff, 0x0080_0000, 0x3f7f_ffff, 0x3f80_0000, 0x4b80_0000, 0x4eff_ffff,
    0x4f00_0000, 0x4f80_0000, 0x7e80_0001, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0x7fc0_1234,
    0x7fff_ffff, 0x3ff0_0000, 0x7ff0_0000, 0x7ff8_0000, 0x000f_ffff,
];

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, count: u64) -> u64 {
        (self.next() >> 32) % count
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Returns the bits of a single: any, a small number, or a special value.
    fn word(&mut self) -> u32 {
        let bits = self.next() as u32;
        match self.below(6) {
            0 | 1 => bits,
            2 => bits & 0x807f_ffff | (118 + (bits >> 23) % 16) << 23,
            3 => bits & 0x83ff_ffff,
            4 => (bits >> 16) % 70,
            _ => self.pick(&SPECIAL) | bits & 1 << 31,
        }
    }

    fn double(&mut self) -> u64 {
        let bits = self.next();
        match self.below(5) {
            0 | 1 => bits,
            2 => bits & 0x800f_ffff_ffff_ffff | (1018 + (bits >> 52) % 10) << 52,
            3 => bits & 0xffff_ffff,
            _ => {
                // Any double whose high half is a special single or near one.
                u64::from(self.pick(&SPECIAL)) << 32 | bits & 1 << 63 | bits & 1
            }
        }
    }

    /// Returns a register to read.
    fn source(&mut self) -> Slot {
        self.below(u64::from(NAMED + CONSTANTS)) as Slot
    }

    /// Returns a register to write.
    fn target(&mut self) -> Slot {
        self.below(u64::from(NAMED)) as Slot
    }

    /// Returns an operation; most have vector code.
    fn operation(&mut self) -> Op {
        use CompareFloat::{Eq, EqU, Le, LeU, Lt, LtU, Nan, Ne, NeU, Num};
        use FloatBin::{Add, Div, DivApprox, Max, MaxNan, Min, MinNan, Mul, Sub};
        use FloatUn::{Abs, Flush, Integral, Neg, Rcp, RcpApprox, RsqrtApprox, Saturate, Sqrt};
        use PredOp::{And, Move, Not, NotAnd, NotOr, NotXor, Or, Xor};
        use Round::{Down, Nearest, Up, Zero};
        let flush = self.below(2) == 0;
        let round = self.pick(&[Nearest, Zero, Down, Up]);
        // Other modes are the interpreter's.
        let mode = match self.below(10) {
            0 => FloatMode { round, flush },
            _ => FloatMode::nearest(flush),
        };
        let [a, b, c] = [0; 3].map(|_| self.source());
        let [d, p, q] = [0; 3].map(|_| self.target());
        let integral = Integral(FloatMode { round, flush });
        let compare = [Eq, Ne, Lt, Le, EqU, NeU, LtU, LeU, Num, Nan];
        let bins = [Add, Sub, Mul, Div, DivApprox, Min, Max, MinNan, MaxNan];
        match self.below(36) {
            0 => Op::un32(self.pick(Un::ALL), d, a),
            1 => Op::un32(Un::Move, d, a),
            2 => Op::word1(self.pick(Word1::ALL), d, a),
            3 | 4 => Op::bin32(self.pick(Bin::ALL), d, a, b),
            5 => Op::shift32(self.pick(Shift::ALL), d, a, b),
            6 => Op::tri32(self.pick(Tri::ALL), d, a, b, c),
            7 => Op::word3(self.pick(&Word3::ALL[..7]), d, a, b, c),
            8 => Op::lop3(self.next() as u8, d, a, b, c),
            9 => Op::prmt(Prmt::Index, d, a, b, NAMED + p),
            10 => Op::cmp32(self.pick(Compare::ALL), d, a, b),
            11 => {
                let ops = [Move, Not, And, Or, Xor, NotAnd, NotOr, NotXor];
                Op::pred(self.pick(&ops), d, p, q)
            }
            12 => Op::select32(d, a, b, p),
            13 => Op::un64(self.pick(Un::ALL), d, a),
            14 => Op::bin64(self.pick(Bin::ALL), d, a, b),
            15 => Op::shift64(self.pick(Shift::ALL), d, a, b),
            16 => Op::widen(self.pick(Widen::ALL), d, a),
            17 => Op::narrow(self.pick(Narrow::ALL), d, a),
            18 => Op::join(self.pick(Join::ALL), d, a, b),
            19 => Op::mad_wide(flush, d, a, b, c),
            20 => Op::cmp64(self.pick(Compare::ALL), d, a, b),
            21 => Op::select64(d, a, b, p),
            22 | 23 => {
                let ops = [Neg, Abs, Flush, integral, Saturate, Sqrt(round), Rcp(round)];
                Op::f32_un(self.pick(&ops), d, a)
            }
            24..27 => Op::f32_bin(self.pick(&bins), mode, d, a, b),
            27..29 => Op::f32_fma(mode, d, a, b, c),
            29 => Op::cmp_f32(self.pick(&compare), d, a, b),
            30 => Op::f64_un(self.pick(&[Neg, Abs, Sqrt(round), Rcp(round)]), d, a),
            31 | 32 => Op::f64_bin(self.pick(&bins), mode, d, a, b),
            33 => Op::f64_fma(mode, d, a, b, c),
            34 => Op::cmp_f64(self.pick(&compare), d, a, b),
            _ => Op::f32_un(self.pick(&[RcpApprox, RsqrtApprox]), d, a),
        }
    }

    /// Returns a program: a block, and operations behind it that read some registers.
    fn program(&mut self) -> Code {
        let files = NAMED + CONSTANTS;
        let mut code = Code {
            words: files,
            doubles: files,
            predicates: NAMED,
            ..Code::default()
        };
        for slot in NAMED..files {
            let word = match self.below(2) {
                0 => self.word(),
                _ => self.next() as u32 & 0x7777,
            };
            let word = InitialValue::Constant(word.into());
            code.initial_words.push((slot, word));
            let double = InitialValue::Constant(self.double());
            code.initial_doubles.push((slot, double));
        }
        for _ in 0..2 + self.below(30) {
            let guard = match self.below(8) {
                0 => self.target(),
                1 => self.target() | GUARD_NEGATED,
                _ => NO_GUARD,
            };
            code.instrs.push(Instr {
                op: self.operation(),
                guard,
                counted: self.below(2) as u32,
            });
        }
        // No block contains these.
        for slot in 0..NAMED {
            let readers = [
                (Op::bin32(Bin::DivU, 0, slot, slot), NO_GUARD),
                (Op::bin64(Bin::DivU, 0, slot, slot), NO_GUARD),
                (Op::Trap, slot),
            ];
            for (op, guard) in readers {
                if self.below(3) > 0 {
                    code.instrs.push(Instr {
                        op,
                        guard,
                        counted: 0,
                    });
                }
            }
        }
        code.executed = code.instrs.clone();
        code
    }

    /// Returns random registers, with the program's constants.
    fn registers(&mut self, code: &Code) -> Registers {
        let mut registers = Registers::default();
        registers.reset(code);
        for slot in 0..NAMED {
            registers.set_word(slot, FULL, &std::array::from_fn(|_| self.word()));
            registers.set_double(slot, FULL, &std::array::from_fn(|_| self.double()));
            registers.set_predicate(slot, FULL, self.next() as u32);
        }
        for (slot, value) in &code.initial_words {
            if let InitialValue::Constant(bits) = value {
                registers.set_word(*slot, FULL, &[*bits as u32; LANES]);
            }
        }
        for (slot, value) in &code.initial_doubles {
            if let InitialValue::Constant(bits) = value {
                registers.set_double(*slot, FULL, &[*bits; LANES]);
            }
        }
        registers
    }
}

/// Executes an operation as the interpreter loop does.
fn interpret(r: &mut Registers, instr: &Instr, mask: u32, counters: &mut Counters) {
    let mask = match instr.guard {
        NO_GUARD => mask,
        guard if guard & GUARD_NEGATED == 0 => mask & r.predicate(guard),
        guard => mask & !r.predicate(guard & !GUARD_NEGATED),
    };
    counters.warp += u64::from(instr.counted);
    counters.thread += u64::from(instr.counted * mask.count_ones());
    if mask != 0 {
        arithmetic(r, mask, instr.op);
    }
}

/// Compares the registers that are read behind the blocks, in all lanes.
fn compare(code: &Code, blocks: &[std::ops::Range<u32>], found: &Registers, wanted: &Registers) {
    for (pc, instr) in (0..).zip(&code.instrs) {
        if blocks.iter().any(|range| range.contains(&pc)) {
            continue;
        }
        let mut same = |class: RegisterClass, slot: Slot| {
            let place = format!("{class:?} {slot}");
            match class {
                RegisterClass::Word => assert_eq!(found.word(slot), wanted.word(slot), "{place}"),
                RegisterClass::Double => {
                    assert_eq!(found.double(slot), wanted.double(slot), "{place}");
                }
                RegisterClass::Predicate => {
                    assert_eq!(found.predicate(slot), wanted.predicate(slot), "{place}");
                }
            }
        };
        if instr.guard != NO_GUARD {
            same(RegisterClass::Predicate, instr.guard & !GUARD_NEGATED);
        }
        if instr.op.register_result().is_some() {
            instr.op.register_operands(&mut same);
        }
    }
}

/// Runs a random program under several masks.
fn check(seed: u64) {
    let mut random = Random::new(seed);
    let code = random.program();
    let Some(fused) = blocks::fuse(&code).unwrap() else {
        return;
    };
    for _ in 0..6 {
        let mask = match random.below(6) {
            0 => FULL,
            1 => 1 << random.below(32),
            2 => FULL >> random.below(32),
            3 => 0xff << (8 * random.below(4)),
            _ => random.next() as u32,
        };
        let seed = random.next();
        let [mut wanted, mut found] = [0; 2].map(|_| Random::new(seed).registers(&code));
        let [mut counted, mut counted_by_code] = [Counters::default(); 2];
        let mut pc = 0;
        let ranges: Vec<_> = fused
            .blocks
            .iter()
            .map(|block| block.range.clone())
            .collect();
        while pc < code.instrs.len() as u32 {
            let instr = &code.instrs[pc as usize];
            if let Some(block) = fused.blocks.iter().find(|block| block.range.start == pc) {
                let ran =
                    call::run_block(&fused, block, &mut found, &[], mask, &mut counted_by_code);
                assert!(ran);
                for pc in block.range.clone() {
                    interpret(&mut wanted, &code.instrs[pc as usize], mask, &mut counted);
                }
                pc = block.range.end;
                continue;
            }
            if ranges.iter().all(|range| range.end <= pc) {
                break;
            }
            // An operation between two blocks.
            let mut uncounted = Counters::default();
            interpret(&mut wanted, instr, mask, &mut uncounted);
            interpret(&mut found, instr, mask, &mut uncounted);
            pc += 1;
        }
        let program = || {
            let lines = code.instrs.iter().map(|instr| format!("{instr:?}\n"));
            lines.collect::<String>()
        };
        let same = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            compare(&code, &ranges, &found, &wanted);
            assert_eq!(counted.warp, counted_by_code.warp);
            assert_eq!(counted.thread, counted_by_code.thread);
        }));
        assert!(same.is_ok(), "seed {seed}, mask {mask:#x}\n{}", program());
    }
}

#[test]
fn machine_code_does_what_the_interpreter_does() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return;
    }
    for seed in share::numbers(3_000, 3_000_000) {
        check(seed);
    }
}
