//! The real time of the simulation by kernel.

use crate::rules::prelude::*;
use millstream_driver::ConditionalKind;

#[test]
fn a_profile_has_each_kernels_launches_of_all_devices_in_loops_of_graphs_and_with_faults() {
    for profiles in [false, true] {
        let sim = SimHarness::new(SimConfig::new().devices(2).profile(profiles));
        let kernels = Kernels::load(&sim);
        let (left, sum) = (words(&sim, &[5]), words(&sim, &[0]));
        let graph = sim.graph_create().unwrap();
        let condition = sim.graph_condition(graph, 1).unwrap();
        let node = sim.graph_add_conditional(graph, &[], condition, ConditionalKind::While);
        let body = node.unwrap().body;
        let first = kernel(&sim, body, &[], kernels.add, [sum.as_raw(), 3]);
        let args = [left.as_raw(), condition.as_raw()];
        kernel(&sim, body, &[first], kernels.count, args);
        let exec = sim.graph_instantiate(graph).unwrap();
        sim.graph_launch(exec, sim.stream()).unwrap();
        assert_eq!(word(&sim, sum), 15);
        let other = sim.on_device(1);
        let (there, memory) = (other.stream(), other.mem_alloc(16).unwrap());
        other.fill(memory, 0, 16, there);
        let set = other.kernel(SET, "set");
        for address in [memory, DevicePtr::from_raw(8)] {
            let args = [Arg::Pointer(address), Arg::U32(9)];
            other.launch(set, (1, 4), there, &args).unwrap();
            assert_eq!(other.stream_synchronize(there).is_ok(), address == memory);
        }
        let profile = sim.gpu.profile();
        if !profiles {
            assert!(profile.rows.is_empty());
            continue;
        }
        let rows = profile.rows.iter();
        let counts: Vec<_> = rows.map(|(name, spent)| (&**name, spent.count)).collect();
        // Two words are uploaded, one is read, and one fill.
        assert_eq!(
            counts[1..],
            [
                ("(copies and fills)", 4),
                ("add", 5),
                ("count", 5),
                ("set", 2)
            ]
        );
        let spent = profile.rows.values();
        let instructions: u64 = spent.clone().map(|spent| spent.thread_instructions).sum();
        assert_eq!(instructions, sim.gpu.kernel_stats().thread_instructions);
        assert!(spent.clone().all(|spent| spent.ns > 0));
        assert!(spent.map(|spent| spent.ns).sum::<u64>() <= profile.elapsed_ns);
    }
}
