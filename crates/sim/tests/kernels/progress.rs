//! The number of blocks that have ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream_sim::exec::{self, GlobalMemory, Launch, Region};

use super::memory::{DeviceMemory, load, params, values};

struct Watched(DeviceMemory, AtomicU64);

impl GlobalMemory for Watched {
    fn region(&self, address: u64) -> Option<Region<'_>> {
        self.0.region(address)
    }

    fn blocks_done(&self, count: u64) {
        self.1.fetch_add(count, Relaxed);
    }
}

#[test]
fn every_block_is_counted_once_in_parallel_in_order_and_in_a_cooperative_launch() {
    let module = load("saxpy");
    let kernel = module.kernel("saxpy").unwrap();
    let mut memory = Watched(DeviceMemory::default(), AtomicU64::new(0));
    let [x, y] = [0; 2].map(|_| memory.0.put(&[1f32; 256]));
    let params = params(kernel, &values![256u32, 2f32, x, y]);
    for (grid, cooperative) in [
        (1, false),
        (37, false),
        (1000, false),
        (1, true),
        (37, true),
    ] {
        let mut launch = Launch::new([grid, 1, 1], [32, 1, 1]);
        (launch.params, launch.cooperative) = (&params, cooperative);
        exec::run(kernel, &launch, &memory).unwrap();
        assert_eq!(memory.1.swap(0, Relaxed), u64::from(grid), "{cooperative}");
        exec::run_checked(kernel, &launch, &memory).0.unwrap();
        assert_eq!(
            memory.1.swap(0, Relaxed),
            u64::from(grid),
            "checked, {cooperative}"
        );
    }
}
