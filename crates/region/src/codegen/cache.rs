//! The kernel cache, keyed by graph structure.
//!
//! The generated code depends only on the nodes of a fused kernel: on their types, shapes and
//! operations, and on which operands are equal or stored. Kernels with the same signature are
//! therefore generated once, as templates; later kernels substitute their own arrays and constants.

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

/// The maximum number of cached signatures. The cache is cleared when a program exceeds it by
/// producing new shapes again and again.
const SIGNATURES_MAX: usize = 1024;

static CACHE: LazyLock<Mutex<FxHashMap<KernelSignature, Arc<GeneratedPasses<ParameterTemplate>>>>> =
    LazyLock::new(Mutex::default);

/// The structure of a fused kernel, which determines the generated code. Nodes are numbered: first
/// those up to the root, then the epilogue, then the inputs.
#[derive(PartialEq, Eq, Hash)]
struct KernelSignature {
    root: u64,
    outputs: SmallVec<[OutputSignature; 1]>,
    /// The number of nodes in the epilogue.
    epilogue: usize,
    /// True if the kernel replaces elements in the memory that it writes.
    is_in_place: bool,
    is_row_kernel: bool,
    nodes: Vec<NodeSignature>,
}

/// The properties of a node that affect the code.
#[derive(PartialEq, Eq, Hash)]
struct NodeSignature {
    dtype: DType,
    shape: Shape,
    /// The operation, without the value of a constant; `None` for an input.
    op: Option<OpKey>,
}

/// The properties of an output that affect the code.
#[derive(PartialEq, Eq, Hash)]
struct OutputSignature {
    value: u64,
    /// The shape of the target and the index map into it; `None` if all of the target is written.
    destination: Option<(Shape, AxisMap)>,
}

/// A parameter in terms of node numbers.
enum ParameterTemplate {
    /// A parameter that is equal for all kernels of the signature.
    Fixed(KernelParameter),
    Input(usize),
    Constant(usize),
    CheckCode {
        node: usize,
        axis: usize,
        length: usize,
    },
}

/// The number of an operand that is not an input: the base of a scatter, or of an update in place.
const NOT_IN_KERNEL: u64 = u64::MAX;

/// The numbers of a fused kernel's nodes.
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
            is_in_place: kernel.overwrites.is_some(),
            is_row_kernel: kernel.rows.is_some(),
            nodes: calculated.chain(inputs).collect(),
        }
    }

    /// Returns the computed node with a number.
    fn calculated(&self, number: usize) -> &'a FusedNode {
        let kernel = self.kernel;
        match number.checked_sub(kernel.nodes.len()) {
            None => &kernel.nodes[number],
            Some(behind) => &kernel.epilogue[behind],
        }
    }

    /// Returns the input with a number.
    fn input(&self, number: usize) -> &'a NodeRef {
        &self.kernel.inputs[number - self.kernel.nodes.len() - self.kernel.epilogue.len()]
    }

    /// Returns the value of the constant with a number.
    fn constant(&self, number: usize) -> Scalar {
        match *self.calculated(number).op {
            Op::Constant(value) => value,
            _ => unreachable!("kernels of one signature have their constants at the same numbers"),
        }
    }

    /// Replaces the nodes of a parameter by their numbers.
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

    /// Replaces the numbers of a template by this kernel's nodes.
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
            shape: Shape::from_slice(&node.shape),
            op,
        }
    }
}

/// Returns the passes of a fused kernel that has elements to write, from the cache or newly
/// generated.
pub(crate) fn generate(kernel: &FusedKernel) -> GeneratedPasses {
    let numbering = NodeNumbering::new(kernel);
    let signature = numbering.signature();
    let known = CACHE.lock().get(&signature).map(Arc::clone);
    if let Some(known) = known {
        return known.map_parameters(|template| numbering.parameter(template));
    }
    let made = GeneratedPasses::of(kernel);
    let template = Arc::new(made.map_parameters(|parameter| numbering.template(parameter)));
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
    fn a_reduction_stored_by_another_thread_is_still_generated() {
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
