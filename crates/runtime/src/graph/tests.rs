//! Tests that look inside: at nodes that are changed by hand, and at which devices examine their
//! operands.

use millstream_sim::{Gpu, Schedule, SimConfig};

use super::{node::Work, *};
use crate::{Buffer, Error, Stream};

const SCHEDULES: [Schedule; 5] = [
    Schedule::Timed,
    Schedule::Eager,
    Schedule::Lazy,
    Schedule::Random(1),
    Schedule::Random(2),
];

/// Runs a test under every schedule.
fn everywhere(run: impl Fn(&Gpu, &Device) -> Result<()>) {
    for schedule in SCHEDULES {
        let gpu = Gpu::new(SimConfig::new().devices(2).schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).expect("a simulated device opens");
        run(&gpu, &device).expect("nothing fails");
    }
}

/// Replays the graph without a race, then with one edge removed by `remove`. Checks that exactly
/// one race is reported then, with these parts in its text.
fn assert_race_without_edge(
    gpu: &Gpu,
    stream: &Stream,
    mut graph: Graph,
    remove: impl FnOnce(&mut Graph),
    parts: &[&str],
) -> Result<()> {
    graph.replay(stream)?;
    stream.synchronize()?;
    assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());
    remove(&mut graph);
    graph.build()?;
    graph.replay(stream)?;
    stream.synchronize()?;
    let reports = gpu.reports();
    let [report] = &reports[..] else {
        panic!("one race is expected: {reports:?}");
    };
    for part in parts {
        assert!(report.text.contains(part), "{part}: {}", report.text);
    }
    Ok(())
}

#[test]
fn g15_a_missing_edge_is_a_race_of_two_nodes() {
    everywhere(|gpu, device| {
        let stream = device.stream()?;
        let (mut x, mut y) = (stream.zeros::<u8>(64)?, stream.zeros::<u8>(64)?);
        let graph = device.record("two nodes", |r| {
            let (one, other) = (r.stream()?, r.stream()?);
            one.fill(&mut x, 1)?;
            other.copy(&x, &mut y)
        })?;
        let remove = |graph: &mut Graph| graph.nodes[1].dependencies.clear();
        let parts = ["`fill`", "`copy`", "node 1 of", "node 2 of"];
        assert_race_without_edge(gpu, &stream, graph, remove, &parts)
    });
}

#[test]
fn g15_a_missing_edge_in_the_body_of_a_loop_is_a_race_of_two_nodes() {
    everywhere(|gpu, device| {
        let stream = device.stream()?;
        let mut flag = stream.upload(&[1_u32])?;
        let (mut x, mut y) = (stream.zeros::<u8>(64)?, stream.zeros::<u8>(64)?);
        let graph = device.record("loop", |r| {
            r.if_(&flag, |body| {
                let (one, other) = (body.stream()?, body.stream()?);
                one.fill(&mut x, 1)?;
                other.copy(&x, &mut y)
            })
        })?;
        let remove = |graph: &mut Graph| {
            let Work::Conditional(conditional) = &mut graph.nodes[0].work else {
                panic!("the condition is the first node");
            };
            conditional.body[1].dependencies.clear();
        };
        stream.fill(&mut flag, 1)?;
        // The first node of the graph sets the condition.
        let parts = ["`fill`", "`copy`", "node 2.1 of", "node 2.2 of"];
        assert_race_without_edge(gpu, &stream, graph, remove, &parts)
    });
}

/// Returns whether devices examine their operands for a reason of their own. Other tests of the
/// process make all devices examine theirs.
fn examine(devices: [&Device; 2]) -> [bool; 2] {
    devices.map(|device| device.state().admission.examines_on_its_own())
}

#[test]
fn g12_only_devices_that_a_note_has_reached_examine_their_operands() {
    everywhere(|gpu, device| {
        let other = Device::open_simulated(gpu, 1)?;
        let (stream, there) = (device.stream()?, other.stream()?);
        let both = [device, &other];
        let mut flag: Buffer<u32> = stream.upload(&[1])?;
        let mut x = stream.zeros::<u32>(4)?;
        let graph = device.record("endless", |r| {
            r.while_loop(&mut flag, 2, |body, _| body.stream()?.fill(&mut x, 7))
        })?;
        graph.replay(&stream)?;
        stream.synchronize()?;
        assert_eq!(examine(both), [true, false]);
        // The note goes with the data, and stays when the copy itself is settled.
        let (mut copy, mut derived) = (there.zeros::<u32>(4)?, there.zeros::<u32>(4)?);
        there.copy(&x, &mut copy)?;
        there.synchronize()?;
        let imports = copy.view().span.allocation.history.provenance.unsettled()?;
        assert!(
            imports.iter().all(|import| import.note().is_some()),
            "{imports:?}"
        );
        drop(imports);
        assert_eq!(examine(both), [true, true]);
        there.copy(&copy, &mut derived)?;
        let read = there.download(&derived)?.wait();
        assert!(matches!(read, Err(Error::LoopLimit { .. })), "{read:?}");
        assert_eq!(there.download(&derived)?.wait()?, [7; 4]);
        drop((x, copy, derived));
        // The reactor settles the crossing.
        while examine(both) != [false, false] {
            stream.synchronize()?;
        }
        Ok(())
    });
}
