//! Instructions and kernels compared with the results of an H200.
//!
//! Each line of `oracle/exact.txt` is an instruction (or a few), with a hash of the 2048 results
//! that the GPU produced for the inputs below; the interpreter must produce the same, bit for bit.
//! `oracle/approximate.txt` has some results of each instruction that the GPU itself only
//! approximates, with the largest error permitted to the interpreter. `oracle/kernels.txt` has
//! launches of kernels that NVRTC 12.0 compiled from `oracle/kernels.cu` (`fast.ptx` with
//! `--use_fast_math`), with hashes of their buffers after the launch. `oracle/launches.txt` has
//! those of the project's kernels at the edges of their sizes, which a sequential program computed,
//! too. `oracle/compiled.txt` has those of kernels that NVRTC compiled with CUDA's libraries.

use std::path::PathBuf;

use millstream_sim::exec::{self, Jit, Launch};
use millstream_sim::ptx;

use crate::kernels::memory::{DeviceMemory, Value, load_from, params};

/// The number of threads, each with different inputs.
const THREADS: usize = 2048;

/// Returns the bits of the corner cases of a mode.
fn corners(mode: char) -> Vec<u64> {
    let modes = include_str!("oracle/corners.txt").lines();
    let mut words = modes.map(str::split_whitespace);
    let line = words.find_map(|mut words| words.next()?.starts_with(mode).then_some(words));
    let bits = line.unwrap().map(|word| u64::from_str_radix(word, 16));
    bits.collect::<Result<_, _>>().unwrap()
}

/// Creates a generator of pseudo-random numbers, the same on every machine.
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(0x0123_4567);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Returns the three inputs of each thread: pairs of corner cases, then random ones. The mode
/// selects the type: `i`ntegers, singles (`f`), `d`oubles or `h`alves.
pub(crate) fn inputs(mode: char) -> Vec<[u64; 3]> {
    let corners = corners(mode);
    let mut next = numbers(u64::from(mode));
    (0..THREADS)
        .map(|k| {
            if k < 1024 {
                return [
                    corners[k / 32],
                    corners[k % 32],
                    corners[(k * 7 + k / 32 + 3) % 32],
                ];
            }
            std::array::from_fn(|_| {
                let x = next();
                match mode {
                    'f' => x & 0x807f_ffff | (96 + (x >> 32) % 64) << 23,
                    'd' if k % 2 == 1 => x & 0x800f_ffff_ffff_ffff | (1000 + (x >> 53) % 48) << 52,
                    'h' => x & 0xffff_ffff,
                    _ => x,
                }
            })
        })
        .collect()
}

/// The kernel's text before the instruction: it loads the inputs into registers of every type,
/// numbered from 1.
const HEAD: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .pred %p<10>; .reg .b16 %rs<10>; .reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .f32 %f<10>; .reg \
.f64 %fd<10>;
.reg .b32 %i<4>; .reg .b64 %a<4>;
ld.param.u64 %a1, [in]; ld.param.u64 %a2, [out];
mov.u32 %i1, %tid.x; mov.u32 %i2, %ctaid.x; mov.u32 %i3, %ntid.x; mad.lo.u32 %i1, %i2, %i3, %i1;
mad.wide.u32 %a1, %i1, 24, %a1; mad.wide.u32 %a2, %i1, 8, %a2;
ld.global.u64 %rd1, [%a1]; ld.global.u64 %rd2, [%a1+8]; ld.global.u64 %rd3, [%a1+16];
cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; cvt.u32.u64 %r3, %rd3;
cvt.u16.u64 %rs1, %rd1; cvt.u16.u64 %rs2, %rd2; cvt.u16.u64 %rs3, %rd3;
mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
mov.b64 %fd1, %rd1; mov.b64 %fd2, %rd2; mov.b64 %fd3, %rd3;
and.b32 %i2, %r1, 1; setp.ne.u32 %p1, %i2, 0; and.b32 %i2, %r2, 1; setp.ne.u32 %p2, %i2, 0;
mov.u64 %rd9, 0;
";

