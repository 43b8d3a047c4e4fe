//! The number of blocks that have ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream_sim::{
    exec::{self, GlobalMemory, Launch, Region},
    ptx,
};

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
    let text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n.entry meets() {{ {} ret; }}",
        "bar.sync 0; ".repeat(9)
    );
    let modules = [load("saxpy"), ptx::parse(&text).unwrap()];
    let [saxpy, meets] = [(0, "saxpy"), (1, "meets")].map(|(at, name)| modules[at].kernel(name));
    let mut memory = Watched(DeviceMemory::default(), AtomicU64::new(0));
    let [x, y] = [0; 2].map(|_| memory.0.put(&[1f32; 256]));
    let params = params(saxpy.unwrap(), &values![256u32, 2f32, x, y]);
    for (grid, cooperative) in [
        (1, false),
        (37, false),
        (1000, false),
        (1, true),
        (37, true),
    ] {
        for kernel in [saxpy, meets].map(Option::unwrap) {
            let mut launch = Launch::new([grid, 1, 1], [64, 1, 1]);
            (launch.params, launch.cooperative) = (&params, cooperative);
            exec::run(kernel, &launch, &memory).unwrap();
            let ran = memory.1.swap(0, Relaxed);
            exec::run_checked(kernel, &launch, &memory).0.unwrap();
            let checked = memory.1.swap(0, Relaxed);
            assert_eq!([ran, checked], [u64::from(grid); 2], "{cooperative}");
        }
    }
}
