//! Races between devices: accesses of one device to another device's memory.

use crate::{
    races::prelude::*,
    rules::peers::{Pair, two_devices},
};

/// Returns two devices, and pool memory of the first that both can access.
fn pair(sim: &SimHarness) -> (Pair<'_>, DevicePtr) {
    let pair = Pair::new(sim);
    sim.pool_set_access(pair.other.device, true).unwrap();
    let memory = pair.pooled(0, BYTES);
    (pair, memory)
}

#[test]
fn a_kernel_of_another_device_races_unless_events_order_it() {
    let program = |sim: &SimHarness, edge: bool| {
        let (pair, memory) = pair(sim);
        launch(sim, "write", pair.here, &[memory]);
        if edge {
            let event = sim.recorded(pair.here);
            pair.other.stream_wait_event(pair.there, event).unwrap();
        }
        launch(&pair.other, "write", pair.there, &[memory]);
        pair.other.stream_synchronize(pair.there).unwrap();
    };
    expect_with(two_devices(), "peer_kernels", |sim| program(sim, false));
    clean_with(two_devices(), |sim| program(sim, true));
}

#[test]
fn a_peer_copy_races_at_the_other_device_s_memory_unless_events_order_it() {
    let program = |sim: &SimHarness, edges: bool| {
        let (pair, memory) = pair(sim);
        let copy = pair.other.mem_alloc_async(BYTES, pair.there).unwrap();
        if edges {
            let event = sim.recorded(pair.here);
            pair.other.stream_wait_event(pair.there, event).unwrap();
        }
        pair.other
            .copy_from(copy, sim, memory, BYTES, pair.there)
            .unwrap();
        if edges {
            let event = pair.other.recorded(pair.there);
            sim.stream_wait_event(pair.here, event).unwrap();
        }
        launch(sim, "write", pair.here, &[memory]);
        pair.other.stream_synchronize(pair.there).unwrap();
    };
    expect_with(two_devices(), "peer_copy", |sim| program(sim, false));
    clean_with(two_devices(), |sim| program(sim, true));
}