/// Runs an instruction for every input. Returns the register numbered 0 of each thread: `r`, `d`
/// (64-bit), `h` (16-bit), `f`, `g` (f64) or `p`.
pub(crate) fn run_instruction(
    mode: char,
    result: char,
    body: &str,
    jit: Jit,
) -> Result<Vec<u64>, String> {
    let tail = match result {
        'r' => "cvt.u64.u32 %rd9, %r0;",
        'd' => "mov.u64 %rd9, %rd0;",
        'h' => "cvt.u64.u16 %rd9, %rs0;",
        'f' => "mov.b32 %r9, %f0; cvt.u64.u32 %rd9, %r9;",
        'g' => "mov.b64 %rd9, %fd0;",
        _ => "selp.u64 %rd9, 1, 0, %p0;",
    };
    let source = format!("{HEAD}{body}\n{tail}\nst.global.u64 [%a2], %rd9;\nret;\n}}\n");
    let module = ptx::parse(&source).map_err(|error| error.to_string())?;
    let mut memory = DeviceMemory::default();
    let input = memory.put(&inputs(mode).concat());
    let output = memory.put(&[0u64; THREADS]);
    let kernel = module.kernel("k").ok_or("no kernel")?;
    let params = params(kernel, &[input.bytes(), output.bytes()]);
    let launch = Launch {
        params: &params,
        jit,
        ..Launch::new([8, 1, 1], [256, 1, 1])
    };
    exec::run(kernel, &launch, &memory).map_err(|fault| fault.to_string())?;
    Ok(memory.get(output))
}

fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.into_iter().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn file(name: &str) -> String {
    let folder: PathBuf = [
        concat!(env!("CARGO_MANIFEST_DIR"), "/.."),
        "tests",
        "kernels",
        "oracle",
        name,
    ]
    .iter()
    .collect();
    std::fs::read_to_string(folder).unwrap()
}

