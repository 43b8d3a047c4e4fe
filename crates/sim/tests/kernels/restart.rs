//! Random programs that read registers before they write them, or write them once: each block finds
//! the registers that the first one finds, with and without hoisted operations.

use std::fmt::Write;

use millstream_sim::exec::{self, Jit, Launch};
use millstream_sim::ptx::{self, Kernel};
use millstream_testkit::share;

use crate::kernels::memory::{DeviceMemory, params, values};
use crate::kernels::oracle::numbers;

const BLOCKS: u32 = 5;
/// The last warp has lanes without threads.
const THREADS: u32 = 40;

/// Returns a kernel of random operations, guards, branches and loops that stores a hash of all its
/// registers.
fn program(seed: u64) -> String {
    let mut next = numbers(seed);
    let mut pick = |count: u64| (next() >> 33) % count;
    let mut body = String::new();
    let mut labels = 0;
    let mut once = 0;
    let mut open: Vec<u64> = Vec::new();
    for _ in 0..24 {
        let mut r = || pick(5);
        let [a, b, c, d] = [r(), r(), r(), r()];
        let (p, guard) = (pick(3), pick(3));
        let line = match pick(20) {
            0 => format!("mov.u32 %r{a}, %b;"),
            1 => format!("mov.u32 %r{a}, %tid.x;"),
            2 | 3 => format!("mad.lo.u32 %r{a}, %r{b}, 5, %r{c};"),
            4 => format!("add.u64 %d{a}, %d{b}, %d{c};"),
            5 => format!("cvt.u64.u32 %d{a}, %r{b};"),
            6 => format!("cvt.u32.u64 %r{a}, %d{b};"),
            7 => format!("setp.lt.u32 %p{p}, %r{b}, %r{c};"),
            8 => format!("selp.u32 %r{a}, %r{b}, 9, %p{p};"),
            9 => format!("xor.pred %p{p}, %p{guard}, %p{};", pick(3)),
            10 => format!("ld.param.v2.u32 {{%r{a}, %r{b}}}, [out];"),
            11 => format!("add.cc.u32 %r{a}, %r{b}, %r{c}; addc.u32 %r{d}, %r{a}, %r{b};"),
            12 => format!("activemask.b32 %m; shfl.sync.down.b32 %r{a}|%p{p}, %r{b}, 1, 31, %m;"),
            13 if pick(4) == 0 => format!("alloca.u64 %d{a}, 16;"),
            13 => format!("add.u32 %r{a}, %ctaid.y, %ntid.x;"),
            // A branch over the next operations.
            14 => {
                open.push(labels);
                labels += 1;
                format!("bra L{};", labels - 1)
            }
            // A loop whose counter starts at the zero of the block's start.
            15 => {
                labels += 1;
                let label = labels - 1;
                let _ = writeln!(body, "M{label}: add.u32 %c{label}, %c{label}, 1;");
                let _ = writeln!(body, "add.u32 %r{a}, %r{b}, %c{label};");
                format!("setp.lt.u32 %q, %c{label}, {}; @%q bra M{label};", 2 + c)
            }
            // Registers that are written once, some of them the same in all blocks.
            16..19 => {
                once += 1;
                let n = once - 1;
                match pick(6) {
                    0 | 1 => format!("ld.param.u32 %s{n}, [k];"),
                    2 => format!("mov.u32 %s{n}, %laneid;"),
                    3 => format!("add.u32 %s{n}, %s{}, {a};", pick(n + 2)),
                    4 => format!("xor.b32 %s{n}, %r{b}, %s{};", pick(n + 1)),
                    _ => format!("add.u32 %r{a}, %r{b}, %s{};", pick(n + 1)),
                }
            }
            _ => open
                .pop()
                .map_or_else(String::new, |label| format!("L{label}:")),
        };
        let whole = line.is_empty() || line.starts_with('L') || line.contains("; ");
        let _ = match guard {
            0 if !whole => writeln!(body, "@%p{p} {line}"),
            1 if !whole => writeln!(body, "@!%p{p} {line}"),
            _ if line.starts_with("bra") => writeln!(body, "@%p{p} {line}"),
            _ => writeln!(body, "{line}"),
        };
    }
    for label in open {
        let _ = writeln!(body, "L{label}:");
    }
    for n in 0..5 {
        let _ = writeln!(body, "mad.lo.u32 %h, %h, 31, %r{n}; cvt.u32.u64 %m, %d{n};");
        let _ = writeln!(body, "mad.lo.u32 %h, %h, 31, %m;");
    }
    for n in 0..=once {
        let _ = writeln!(body, "mad.lo.u32 %h, %h, 31, %s{n};");
    }
    for n in 0..3 {
        let _ = writeln!(body, "selp.u32 %m, 7, 1, %p{n}; mad.lo.u32 %h, %h, 31, %m;");
    }
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .u32 first, .param .u32 k) {{\n\
         .reg .pred %p<3>; .reg .pred %q; .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .b32 %c<24>;\n\
         .reg .b32 %s<32>;\n\
         .reg .b32 %h; .reg .b32 %m; .reg .b32 %b; .reg .b64 %to;\n\
         ld.param.u32 %b, [first]; add.u32 %b, %b, %ctaid.x;\n{body}\
         mov.u32 %m, %tid.x; mad.lo.u32 %b, %b, {THREADS}, %m;\n\
         ld.param.u64 %to, [out]; mad.wide.u32 %to, %b, 4, %to; st.global.u32 [%to], %h; ret;\n}}"
    )
}

/// Runs a kernel in grids of `size` blocks, together as many as [`BLOCKS`]; without `jit` with an
/// observer.
fn run(kernel: &Kernel, size: u32, jit: Option<Jit>) -> Vec<u32> {
    let mut memory = DeviceMemory::default();
    let out = memory.put(&vec![0u32; (BLOCKS * THREADS) as usize]);
    for first in (0..BLOCKS).step_by(size as usize) {
        let params = params(kernel, &values![out, first, 7u32]);
        let launch = Launch {
            params: &params,
            jit: jit.unwrap_or_default(),
            ..Launch::new([size, 1, 1], [THREADS, 1, 1])
        };
        if jit.is_none() {
            exec::run_checked(kernel, &launch, &memory).0.unwrap();
        } else {
            exec::run(kernel, &launch, &memory).unwrap();
        }
    }
    memory.get(out)
}

#[test]
fn a_block_finds_the_registers_as_the_first_block_does() {
    for seed in share::numbers(150, 20_000) {
        let source = program(seed);
        let module = ptx::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let kernel = module.kernel("k").unwrap();
        let alone = run(kernel, 1, None);
        for jit in [None, Some(Jit::Off), Some(Jit::AtOnce)] {
            assert_eq!(run(kernel, BLOCKS, jit), alone, "{jit:?} {source}");
        }
        assert_eq!(run(kernel, 1, Some(Jit::AtOnce)), alone, "{source}");
    }
}
