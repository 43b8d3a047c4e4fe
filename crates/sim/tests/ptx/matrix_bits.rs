//! Scenario M1: the bits of matrix products, on the simulated device and on a GPU.
//!
//! Each instruction gets registers of seven strata, which `operand` describes. A hash of the
//! results must be the recorded one of an H100, on both devices. On a GPU the results are also
//! compared with a simulated device's: those of 100,000 instructions of each stratum with
//! `MILLSTREAM_WHOLE=1`.

use std::fmt::Write as _;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use millstream_driver::LaunchDims;

use super::device::TestDevice;

/// The hashes: an instruction, a stratum and the hash of its results in each line.
const RECORDED: &str = include_str!("matrix_bits.txt");

/// The lanes of a warp.
const LANES: usize = 32;

/// The instructions whose results are hashed, for each stratum.
const HASHED: usize = 64;

/// Numbers of floating-point types, or integers.
#[derive(Clone, Copy, PartialEq)]
struct Format {
    name: &'static str,
    bits: u32,
    exponent: u32,
    fraction: u32,
}

const fn format(name: &'static str, bits: u32, exponent: u32, fraction: u32) -> Format {
    Format {
        name,
        bits,
        exponent,
        fraction,
    }
}

const F16: Format = format("f16", 16, 5, 10);
const BF16: Format = format("bf16", 16, 8, 7);
const TF32: Format = format("tf32", 32, 8, 23);
const E4M3: Format = format("e4m3", 8, 4, 3);
const E5M2: Format = format("e5m2", 8, 5, 2);
const F32: Format = format("f32", 32, 8, 23);
const F64: Format = format("f64", 64, 11, 52);
const S8: Format = format("s8", 8, 0, 0);
const U8: Format = format("u8", 8, 0, 0);
const S32: Format = format("s32", 32, 0, 0);

/// A dense product with `n` = 8.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    k: usize,
    a: Format,
    b: Format,
    c: Format,
    saturate: bool,
}

impl Product {
    fn mnemonic(&self) -> String {
        let Self { m, k, a, b, c, .. } = self;
        let saturate = if self.saturate { ".satfinite" } else { "" };
        let (a, b, c) = (a.name, b.name, c.name);
        format!("mma.sync.aligned.m{m}n8k{k}.row.col{saturate}.{c}.{a}.{b}.{c}")
    }

    /// Returns the number of registers of `A`, `B` and `C`.
    fn registers(&self) -> [usize; 3] {
        let warps = if self.m == 8 && self.a == F16 { 4 } else { 1 };
        let elements = [self.m * self.k, self.k * 8, self.m * 8];
        let formats = [self.a, self.b, self.c];
        [0, 1, 2].map(|at| {
            let bits = elements[at] * warps * formats[at].bits as usize;
            bits / LANES / formats[at].bits.max(32) as usize
        })
    }

    /// Returns the text of a kernel `k(a, b, c, d)`: each warp of blocks of eight executes the
    /// instruction on the registers of its lanes, which lie one after the other.
    fn ptx(&self) -> String {
        let bytes = self.a.bits.max(32) / 8;
        let bits = 8 * bytes;
        let registers = self.registers();
        let mut text = format!(
            ".version 8.7\n.target sm_90\n.address_size 64\n\
             .visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{\n\
             .reg .b{bits} %a<9>, %b<9>, %c<9>, %d<9>;\n.reg .b32 %r<6>;\n.reg .b64 %x<9>;\n\
             mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.x;\nmad.lo.u32 %r2, %r0, 256, %r1;\n\
             and.b32 %r3, %r1, 31;\nshr.u32 %r4, %r2, 5;\n"
        );
        let operands = ["a", "b", "c", "d"].map(|name| {
            let count = registers[if name == "d" {
                2
            } else {
                usize::from(name.as_bytes()[0] - 97)
            }];
            let list: Vec<_> = (0..count).map(|at| format!("%{name}{at}")).collect();
            list.join(", ")
        });
        let mut all = |load: bool| {
            for (at, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
                if load == (name == "d") {
                    continue;
                }
                let count = registers[at.min(2)];
                let line = 32 * count;
                let _ = write!(
                    text,
                    "mad.lo.u32 %r5, %r4, {line}, %r3;\nmul.wide.u32 %x0, %r5, {bytes};\n\
                     ld.param.u64 %x1, [p{at}];\nadd.u64 %x1, %x1, %x0;\n"
                );
                for register in 0..count {
                    let place = format!("[%x1+{}]", register as u32 * 32 * bytes);
                    let _ = if load {
                        writeln!(text, "ld.global.b{bits} %{name}{register}, {place};")
                    } else {
                        writeln!(text, "st.global.b{bits} {place}, %{name}{register};")
                    };
                }
            }
            if load {
                let [a, b, c, d] = &operands;
                let mnemonic = self.mnemonic();
                let _ = writeln!(text, "{mnemonic} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};");
            }
        };
        all(true);
        all(false);
        text + "ret;\n}\n"
    }
}

