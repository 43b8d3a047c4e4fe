//! The kernel cache, keyed by the structure of fused kernels.
//!
//! What is generated follows from the nodes of a fused kernel alone: from their types, shapes and
//! operations, and from which of them are the same or in memory. So for kernels with the same
//! signature it is generated once, and then recalled, with the arrays and constants of the one in
//! the place of those of the other.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{body::KernelParameter, passes::GeneratedPasses};
use crate::{
    element::{DType, Scalar},
    fuse::{FusedKernel, FusedNode},
    graph::{NodeRef, Op, OpKey},
    shape::{AxisMap, Shape},
};

/// How many signatures are kept. Programs have fewer; one that makes new shapes again and again
/// forgets all when there are more.
const SIGNATURES_MAX: usize = 1024;

static CACHE: LazyLock<Mutex<FxHashMap<KernelSignature, Arc<GeneratedPasses<ParameterTemplate>>>>> =
    LazyLock::new(Mutex::default);

/// All that generated kernels follow from. Nodes go by numbers: first those up to the root, then
/// the epilogue, then what is read.
#[derive(PartialEq, Eq, Hash)]
struct KernelSignature {
    root: u64,
    outputs: SmallVec<[OutputSignature; 1]>,
    /// How many nodes are in the epilogue.
    epilogue: usize,
    nodes: Vec<NodeSignature>,
}

/// What a kernel sees of a node.
#[derive(PartialEq, Eq, Hash)]
struct NodeSignature {
    dtype: DType,
    shape: Shape,
    /// The operation, without a constant's value; `None` for elements that are in memory.
    op: Option<OpKey>,
}

/// What a kernel sees of an output.
#[derive(PartialEq, Eq, Hash)]
struct OutputSignature {
    value: u64,
    /// Which part of what is written; `None` for all of it.
    destination: Option<(Shape, AxisMap)>,
}

/// What is passed for one parameter, whatever the nodes are.
enum ParameterTemplate {
    /// The same for all kernels of the signature.
    Fixed(KernelParameter),
    Input(usize),
    Constant(usize),
    CheckCode {
        node: usize,
        axis: usize,
        length: usize,
    },
}

/// The number of an operand that the kernel has nothing to do with: the base of a scatter.
const NOT_IN_KERNEL: u64 = u64::MAX;

/// The nodes of a fused kernel by number.
struct NodeNumbering<'a> {
    kernel: &'a FusedKernel,
    numbers: FxHashMap<u64, usize>,
}

impl<'a> NodeNumbering<'a> {
    fn new(kernel: &'a FusedKernel) -> Self {
        let mut numbers = FxHashMap::default();
        let count = kernel.nodes.len() + kernel.epilogue.len() + kernel.inputs.len();
        numbers.reserve(count);
        let calculated = kernel
            .nodes
            .iter()
            .chain(&kernel.epilogue)
            .map(|fused| &fused.node);
        for (number, node) in calculated.chain(&kernel.inputs).enumerate() {
            numbers.entry(node.id).or_insert(number);
        }
        Self { kernel, numbers }
    }

    fn number(&self, node: &NodeRef) -> u64 {
        self.numbers
            .get(&node.id)
            .map_or(NOT_IN_KERNEL, |&number| number as u64)
    }

    fn signature(&self) -> KernelSignature {
        let kernel = self.kernel;
        let calculated = kernel.nodes.iter().chain(&kernel.epilogue).map(|fused| {
            let op = match &*fused.op {
                Op::Constant(value) => OpKey::Constant(value.dtype(), 0),
                op => OpKey::of(op, |operand| self.number(operand)),
            };
            NodeSignature::of(&fused.node, Some(op))
        });
        let inputs = kernel
            .inputs
            .iter()
            .map(|node| NodeSignature::of(node, None));
        let outputs = kernel.outputs.iter().map(|output| OutputSignature {
            value: self.number(&output.value),
            destination: output
                .destination()
                .map(|(shape, map)| (Shape::clone(shape), AxisMap::clone(map))),
        });
        KernelSignature {
            root: self.number(&kernel.root),
            outputs: outputs.collect(),
            epilogue: kernel.epilogue.len(),
            nodes: calculated.chain(inputs).collect(),
        }
    }

