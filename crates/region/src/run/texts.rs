//! The kernel cache, keyed by graph structure.
//!
//! The generated code depends only on the nodes of a fused kernel: on their types, shapes and
//! operations, and on which operands are equal or stored. Kernels with the same key are therefore
//! generated once; a launch substitutes its own arrays and constants. The key of a uniform kernel
//! leaves out lengths (`plan/uniform.rs`), and that of many kernels of rows the number of rows
//! (`first_axis.rs`); a launch substitutes those, too.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    element::Scalar,
    emit::{
        body::kernel::KernelParameter,
        passes::{GeneratedPasses, Threads},
        passes_of,
    },
    expr::{NodeRef, Op, push_map},
    plan::{
        CodeSlot, FreeLengths, FusedKernel, FusedNode, PlanLengths, Uniform, push_computed,
        push_stored,
    },
    recent::RecentMap,
    run::{
        first_axis::{ServedRows, free_first_axis, is_free_of_first_axis},
        kept::KeptKernel,
    },
    schedule::{Machine, Schedule, schedule},
};

/// The maximum number of cached kernels.
const KERNELS_MAX: usize = 1024;

/// Code by the key of its kernels.
type CodeByKey = RecentMap<Box<[u64]>, Arc<Code>>;

static CACHE: LazyLock<Mutex<CodeByKey>> =
    LazyLock::new(|| Mutex::new(RecentMap::new(KERNELS_MAX)));

/// The code of all kernels with one key.
pub(crate) type Code = GeneratedPasses<CodeParameter>;

/// The words of the structure of a fused kernel, which determines the code. Nodes are numbered:
/// first those up to the root, then the epilogue, then the inputs.
type KernelKey = SmallVec<[u64; 80]>;

/// A parameter in terms of node numbers.
pub(crate) enum CodeParameter {
    /// A parameter that is equal for all kernels of the key.
    Fixed(KernelParameter),
    Input(usize),
    Constant(usize),
    CheckCode {
        node: usize,
        axis: usize,
        length: usize,
    },
    /// The length of an axis of a node.
    Length {
        node: usize,
        axis: usize,
    },
    /// The number of elements of a node.
    Elements(usize),
}

/// A parameter of one kernel.
pub(crate) enum BoundParameter<'a> {
    Fixed(&'a KernelParameter),
    Input(&'a NodeRef),
    Constant {
        node: u64,
        value: Scalar,
    },
    CheckCode {
        node: &'a NodeRef,
        axis: usize,
        length: usize,
    },
    /// A length, of the width of the kernel's indices.
    Index(usize),
}

/// The nodes of a kernel by their numbers.
pub(crate) trait KernelNodes {
    fn node(&self, number: usize) -> &NodeRef;

    /// Returns the operation of a computed node.
    fn op(&self, number: usize) -> &Op;
}

impl KernelNodes for FusedKernel {
    fn node(&self, number: usize) -> &NodeRef {
        match number.checked_sub(self.nodes.len() + self.epilogue.len()) {
            Some(of_input) => &self.inputs[of_input],
            None => &computed(self, number).node,
        }
    }

    fn op(&self, number: usize) -> &Op {
        &computed(self, number).op
    }
}

impl KernelNodes for KeptKernel<'_> {
    fn node(&self, number: usize) -> &NodeRef {
        self.node(number)
    }

    fn op(&self, number: usize) -> &Op {
        self.op(number)
    }
}