fn products() -> Vec<Product> {
    let mut products = Vec::new();
    let mut add = |shapes: &[(usize, usize)], a, b, c, saturate| {
        products.extend(shapes.iter().map(|&(m, k)| Product {
            m,
            k,
            a,
            b,
            c,
            saturate,
        }));
    };
    for sum in [F32, F16] {
        add(&[(16, 8), (16, 16), (8, 4)], F16, F16, sum, false);
    }
    add(&[(16, 8), (16, 16)], BF16, BF16, F32, false);
    add(&[(16, 4), (16, 8)], TF32, TF32, F32, false);
    add(&[(8, 4), (16, 4), (16, 8), (16, 16)], F64, F64, F64, false);
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for sum in [F32, F16] {
            add(
                &[(16, 16), (16, 32)],
                [E4M3, E5M2][a],
                [E4M3, E5M2][b],
                sum,
                false,
            );
        }
        for saturate in [false, true] {
            add(
                &[(8, 16), (16, 16), (16, 32)],
                [S8, U8][a],
                [S8, U8][b],
                S32,
                saturate,
            );
        }
    }
    products
}

const STRATA: [&str; 7] = [
    "near",
    "cancelling",
    "wide",
    "subnormal",
    "special",
    "bits",
    "low",
];

/// Returns the `number`th random number.
fn random(number: u64) -> u64 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the bits of a number of a stratum.
fn element(format: Format, stratum: &str, random: u64) -> u64 {
    let all = u64::MAX >> (64 - format.bits);
    let pick = random >> 40;
    if format.exponent == 0 {
        return all
            & match (stratum, format.bits) {
                ("near" | "bits" | "low", _) => random,
                (_, 8) => [0x80, 0x7f, 0xff][(pick % 3) as usize],
                _ if pick.is_multiple_of(2) => 0x7fff_ffff - random % 400_000,
                _ => 0x8000_0000 + random % 400_000,
            };
    }
    let last = (1_u64 << format.exponent) - 1;
    let bias = last >> 1;
    let (field, fraction) = match stratum {
        "near" | "cancelling" => (bias - 3 + pick % 7, random),
        "wide" => (1 + pick % (last - 1), random),
        "subnormal" => match pick % 4 {
            0 => (bias - 2 + pick / 4 % 5, random),
            _ => (pick / 4 % if format.exponent > 5 { 6 } else { 3 }, random),
        },
        // Products below the smallest number of single precision.
        "low" => match (pick % 5, format.exponent) {
            (0, _) => (0, 0),
            (1, 8) if format == F32 => (0, random >> (pick / 8 % 23)),
            (_, 8) => (bias - 90 + pick / 8 % 30, random),
            _ => (pick / 8 % 4, random),
        },
        "special" => match pick % 16 {
            0 => (0, 0),
            1 => (last, 0),
            2 => (last, random),
            3 => (0, 1),
            4 | 5 => (last - 1, u64::MAX),
            6 => (bias, 0),
            7 => (1, 0),
            8..=11 => (0, 0),
            _ => (pick / 16 % last, random),
        },
        _ => (random >> 1 & last, random >> 20),
    };
    let fraction = fraction >> 3 & ((1 << format.fraction) - 1) | fraction & 1;
    (random >> 63) << (format.bits - 1) | field << format.fraction | fraction
}

/// Returns the registers of an operand, as little-endian bytes: `registers` of 32 lanes for each
/// instruction from `first` on. In the stratum `cancelling`, of two adjacent elements along `k` one
/// is the other's negative in `A`, and the same or a neighbour in `B`.
fn operand(
    (which, format): (u64, Format),
    stratum: &str,
    registers: usize,
    instructions: std::ops::Range<usize>,
) -> Vec<u8> {
    let word = format.bits.max(32);
    let packed = word / format.bits;
    let mut bytes = Vec::new();
    for instruction in instructions {
        for at in 0..registers * LANES {
            let number = (instruction as u64) << 16 | (at as u64) << 4 | which << 12;
            let mut value = 0_u64;
            for part in 0..packed {
                let mut one = element(format, stratum, random(number + u64::from(part)));
                if stratum == "cancelling" && part % 2 == 1 && which < 2 {
                    let other =
                        value >> (format.bits * (part - 1)) & (u64::MAX >> (64 - format.bits));
                    one = match which {
                        0 => other ^ 1 << (format.bits - 1),
                        _ => other ^ (one & 1),
                    };
                }
                value |= one << (format.bits * part);
            }
            bytes.extend_from_slice(&value.to_le_bytes()[..word as usize / 8]);
        }
    }
    bytes
}

