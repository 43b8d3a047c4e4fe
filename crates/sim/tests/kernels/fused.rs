//! Kernels executed by machine code, compared with the interpreter: memory, statistics and faults.

use std::fmt::Write;

use millstream_sim::exec::{self, Jit, KernelFault, KernelStats, Launch};
use millstream_sim::ptx::{self, Kernel};
use millstream_testkit::share;

use crate::kernels::memory::{DeviceMemory, params, values};
use crate::kernels::oracle::numbers;

/// Runs a kernel with and without machine code, and checks that the outcomes are equal.
fn compare(
    kernel: &Kernel,
    memory: &DeviceMemory,
    launch: &Launch<'_>,
) -> Result<KernelStats, KernelFault> {
    let run = |jit| {
        let memory = memory.clone();
        let ran = exec::run(kernel, &Launch { jit, ..*launch }, &memory);
        (ran, memory)
    };
    let (interpreted, memory) = run(Jit::Off);
    for jit in [Jit::On, Jit::AtOnce] {
        let (ran, after) = run(jit);
        assert_eq!(ran, interpreted, "{jit:?}");
        assert!(after == memory, "{jit:?}: the memory differs");
    }
    interpreted
}

/// Returns the kernels of the benchmark `speed`: files, kernels, grids, blocks and arguments.
fn benchmarks() -> Vec<Vec<&'static str>> {
    let lines = include_str!("../../benches/speed/cases.txt").lines();
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>();
    let cases = lines.filter(|line| !line.starts_with('#')).map(words);
    // The others are the same kernels in other sizes, or update memory without an order.
    let other = ["vecadd_32", "launch", "start", "cas_max"];
    cases
        .filter(|words| !other.contains(&words[1]) && !words[1].ends_with("_long"))
        .collect()
}

#[test]
fn the_kernels_of_the_benchmark_run_as_interpreted() {
    for words in benchmarks() {
        let folder = match words[0] {
            "speed" => "benches/speed",
            _ => "../../kernels",
        };
        let path = format!("{}/{folder}/{}.ptx", env!("CARGO_MANIFEST_DIR"), words[0]);
        let module = ptx::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let kernel = module.kernel(words[1]).unwrap();
        let mut memory = DeviceMemory::default();
        let mut random = numbers(share::day());
        let mut arguments = Vec::new();
        for argument in &words[5..] {
            let (kind, value) = argument.split_once(':').unwrap();
            arguments.push(match kind {
                "array" => {
                    // Positive numbers around 1, which are small integers in their high bytes.
                    let words = value.parse::<usize>().unwrap() / 4;
                    let word = |_| 0x3e80_0000 + (random() >> 40) as u32;
                    values![memory.put(&(0..words).map(word).collect::<Vec<u32>>())].concat()
                }
                "f32" => values![value.parse::<f32>().unwrap()].concat(),
                "f64" => values![value.parse::<f64>().unwrap()].concat(),
                _ => values![value.parse::<u32>().unwrap()].concat(),
            });
        }
        let shape = |text: &str| {
            let mut sizes = text.split('x').map(|size| size.parse().unwrap());
            std::array::from_fn(|_| sizes.next().unwrap())
        };
        let params = params(kernel, &arguments);
        let launch = Launch {
            params: &params,
            ..Launch::new(shape(words[3]), shape(words[4]))
        };
        let ran = compare(kernel, &memory, &launch);
        assert!(ran.is_ok(), "{}: {ran:?}", words[1]);
    }
}

