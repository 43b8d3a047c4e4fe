//! Tests that change the nodes of a graph by hand.

use millstream_sim::{Gpu, SimConfig};

use super::*;

#[test]
fn g15_a_missing_edge_is_a_race_of_two_nodes() {
    let gpu = Gpu::new(SimConfig::default());
    let device = Device::open_simulated(&gpu, 0).expect("a simulated device opens");
    let stream = device.stream().expect("a stream");
    let mut x = stream.zeros::<u8>(64).expect("an array");
    let mut y = stream.zeros::<u8>(64).expect("an array");
    let graph = device.record("two nodes", |r| {
        let (one, other) = (r.stream()?, r.stream()?);
        one.fill(&mut x, 1)?;
        other.copy(&x, &mut y)
    });
    let mut graph = graph.expect("nothing fails");
    graph.replay(&stream).expect("nothing fails");
    stream.synchronize().expect("nothing fails");
    assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());

    graph.nodes[1].dependencies.clear();
    graph.build().expect("nothing fails");
    graph.replay(&stream).expect("nothing fails");
    stream.synchronize().expect("nothing fails");
    let reports = gpu.reports();
    let [report] = &reports[..] else {
        panic!("one race is expected: {reports:?}");
    };
    for part in ["`fill`", "`copy`", "node 1 of", "node 2 of"] {
        assert!(report.text.contains(part), "{part}: {}", report.text);
    }
}
