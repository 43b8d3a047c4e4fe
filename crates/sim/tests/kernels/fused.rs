//! Kernels executed by machine code, compared with the interpreter: memory, statistics, faults and
//! recorded accesses.
#![allow(unsafe_code, reason = "refuses executable memory to its own process")]

use std::fmt::Write;

use millstream_sim::exec::{
    self, AccessBitmap, GlobalMemory, Jit, KernelFault, KernelStats, Launch, Region, TracedRegion,
};
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
        let memory = Recorded::new(memory.clone());
        let ran = exec::run(kernel, &Launch { jit, ..*launch }, &memory);
        let runs = memory.bitmaps.iter().map(|(_, bitmap)| bitmap.runs());
        (ran, runs.collect::<Vec<_>>(), memory.memory)
    };
    let (interpreted, runs, memory) = run(Jit::Off);
    for jit in [Jit::On, Jit::AtOnce] {
        let (ran, found, after) = run(jit);
        assert_eq!(ran, interpreted, "{jit:?}");
        assert_eq!(found, runs, "{jit:?}: the recorded accesses");
        assert!(after == memory, "{jit:?}: the memory differs");
    }
    interpreted
}

/// Memory whose accesses are recorded.
struct Recorded {
    memory: DeviceMemory,
    bitmaps: Vec<(u64, AccessBitmap)>,
}

impl Recorded {
    fn new(memory: DeviceMemory) -> Self {
        let regions = memory.addresses().filter_map(|base| memory.region(base));
        let bitmap = |region: Region<'_>| (region.base, AccessBitmap::new(region.bytes.len()));
        let bitmaps = regions.map(bitmap).collect();
        Self { memory, bitmaps }
    }
}

impl GlobalMemory for Recorded {
    fn region(&self, address: u64) -> Option<Region<'_>> {
        self.memory.region(address)
    }

    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        let region = self.region(address)?;
        let of = self.bitmaps.iter().find(|(base, _)| *base == region.base);
        Some(TracedRegion {
            region,
            bitmap: of.map(|(_, bitmap)| bitmap),
        })
    }
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
        let path = format!(
            "{}/{folder}/{}.ptx",
            concat!(env!("CARGO_MANIFEST_DIR"), "/.."),
            words[0]
        );
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

/// Returns a random kernel of a text such as `fused.txt`.
pub(crate) fn random_kernel(text: &str, seed: u64) -> String {
    let mut next = numbers(seed);
    let mut pick = move |count: usize| (next() >> 33) as usize % count;
    let start = text.find(".version").unwrap();
    let (frame, statements) = text[start..].split_once("STATEMENTS\n").unwrap();
    let (indices, weighted): (Vec<_>, Vec<_>) = statements
        .lines()
        .partition(|line| line.starts_with("INDEX"));
    let weighted = weighted.into_iter().flat_map(|line| {
        let (weight, statement) = line.split_once(' ').unwrap();
        std::iter::repeat_n(statement, weight.parse().unwrap())
    });
    let weighted: Vec<&str> = weighted.collect();
    let (mut body, mut open, mut unread) = (String::new(), Vec::new(), Vec::new());
    for number in 0..12 + pick(40) {
        let index = indices[pick(indices.len())].strip_prefix("INDEX").unwrap();
        let mut line = weighted[pick(weighted.len())].replace("INDEX", index);
        for (new, old, known) in [("OPEN", "CLOSE", &mut open), ("NEW", "OLD", &mut unread)] {
            if line.contains(new) {
                known.push(number);
                line = line.replace(new, &number.to_string());
            } else if line.contains(old) {
                let number = known.pop().map(|number| number.to_string());
                line = number.map_or(String::new(), |number| line.replace(old, &number));
            }
        }
        body += &line;
        body.push('\n');
    }
    let _ = open
        .iter()
        .try_for_each(|number| writeln!(body, "L{number}:"));
    let mut kernel = frame.replace("BODY", &body);
    for (word, choice) in [
        ("GUARD ", "<@%p |@!%q ||||>"),
        ("LOAD", "ld<.global|.global|.global||.volatile.global>"),
        ("STORE", "st<.global|.global|.global||.volatile.global>"),
    ] {
        kernel = kernel.replace(word, choice);
    }
    let mut chosen = String::new();
    for line in kernel.lines() {
        for statement in line.split_inclusive(';') {
            let repeated = statement.trim_start().strip_prefix("WIDE ");
            match repeated {
                Some(statement) => (0..14).for_each(|at: u32| {
                    chosen += &statement.replace('#', &at.to_string());
                }),
                None => chosen += statement,
            }
        }
        chosen.push('\n');
    }
    let mut parts = chosen.split('<');
    let mut kernel = parts.next().unwrap().to_owned();
    for part in parts {
        let (choice, rest) = part.split_once('>').unwrap();
        let choices: Vec<&str> = choice.split('|').collect();
        let number = |text: &str| text.parse::<usize>().unwrap();
        kernel += &match (choices.len(), choice.split_once('*')) {
            (1, Some((count, by))) => (pick(number(count)) * number(by)).to_string(),
            (1, None) => pick(number(choice)).to_string(),
            (count, _) => choices[pick(count)].to_owned(),
        };
        kernel += rest;
    }
    kernel.replace("[[", "<").replace("]]", ">")
}

