//! Graphs: the nodes whose parameters differ from the driver's, and the functions that CUDA 13 gave
//! another signature.

use crate::{
    abi::{Box3, DriverBox3, Extent, Function, Pitched, Ptr, Stream},
    api::copy::driver_box,
    call::current,
    codes::{Answer, INVALID_VALUE},
    driver::cu,
    export::exports,
    registry, version,
};

/// `cudaKernelNodeParams`, and the start of `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct KernelNode {
    function: usize,
    sizes: [u32; 7],
    arguments: usize,
    extra: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DriverKernelNode {
    node: KernelNode,
    kernel: usize,
    context: usize,
}

impl KernelNode {
    fn for_driver(self) -> Answer<DriverKernelNode> {
        let kernel = registry::kernel(Function(self.function))?;
        let node = Self {
            function: 0,
            ..self
        };
        Ok(DriverKernelNode {
            node,
            kernel,
            context: 0,
        })
    }
}

/// The parameters of a copy of contiguous bytes.
fn contiguous(to: usize, from: usize, bytes: usize, kind: i32) -> Box3 {
    let pitched = |address| Pitched {
        address,
        pitch: bytes,
        width: bytes,
        height: 1,
    };
    Box3 {
        source: pitched(from),
        target: pitched(to),
        extent: Extent {
            width: bytes,
            height: 1,
            depth: 1,
        },
        kind,
        ..Box3::default()
    }
}

/// Returns the address of a part of a variable.
fn of_symbol(symbol: usize, offset: usize) -> Answer<usize> {
    registry::variable(symbol)?
        .0
        .checked_add(offset)
        .ok_or(INVALID_VALUE)
}

/// The node that a function adds: where its handle goes, the graph, and its dependencies.
type Added = (usize, usize, usize, usize);

fn add_copy((node, graph, before, count): Added, copied: &Box3) -> Answer {
    cu!(
        cuGraphAddMemcpyNode,
        node,
        graph,
        before,
        count,
        &driver_box(copied)?,
        current()?
    )
}

fn set_copy(node: usize, copied: &Box3) -> Answer {
    cu!(cuGraphMemcpyNodeSetParams, node, &driver_box(copied)?)
}

fn set_copy_of(graph: usize, node: usize, copied: &Box3) -> Answer {
    cu!(
        cuGraphExecMemcpyNodeSetParams,
        graph,
        node,
        &driver_box(copied)?,
        current()?
    )
}

/// Returns the parameters of a copy as the program knows them.
fn of_driver(copied: &DriverBox3) -> Box3 {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    let (from, to) = (&copied.source, &copied.target);
    let pitched = |side: &crate::abi::DriverSide| Pitched {
        address: side.host | side.device,
        pitch: side.pitch,
        width: copied.extent.width,
        height: side.height,
    };
    Box3 {
        source_at: from.at,
        source: pitched(from),
        target_at: to.at,
        target: pitched(to),
        extent: copied.extent,
        kind: match (from.memory_type, to.memory_type) {
            (HOST, HOST) => 0,
            (HOST, DEVICE) => 1,
            (DEVICE, HOST) => 2,
            (DEVICE, DEVICE) => 3,
            _ => 4,
        },
        ..Box3::default()
    }
}

/// `cudaGraphNodeParams` and `CUgraphNodeParams`: the kind, and its parameters behind 16 bytes.
type NodeParameters = [usize; 32];

/// Changes the parameters of a node of any kind to the driver's.
fn node_for_driver(of_program: Ptr<NodeParameters>) -> Answer<NodeParameters> {
    const KERNEL: u32 = 0;
    const COPY: u32 = 1;
    const FILL: usize = 2;
    let mut node = of_program.get()?;
    let parameters = of_program.to::<usize>().at(2);
    match node[0] as u32 {
        KERNEL => {
            node[2] = 0;
            node[9] = registry::kernel(Function(parameters.get()?))?;
            node[10] = current()?;
        }
        COPY => {
            let start =
                Ptr::<NodeParameters>::of(std::ptr::from_mut(&mut node).expose_provenance());
            // Behind the flags and the context.
            let copied = driver_box(&parameters.at(2).to::<Box3>().get()?)?;
            start.to::<usize>().at(4).to::<DriverBox3>().set(copied)?;
            node[3] = current()?;
        }
        fill if fill as usize == FILL => node[8] = current()?,
        _ => {}
    }
    Ok(node)
}

fn add_node((node, graph, before, count): Added, edges: usize, of_program: usize) -> Answer {
    let of_program = Ptr::<NodeParameters>::of(of_program);
    let mut parameters = node_for_driver(of_program)?;
    cu!(
        cuGraphAddNode_v2,
        node,
        graph,
        before,
        edges,
        count,
        &mut parameters
    )?;
    /// The kind of nodes that allocate memory, whose parameters return its address.
    const ALLOCATION: u32 = 10;
    if parameters[0] as u32 == ALLOCATION {
        of_program.set(parameters)?;
    }
    Ok(())
}

