//! Reduction kernels, whose lanes exchange values.

use crate::kernels::memory::{DeviceMemory, floats, launch, load, values};

/// Returns a warp's sum, added in the order of `shfl.down`.
fn warp_sum(mut lanes: [f32; 32]) -> f32 {
    for distance in [16, 8, 4, 2, 1] {
        let before = lanes;
        for lane in 0..32 {
            lanes[lane] += before[if lane + distance < 32 {
                lane + distance
            } else {
                lane
            }];
        }
    }
    lanes[0]
}

#[test]
fn reduce_sums_in_a_fixed_order() {
    let module = load("reduce");
    for (n, grid, block) in [
        (0usize, 1usize, 32usize),
        (1, 1, 64),
        (1000, 3, 128),
        (10_000, 7, 1024),
        (77, 2, 32),
    ] {
        let input = floats(n + 1, 1);
        let mut memory = DeviceMemory::default();
        let (din, dout) = (memory.put(&input), memory.put(&[100f32]));
        let values = values![din, dout, n as u32];
        let (blocks, threads) = ([grid as u32, 1, 1], [block as u32, 1, 1]);
        launch(&module, "reduce", blocks, threads, &memory, &values).unwrap();
        let mut expected = 100f32;
        for b in 0..grid {
            let thread = |t: usize| {
                (b * block + t..n)
                    .step_by(grid * block)
                    .fold(0f32, |sum, i| sum + input[i])
            };
            let mut sums = [0f32; 32];
            for (warp, sum) in sums.iter_mut().enumerate().take(block / 32) {
                *sum = warp_sum(std::array::from_fn(|lane| thread(warp * 32 + lane)));
            }
            expected += warp_sum(sums);
        }
        assert_eq!(memory.get::<f32>(dout), [expected], "n {n}");
    }
}

#[test]
fn argmax_finds_the_first_of_the_greatest() {
    let module = load("reduce");
    for n in [0usize, 1, 5, 31, 32, 33, 127, 128, 129, 1000, 4099] {
        let mut input = floats(n, 2);
        if n > 40 {
            // The maximum occurs twice: the lower index wins.
            input[n / 3] = 2.0;
            input[n / 2] = 2.0;
        }
        let mut memory = DeviceMemory::default();
        let (din, dout) = (memory.put(&input), memory.put(&[77i32, 77]));
        let values = values![din, dout, n as u32];
        launch(&module, "argmax_warp", [1; 3], [32, 1, 1], &memory, &values).unwrap();
        let best = input.iter().copied().fold(f32::MIN, f32::max);
        let expected = input
            .iter()
            .position(|value| *value == best)
            .map_or(-1, |i| i as i32);
        let lanes = if n == 0 { 0 } else { 32 };
        assert_eq!(memory.get::<i32>(dout), [expected, lanes], "n {n}");
    }
}
