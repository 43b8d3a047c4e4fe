//! Races between devices: accesses of one device to another device's memory.

use crate::races::prelude::*;

/// Two devices with a stream each, and pool memory of the first that both can access.
struct Pair<'a> {
    sim: &'a SimHarness,
    other: SimHarness,
    here: StreamHandle,
    there: StreamHandle,
    memory: DevicePtr,
}

impl<'a> Pair<'a> {
    fn new(sim: &'a SimHarness) -> Self {
        let other = sim.on_device(1);
        sim.pool_set_access(other.device, true).unwrap();
        let (here, there) = (sim.stream(), other.stream());
        let memory = sim.mem_alloc_async(BYTES, here).unwrap();
        sim.fill(memory, 0, BYTES, here);
        sim.stream_synchronize(here).unwrap();
        Self {
            sim,
            other,
            here,
            there,
            memory,
        }
    }

    /// Makes later work of the second device wait for the first one's.
    fn edge(&self) {
        let event = self.sim.recorded(self.here);
        self.other.stream_wait_event(self.there, event).unwrap();
    }

    /// Makes later work of the first device wait for the second one's.
    fn edge_back(&self) {
        let event = self.other.recorded(self.there);
        self.sim.stream_wait_event(self.here, event).unwrap();
    }

    fn finish(&self) {
        self.other.stream_synchronize(self.there).unwrap();
    }
}

fn two_devices() -> SimConfig {
    SimConfig::new().devices(2)
}

#[test]
fn a_kernel_of_another_device_races_unless_events_order_it() {
    let program = |sim: &SimHarness, edge: bool| {
        let pair = Pair::new(sim);
        launch(sim, "write", pair.here, &[pair.memory]);
        if edge {
            pair.edge();
        }
        launch(&pair.other, "write", pair.there, &[pair.memory]);
        pair.finish();
    };
    expect_with(two_devices(), "peer_kernels", |sim| program(sim, false));
    clean_with(two_devices(), |sim| program(sim, true));
}

#[test]
fn a_peer_copy_races_at_the_other_device_s_memory_unless_events_order_it() {
    let program = |sim: &SimHarness, edges: bool| {
        let pair = Pair::new(sim);
        let copy = pair.other.mem_alloc_async(BYTES, pair.there).unwrap();
        if edges {
            pair.edge();
        }
        pair.other
            .copy_from(copy, sim, pair.memory, BYTES, pair.there)
            .unwrap();
        if edges {
            pair.edge_back();
        }
        launch(sim, "write", pair.here, &[pair.memory]);
        pair.finish();
    };
    expect_with(two_devices(), "peer_copy", |sim| program(sim, false));
    clean_with(two_devices(), |sim| program(sim, true));
}
