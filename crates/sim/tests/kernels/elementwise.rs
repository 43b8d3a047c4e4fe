//! Elementwise kernels, whose threads are independent of each other.

use crate::kernels::memory::{DeviceMemory, Value, floats, launch, load, values};

#[test]
fn saxpy_is_fused() {
    let module = load("saxpy");
    for n in [0, 1, 31, 32, 33, 1000, 4096 + 5] {
        for block in [1, 32, 33, 128, 1024] {
            let (x, y) = (floats(n + 1, 1), floats(n + 1, 2));
            let mut memory = DeviceMemory::default();
            let (dx, dy) = (memory.put(&x), memory.put(&y));
            let grid = [(n as u32).div_ceil(block).max(1), 1, 1];
            let values = values![n as u32, 2.5f32, dx, dy];
            let stats = launch(&module, "saxpy", grid, [block, 1, 1], &memory, &values).unwrap();
            let mut expected: Vec<f32> =
                x.iter().zip(&y).map(|(x, y)| x.mul_add(2.5, *y)).collect();
            expected[n] = y[n];
            assert_eq!(memory.get::<f32>(dy), expected, "n {n}, block {block}");
            assert_eq!(stats.global_bytes_read, 8 * n as u64);
            assert_eq!(stats.global_bytes_written, 4 * n as u64);
            // Eleven instructions before the branch, eight after it, and the return.
            let threads = u64::from(grid[0] * block);
            assert!(stats.thread_instructions >= 10 * threads + 9 * n as u64);
        }
    }
}

#[test]
fn vecadd_strides_over_the_grid() {
    let module = load("vecadd");
    for (n, grid, block) in [
        (0usize, 1, 32),
        (1, 1, 1),
        (1000, 3, 96),
        (5000, 2, 1024),
        (777, 100, 32),
    ] {
        let (a, b) = (floats(n + 1, 3), floats(n + 1, 4));
        let mut memory = DeviceMemory::default();
        let (da, db, dc) = (
            memory.put(&a),
            memory.put(&b),
            memory.put(&vec![9f32; n + 1]),
        );
        let values = values![da, db, dc, n as u64];
        let (blocks, threads) = ([grid, 1, 1], [block, 1, 1]);
        launch(&module, "vecadd", blocks, threads, &memory, &values).unwrap();
        let mut expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        expected[n] = 9.0;
        assert_eq!(memory.get::<f32>(dc), expected);
    }
}

#[test]
fn vecadd4_loads_and_stores_vectors() {
    let module = load("vecadd");
    for n in [0usize, 1, 37, 256] {
        let (a, b) = (floats(4 * n + 4, 5), floats(4 * n + 4, 6));
        let mut memory = DeviceMemory::default();
        let (da, db, dc) = (
            memory.put(&a),
            memory.put(&b),
            memory.put(&vec![9f32; 4 * n + 4]),
        );
        let values = values![da, db, dc, n as u32];
        launch(&module, "vecadd4", [5, 1, 1], [64, 1, 1], &memory, &values).unwrap();
        let mut expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        expected[4 * n..].fill(9.0);
        assert_eq!(memory.get::<f32>(dc), expected);
    }
}

#[test]
fn stencil_reads_its_neighbours() {
    let module = load("stencil");
    for (w, h, block) in [
        (1, 1, [8, 8]),
        (2, 5, [8, 8]),
        (3, 3, [1, 1]),
        (67, 33, [32, 4]),
        (64, 64, [7, 5]),
    ] {
        let input = floats(w * h, 7);
        let k = 0.25f32;
        let mut memory = DeviceMemory::default();
        let (din, dout) = (memory.put(&input), memory.put(&vec![-1f32; w * h]));
        let grid = [
            (w as u32).div_ceil(block[0]),
            (h as u32).div_ceil(block[1]),
            1,
        ];
        let values = values![din, dout, w as u32, h as u32, k];
        let block = [block[0], block[1], 1];
        launch(&module, "stencil", grid, block, &memory, &values).unwrap();
        let mut expected = vec![-1f32; w * h];
        for y in 1..h.saturating_sub(1) {
            for x in 1..w.saturating_sub(1) {
                let i = y * w + x;
                let sum = ((input[i - 1] + input[i + 1]) + input[i - w]) + input[i + w];
                expected[i] = input[i].mul_add(-4.0, sum).mul_add(k, input[i]);
            }
        }
        assert_eq!(memory.get::<f32>(dout), expected, "{w}×{h}");
    }
}

/// One pixel of the Mandelbrot set, with the fused multiply-adds of the PTX.
macro_rules! mandel_pixel {
    ($name:ident, $float:ty) => {
        fn $name(x: i32, y: i32, x0: $float, y0: $float, s: $float, most: i32) -> i32 {
            let (cr, ci) = ((x as $float).mul_add(s, x0), (y as $float).mul_add(s, y0));
            let (mut zr, mut zi, mut count): ($float, $float, i32) = (0.0, 0.0, 0);
            while count < most && zr * zr + zi * zi < 4.0 {
                let t = cr + (zr * zr - zi * zi);
                zi = (zr + zr).mul_add(zi, ci);
                zr = t;
                count += 1;
            }
            count
        }
    };
}
mandel_pixel!(mandel_single, f32);
mandel_pixel!(mandel_double, f64);

#[test]
fn mandel_diverges_and_counts_exactly() {
    let module = load("mandel");
    for (w, h, block, most) in [
        (1, 1, [1, 1, 1], 10),
        (50, 37, [16, 16, 1], 300),
        (65, 20, [32, 3, 1], 0),
        (33, 9, [5, 7, 1], 100),
    ] {
        let (x0, y0, s) = (-2.0f32, -1.25f32, 2.5 / h as f32);
        let grid = [
            (w as u32).div_ceil(block[0]),
            (h as u32).div_ceil(block[1]),
            1,
        ];
        let mut memory = DeviceMemory::default();
        let dout = memory.put(&vec![-1i32; w * h]);
        let size = values![w as i32, h as i32];
        let [dw, dh] = size.clone();
        let values = [
            dout.bytes(),
            dw,
            dh,
            x0.bytes(),
            y0.bytes(),
            s.bytes(),
            most.bytes(),
        ];
        launch(&module, "mandel", grid, block, &memory, &values).unwrap();
        let pixels = (0..w * h).map(|i| ((i % w) as i32, (i / w) as i32));
        let expected: Vec<i32> = pixels
            .clone()
            .map(|(x, y)| mandel_single(x, y, x0, y0, s, most))
            .collect();
        assert_eq!(memory.get::<i32>(dout), expected);

        // The second kernel divides by the limit.
        let (most, [dw, dh]) = (most.max(1), size);
        let (x0, y0, s) = (f64::from(x0), f64::from(y0), f64::from(s));
        let dout = memory.put(&vec![0u8; w * h]);
        let values = [
            dout.bytes(),
            dw,
            dh,
            x0.bytes(),
            y0.bytes(),
            s.bytes(),
            most.bytes(),
        ];
        launch(&module, "mandel_d", grid, block, &memory, &values).unwrap();
        let expected: Vec<u8> = pixels
            .map(|(x, y)| (mandel_double(x, y, x0, y0, s, most) * 255 / most) as u8)
            .collect();
        assert_eq!(memory.get::<u8>(dout), expected);
    }
}