/// Returns the computed node with a number.
fn computed(kernel: &FusedKernel, number: usize) -> &FusedNode {
    match number.checked_sub(kernel.nodes.len()) {
        None => &kernel.nodes[number],
        Some(behind) => &kernel.epilogue[behind],
    }
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

    /// Returns the key, without lengths that are free.
    fn key(&self, free: FreeLengths<'_>) -> KernelKey {
        let FusedKernel {
            root,
            nodes,
            inputs,
            outputs,
            epilogue,
            overwrites,
            rows,
            tiled,
            code: _,
        } = self.kernel;
        let mut words = KernelKey::new();
        words.push(free.word());
        let counts = [nodes.len(), epilogue.len(), inputs.len(), outputs.len()];
        words.extend(counts.map(|count| count as u64));
        words.push(tiled.len() as u64);
        words.extend(tiled.iter().map(|node| self.number(node)));
        words.extend([
            self.number(root),
            u64::from(overwrites.is_some()) << 1 | u64::from(rows.is_some()),
        ]);
        for output in outputs {
            words.push(self.number(&output.value));
            match output.destination() {
                None => words.push(0),
                Some((shape, map)) => {
                    words.push(1 + shape.len() as u64);
                    words.extend(shape.iter().map(|&length| length as u64));
                    push_map(&mut words, map);
                }
            }
        }
        for fused in nodes.iter().chain(epilogue) {
            push_computed(&mut words, fused, free, |operand| self.number(operand));
        }
        for node in inputs {
            push_stored(&mut words, node, free, false);
        }
        words
    }

    /// Replaces the nodes of a parameter by their numbers.
    fn template(&self, parameter: &KernelParameter) -> CodeParameter {
        match parameter {
            KernelParameter::Input(node) => CodeParameter::Input(self.numbers[&node.id]),
            KernelParameter::Constant(node) => CodeParameter::Constant(self.numbers[node]),
            KernelParameter::CheckCode { node, axis, length } => CodeParameter::CheckCode {
                node: self.numbers[&node.id],
                axis: *axis,
                length: *length,
            },
            KernelParameter::Length { node, axis, length } => match self.numbers.get(node) {
                Some(&node) if self.kernel.node(node).shape.get(*axis) == Some(length) => {
                    CodeParameter::Length { node, axis: *axis }
                }
                _ => CodeParameter::Fixed(parameter.clone()),
            },
            KernelParameter::ElementsOf { node, .. } => match self.numbers.get(node) {
                Some(&node) => CodeParameter::Elements(node),
                None => CodeParameter::Fixed(parameter.clone()),
            },
            fixed => CodeParameter::Fixed(fixed.clone()),
        }
    }

    /// Generates the code.
    fn generate(&self, schedule: Schedule) -> Arc<Code> {
        let made = passes_of(self.kernel, schedule);
        Arc::new(made.map_parameters(|parameter| self.template(parameter)))
    }
}

impl CodeParameter {
    /// Replaces the numbers by a kernel's nodes.
    pub(crate) fn bind<'a>(&'a self, kernel: &'a impl KernelNodes) -> BoundParameter<'a> {
        match *self {
            CodeParameter::Fixed(ref parameter) => BoundParameter::Fixed(parameter),
            CodeParameter::Input(number) => BoundParameter::Input(kernel.node(number)),
            CodeParameter::Constant(number) => match *kernel.op(number) {
                Op::Constant(value) => BoundParameter::Constant {
                    node: kernel.node(number).id,
                    value,
                },
                _ => unreachable!("kernels of one key have constants at these numbers"),
            },
            CodeParameter::CheckCode { node, axis, length } => BoundParameter::CheckCode {
                node: kernel.node(node),
                axis,
                length,
            },
            CodeParameter::Length { node, axis } => {
                BoundParameter::Index(kernel.node(node).shape[axis])
            }
            CodeParameter::Elements(node) => BoundParameter::Index(kernel.node(node).elements),
        }
    }

    /// Returns whether the parameter is the same for all lengths, or is substituted.
    fn is_free_of_lengths(&self) -> bool {
        match self {
            CodeParameter::Fixed(parameter) => parameter.length().is_none(),
            _ => true,
        }
    }
}

impl Code {
    /// Returns the text, the number of threads and the lengths of each launch of a kernel.
    #[cfg(test)]
    fn launches_of(&self, kernel: &FusedKernel) -> Vec<(Arc<str>, usize, Vec<i64>)> {
        let length = |parameter: &CodeParameter| match parameter.bind(kernel) {
            BoundParameter::Fixed(parameter) => parameter.length(),
            BoundParameter::Index(length) => Some(length as i64),
            _ => None,
        };
        let passes = self.passes.iter().map(|pass| {
            let parameters = pass.kernel.parameters.iter().chain(&pass.kernel.table);
            let threads = pass.threads.of(kernel.root.elements);
            let text = Arc::clone(&pass.kernel.ptx);
            (text, threads, parameters.filter_map(length).collect())
        });
        passes.collect()
    }

