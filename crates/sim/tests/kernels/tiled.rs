//! Tiled kernels, which use shared memory and barriers.

use crate::kernels::memory::{DeviceMemory, Value, floats, launch, load, values};

#[test]
fn matmul_accumulates_in_order() {
    let module = load("matmul");
    for (m, n, k) in [
        (1, 1, 1),
        (16, 16, 16),
        (17, 5, 33),
        (40, 70, 31),
        (3, 50, 0),
    ] {
        let (a, b) = (floats(m * k, 1), floats(k * n, 2));
        let mut memory = DeviceMemory::default();
        let (da, db, dc) = (
            memory.put(&a),
            memory.put(&b),
            memory.put(&vec![7f32; m * n]),
        );
        let sizes = [m, n, k].map(|size| (size as u32).bytes());
        let values = [values![da, db, dc].to_vec(), sizes.to_vec()].concat();
        let grid = [n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1];
        launch(&module, "matmul", grid, [16, 16, 1], &memory, &values).unwrap();
        let expected: Vec<f32> = (0..m * n)
            .map(|i| {
                // Tiles are padded with zeros beyond the matrix, which do not change the sum.
                (0..k).fold(0f32, |sum, j| {
                    a[i / n * k + j].mul_add(b[j * n + i % n], sum)
                })
            })
            .collect();
        assert_eq!(memory.get::<f32>(dc), expected, "{m}×{n}×{k}");
    }
}

#[test]
fn transpose_is_exact() {
    let module = load("transpose");
    for (w, h) in [(1, 1), (32, 32), (33, 65), (100, 7), (64, 96)] {
        let input = floats(w * h, 3);
        let mut memory = DeviceMemory::default();
        let (din, dout) = (memory.put(&input), memory.put(&vec![7f32; w * h]));
        let grid = [w.div_ceil(32) as u32, h.div_ceil(32) as u32, 1];
        let values = values![din, dout, w as u32, h as u32];
        launch(&module, "transpose", grid, [32, 8, 1], &memory, &values).unwrap();
        let expected: Vec<f32> = (0..w * h).map(|i| input[i % h * w + i / h]).collect();
        assert_eq!(memory.get::<f32>(dout), expected, "{w}×{h}");
    }
}

#[test]
fn nbody_follows_the_kernel_step_by_step() {
    let module = load("nbody");
    for (n, block) in [
        (1usize, 32usize),
        (100, 64),
        (257, 128),
        (64, 256),
        (10, 33),
    ] {
        let (positions, velocities) = (floats(4 * n, 4), floats(4 * n, 5));
        let dt = 0.01f32;
        let mut memory = DeviceMemory::default();
        let (dp, dv) = (memory.put(&positions), memory.put(&velocities));
        let blocks = n.div_ceil(block);
        let values = values![dp, dv, n as u32, dt];
        let (grid, threads) = ([blocks as u32, 1, 1], [block as u32, 1, 1]);
        launch(&module, "nbody", grid, threads, &memory, &values).unwrap();
        let mut expected = velocities.clone();
        for i in 0..n {
            let mut acceleration = [0f32; 3];
            // The last tile is padded with bodies of zero mass at the origin.
            for j in 0..blocks * block {
                let body: [f32; 4] =
                    std::array::from_fn(|axis| positions.get(4 * j + axis).copied().unwrap_or(0.0));
                let d: [f32; 3] = std::array::from_fn(|axis| body[axis] - positions[4 * i + axis]);
                let r2 = d[2].mul_add(d[2], d[0].mul_add(d[0], d[1] * d[1])) + 1e-9;
                // `rsqrt.approx` may be wrong by 2 ulp on a GPU; here it is the correctly rounded
                // value.
                let inverse = (1.0 / f64::from(r2).sqrt()) as f32;
                let s = inverse * (inverse * (inverse * body[3]));
                for axis in 0..3 {
                    acceleration[axis] = d[axis].mul_add(s, acceleration[axis]);
                }
            }
            for axis in 0..3 {
                expected[4 * i + axis] = acceleration[axis].mul_add(dt, velocities[4 * i + axis]);
            }
        }
        assert_eq!(
            memory.get::<f32>(dv),
            expected,
            "{n} bodies in blocks of {block}"
        );
    }
}