/// Returns the results of these instructions.
fn results(
    device: &TestDevice,
    product: &Product,
    stratum: &str,
    instructions: std::ops::Range<usize>,
) -> Result<Vec<u8>, Failed> {
    let [a, b, c] = product.registers();
    let blocks = instructions.len() / 8;
    let operands =
        [(0, product.a, a), (1, product.b, b), (2, product.c, c)].map(|(which, format, count)| {
            operand((which, format), stratum, count, instructions.clone())
        });
    let results = operands[2].len();
    let mut arguments = Vec::new();
    for bytes in operands.iter().chain([&vec![0; results]]) {
        arguments.push(device.put(bytes)?.as_raw());
    }
    let module = device.load(&product.ptx())?;
    let dims = LaunchDims {
        grid: [blocks as u32, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
    };
    let words: Vec<_> = arguments.iter().map(|address| vec![*address]).collect();
    device.launch(module, "k", &dims, &words)?;
    let found = device.get(
        millstream_driver::DevicePtr::from_raw(arguments[3]),
        results,
    )?;
    for address in arguments {
        device.free(millstream_driver::DevicePtr::from_raw(address))?;
    }
    Ok(found)
}

/// Returns a hash that does not depend on the version of a library: FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Compares the results with the recorded hashes.
fn recorded(device: &TestDevice, product: &Product) -> Result<(), Failed> {
    let mnemonic = product.mnemonic();
    let mut different = String::new();
    for stratum in STRATA {
        let found = hash(&results(device, product, stratum, 0..HASHED)?);
        let line = format!("{mnemonic} {stratum} {found:016x}");
        if !RECORDED.lines().any(|recorded| recorded == line) {
            let _ = writeln!(different, "{line}");
        }
    }
    match different.is_empty() {
        true => Ok(()),
        false => Err(format!("the results are not the recorded ones:\n{different}").into()),
    }
}

/// Compares the results of a GPU and a simulated device.
fn same(gpu: &TestDevice, product: &Product) -> Result<(), Failed> {
    const AT_ONCE: usize = 2_000;
    let simulated = TestDevice::open(None)?;
    let rounds = if millstream_testkit::share::is_whole() {
        50
    } else {
        1
    };
    let mut different = String::new();
    for stratum in STRATA {
        for round in 0..rounds {
            let instructions = round * AT_ONCE..(round + 1) * AT_ONCE;
            let [of_gpu, of_simulated] = [gpu, &simulated]
                .map(|device| results(device, product, stratum, instructions.clone()));
            let (of_gpu, of_simulated) = (of_gpu?, of_simulated?);
            let pairs = of_gpu.chunks(4).zip(of_simulated.chunks(4));
            let mut unequal = pairs
                .enumerate()
                .filter(|(_, (gpu, simulated))| gpu != simulated);
            if let Some((at, (gpu, simulated))) = unequal.next() {
                let words = 1 + unequal.count();
                let _ = writeln!(
                    different,
                    "{stratum}: {words} words differ, first {at} of round {round}: \
                     {gpu:02x?} on the GPU, {simulated:02x?} simulated"
                );
            }
        }
    }
    match different.is_empty() {
        true => Ok(()),
        false => Err(different.into()),
    }
}

/// Returns the tests of each product, on the GPU or a simulated device.
pub(super) fn trials(gpu: Option<&Result<Arc<TestDevice>, Failed>>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for product in products() {
        let name = product.mnemonic().replace("mma.sync.aligned.", "");
        let device = gpu.cloned();
        trials.push(Trial::test(
            format!("m01_bits_are_the_recorded_ones::{name}"),
            move || recorded(&*super::device(device.as_ref())?, &product),
        ));
        let device = gpu.cloned();
        let trial = Trial::test(format!("m01_bits_are_those_of_a_gpu::{name}"), move || {
            same(&*super::device(device.as_ref())?, &product)
        });
        trials.push(super::reasoned(trial, gpu.is_none(), "needs a GPU"));
    }
    trials
}
