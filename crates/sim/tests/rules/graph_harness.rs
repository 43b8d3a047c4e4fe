//! Kernels and helpers of the tests of graphs.

use millstream_driver::{DevicePtr, FunctionHandle, GraphExecHandle, GraphHandle, GraphNodeHandle};

use crate::rules::{
    harness::{Host, graphs::GRAPH_PTX},
    sim_harness::SimHarness,
};

pub(crate) struct Kernels {
    pub(crate) add: FunctionHandle,
    pub(crate) count: FunctionHandle,
    pub(crate) set: FunctionHandle,
}

impl Kernels {
    pub(crate) fn load(sim: &SimHarness) -> Self {
        let module = sim.module_load(GRAPH_PTX.as_bytes()).unwrap();
        let kernel = |name| sim.module_function(module, name).unwrap();
        Self {
            add: kernel("add"),
            count: kernel("count"),
            set: kernel("set"),
        }
    }
}

/// Adds a kernel of one thread with 64-bit arguments, of which a 32-bit parameter takes the lower
/// half.
pub(crate) fn kernel(
    sim: &SimHarness,
    graph: GraphHandle,
    after: &[GraphNodeHandle],
    function: FunctionHandle,
    args: [u64; 2],
) -> GraphNodeHandle {
    sim.graph_one_thread(graph, after, function, &args).unwrap()
}

pub(crate) fn word(sim: &SimHarness, memory: DevicePtr) -> u32 {
    let bytes = sim.read(memory, 4, sim.stream());
    u32::from_le_bytes(bytes.try_into().unwrap())
}

pub(crate) fn words(sim: &SimHarness, values: &[u32]) -> DevicePtr {
    let memory = sim.mem_alloc(values.len() * 4).unwrap();
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let host = Host::of(&bytes);
    sim.upload_now(memory, host).unwrap();
    sim.context_synchronize().unwrap();
    memory
}

/// Destroys an executable graph and the graph that it was made from.
pub(crate) fn destroy(sim: &SimHarness, graph: GraphHandle, exec: GraphExecHandle) {
    sim.graph_exec_destroy(exec).unwrap();
    sim.graph_destroy(graph).unwrap();
}
