//! Graphs: the nodes whose parameters differ from the driver's, and the functions that CUDA 13 gave
//! another signature.

use crate::{
    abi::{Box3, DriverBox3, DriverSide, Function, Pitched, Ptr, Stream},
    api::copy::{driver_box, of_symbol, rows},
    call::current,
    codes::Answer,
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

fn kernel_parameters(node: usize) -> Answer<KernelNode> {
    let none = KernelNode {
        function: 0,
        sizes: [0; 7],
        arguments: 0,
        extra: 0,
    };
    let mut known = DriverKernelNode {
        node: none,
        kernel: 0,
        context: 0,
    };
    cu!(cuGraphKernelNodeGetParams_v2, node, &mut known)?;
    let kernel = if known.kernel == 0 {
        known.node.function
    } else {
        known.kernel
    };
    Ok(KernelNode {
        function: registry::host_of(kernel),
        ..known.node
    })
}

fn copy_parameters(node: usize) -> Answer<Box3> {
    let mut known = DriverBox3::default();
    cu!(cuGraphMemcpyNodeGetParams, node, &mut known)?;
    Ok(of_driver(&known))
}

/// Returns a copy of contiguous bytes.
fn bytes(to: usize, from: usize, bytes: usize, kind: i32) -> Box3 {
    rows((to, bytes), (from, bytes), (bytes, 1), kind)
}

/// Returns a copy to a part of a variable: symbol, source, bytes, offset.
fn to_symbol(symbol: usize, from: usize, count: usize, offset: usize, kind: i32) -> Answer<Box3> {
    Ok(bytes(
        of_symbol((symbol, offset, count), kind, false)?,
        from,
        count,
        kind,
    ))
}

/// Returns a copy from a part of a variable: target, symbol, bytes, offset.
fn from_symbol(to: usize, symbol: usize, count: usize, offset: usize, kind: i32) -> Answer<Box3> {
    Ok(bytes(
        to,
        of_symbol((symbol, offset, count), kind, true)?,
        count,
        kind,
    ))
}

/// The node that a function adds: where its handle goes, the graph, and its dependencies.
type Added = (usize, usize, usize, usize);

fn add_copy((node, graph, before, count): Added, copied: &Box3) -> Answer {
    cu! { cuGraphAddMemcpyNode, node, graph, before, count, &driver_box(copied)?, current()? }
}

fn set_copy(node: usize, copied: &Box3) -> Answer {
    cu!(cuGraphMemcpyNodeSetParams, node, &driver_box(copied)?)
}

fn set_copy_of(graph: usize, node: usize, copied: &Box3) -> Answer {
    cu! { cuGraphExecMemcpyNodeSetParams, graph, node, &driver_box(copied)?, current()? }
}

/// Returns the parameters of a copy as the program knows them.
fn of_driver(copied: &DriverBox3) -> Box3 {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    let (from, to) = (&copied.source, &copied.target);
    let pitched = |side: &DriverSide| Pitched {
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

/// The numbers of kinds of nodes.
const KERNEL: u32 = 0;
const COPY: u32 = 1;
const FILL: u32 = 2;
const ALLOCATION: u32 = 10;
const CONDITIONAL: u32 = 13;

/// Changes the parameters of a node of any kind to the driver's, which name the context.
fn node_for_driver(of_program: Ptr<NodeParameters>) -> Answer<NodeParameters> {
    let mut node = of_program.get()?;
    let place_of_context = match node[0] as u32 {
        KERNEL => {
            node[9] = registry::kernel(Function(node[2]))?;
            node[2] = 0;
            10
        }
        COPY => {
            // Behind the flags and the context.
            let copied = of_program.to::<usize>().at(4).to::<Box3>().get()?;
            let target = Ptr::<usize>::of(std::ptr::from_mut(&mut node[4]).expose_provenance());
            target.to::<DriverBox3>().set(driver_box(&copied)?)?;
            3
        }
        FILL => 7,
        CONDITIONAL => 5,
        _ => return Ok(node),
    };
    node[place_of_context] = current()?;
    Ok(node)
}

fn add_node((node, graph, before, count): Added, edges: usize, of_program: usize) -> Answer {
    let of_program = Ptr::<NodeParameters>::of(of_program);
    let mut known = node_for_driver(of_program)?;
    cu!(
        cuGraphAddNode_v2,
        node,
        graph,
        before,
        edges,
        count,
        &mut known
    )?;
    // The parameters return the address of the memory, and the bodies.
    match known[0] as u32 {
        ALLOCATION | CONDITIONAL => of_program.set(known),
        _ => Ok(()),
    }
}

include!("../tables/graphs.txt");
