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
    fuse::{FusedKernel, FusedNode, NodeSignature},
    graph::{NodeRef, Op},
    recent::RecentMap,
    shape::{AxisMap, Shape},
};

/// The maximum number of cached signatures.
const SIGNATURES_MAX: usize = 1024;

static CACHE: LazyLock<Mutex<RecentMap<KernelSignature, Arc<PassesTemplate>>>> =
    LazyLock::new(|| Mutex::new(RecentMap::new(SIGNATURES_MAX)));

/// The passes of all kernels with one signature.
type PassesTemplate = GeneratedPasses<ParameterTemplate>;

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
        let calculated = kernel
            .nodes
            .iter()
            .chain(&kernel.epilogue)
            .map(|fused| NodeSignature::of_computed(fused, |operand| self.number(operand)));
        let inputs = kernel.inputs.iter().map(NodeSignature::of_input);
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
}

impl ParameterTemplate {
    /// Replaces the numbers by a kernel's nodes.
    fn parameter(&self, kernel: &FusedKernel) -> KernelParameter {
        match *self {
            ParameterTemplate::Fixed(ref parameter) => parameter.clone(),
            ParameterTemplate::Input(number) => {
                let inputs = number - kernel.nodes.len() - kernel.epilogue.len();
                KernelParameter::Input(NodeRef::clone(&kernel.inputs[inputs]))
            }
            ParameterTemplate::Constant(number) => {
                let FusedNode { node, op } = computed(kernel, number);
                match **op {
                    Op::Constant(value) => KernelParameter::Constant {
                        node: node.id,
                        value,
                    },
                    _ => unreachable!("kernels of one signature have constants at these numbers"),
                }
            }
            ParameterTemplate::CheckCode { node, axis, length } => KernelParameter::CheckCode {
                node: NodeRef::clone(&computed(kernel, node).node),
                axis,
                length,
            },
        }
    }
}

/// Returns the computed node with a number.
fn computed(kernel: &FusedKernel, number: usize) -> &FusedNode {
    match number.checked_sub(kernel.nodes.len()) {
        None => &kernel.nodes[number],
        Some(behind) => &kernel.epilogue[behind],
    }
}

/// Returns the passes of a fused kernel that has elements to write: from its plan, from the cache,
/// or newly generated.
pub(crate) fn generate(kernel: &FusedKernel) -> GeneratedPasses {
    let slot = kernel.code.as_ref();
    if let Some(known) = slot.and_then(|slot| slot.get::<PassesTemplate>()) {
        return known.map_parameters(|template| template.parameter(kernel));
    }
    let numbering = NodeNumbering::new(kernel);
    let signature = numbering.signature();
    let known = CACHE.lock().get(&signature);
    let template = known.unwrap_or_else(|| {
        let made = GeneratedPasses::of(kernel);
        let template = Arc::new(made.map_parameters(|parameter| numbering.template(parameter)));
        CACHE.lock().insert(signature, Arc::clone(&template));
        template
    });
    if let Some(slot) = slot {
        slot.set(&template);
    }
    template.map_parameters(|template| template.parameter(kernel))
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
            let mut planned = only_kernel(node);
            planned.code = None;
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
