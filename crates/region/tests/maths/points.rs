//! Operands for tests in single precision.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_PI_2, PI, TAU};

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Boundaries between the cases of functions: near 0, 1 and powers of two, at overflow and
/// underflow, where results stop changing, and at multiples of π/2, including large ones that lie
/// closest to a single.
const PLACES: [f32; 48] = [
    0.0,
    1e-45,
    1.175_494_4e-38,
    1e-20,
    5.96e-8,
    1.19e-7,
    2.4e-4,
    3.4e-4,
    0.004,
    0.1,
    0.25,
    0.55,
    0.5625,
    0.57,
    0.6,
    0.625,
    FRAC_1_SQRT_2,
    0.848_088_7,
    0.9215,
    0.9999,
    1.0,
    1.003_906_3,
    1.5,
    FRAC_PI_2,
    2.0,
    3.0,
    PI,
    4.0,
    3.0 * FRAC_PI_2,
    TAU,
    8.999,
    9.01,
    10.055,
    11.0,
    16.6,
    17.3,
    22.0,
    36.7,
    88.722_84,
    87.336_55,
    103.972,
    104.0,
    127.999_99,
    149.5,
    105_615.0,
    1.647_099_3e7,
    8_388_608.0,
    3.402_823_5e38,
];

/// Returns every `step`-th bit pattern in `range`.
pub(crate) fn patterns(range: std::ops::Range<u64>, step: usize) -> Vec<f32> {
    range
        .step_by(step)
        .map(|bits| f32::from_bits(bits as u32))
        .collect()
}

/// Returns fifty neighbours of each boundary in [`PLACES`], with both signs.
pub(crate) fn near() -> Vec<f32> {
    let around = |place: f32| {
        let first = place.to_bits().saturating_sub(25);
        (first..first + 50).map(f32::from_bits)
    };
    let found = PLACES.iter().flat_map(|place| around(*place));
    found.flat_map(|x| [x, -x]).collect()
}

/// Returns pairs of random bits, of similar magnitudes, and of small integers and fractions.
pub(crate) fn pairs(count: usize) -> (Vec<f32>, Vec<f32>) {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut pairs = Vec::new();
    for _ in 0..count {
        let (x, y) = (
            f32::from_bits(random.next_u32()),
            f32::from_bits(random.next_u32()),
        );
        pairs.push((x, y));
        // Within a factor of four of each other, with any exponent.
        let shift = random.next_u32() & 0x1ff_ffff;
        let neighbour = f32::from_bits(x.to_bits().wrapping_add(shift).wrapping_sub(1 << 24));
        pairs.push((x, neighbour));
        // Between 2^-8 and 2^8.
        let moderate = |bits: u32| f32::from_bits(bits & 0x87ff_ffff | 0x3800_0000);
        pairs.push((moderate(x.to_bits()), moderate(y.to_bits())));
        // Close to 1, with an exponent that magnifies the difference.
        let close = f32::from_bits(0x3f80_0000 ^ (x.to_bits() >> (8 + random.next_u32() % 16)));
        let exponent = (random.next_u32() as f32 / 2f32.powi(31) - 1.0) * 150.0;
        pairs.push((close, exponent / close.log2()));
        // Powers of integers and half integers.
        pairs.push((
            (x.to_bits() % 200) as f32 / 2.0,
            (y.to_bits() % 64) as f32 - 32.0,
        ));
        pairs.push((
            -((x.to_bits() % 200) as f32) / 2.0,
            (y.to_bits() % 64) as f32 / 2.0 - 16.0,
        ));
    }
    pairs.into_iter().unzip()
}
