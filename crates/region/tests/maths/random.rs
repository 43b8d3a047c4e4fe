//! Random numbers: their bits are those of Philox, and their moments those of the distributions.

use crate::maths::device;

/// Computes a block of Philox4x32-10, as its authors describe it.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut x, mut key) = (counter, key);
    for _ in 0..10 {
        let product = |factor: u64, word: u32| factor * u64::from(word);
        let (p, q) = (product(0xD251_1F53, x[0]), product(0xCD9E_8D57, x[2]));
        x = [
            (q >> 32) as u32 ^ x[1] ^ key[0],
            q as u32,
            (p >> 32) as u32 ^ x[3] ^ key[1],
            p as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    x
}

/// Computes block `index` of a kind of random numbers.
fn block(seed: u64, index: u64, kind: u32) -> [u32; 4] {
    philox(
        [index as u32, (index >> 32) as u32, kind, 0],
        [seed as u32, (seed >> 32) as u32],
    )
}

/// Returns seeds and indices, some of which use all 64 bits.
fn seeds_and_indices() -> (Vec<u64>, Vec<u64>) {
    let seeds = [0, 1, 0x1234_5678_9abc_def0, u64::MAX];
    let starts = [0, 1 << 34, u64::MAX - 99];
    let pairs = seeds
        .iter()
        .flat_map(|seed| starts.iter().map(move |start| (*seed, *start)));
    pairs
        .flat_map(|(seed, start)| (0..100).map(move |n| (seed, start + n)))
        .unzip()
}

#[test]
fn philox_blocks_match_the_published_answers() {
    // From the known-answer tests of the authors' own implementation.
    assert_eq!(
        philox([0; 4], [0; 2]),
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
    );
    assert_eq!(
        philox([u32::MAX; 4], [u32::MAX; 2]),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
}

#[test]
fn uniform_numbers_are_the_upper_bits_of_their_words() {
    let (seeds, indices) = seeds_and_indices();
    let singles: Vec<f32> = device::two("ms_uniform_f32", &seeds, &indices);
    let doubles: Vec<f64> = device::two("ms_uniform_f64", &seeds, &indices);
    for (n, (seed, index)) in seeds.iter().zip(&indices).enumerate() {
        let word = block(*seed, index / 4, 0)[(index % 4) as usize];
        assert_eq!(
            singles[n],
            (word >> 8) as f32 / 16_777_216.0,
            "{seed} {index}"
        );
        let words = block(*seed, index / 2, 1);
        let at = 2 * (index % 2) as usize;
        let both = u64::from(words[at + 1]) << 32 | u64::from(words[at]);
        assert_eq!(
            doubles[n],
            (both >> 11) as f64 / 2f64.powi(53),
            "{seed} {index}"
        );
    }
}

#[test]
fn normal_numbers_are_those_of_box_and_muller() {
    let (seeds, indices) = seeds_and_indices();
    let singles: Vec<f32> = device::two("ms_normal_f32", &seeds, &indices);
    let doubles: Vec<f64> = device::two("ms_normal_f64", &seeds, &indices);
    let turned = |radius: f64, turns: f64, index: u64| {
        let angle = turns * std::f64::consts::TAU;
        (-2.0 * radius.ln()).sqrt()
            * if index % 2 == 1 {
                angle.sin()
            } else {
                angle.cos()
            }
    };
    for (n, (seed, index)) in seeds.iter().zip(&indices).enumerate() {
        let words = block(*seed, index / 4, 2);
        let at = (index & 2) as usize;
        let unit = |word: u32| f64::from(word) / 2f64.powi(32);
        let value = turned(
            unit(words[at]) + 2f64.powi(-33),
            unit(words[at + 1]),
            *index,
        );
        assert!(
            (f64::from(singles[n]) - value).abs() < 4e-6,
            "{seed} {index}: {} {value}",
            singles[n]
        );
        let words = block(*seed, index / 2, 3);
        let unit = |low: u32, high: u32| {
            ((u64::from(high) << 32 | u64::from(low)) >> 11) as f64 / 2f64.powi(53)
        };
        let value = turned(
            unit(words[0], words[1]) + 2f64.powi(-54),
            unit(words[2], words[3]),
            *index,
        );
        assert!(
            (doubles[n] - value).abs() < 1e-14,
            "{seed} {index}: {} {value}",
            doubles[n]
        );
    }
}

/// Computes the mean, and the second and fourth moments about zero.
fn moments(values: impl Iterator<Item = f64> + Clone) -> [f64; 3] {
    let count = values.clone().count() as f64;
    [1, 2, 4].map(|power| values.clone().map(|x| x.powi(power)).sum::<f64>() / count)
}

#[test]
fn the_moments_of_random_numbers_match_their_distributions() {
    let indices: Vec<u64> = (0..100_000).collect();
    let seeds = vec![7u64; indices.len()];
    let singles: Vec<f32> = device::two("ms_uniform_f32", &seeds, &indices);
    let doubles: Vec<f64> = device::two("ms_uniform_f64", &seeds, &indices);
    for found in [
        moments(singles.iter().map(|x| f64::from(*x))),
        moments(doubles.iter().copied()),
    ] {
        for (found, expected) in found.iter().zip([1.0 / 2.0, 1.0 / 3.0, 1.0 / 5.0]) {
            assert!((found - expected).abs() < 0.005, "{found} {expected}");
        }
    }
    let singles: Vec<f32> = device::two("ms_normal_f32", &seeds, &indices);
    let doubles: Vec<f64> = device::two("ms_normal_f64", &seeds, &indices);
    for found in [
        moments(singles.iter().map(|x| f64::from(*x))),
        moments(doubles.iter().copied()),
    ] {
        for (found, expected, within) in [
            (found[0], 0.0, 0.015),
            (found[1], 1.0, 0.02),
            (found[2], 3.0, 0.15),
        ] {
            assert!((found - expected).abs() < within, "{found} {expected}");
        }
    }
}