#[test]
fn instructions_give_what_the_gpu_gave() {
    let mut wrong = Vec::new();
    let lines = file("exact.txt");
    for line in lines.lines() {
        let [head, body, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let mut head = head.chars();
        let (mode, result) = (head.next().unwrap(), head.nth(1).unwrap());
        for jit in [Jit::Off, Jit::AtOnce] {
            let found = match run_instruction(mode, result, body, jit) {
                Ok(values) => format!(
                    "{:016x}",
                    hash(values.into_iter().flat_map(u64::to_le_bytes))
                ),
                Err(error) => error,
            };
            if found != expected {
                wrong.push(format!("{jit:?}: {body} gives {found}, not {expected}"));
            }
        }
    }
    assert!(lines.lines().count() > 900);
    assert!(
        wrong.is_empty(),
        "{} instructions differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns the distance of two results, in units of the last place or as a number.
fn distance(result: char, relative: bool, a: u64, b: u64) -> f64 {
    let bits = match result {
        'f' | 'r' => 32,
        'g' => 64,
        _ => 16,
    };
    let ordered = |value: u64| {
        let magnitude = i128::from(value & (u64::MAX >> (65 - bits)));
        if value >> (bits - 1) & 1 == 1 {
            -magnitude
        } else {
            magnitude
        }
    };
    if relative {
        return ordered(a).abs_diff(ordered(b)) as f64;
    }
    let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    if a == b || (a.is_nan() && b.is_nan()) {
        0.0
    } else {
        f64::from((a - b).abs())
    }
}

#[test]
fn approximations_are_near_to_the_gpus() {
    for line in file("approximate.txt").lines() {
        let [head, body, bound, samples] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (mode, result) = (head.chars().next().unwrap(), head.chars().nth(2).unwrap());
        let (kind, bound) = bound.split_once(' ').unwrap();
        let bound: f64 = match bound.split_once('^') {
            Some((_, exponent)) => 2f64.powi(exponent.parse().unwrap()),
            None => bound.parse().unwrap(),
        };
        let values = run_instruction(mode, result, body, Jit::AtOnce).unwrap();
        for sample in samples.split(' ') {
            let (thread, expected) = sample.split_once(':').unwrap();
            let thread: usize = thread.parse().unwrap();
            let expected = u64::from_str_radix(expected, 16).unwrap();
            let input = inputs(mode)[thread];
            // Sine and cosine have an error bound only from -π to π; the logarithm has an absolute
            // bound near 1 and a relative one elsewhere.
            let x = f32::from_bits(input[0] as u32);
            if body.contains("sin") || body.contains("cos") {
                if x.abs() > std::f32::consts::PI {
                    continue;
                }
            } else if body.starts_with("lg2") && !(0.5..=2.0).contains(&x) {
                assert!(
                    distance(result, true, values[thread], expected) <= 2.0,
                    "{body} of {x}"
                );
                continue;
            }
            // Both halves of a packed pair must be close.
            let halves = if body.contains("x2") {
                &[0, 16][..]
            } else {
                &[0]
            };
            for shift in halves {
                let width = if body.contains("x2") {
                    0xffff
                } else {
                    u64::MAX
                };
                let (found, expected) =
                    (values[thread] >> shift & width, expected >> shift & width);
                let result = if body.contains("x2") { 'h' } else { result };
                let distance = distance(result, kind == "ulp", found, expected);
                assert!(
                    distance <= bound,
                    "{body} of {input:x?} gives {found:x}, not {expected:x}"
                );
            }
        }
    }
}

/// Creates an argument of a kernel of `kernels.txt`: `z:bytes` zeros, `b:bytes:seed` bytes,
/// `i:count:seed:limit` small integers, `w:count:seed` words, `f:` and `d:count:seed` numbers from
/// -1 to 1, `p:count:seed` singles from 0 to 1, `v3:x,y,z` three singles by value, or a typed
/// scalar.
fn argument(text: &str, memory: &mut DeviceMemory, buffers: &mut Vec<u64>) -> Vec<u8> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize| parts[at].parse::<u64>().unwrap();
    let values = |count: u64, seed: u64| -> Vec<u64> {
        let mut next = numbers(seed);
        (0..count).map(|_| next()).collect()
    };
    let unit = |bits: u64| ((bits >> 32) as f64 - 2f64.powi(31)) / 2f64.powi(31);
    let bytes: Vec<u8> = match parts[0] {
        "u32" => return (number(1) as u32).bytes(),
        "u64" => return number(1).bytes(),
        "f32" => return parts[1].parse::<f32>().unwrap().bytes(),
        "f64" => return parts[1].parse::<f64>().unwrap().bytes(),
        "i32" => return parts[1].parse::<i32>().unwrap().bytes(),
        "v3" => {
            return parts[1]
                .split(',')
                .flat_map(|value| value.parse::<f32>().unwrap().bytes())
                .collect();
        }
        "z" => vec![0; number(1) as usize],
        "b" => {
            let words = values(number(1).div_ceil(8), number(2));
            words
                .into_iter()
                .flat_map(u64::to_le_bytes)
                .take(number(1) as usize)
                .collect()
        }
        "i" => {
            let limit = number(3) as i64;
            let small = |bits: u64| ((bits >> 33) as i64 % (2 * limit) - limit) as i32;
            values(number(1), number(2))
                .into_iter()
                .flat_map(|bits| small(bits).bytes())
                .collect()
        }
        "w" => values(number(1), number(2))
            .into_iter()
            .flat_map(|bits| ((bits >> 32) as u32).bytes())
            .collect(),
        "f" => values(number(1), number(2))
            .into_iter()
            .flat_map(|bits| (unit(bits) as f32).bytes())
            .collect(),
        "p" => values(number(1), number(2))
            .into_iter()
            .flat_map(|bits| (unit(bits) as f32).abs().bytes())
            .collect(),
        "d" => values(number(1), number(2))
            .into_iter()
            .flat_map(|bits| unit(bits).bytes())
            .collect(),
        other => panic!("{other}"),
    };
    let address = memory.put(&bytes);
    buffers.push(address);
    address.bytes()
}

/// Runs a line of `kernels.txt` or `launches.txt` of a module, and returns hashes of its buffers
/// after the launch.
fn run_kernel(
    module: &ptx::Module,
    line: &str,
    jit: Jit,
    run: impl FnOnce(&ptx::Kernel, &Launch<'_>, &DeviceMemory),
) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, kernel, grid, block, shared, arguments @ ..] = &words[..] else {
        panic!("{line}")
    };
    let kernel = module.kernel(kernel).unwrap();
    let mut memory = DeviceMemory::default();
    let mut buffers = Vec::new();
    let values: Vec<_> = arguments
        .iter()
        .map(|argument_| argument(argument_, &mut memory, &mut buffers))
        .collect();
    let variables: Vec<u64> = module
        .variables()
        .iter()
        .map(|variable| {
            let mut bytes = variable.initial.clone();
            bytes.resize(variable.size, 0);
            memory.put(&bytes)
        })
        .collect();
    let shape = |text: &str| -> [u32; 3] {
        text.split(',')
            .map(|size| size.parse().unwrap())
            .collect::<Vec<u32>>()
            .try_into()
            .unwrap()
    };
    let launch = Launch {
        params: &params(kernel, &values),
        variables: &variables,
        dynamic_shared_bytes: shared.parse().unwrap(),
        jit,
        ..Launch::new(shape(grid), shape(block))
    };
    run(kernel, &launch, &memory);
    let hashes = buffers
        .iter()
        .map(|address| format!("{:016x}", hash(memory.get(*address))));
    hashes.collect::<Vec<_>>().join(" ")
}

#[test]
fn kernels_of_a_compiler_give_what_the_gpu_gave() {
    for line in file("kernels.txt").lines() {
        let (line, expected) = line.split_once(" | ").unwrap();
        let name = line.split(' ').next().unwrap();
        let module = ptx::parse(&file(&format!("{name}.ptx"))).unwrap();
        for jit in [Jit::Off, Jit::AtOnce] {
            let found = run_kernel(&module, line, jit, |kernel, launch, memory| {
                exec::run(kernel, launch, memory).unwrap();
            });
            assert_eq!(found, expected, "{jit:?} {line}");
        }
    }
}

/// Kernels that may race: `cas_max` reads a value non-atomically before it tries to replace it
/// atomically.
const RACY: [&str; 1] = ["cas_max"];

#[test]
fn kernels_that_do_not_race_give_known_results_with_the_race_check_too() {
    let folders = [
        ("launches.txt", "../../kernels"),
        ("compiled.txt", "tests/ptx/compiled"),
    ];
    for (lines, folder) in folders {
        for line in file(lines).lines() {
            let (line, expected) = line.split_once(" | ").unwrap();
            let module = load_from(folder, line.split(' ').next().unwrap());
            for jit in [Jit::Off, Jit::AtOnce] {
                let found = run_kernel(&module, line, jit, |kernel, launch, memory| {
                    exec::run(kernel, launch, memory).unwrap();
                });
                assert_eq!(found, expected, "{jit:?} {line}");
            }
            let checked = run_kernel(&module, line, Jit::Off, |kernel, launch, memory| {
                let (ran, races) = exec::run_checked(kernel, launch, memory);
                ran.unwrap();
                let may = RACY.contains(&kernel.name());
                assert!(races.is_empty() || may, "{line}: {races:#?}");
            });
            assert_eq!(
                checked, expected,
                "checking for races changes values: {line}"
            );
        }
    }
}
