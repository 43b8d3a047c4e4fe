//! Kernels that combine values with atomic operations on shared locations.

use crate::kernels::memory::{DeviceMemory, floats, launch, load, numbers, values};

#[test]
fn histogram_counts_every_byte() {
    let module = load("histogram");
    for (n, grid, block) in [
        (0usize, 1, 32),
        (1, 1, 256),
        (1000, 4, 64),
        (20_000, 9, 1024),
        (333, 2, 300),
    ] {
        let input: Vec<u8> = numbers(n + 1, 1)
            .into_iter()
            .map(|bits| (bits >> 9) as u8)
            .collect();
        let mut memory = DeviceMemory::default();
        let (din, dbins) = (memory.put(&input), memory.put(&[3u32; 256]));
        let values = values![din, dbins, n as u32];
        let (blocks, threads) = ([grid, 1, 1], [block, 1, 1]);
        launch(&module, "histogram", blocks, threads, &memory, &values).unwrap();
        let mut expected = [3u32; 256];
        input[..n]
            .iter()
            .for_each(|byte| expected[usize::from(*byte)] += 1);
        assert_eq!(memory.get::<u32>(dbins), expected);
    }
}

#[test]
fn cas_max_and_the_other_atomics() {
    let module = load("histogram");
    for n in [1usize, 32, 100, 3000] {
        let input: Vec<f32> = floats(n, 1).into_iter().map(f32::abs).collect();
        let mut memory = DeviceMemory::default();
        let (din, dout) = (memory.put(&input), memory.put(&[0u32; 4]));
        let values = values![din, dout, n as u32];
        let grid = [(n as u32).div_ceil(96), 1, 1];
        let first = launch(&module, "cas_max", grid, [96, 1, 1], &memory, &values).unwrap();
        let greatest = input.iter().copied().fold(0f32, f32::max);
        // The incremented counter wraps around to 0 after 100.
        let expected = [greatest.to_bits(), 1, n as u32 - 1, (n % 101) as u32];
        assert_eq!(memory.get::<u32>(dout), expected, "n {n}");

        let mut memory = DeviceMemory::default();
        let (din, dout) = (memory.put(&input), memory.put(&[0u32; 4]));
        let values = values![din, dout, n as u32];
        let second = launch(&module, "cas_max", grid, [96, 1, 1], &memory, &values).unwrap();
        assert_eq!(
            first, second,
            "a kernel whose blocks' order shows runs the same way every time"
        );
    }
}
