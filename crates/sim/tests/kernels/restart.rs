//! Random programs that read registers before they write them, or write them once: each block finds
//! the registers that the first one finds, with and without hoisted operations.

use millstream_sim::exec::{self, Jit, Launch};
use millstream_sim::ptx::{self, Kernel};
use millstream_testkit::share;

use crate::kernels::fused::random_kernel;
use crate::kernels::memory::{DeviceMemory, params, values};

const BLOCKS: u32 = 5;
/// The last warp has lanes without threads.
const THREADS: u32 = 40;

/// Runs a kernel in grids of `size` blocks, together as many as [`BLOCKS`]; without `jit` with an
/// observer.
fn run(kernel: &Kernel, size: u32, jit: Option<Jit>) -> Vec<u32> {
    let mut memory = DeviceMemory::default();
    let out = memory.put(&vec![0u32; (BLOCKS * THREADS) as usize]);
    for first in (0..BLOCKS).step_by(size as usize) {
        let params = params(kernel, &values![out, first, 7u32]);
        let launch = Launch {
            params: &params,
            jit: jit.unwrap_or_default(),
            ..Launch::new([size, 1, 1], [THREADS, 1, 1])
        };
        if jit.is_none() {
            exec::run_checked(kernel, &launch, &memory).0.unwrap();
        } else {
            exec::run(kernel, &launch, &memory).unwrap();
        }
    }
    memory.get(out)
}

#[test]
fn a_block_finds_the_registers_as_the_first_block_does() {
    for seed in share::numbers(150, 20_000) {
        let source = random_kernel(include_str!("restart.txt"), seed);
        let module = ptx::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let kernel = module.kernel("k").unwrap();
        let alone = run(kernel, 1, None);
        for jit in [None, Some(Jit::Off), Some(Jit::AtOnce)] {
            assert_eq!(run(kernel, BLOCKS, jit), alone, "{jit:?} {source}");
        }
        assert_eq!(run(kernel, 1, Some(Jit::AtOnce)), alone, "{source}");
    }
}
