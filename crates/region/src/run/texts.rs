//! The kernel cache, keyed by the structure and the schedule of a kernel.
//!
//! The generated code depends only on the schedule and on the nodes of a fused kernel: their types,
//! shapes and operations, and which operands are equal or stored. Kernels with the same key are
//! therefore generated once; a launch substitutes its own arrays and constants. The key of a
//! uniform kernel does not contain the lengths (`plan/uniform.rs`). The keys of many kernels of
//! rows do not contain the number of rows (`plan/first_axis.rs`). A launch substitutes those, too.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    emit::{
        body::kernel::KernelParameter,
        passes::{GeneratedPasses, Pass, Threads},
        passes_of,
    },
    expr::{FreeLengths, NodeRef, push_map},
    plan::{
        FusedKernel, KeyFreeLengths, Uniform, first_axis_of_kernel, push_computed, push_stored,
    },
    recent::RecentMap,
    run::bound::BoundKernel,
    schedule::{Choice, Schedule, schedule},
};

/// The maximum number of cached kernels.
const KERNELS_MAX: usize = 1024;

/// Code by the key and the schedule of its kernels.
type CodeByKey = RecentMap<(Box<[u64]>, Schedule), Arc<Code>>;

static CACHE: LazyLock<Mutex<CodeByKey>> =
    LazyLock::new(|| Mutex::new(RecentMap::new(KERNELS_MAX)));

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

/// The number of an operand that is not an input: the base of a scatter, or of an update in place.
const NOT_IN_KERNEL: u64 = u64::MAX;

struct NodeNumbering<'a> {
    kernel: &'a FusedKernel,
    nodes: FxHashMap<u64, (usize, &'a NodeRef)>,
}

impl<'a> NodeNumbering<'a> {
    fn new(kernel: &'a FusedKernel) -> Self {
        let calculated = kernel.nodes.iter().chain(&kernel.epilogue);
        let all = calculated.map(|fused| &fused.node).chain(&kernel.inputs);
        let mut nodes = FxHashMap::default();
        for (number, node) in all.enumerate() {
            nodes.entry(node.id).or_insert((number, node));
        }
        Self { kernel, nodes }
    }

    fn number(&self, node: &NodeRef) -> u64 {
        let number = self.nodes.get(&node.id);
        number.map_or(NOT_IN_KERNEL, |&(number, _)| number as u64)
    }