#[test]
fn random_kernels_find_the_same_values_faults_and_records() {
    let (mut ran, mut failed) = (0, 0);
    for seed in share::numbers(300, 200_000) {
        let source = random_kernel(include_str!("fused.txt"), seed);
        let module = ptx::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let kernel = module.kernel("k").unwrap();
        for (blocks, threads) in [(1, 32), (3, 64), (2, 96), (2, 41)] {
            let mut memory = DeviceMemory::default();
            let mut random = numbers(seed + 1);
            let mut array = |words: u64| {
                let word = |_| match random() >> 61 {
                    0 => 0x7f80_0000 + (random() >> 60) as u32,
                    1 => (random() >> 42) as u32,
                    _ => (random() >> 32) as u32,
                };
                memory.put(&(0..words).map(word).collect::<Vec<u32>>())
            };
            let [a, b, c] = [array(1650), array(1800), array(1600)];
            let out = array(8 * 192);
            if seed % 11 == 0 {
                memory.protect(a);
            }
            let params = params(
                kernel,
                &values![a, b + [0, 0, 0, 4, 2][seed as usize % 5], c, out],
            );
            let launch = Launch {
                params: &params,
                // Blocks that access the same memory run in order.
                cooperative: blocks > 1,
                ..Launch::new([blocks, 1, 1], [threads, 1, 1])
            };
            let run = std::panic::AssertUnwindSafe(|| compare(kernel, &memory, &launch));
            let outcome = std::panic::catch_unwind(run);
            match outcome.unwrap_or_else(|_| panic!("seed {seed}\n{source}")) {
                Ok(_) => ran += 1,
                Err(_) => failed += 1,
            }
        }
    }
    assert!(ran > 0 && failed > 0, "{ran} kernels ran, {failed} failed");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn kernels_are_interpreted_and_that_is_said_once_if_memory_cannot_be_made_executable() {
    const REFUSED: &str = "MILLSTREAM_TEST_REFUSES_EXECUTABLE_MEMORY";
    if std::env::var_os(REFUSED).is_some() {
        unsafe extern "C" {
            fn prctl(option: i32, flags: u64, unused: u64, _: u64, _: u64) -> i32;
        }
        // PR_SET_MDWE, as hardened systems do. SAFETY: the call takes numbers only.
        let refused = unsafe { prctl(65, 1, 0, 0, 0) == 0 };
        the_kernels_of_the_benchmark_run_as_interpreted();
        // An older kernel of the system cannot refuse it.
        std::process::exit(if refused { 0 } else { 3 });
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env(REFUSED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    let times = said
        .matches("the system refuses memory for machine code")
        .count();
    if std::arch::is_x86_feature_detected!("avx2") && child.status.code() != Some(3) {
        assert_eq!((child.status.code(), times), (Some(0), 1), "{said}");
    }
}