    /// Returns whether kernels of other lengths can be launched with the code, if they have the
    /// same text.
    fn is_free_of_lengths(&self) -> bool {
        self.temporaries.is_empty()
            && self.passes.iter().all(|pass| {
                let kernel = &pass.kernel;
                let mut parameters = kernel.parameters.iter().chain(&kernel.table);
                matches!(pass.threads, Threads::ForElements { .. })
                    && parameters.all(CodeParameter::is_free_of_lengths)
            })
    }
}

/// Returns the code of a fused kernel that has elements to write: from its plan, from the cache, or
/// newly generated.
pub(crate) fn generate(kernel: &FusedKernel) -> Arc<Code> {
    let slot = kernel.code.as_ref();
    if let Some(known) = slot.and_then(|slot| code_in(slot, &kernel.root)) {
        return known;
    }
    let numbering = NodeNumbering::new(kernel);
    let schedule = schedule(kernel, &Machine::H200);
    let (free, served) = match Uniform::of_kernel(kernel) {
        Some(uniform) => (FreeLengths::All(uniform), ServedRows::All),
        None => free_first_axis(kernel).unwrap_or((FreeLengths::None, ServedRows::All)),
    };
    let key = numbering.key(free);
    let known = CACHE.lock().get(&*key);
    let is_known = known.is_some();
    let code = known.unwrap_or_else(|| numbering.generate(schedule));
    #[cfg(test)]
    assert_eq!(
        code.launches_of(kernel),
        numbering.generate(schedule).launches_of(kernel),
        "the code depends on more than its key"
    );
    // If a free length were in the code, it would be wrong for the other kernels of the key and of
    // a plan, so it would not be kept.
    let is_kept = match free {
        FreeLengths::None => true,
        FreeLengths::All(_) => code.is_free_of_lengths(),
        FreeLengths::First { .. } => is_free_of_first_axis(&code),
    };
    debug_assert!(
        is_kept,
        "the code of {} depends on free lengths",
        code.passes[0].kernel.name
    );
    if is_kept && !is_known {
        CACHE
            .lock()
            .insert(key.into_boxed_slice(), Arc::clone(&code));
    }
    if let Some(slot) = slot {
        let serves_plan = match (slot.lengths, free) {
            (PlanLengths::None, _)
            | (PlanLengths::Uniform, FreeLengths::All(_))
            | (PlanLengths::FirstAxis, FreeLengths::First { .. }) => true,
            (PlanLengths::FirstAxis, FreeLengths::All(uniform)) => uniform.is_free_of_first_axis(),
            _ => false,
        };
        if is_kept && serves_plan {
            let code = Arc::clone(&code);
            slot.set(&Arc::new(CodeOfPlan { code, served }));
        }
    }
    code
}

/// The code of the kernels of a plan.
struct CodeOfPlan {
    code: Arc<Code>,
    served: ServedRows,
}

/// Returns the code in a slot, if it serves a kernel with this root.
pub(crate) fn code_in(slot: &CodeSlot, root: &NodeRef) -> Option<Arc<Code>> {
    let known = slot.get::<CodeOfPlan>()?;
    let serves = known.served.contains(root.elements);
    serves.then(|| Arc::clone(&known.code))
}

/// Returns new code of a fused kernel.
#[cfg(test)]
pub(crate) fn generate_anew(kernel: &FusedKernel) -> Arc<Code> {
    generate_scheduled(kernel, schedule(kernel, &Machine::H200))
}

/// Returns new code of a fused kernel by a schedule.
#[cfg(test)]
pub(crate) fn generate_scheduled(kernel: &FusedKernel, schedule: Schedule) -> Arc<Code> {
    NodeNumbering::new(kernel).generate(schedule)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis};

    use super::*;
    use crate::{Array, plan::only_kernel};

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
            let before = generate_anew(&planned);
            sum.to_host().unwrap();
            assert!(node.storage().is_some());
            let after = generate_anew(&planned);
            let [before, after] = [&before, &after].map(|code| &code.passes[0].kernel);
            assert_eq!(after.ptx, before.ptx);
            assert_eq!(after.parameters.len(), before.parameters.len());
        }
    }
}
