//! cudarc: `CudaGraph` owns no operand, and its `launch` is safe. A program that drops a slice, or
//! lets it go out of scope, and then launches the graph reads and writes freed memory.
//!
//! Here a graph keeps its operands. They are freed behind the last replay once the graph is
//! dropped.

use millstream::{Device, Graph, Result};

use crate::regressions::{N, counted};

/// Returns a graph whose input goes out of scope here, and its output.
fn graph_of(device: &Device) -> Result<(Graph, millstream::Buffer<u32>)> {
    let stream = device.stream()?;
    let input = stream.upload(&[3_u32; N])?;
    let mut output = stream.zeros::<u32>(N)?;
    let graph = device.record("copy", |r| r.stream()?.copy(&input, &mut output))?;
    Ok((graph, output))
}

#[test]
fn a_graph_is_replayed_after_its_operands_went_out_of_scope() {
    counted(|harness, calls| {
        harness.device.set_cache_limit(0);
        let stream = harness.stream();
        let (graph, output) = graph_of(&harness.device)?;
        calls.forget();
        let gate = harness.gate(&stream);
        graph.replay(&stream)?;
        graph.replay(&stream)?;
        let found = stream.download(&output)?;
        drop(graph);
        drop(output);
        for blocking in ["mem_free", "stream_synchronize", "context_synchronize"] {
            assert_eq!(calls.count(blocking), 0, "{blocking}");
        }
        harness.assert_pending(&found);
        let others = [(); 3].map(|()| harness.device.stream()?.upload(&[8_u32; N]));
        gate.open();
        assert_eq!(found.wait()?, [3; N]);
        for array in others {
            assert_eq!(stream.download(&array?)?.wait()?, [8; N]);
        }
        Ok(())
    });
}
