//! Kernels and helpers of the tests of graphs.

#![allow(unsafe_code, reason = "passes the arguments of kernels")]

use std::ffi::c_void;

use millstream_driver::{
    DevicePtr, FunctionHandle, GraphExecHandle, GraphHandle, GraphNodeHandle, LaunchDims,
};

use crate::{harness::Host, sim_harness::SimHarness};

/// `add(word, value)` adds to a word. `count(word, condition)` decrements a word and sets the
/// condition to the new value. `set(condition, value)` sets a condition.
const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry add(.param .u64 add_0, .param .u32 add_1)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [add_0];
    ld.param.u32 %r1, [add_1];
    ld.global.u32 %r2, [%rd1];
    add.u32 %r3, %r2, %r1;
    st.global.u32 [%rd1], %r3;
    ret;
}
.visible .entry count(.param .u64 count_0, .param .u64 count_1)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [count_0];
    ld.param.u64 %rd2, [count_1];
    ld.global.u32 %r1, [%rd1];
    sub.u32 %r2, %r1, 1;
    st.global.u32 [%rd1], %r2;
    {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %rd2;
    st.param.b32 [value], %r2;
    call.uni cudaGraphSetConditional, (handle, value);
    }
    ret;
}
.visible .entry set(.param .u64 set_0, .param .u32 set_1)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [set_0];
    ld.param.u32 %r1, [set_1];
    {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %rd1;
    st.param.b32 [value], %r1;
    call.uni cudaGraphSetConditional, (handle, value);
    }
    ret;
}
";

pub(crate) const ONE_THREAD: LaunchDims = LaunchDims {
    grid: [1; 3],
    block: [1; 3],
    shared_bytes: 0,
};

/// The kernels of [`PTX`].
pub(crate) struct Kernels {
    pub(crate) add: FunctionHandle,
    pub(crate) count: FunctionHandle,
    pub(crate) set: FunctionHandle,
}

impl Kernels {
    pub(crate) fn load(sim: &SimHarness) -> Self {
        let module = sim.module_load(PTX.as_bytes()).unwrap();
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
    let params = args
        .each_ref()
        .map(|arg| std::ptr::from_ref(arg).cast::<c_void>());
    // SAFETY: each parameter has at most 8 bytes.
    unsafe { sim.graph_kernel(graph, after, (function, ONE_THREAD), &params) }.unwrap()
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