exports! {
    Context [cudaGraphAddKernelNode]
    (_call, node: usize, graph: usize, before: usize, count: usize, parameters: Ptr<KernelNode>) {
        let parameters = parameters.get()?.for_driver()?;
        cu!(cuGraphAddKernelNode_v2, node, graph, before, count, &parameters)
    }

    Context [cudaGraphKernelNodeGetParams] (_call, node: usize, target: Ptr<KernelNode>) {
        target.check()?;
        let none = KernelNode { function: 0, sizes: [0; 7], arguments: 0, extra: 0 };
        let mut known = DriverKernelNode { node: none, kernel: 0, context: 0 };
        cu!(cuGraphKernelNodeGetParams_v2, node, &mut known)?;
        let kernel = if known.kernel == 0 { known.node.function } else { known.kernel };
        target.set(KernelNode { function: registry::host_of(kernel), ..known.node })
    }

    Context [cudaGraphKernelNodeSetParams] (_call, node: usize, parameters: Ptr<KernelNode>) {
        cu!(cuGraphKernelNodeSetParams_v2, node, &parameters.get()?.for_driver()?)
    }

    Context [cudaGraphExecKernelNodeSetParams]
    (_call, graph: usize, node: usize, parameters: Ptr<KernelNode>) {
        cu!(cuGraphExecKernelNodeSetParams_v2, graph, node, &parameters.get()?.for_driver()?)
    }

    Context [cudaGraphAddMemcpyNode]
    (_call, node: usize, graph: usize, before: usize, count: usize, copied: Ptr<Box3>) {
        add_copy((node, graph, before, count), &copied.get()?)
    }

    Context [cudaGraphAddMemcpyNode1D]
    (_call, node: usize, graph: usize, before: usize, count: usize, to: usize, from: usize,
     bytes: usize, kind: i32) {
        add_copy((node, graph, before, count), &contiguous(to, from, bytes, kind))
    }

    Context [cudaGraphAddMemcpyNodeToSymbol]
    (_call, node: usize, graph: usize, before: usize, count: usize, symbol: usize, from: usize,
     bytes: usize, offset: usize, kind: i32) {
        let to = of_symbol(symbol, offset)?;
        add_copy((node, graph, before, count), &contiguous(to, from, bytes, kind))
    }

    Context [cudaGraphAddMemcpyNodeFromSymbol]
    (_call, node: usize, graph: usize, before: usize, count: usize, to: usize, symbol: usize,
     bytes: usize, offset: usize, kind: i32) {
        let from = of_symbol(symbol, offset)?;
        add_copy((node, graph, before, count), &contiguous(to, from, bytes, kind))
    }

    Context [cudaGraphMemcpyNodeGetParams] (_call, node: usize, target: Ptr<Box3>) {
        target.check()?;
        let mut known = DriverBox3::default();
        cu!(cuGraphMemcpyNodeGetParams, node, &mut known)?;
        target.set(of_driver(&known))
    }

    Context [cudaGraphMemcpyNodeSetParams] (_call, node: usize, copied: Ptr<Box3>) {
        set_copy(node, &copied.get()?)
    }

    Context [cudaGraphMemcpyNodeSetParams1D]
    (_call, node: usize, to: usize, from: usize, bytes: usize, kind: i32) {
        set_copy(node, &contiguous(to, from, bytes, kind))
    }

    Context [cudaGraphMemcpyNodeSetParamsToSymbol]
    (_call, node: usize, symbol: usize, from: usize, bytes: usize, offset: usize, kind: i32) {
        set_copy(node, &contiguous(of_symbol(symbol, offset)?, from, bytes, kind))
    }

    Context [cudaGraphMemcpyNodeSetParamsFromSymbol]
    (_call, node: usize, to: usize, symbol: usize, bytes: usize, offset: usize, kind: i32) {
        set_copy(node, &contiguous(to, of_symbol(symbol, offset)?, bytes, kind))
    }

    Context [cudaGraphExecMemcpyNodeSetParams]
    (_call, graph: usize, node: usize, copied: Ptr<Box3>) {
        set_copy_of(graph, node, &copied.get()?)
    }

    Context [cudaGraphExecMemcpyNodeSetParams1D]
    (_call, graph: usize, node: usize, to: usize, from: usize, bytes: usize, kind: i32) {
        set_copy_of(graph, node, &contiguous(to, from, bytes, kind))
    }

    Context [cudaGraphExecMemcpyNodeSetParamsToSymbol]
    (_call, graph: usize, node: usize, symbol: usize, from: usize, bytes: usize, offset: usize,
     kind: i32) {
        set_copy_of(graph, node, &contiguous(of_symbol(symbol, offset)?, from, bytes, kind))
    }

    Context [cudaGraphExecMemcpyNodeSetParamsFromSymbol]
    (_call, graph: usize, node: usize, to: usize, symbol: usize, bytes: usize, offset: usize,
     kind: i32) {
        set_copy_of(graph, node, &contiguous(to, of_symbol(symbol, offset)?, bytes, kind))
    }

    Context [cudaGraphAddMemsetNode]
    (_call, node: usize, graph: usize, before: usize, count: usize, parameters: usize) {
        cu!(cuGraphAddMemsetNode, node, graph, before, count, parameters, current()?)
    }

    Context [cudaGraphExecMemsetNodeSetParams]
    (_call, graph: usize, node: usize, parameters: usize) {
        cu!(cuGraphExecMemsetNodeSetParams, graph, node, parameters, current()?)
    }

    /// CUDA 12 has no properties of edges here.
    Context [cudaGraphAddNode]
    (_call, node: usize, graph: usize, before: usize, edges: usize, count: usize,
     parameters: usize) {
        match version::major() {
            12 => add_node((node, graph, before, edges), 0, count),
            _ => add_node((node, graph, before, count), edges, parameters),
        }
    }

    Context [cudaGraphAddNode_v2]
    (_call, node: usize, graph: usize, before: usize, edges: usize, count: usize,
     parameters: usize) {
        add_node((node, graph, before, count), edges, parameters)
    }

    Context [cudaGraphNodeSetParams] (_call, node: usize, parameters: Ptr<NodeParameters>) {
        cu!(cuGraphNodeSetParams, node, &mut node_for_driver(parameters)?)
    }

    Context [cudaGraphExecNodeSetParams]
    (_call, graph: usize, node: usize, parameters: Ptr<NodeParameters>) {
        cu!(cuGraphExecNodeSetParams, graph, node, &mut node_for_driver(parameters)?)
    }

    Context [cudaGraphConditionalHandleCreate]
    (_call, handle: usize, graph: usize, value: u32, flags: u32) {
        cu!(cuGraphConditionalHandleCreate, handle, graph, current()?, value, flags)
    }

    Context [cudaGraphAddDependencies]
    (_call, graph: usize, from: usize, to: usize, edges: usize, count: usize) {
        match version::major() {
            12 => cu!(cuGraphAddDependencies, graph, from, to, edges),
            _ => cu!(cuGraphAddDependencies_v2, graph, from, to, edges, count),
        }
    }

    Context [cudaGraphRemoveDependencies]
    (_call, graph: usize, from: usize, to: usize, edges: usize, count: usize) {
        match version::major() {
            12 => cu!(cuGraphRemoveDependencies, graph, from, to, edges),
            _ => cu!(cuGraphRemoveDependencies_v2, graph, from, to, edges, count),
        }
    }

    Context [cudaGraphGetEdges]
    (_call, graph: usize, from: usize, to: usize, edges: usize, count: usize) {
        match version::major() {
            12 => cu!(cuGraphGetEdges, graph, from, to, edges),
            _ => cu!(cuGraphGetEdges_v2, graph, from, to, edges, count),
        }
    }

    Context [cudaGraphNodeGetDependencies]
    (_call, node: usize, others: usize, edges: usize, count: usize) {
        match version::major() {
            12 => cu!(cuGraphNodeGetDependencies, node, others, edges),
            _ => cu!(cuGraphNodeGetDependencies_v2, node, others, edges, count),
        }
    }

    Context [cudaGraphNodeGetDependentNodes]
    (_call, node: usize, others: usize, edges: usize, count: usize) {
        match version::major() {
            12 => cu!(cuGraphNodeGetDependentNodes, node, others, edges),
            _ => cu!(cuGraphNodeGetDependentNodes_v2, node, others, edges, count),
        }
    }

    Context [cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz per_thread]
    (call, stream: Stream, status: usize, id: usize, graph: usize, before: usize, edges: usize,
     count: usize) {
        let stream = call.stream(stream);
        match version::major() {
            12 => cu!(cuStreamGetCaptureInfo, stream, status, id),
            _ => cu!(cuStreamGetCaptureInfo_v3, stream, status, id, graph, before, edges, count),
        }
    }

    Context [cudaStreamUpdateCaptureDependencies,
             cudaStreamUpdateCaptureDependencies_ptsz per_thread]
    (call, stream: Stream, nodes: usize, edges: usize, count: usize, flags: usize) {
        let stream = call.stream(stream);
        match version::major() {
            12 => cu!(cuStreamUpdateCaptureDependencies, stream, nodes, edges, count),
            _ => cu!(cuStreamUpdateCaptureDependencies_v2, stream, nodes, edges, count, flags),
        }
    }
}
