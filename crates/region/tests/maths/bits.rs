//! Equality of bits on all devices: `bits.txt` holds a digest of each function's results for 60,000
//! operands or more. `UPDATE_EXPECT=1` rewrites the file.

use std::{env, fmt::Write, fs, path::Path};

use millstream_region::maths;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::maths::{device, points};

/// The bits that represent every NaN, whose own bits are unspecified.
const NAN: u64 = 0x7ff8_0000_0000_0000;

/// Computes the FNV-1a hash of the words.
fn digest(words: impl Iterator<Item = u64>) -> u64 {
    let bytes = words.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn digest_singles(values: Vec<f32>) -> u64 {
    digest(
        values
            .iter()
            .map(|x| if x.is_nan() { NAN } else { x.to_bits().into() }),
    )
}

fn digest_doubles(values: Vec<f64>) -> u64 {
    digest(
        values
            .iter()
            .map(|x| if x.is_nan() { NAN } else { x.to_bits() }),
    )
}

/// Returns random doubles: half of them of any magnitude, half between 2^-16 and 2^16.
fn doubles(seed: u64) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let moderate = |bits: u64| bits & 0x80ff_ffff_ffff_ffff | 0x3f00_0000_0000_0000;
    let both = |bits: u64| [bits, moderate(bits)];
    (0..30_000)
        .flat_map(|_| both(random.next_u64()))
        .map(f64::from_bits)
        .collect()
}

/// Returns the digest of a function's results.
fn of(function: &'static str) -> u64 {
    let count = 60_000;
    let (seeds, indices): (Vec<u64>, Vec<u64>) = (0..count).map(|n| (n / 1000, n)).unzip();
    let exponents: Vec<i32> = (0..count).map(|n| n as i32 % 201 - 100).collect();
    let is_random = function.contains("uniform") || function.contains("normal");
    let has_two = ["powf", "atan2", "hypot", "rem"]
        .iter()
        .any(|name| function.contains(name));
    if !function.ends_with("f64") {
        let (x, y) = points::pairs(count as usize / 6);
        digest_singles(match () {
            () if is_random => device::two(function, &seeds, &indices),
            () if function.contains("powi") => device::two(function, &x, &exponents),
            () if has_two => device::two(function, &x, &y),
            () => device::one(
                function,
                &[points::patterns(0..1 << 32, 65_537), points::near(), x].concat(),
            ),
        })
    } else {
        let (x, y) = (doubles(1), doubles(2));
        digest_doubles(match () {
            () if is_random => device::two(function, &seeds, &indices),
            () if function.contains("powi") => device::two(function, &x, &exponents),
            () if has_two => device::two(function, &x, &y),
            () => device::one(function, &x),
        })
    }
}

#[test]
fn every_function_gives_the_same_bits_on_every_device() {
    let mut found = String::new();
    for function in maths::names() {
        writeln!(found, "{function} {:016x}", of(function)).unwrap();
    }
    if env::var_os("UPDATE_EXPECT").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/maths/bits.txt");
        fs::write(path, &found).unwrap();
        return;
    }
    let expected = include_str!("bits.txt");
    let differing: Vec<_> = found
        .lines()
        .zip(expected.lines())
        .filter(|(found, expected)| found != expected)
        .collect();
    assert!(
        differing.is_empty(),
        "of {} functions {differing:#?} differ",
        found.lines().count()
    );
    assert_eq!(found.lines().count(), expected.lines().count());
}
