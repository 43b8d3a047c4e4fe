//! Tests that change the nodes of a graph by hand.

use millstream_sim::{Gpu, SimConfig};

use super::{node::Work, *};

/// Checks that exactly one race is reported, between two nodes, with these parts in its text.
fn assert_race(gpu: &Gpu, parts: &[&str]) {
    let reports = gpu.reports();
    let [report] = &reports[..] else {
        panic!("one race is expected: {reports:?}");
    };
    for part in parts {
        assert!(report.text.contains(part), "{part}: {}", report.text);
    }
}

#[test]
fn g15_a_missing_edge_in_the_body_of_a_loop_is_a_race_of_two_nodes() {
    let gpu = Gpu::new(SimConfig::default());
    let device = Device::open_simulated(&gpu, 0).expect("a simulated device opens");
    let stream = device.stream().expect("a stream");
    let mut flag = stream.upload(&[1_u32]).expect("an array");
    let [mut x, mut y] = [(); 2].map(|()| stream.zeros::<u8>(64).expect("an array"));
    let graph = device.record("loop", |r| {
        r.while_loop(&mut flag, 3, |body, flag| {
            let (one, other) = (body.stream()?, body.stream()?);
            one.fill(&mut x, 1)?;
            other.copy(&x, &mut y)?;
            other.fill(flag, 0)
        })
    });
    let mut graph = graph.expect("nothing fails");
    graph.replay(&stream).expect("nothing fails");
    stream.synchronize().expect("nothing fails");
    assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());

    let Work::Conditional(conditional) = &mut graph.nodes[0].work else {
        panic!("the loop is the first node");
    };
    conditional.body[1].dependencies.clear();
    graph.build().expect("nothing fails");
    stream.fill(&mut flag, 1).expect("nothing fails");
    graph.replay(&stream).expect("nothing fails");
    stream.synchronize().expect("nothing fails");
    assert_race(&gpu, &["`fill`", "`copy`"]);
}

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
    assert_race(&gpu, &["`fill`", "`copy`", "node 1 of", "node 2 of"]);
}