/// Returns a kernel that loads from shared memory by addresses of any pattern, within loops and
/// branches, and stores a hash of its registers.
fn loads(seed: u64) -> String {
    let mut next = numbers(seed);
    let mut pick = |count: u64| (next() >> 33) % count;
    let mut body = String::new();
    for number in 0..8 {
        let (base, step) = (pick(3), pick(3));
        let address = match pick(9) {
            0 | 1 => format!("mul.lo.u32 %r{base}, %t, 4;"),
            2 => format!("mov.u32 %r{base}, {};", 4 * pick(64)),
            3 => format!("and.b32 %r{base}, %t, 28; mul.lo.u32 %r{base}, %r{base}, 4;"),
            4 => format!("shr.u32 %r{base}, %t, 4; mul.lo.u32 %r{base}, %r{base}, 64;"),
            // The end of the memory, and lanes beyond it that may not be active.
            5 => format!(
                "mul.lo.u32 %r{base}, %t, 4; add.u32 %r{base}, %r{base}, {};",
                4 * pick(8) + 860
            ),
            6 => format!("mul.lo.u32 %r{base}, %t, {};", 4 * pick(5)),
            7 => format!("cvt.u64.u32 %d{base}, %r{base};"),
            _ => format!(
                "xor.b32 %r{base}, %t, {}; mul.lo.u32 %r{base}, %r{base}, 4;",
                pick(16)
            ),
        };
        let _ = writeln!(body, "{address}");
        if pick(3) == 0 {
            let _ = writeln!(
                body,
                "setp.lt.u32 %p, %t, {};\n@%p bra L{number};",
                pick(40)
            );
        }
        // More values than vector registers, so that a load must store some: a predicate, too.
        body.push_str("setp.lt.u32 %q, %h, %m;\n");
        let many = pick(2) * 14;
        for value in 0..many {
            let _ = writeln!(body, "add.u32 %w{value}, %h, {value};");
        }
        for _ in 0..1 + pick(4) {
            let from = match pick(3) {
                0 => format!("%d{}", pick(3)),
                _ => format!("%r{}", pick(3)),
            };
            let offset = 4 * pick(5) * pick(4);
            let _ = writeln!(body, "ld.shared.b32 %v{step}, [{from}+{offset}];");
            let _ = writeln!(
                body,
                "mad.lo.u32 %h, %h, 31, %v{step}; xor.b32 %h, %h, %v{};",
                pick(3)
            );
        }
        for value in 0..many {
            let _ = writeln!(body, "xor.b32 %h, %h, %w{value};");
        }
        body.push_str("selp.b32 %h, %h, %t, %q;\n");
        let _ = writeln!(body, "L{number}:");
    }
    let size = pick(3) * 16;
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry k(.param .u64 out) {{\n\
         .shared .align 4 .b8 s[{}];\n\
         .reg .pred %p, %q; .reg .b32 %w<14>, %r<3>; .reg .b64 %d<3>; .reg .b32 %v<3>;\n\
         .reg .b32 %h; .reg .b32 %t; .reg .b32 %m; .reg .b64 %to;\n\
         mov.u32 %t, %tid.x; mad.lo.u32 %m, %t, 2654435761, 12345;\n\
         mul.lo.u32 %r0, %t, 4; st.shared.b32 [%r0], %m; st.shared.b32 [%r0+256], %m;\n\
         bar.sync 0;\n{body}\
         mov.u32 %m, %ctaid.x; mad.lo.u32 %m, %m, 64, %t;\n\
         ld.param.u64 %to, [out]; mad.wide.u32 %to, %m, 4, %to; st.global.u32 [%to], %h; ret;\n}}",
        960 + size
    )
}

#[test]
fn loads_from_shared_memory_find_the_same_values_and_faults() {
    let (mut ran, mut failed) = (0, 0);
    for seed in share::numbers(200, 50_000) {
        let source = loads(seed);
        let module = ptx::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let kernel = module.kernel("k").unwrap();
        for threads in [64, 40, 9] {
            let mut memory = DeviceMemory::default();
            let params = params(kernel, &values![memory.put(&[0u32; 192])]);
            let launch = Launch {
                params: &params,
                ..Launch::new([3, 1, 1], [threads, 1, 1])
            };
            match compare(kernel, &memory, &launch) {
                Ok(_) => ran += 1,
                Err(_) => failed += 1,
            }
        }
    }
    assert!(ran > 0 && failed > 0, "{ran} kernels ran, {failed} failed");
}
