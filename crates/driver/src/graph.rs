//! Graphs: nodes, conditional nodes, and the capture of a stream.

use std::ffi::c_void;

use crate::{
    Copy2d, DevicePtr, FillPattern, FunctionHandle, GraphHandle, GraphNodeHandle, LaunchAttributes,
    LaunchDims,
};

/// The operation of a graph node; see [`Driver::graph_add_node`](crate::Driver::graph_add_node).
///
/// ```
/// use millstream_driver::{DevicePtr, FillPattern, GraphNode};
/// let clear = GraphNode::Fill {
///     target: DevicePtr::from_raw(0x1000),
///     pattern: FillPattern::U32(0),
///     count: 256,
/// };
/// assert_ne!(clear, GraphNode::Empty);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GraphNode<'a> {
    /// A kernel (`cuGraphAddKernelNode`).
    Kernel(KernelNode<'a>),
    /// A copy between device, managed and page-locked memory (`cuGraphAddMemcpyNode`). A copy of
    /// contiguous bytes has one row, and its pitches do not matter.
    Copy(Copy2d),
    /// A fill of device memory (`cuGraphAddMemsetNode`).
    Fill {
        /// The first byte; aligned to the element size.
        target: DevicePtr,
        /// The element.
        pattern: FillPattern,
        /// The number of elements.
        count: usize,
    },
    /// A node without an operation, which joins its dependencies (`cuGraphAddEmptyNode`).
    Empty,
    /// A copy of another graph, made when the node is added (`cuGraphAddChildGraphNode`). Its
    /// nodes run after the dependencies of this node, and the dependents of this node after them.
    Child(GraphHandle),
}

/// A kernel as a graph node: the arguments of a launch.
///
/// ```
/// use millstream_driver::{FunctionHandle, KernelNode, LaunchAttributes, LaunchDims};
/// let node = KernelNode {
///     function: FunctionHandle::from_raw(7),
///     dims: LaunchDims { grid: [4, 1, 1], block: [256, 1, 1], shared_bytes: 0 },
///     attributes: LaunchAttributes::default(),
///     params: &[],
/// };
/// assert_eq!(node.dims.threads(), 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelNode<'a> {
    /// The kernel.
    pub function: FunctionHandle,
    /// The launch dimensions.
    pub dims: LaunchDims,
    /// The attributes. Fixed once the node is instantiated.
    pub attributes: LaunchAttributes,
    /// Pointers to the arguments, which are copied into the node during the call.
    pub params: &'a [*const c_void],
}

/// A kernel of a graph that exists; see [`Driver::graph_kernels`](crate::Driver::graph_kernels).
///
/// ```
/// use millstream_driver::{FunctionHandle, GraphKernel, LaunchAttributes, LaunchDims};
/// let kernel = GraphKernel {
///     function: FunctionHandle::from_raw(7),
///     dims: LaunchDims { grid: [4, 1, 1], block: [256, 1, 1], shared_bytes: 0 },
///     attributes: LaunchAttributes::default(),
///     params: vec![Box::new(0x1000_u64.to_ne_bytes())],
/// };
/// assert_eq!(kernel.params[0].len(), 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphKernel {
    /// The kernel.
    pub function: FunctionHandle,
    /// The launch dimensions.
    pub dims: LaunchDims,
    /// The attributes.
    pub attributes: LaunchAttributes,
    /// The bytes of each argument.
    pub params: Vec<Box<[u8]>>,
}

/// The kind of a conditional node, which decides how often its body runs
/// (`CUgraphConditionalNodeType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalKind {
    /// Runs the body once if the condition is not 0 when the node is reached.
    If,
    /// Runs the body while the condition is not 0: looks at it before each iteration.
    While,
}

/// A conditional node and its body; see
/// [`Driver::graph_add_conditional`](crate::Driver::graph_add_conditional).
///
/// ```
/// use millstream_driver::{ConditionalNode, GraphHandle, GraphNodeHandle};
/// let node = ConditionalNode {
///     node: GraphNodeHandle::from_raw(1),
///     body: GraphHandle::from_raw(2),
/// };
/// assert_eq!(node.body.as_raw(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionalNode {
    /// The node in the graph it was added to.
    pub node: GraphNodeHandle,
    /// The body, initially empty, to which nodes are added. The node owns it: it is not to be
    /// destroyed.
    pub body: GraphHandle,
}

/// The calls that the driver rejects while a stream captures, because they could break the capture
/// (`CUstreamCaptureMode`, rule 44). In every mode a call that concerns the capturing stream itself
/// is rejected (rule 42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// Rejects unsafe calls of every thread, except of threads in relaxed mode.
    Global,
    /// Rejects unsafe calls of the thread that began the capture.
    ThreadLocal,
    /// Rejects no unsafe calls, and any thread may end the capture.
    Relaxed,
}

/// The state of a stream's capture (`CUstreamCaptureStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// The stream does not capture.
    None,
    /// The stream captures its operations instead of running them.
    Active,
    /// The stream captures, but a violation made the capture invalid (rule 43).
    Invalidated,
}

/// The result of [`Driver::stream_capture_info`](crate::Driver::stream_capture_info).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// The state.
    pub status: CaptureStatus,
    /// The capture, if it is active.
    pub active: Option<ActiveCapture>,
}

/// A capture in progress, in which a stream takes part.
///
/// ```
/// use millstream_driver::{ActiveCapture, GraphHandle};
/// let capture = ActiveCapture {
///     id: 1,
///     graph: GraphHandle::from_raw(7),
///     dependencies: Vec::new(),
/// };
/// assert_eq!(capture.graph.as_raw(), 7);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveCapture {
    /// The number of the capture, unique in the process.
    pub id: u64,
    /// The graph that the capture builds. Nodes may be added to it; it is not to be destroyed.
    pub graph: GraphHandle,
    /// The nodes on which the stream's next operation will depend.
    pub dependencies: Vec<GraphNodeHandle>,
}
