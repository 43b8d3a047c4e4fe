//! Random recordings, whose edges are compared with those of a definition.

use proptest::prelude::*;

use super::*;
use crate::{Buffer, Device, graph::recorder};

const ARRAYS: usize = 3;
const LEN: usize = 16;
const STREAMS: usize = 3;

/// A fill of a part of an array, or a copy of as much of another into it.
#[derive(Clone, Debug)]
struct Step {
    stream: usize,
    target: (usize, usize),
    source: Option<(usize, usize)>,
    len: usize,
}

impl Step {
    /// Returns the accesses: array, first element, and whether it is written.
    fn accesses(&self) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        let (array, start) = self.target;
        let source = self.source.map(|(array, start)| (array, start, false));
        [(array, start, true)].into_iter().chain(source)
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.accesses().any(|(array, start, writes)| {
            other
                .accesses()
                .any(|(other_array, other_start, other_writes)| {
                    array == other_array
                        && (writes || other_writes)
                        && start < other_start + other.len
                        && other_start < start + self.len
                })
        })
    }
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..ARRAYS, 0..LEN);
    (0..STREAMS, place(), prop::option::of(place()), 1..LEN).prop_map(
        |(stream, target, source, len)| {
            let source = source.filter(|(array, _)| *array != target.0);
            let last = source.map_or(target.1, |(_, start)| start.max(target.1));
            Step {
                stream,
                target,
                source,
                len: len.min(LEN - last),
            }
        },
    )
}

fn recorded(device: &Device, steps: &[Step], order: Order) -> Vec<Node> {
    let stream = device.stream().expect("a stream");
    let mut arrays: [Buffer<u8>; ARRAYS] =
        std::array::from_fn(|_| stream.zeros(LEN).expect("an array"));
    let options = GraphOptions::new().order(order);
    let graph = recorder::record(device.state(), options, |r| {
        let streams: [Stream; STREAMS] = std::array::from_fn(|_| r.stream().expect("a stream"));
        for step in steps {
            let stream = &streams[step.stream];
            let (array, start) = step.target;
            let Some((from, from_start)) = step.source else {
                stream.fill(arrays[array].slice_mut(start..start + step.len), 1)?;
                continue;
            };
            let [source, target] = arrays
                .get_disjoint_mut([from, array])
                .expect("two different arrays");
            stream.copy(
                source.slice(from_start..from_start + step.len),
                target.slice_mut(start..start + step.len),
            )?;
        }
        Ok(())
    });
    graph.expect("nothing fails").nodes
}

/// Returns for each node the nodes that run before it.
fn before(dependencies: impl Iterator<Item = Vec<usize>>) -> Vec<Vec<bool>> {
    let mut all: Vec<Vec<bool>> = Vec::new();
    for direct in dependencies {
        let mut own = vec![false; all.len()];
        for at in direct {
            own[at] = true;
            for (earlier, &is_before) in all[at].iter().enumerate() {
                own[earlier] |= is_before;
            }
        }
        all.push(own);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nodes_are_ordered_exactly_as_conflicts_and_streams_require(
        steps in prop::collection::vec(step(), 0..20),
        by_data in any::<bool>(),
    ) {
        let device = Device::simulated().expect("a simulated device opens");
        let order = if by_data { Order::Data } else { Order::Stream };
        let nodes = recorded(&device, &steps, order);
        prop_assert_eq!(nodes.len(), steps.len());
        let required = steps.iter().enumerate().map(|(at, step)| {
            let needs = |earlier: &usize| {
                let earlier = &steps[*earlier];
                let same_stream = !by_data && earlier.stream == step.stream;
                same_stream || step.conflicts(earlier)
            };
            (0..at).filter(needs).collect()
        });
        let edges = nodes.iter().map(|node| node.dependencies.clone());
        prop_assert_eq!(before(edges), before(required));
        for node in &nodes {
            // No edge is implied by others.
            for at in &node.dependencies {
                let others = node.dependencies.iter().filter(|other| *other != at);
                let all = before(nodes.iter().map(|node| node.dependencies.clone()));
                prop_assert!(!others.into_iter().any(|other| all[*other].get(*at) == Some(&true)));
            }
        }
    }
}
