//! Cooperative launches: blocks that wait for each other at the barrier of the grid, whose kernels
//! are in `within/grid.cu`.

use millstream_driver::{LaunchDims, ResultCode};

use crate::races::{prelude::*, sim_harness::Fails};

const PTX: &str = include_str!("within/grid.ptx");

fn config() -> SimConfig {
    SimConfig::parse("sim:race=kernels").unwrap()
}

fn dims(grid: u32, block: u32) -> LaunchDims {
    crate::harness::dims([grid, 1, 1], [block, 1, 1])
}

/// Launches a kernel with two zeroed arrays and, if it has such a parameter, a number. Returns the
/// first words of the second array, one for each thread.
fn run(
    sim: &SimHarness,
    (ptx, name): (&str, &str),
    (grid, block): (u32, u32),
    number: Option<u32>,
    cooperative: bool,
) -> Vec<u32> {
    let bytes = (grid * block) as usize * 4;
    let (stream, x, y) = (sim.stream(), zeros(sim, bytes), zeros(sim, bytes));
    let args: Vec<Arg> = [Arg::Pointer(x), Arg::Pointer(y)]
        .into_iter()
        .chain(number.map(Arg::U32))
        .collect();
    let (kernel, dims) = (sim.kernel(ptx, name), dims(grid, block));
    let launched = match cooperative {
        true => sim.launch_cooperative(kernel, &dims, stream, &args),
        false => sim.launch_shaped(kernel, &dims, stream, &args),
    };
    launched.unwrap();
    sim.stream_synchronize(stream).unwrap();
    let values = Host::pageable(bytes);
    sim.download_now(values, y).unwrap();
    let bytes = values.read();
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

#[test]
fn the_blocks_of_a_cooperative_launch_wait_for_each_other() {
    for (grid, block) in [(1, 1), (1, 64), (3, 40), (264, 64), (132 * 32, 32)] {
        let sim = SimHarness::new(SimConfig::new());
        let threads = grid * block;
        let reversed = run(&sim, (PTX, "reverse_grid"), (grid, block), None, true);
        assert!(reversed.into_iter().eq((0..threads).rev()), "{grid} blocks");
        let rotated = run(&sim, (PTX, "rotate_grid"), (grid, block), Some(3), true);
        let expected = (0..threads).map(|thread| (thread + 3) % threads);
        assert!(rotated.into_iter().eq(expected), "{grid} blocks");
        sim.assert_clean();
    }
}

#[test]
fn accesses_on_two_sides_of_the_grid_barrier_do_not_race() {
    for shape in [(2, 33), (5, 64)] {
        clean_with(config(), |sim| {
            run(sim, (PTX, "reverse_grid"), shape, None, true);
            run(sim, (PTX, "rotate_grid"), shape, Some(3), true);
        });
    }
    expect_with(config(), "within/reverse_grid_unsynced", |sim| {
        run(sim, (PTX, "reverse_grid_unsynced"), (2, 64), None, true);
    });
    expect_with(config(), "within/rotate_grid_unsynced", |sim| {
        run(sim, (PTX, "rotate_grid_unsynced"), (2, 64), Some(2), true);
    });
}

#[test]
fn a_grid_barrier_for_older_devices_is_one_although_it_polls_volatile_memory() {
    // What the compiler makes of the barrier for compute capability 6.0.
    let ptx = PTX
        .replace("atom.add.release.gpu.u32", "membar.gl;\n\tatom.add.u32")
        .replace("ld.acquire.gpu.u32", "ld.volatile.u32")
        .replace("xor.b32", "membar.gl;\n\txor.b32");
    clean_with(config(), |sim| {
        run(sim, (&ptx, "rotate_grid"), (3, 64), Some(2), true);
    });
    let sim = SimHarness::new(config());
    run(&sim, (&ptx, "rotate_grid_unsynced"), (3, 64), Some(2), true);
    assert!(!sim.gpu.findings().is_empty());
}

#[test]
fn only_a_cooperative_launch_has_a_grid_barrier() {
    let sim = SimHarness::new(SimConfig::new());
    let valid = |cooperative| run(&sim, (PTX, "grid_is_valid"), (2, 32), None, cooperative)[0];
    assert_eq!((valid(true), valid(false)), (1, 0));
    let (stream, x) = (sim.stream(), zeros(&sim, 256));
    let kernel = sim.kernel(PTX, "reverse_grid");
    let args = [Arg::Pointer(x), Arg::Pointer(x)];
    sim.launch_shaped(kernel, &dims(1, 32), stream, &args)
        .unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::LAUNCH_FAILED);
}