    /// The node that is calculated under a number.
    fn calculated(&self, number: usize) -> &'a FusedNode {
        let kernel = self.kernel;
        match number.checked_sub(kernel.nodes.len()) {
            None => &kernel.nodes[number],
            Some(behind) => &kernel.epilogue[behind],
        }
    }

    /// The node in memory that has a number.
    fn input(&self, number: usize) -> &'a NodeRef {
        &self.kernel.inputs[number - self.kernel.nodes.len() - self.kernel.epilogue.len()]
    }

    /// The value of the constant under a number.
    fn constant(&self, number: usize) -> Scalar {
        match *self.calculated(number).op {
            Op::Constant(value) => value,
            _ => unreachable!("kernels of one signature have their constants at the same numbers"),
        }
    }

    /// The parameter of this kernel that becomes another's.
    fn template(&self, parameter: &KernelParameter) -> ParameterTemplate {
        match parameter {
            KernelParameter::Input(node) => ParameterTemplate::Input(self.numbers[&node.id]),
            KernelParameter::Constant { node, .. } => {
                ParameterTemplate::Constant(self.numbers[node])
            }
            KernelParameter::CheckCode { node, axis, length } => ParameterTemplate::CheckCode {
                node: self.numbers[&node.id],
                axis: *axis,
                length: *length,
            },
            fixed => ParameterTemplate::Fixed(fixed.clone()),
        }
    }

    /// The parameter of this kernel.
    fn parameter(&self, template: &ParameterTemplate) -> KernelParameter {
        match *template {
            ParameterTemplate::Fixed(ref parameter) => parameter.clone(),
            ParameterTemplate::Input(number) => {
                KernelParameter::Input(NodeRef::clone(self.input(number)))
            }
            ParameterTemplate::Constant(number) => KernelParameter::Constant {
                node: self.calculated(number).node.id,
                value: self.constant(number),
            },
            ParameterTemplate::CheckCode { node, axis, length } => KernelParameter::CheckCode {
                node: NodeRef::clone(&self.calculated(node).node),
                axis,
                length,
            },
        }
    }
}

impl NodeSignature {
    fn of(node: &NodeRef, op: Option<OpKey>) -> Self {
        Self {
            dtype: node.dtype,
            shape: node.shape.clone(),
            op,
        }
    }
}

/// The passes of a fused kernel that has something to write: those of its signature that are known,
/// or else new ones.
pub(crate) fn generate(kernel: &FusedKernel) -> GeneratedPasses {
    let numbering = NodeNumbering::new(kernel);
    let signature = numbering.signature();
    let known = CACHE.lock().get(&signature).map(Arc::clone);
    if let Some(known) = known {
        return known.each(|template| numbering.parameter(template));
    }
    let made = GeneratedPasses::of(kernel);
    let template = Arc::new(made.each(|parameter| numbering.template(parameter)));
    let mut cache = CACHE.lock();
    if cache.len() >= SIGNATURES_MAX {
        cache.clear();
    }
    cache.insert(signature, template);
    made
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis};

    use super::*;
    use crate::{Array, fuse::only_kernel};

    #[test]
    fn a_reduction_that_another_thread_has_enqueued_meanwhile_is_still_generated() {
        let device = Device::simulated().unwrap();
        let x = Array::from_host(&device, &Array1::<f32>::ones(50)).unwrap();
        for sum in [
            (&x * 2.0).sum_axis(Axis(0)),
            (&x * 2.0).product_axis(Axis(0)),
        ] {
            let node = sum.node();
            let planned = only_kernel(node);
            let kernel = || generate(&planned).passes.remove(0).kernel;
            let before = kernel();
            sum.to_host().unwrap();
            assert!(node.storage().is_some());
            let after = kernel();
            assert_eq!(after.ptx, before.ptx);
            assert_eq!(after.parameters.len(), before.parameters.len());
        }
    }
}