    fn key(&self, free: KeyFreeLengths<'_>) -> KernelKey {
        let FusedKernel {
            root,
            nodes,
            inputs,
            outputs,
            epilogue,
            overwrites,
            rows,
            tiled,
            is_sectioned,
        } = self.kernel;
        let mut words = KernelKey::new();
        words.push(free.word());
        let counts = [nodes.len(), epilogue.len(), inputs.len(), outputs.len()];
        words.extend(counts.map(|count| count as u64));
        words.push(tiled.len() as u64);
        words.extend(tiled.iter().map(|node| self.number(node)));
        words.extend([
            self.number(root),
            u64::from(*is_sectioned) << 2
                | u64::from(overwrites.is_some()) << 1
                | u64::from(rows.is_some()),
        ]);
        for output in outputs {
            words.extend([self.number(&output.value), output.slot as u64]);
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

    fn template(&self, parameter: &KernelParameter) -> CodeParameter {
        let number_of = |id: u64| self.nodes.get(&id).copied();
        let fixed = || CodeParameter::Fixed(parameter.clone());
        match *parameter {
            KernelParameter::Input(ref node) => CodeParameter::Input(self.nodes[&node.id].0),
            KernelParameter::Constant(node) => CodeParameter::Constant(self.nodes[&node].0),
            KernelParameter::CheckCode {
                ref node,
                axis,
                length,
            } => CodeParameter::CheckCode {
                node: self.nodes[&node.id].0,
                axis,
                length,
            },
            KernelParameter::Length { node, axis, length } => match number_of(node) {
                Some((number, node)) if node.shape.get(axis) == Some(&length) => {
                    CodeParameter::Length { node: number, axis }
                }
                _ => fixed(),
            },
            KernelParameter::ElementsOf { node, .. } => {
                number_of(node).map_or_else(fixed, |(number, _)| CodeParameter::Elements(number))
            }
            _ => fixed(),
        }
    }

    fn generate(&self, schedule: Schedule) -> Arc<Code> {
        let made = passes_of(self.kernel, schedule);
        Arc::new(made.map_parameters(|parameter| self.template(parameter)))
    }
}

impl CodeParameter {
    /// Returns the value of a length, a step or an index in a launch of a kernel.
    pub(crate) fn length(&self, bound: BoundKernel<'_>) -> Option<i64> {
        match *self {
            Self::Fixed(ref parameter) => parameter.length(),
            Self::Length { node, axis } => Some(bound.node(node).shape[axis] as i64),
            Self::Elements(node) => Some(bound.node(node).elements as i64),
            _ => None,
        }
    }

    /// Returns whether the parameter is the same for all these lengths, or is substituted.
    fn is_free_of(&self, free: KeyFreeLengths<'_>) -> bool {
        let CodeParameter::Fixed(parameter) = self else {
            return true;
        };
        match free {
            FreeLengths::None => true,
            FreeLengths::All(_) => parameter.length().is_none(),
            FreeLengths::First(_) => !matches!(
                parameter,
                KernelParameter::Length { axis: 0, .. } | KernelParameter::ElementsOf { .. }
            ),
        }
    }
}

impl Code {
    /// Returns the text, the number of threads and the lengths of each launch of a kernel.
    #[cfg(test)]
    fn launches_of(&self, kernel: BoundKernel<'_>) -> Vec<(Arc<str>, usize, Vec<i64>)> {
        let length = |parameter: &CodeParameter| parameter.length(kernel);
        let passes = self.passes.iter().map(|pass| {
            let parameters = pass.kernel.parameters.iter().chain(&pass.kernel.table);
            let threads = pass.threads.of(kernel.root().elements);
            let text = Arc::clone(&pass.kernel.ptx);
            (text, threads, parameters.filter_map(length).collect())
        });
        passes.collect()
    }

    /// Returns whether kernels of other lengths can be launched with the code, if they have the
    /// same text.
    fn is_free_of(&self, free: KeyFreeLengths<'_>) -> bool {
        let is_free = |pass: &Pass<CodeParameter>| {
            let mut parameters = pass.kernel.parameters.iter().chain(&pass.kernel.table);
            let has_threads = match free {
                FreeLengths::None => true,
                FreeLengths::All(_) => matches!(pass.threads, Threads::ForElements { .. }),
                FreeLengths::First(_) => matches!(pass.threads, Threads::ForRows { .. }),
            };
            has_threads && parameters.all(|parameter| parameter.is_free_of(free))
        };
        let has_fixed_sizes = matches!(free, FreeLengths::None) || self.temporaries.is_empty();
        has_fixed_sizes && self.passes.iter().all(is_free)
    }
}

struct CodeOfPlan {
    choice: Choice,
    /// The schedule of the kernels that the code serves.
    schedule: Schedule,
    code: Arc<Code>,
}

/// Returns the code of a kernel that has elements to write: from its plan, from the cache, or newly
/// generated.
pub(crate) fn code_of(bound: BoundKernel<'_>) -> Arc<Code> {
    let (slot, machine) = (&bound.kernel.code, &bound.plan.machine);
    let code_of_plan = slot
        .get()
        .and_then(|code| code.downcast_ref::<CodeOfPlan>());
    if let Some(code_of_plan) = code_of_plan
        && code_of_plan.choice.schedule(bound.root().elements, machine) == code_of_plan.schedule
    {
        return Arc::clone(&code_of_plan.code);
    }
    let kernel = bound.fused();
    let schedule = schedule(&kernel, machine);
    let (code, free) = code_for(&kernel, schedule);
    #[cfg(test)]
    assert_eq!(
        code.launches_of(bound),
        generate_scheduled(&kernel, schedule).launches_of(bound),
        "the code depends on more than its key"
    );
    let serves_plan = match (bound.plan.lengths, free) {
        (FreeLengths::First(()), FreeLengths::All(uniform)) => uniform.is_free_of_first_axis(),
        (of_plan, of_code) => of_plan == FreeLengths::None || of_plan == of_code.kind(),
    };
    if serves_plan && code.is_free_of(free) {
        let code = Arc::clone(&code);
        slot.get_or_init(|| {
            Box::new(CodeOfPlan {
                choice: Choice::of(&kernel, machine),
                schedule,
                code,
            })
        });
    }
    code
}

/// Returns the code of a fused kernel by a schedule, from the cache or newly generated, and the
/// lengths that the key of the code leaves out.
fn code_for(kernel: &FusedKernel, schedule: Schedule) -> (Arc<Code>, KeyFreeLengths<'_>) {
    let numbering = NodeNumbering::new(kernel);
    let free = match Uniform::of_kernel(kernel) {
        Some(uniform) => FreeLengths::All(uniform),
        None => match first_axis_of_kernel(kernel) {
            Some(length) if schedule.has_threads_for_each_row() => FreeLengths::First(length),
            _ => FreeLengths::None,
        },
    };
    let key = (numbering.key(free).into_boxed_slice(), schedule);
    if let Some(cached) = CACHE.lock().get(&key) {
        return (cached, free);
    }
    let code = numbering.generate(schedule);
    // If a free length were in the code, it would be wrong for the other kernels of the key.
    let is_kept = code.is_free_of(free);
    let name = &code.passes[0].kernel.name;
    debug_assert!(is_kept, "the code of {name} depends on free lengths");
    if is_kept {
        CACHE.lock().insert(key, Arc::clone(&code));
    }
    (code, free)
}

#[cfg(test)]
pub(crate) fn generate(kernel: &FusedKernel) -> Arc<Code> {
    code_for(kernel, schedule_of(kernel)).0
}

#[cfg(test)]
pub(crate) fn generate_anew(kernel: &FusedKernel) -> Arc<Code> {
    generate_scheduled(kernel, schedule_of(kernel))
}

#[cfg(test)]
fn schedule_of(kernel: &FusedKernel) -> Schedule {
    let machine = crate::schedule::Machine::of(&kernel.root.device);
    schedule(kernel, &machine)
}

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
