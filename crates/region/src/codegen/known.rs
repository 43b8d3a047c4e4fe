//! Kernels that were generated before.
//!
//! What is generated follows from the nodes of a kernel alone: from their types, shapes and operations, and from which of
//! them are the same or in memory. So for nodes that look the same it is generated once, and then recalled, with the
//! arrays and constants of these nodes in the place of those.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{
    body::{Kernel, Parameter},
    map::{self, Target},
    reduce::{self, Reduced, Rest},
};
use crate::{
    element::{DType, Scalar},
    graph::{NodeRef, Op, Reduction, State, What},
    shape::{Axes, AxisMap, Shape},
};

/// How many patterns are kept. Programs have fewer; one that makes new shapes again and again forgets all when there are
/// more.
const PATTERNS_MAX: usize = 1024;

static KNOWN: LazyLock<Mutex<FxHashMap<Pattern, Arc<Reduced<Slot>>>>> = LazyLock::new(Mutex::default);

/// All that kernels follow from. Nodes go by the numbers of the order in which they are met from the roots.
#[derive(PartialEq, Eq, Hash)]
struct Pattern {
    roots: SmallVec<[u64; 3]>,
    /// Which part of what the elements of the root are written to; `None` for all of it.
    place: Option<(Shape, AxisMap)>,
    /// How the last root is reduced. The reduction's node does not tell: another thread may have had it stored by now.
    reduced: Option<(Reduction, Axes)>,
    nodes: Vec<Look>,
}

/// What a kernel sees of a node.
#[derive(PartialEq, Eq, Hash)]
struct Look {
    dtype: DType,
    shape: Shape,
    /// The operation, without a constant's value; `None` for elements that are in memory.
    what: Option<What>,
}

/// What is passed for one parameter, whatever the nodes are.
enum Slot {
    /// The same for all nodes of the pattern.
    Fixed(Parameter),
    Elements(usize),
    Constant(usize),
    Check {
        node: usize,
        axis: usize,
        length: usize,
    },
}

/// The nodes that kernels are wanted for.
struct Subject {
    pattern: Pattern,
    nodes: Vec<NodeRef>,
    numbers: FxHashMap<u64, usize>,
    constants: FxHashMap<usize, Scalar>,
}

impl Subject {
    /// Looks at all nodes from the roots down to what is in memory.
    fn look(roots: &[&NodeRef], place: Option<(Shape, AxisMap)>, reduced: Option<(Reduction, Axes)>) -> Self {
        let mut subject = Self {
            pattern: Pattern {
                roots: SmallVec::new(),
                place,
                reduced,
                nodes: Vec::new(),
            },
            nodes: Vec::new(),
            numbers: FxHashMap::default(),
            constants: FxHashMap::default(),
        };
        subject.pattern.roots = roots.iter().map(|root| subject.number(root)).collect();
        let mut at = 0;
        while let Some(node) = subject.nodes.get(at).map(NodeRef::clone) {
            let what = match node.state() {
                State::Planned(Op::Constant(value)) => {
                    subject.constants.insert(at, value);
                    Some(What::Constant(value.dtype(), 0))
                }
                State::Planned(op) => Some(What::of(&op, |operand| subject.number(operand))),
                State::Stored(_) | State::Failed(_) => None,
            };
            subject.pattern.nodes.push(Look {
                dtype: node.dtype,
                shape: node.shape.clone(),
                what,
            });
            at += 1;
        }
        subject
    }

    /// The node's number, and a new one if it is met for the first time.
    fn number(&mut self, node: &NodeRef) -> u64 {
        let next = self.nodes.len();
        let number = *self.numbers.entry(node.id).or_insert(next);
        if number == next {
            self.nodes.push(NodeRef::clone(node));
        }
        number as u64
    }

    /// The parameter of this subject that becomes another's.
    fn slot(&self, parameter: Parameter) -> Slot {
        match parameter {
            Parameter::Elements(node) => Slot::Elements(self.numbers[&node.id]),
            Parameter::Constant { node, .. } => Slot::Constant(self.numbers[&node]),
            Parameter::Check { node, axis, length } => Slot::Check {
                node: self.numbers[&node.id],
                axis,
                length,
            },
            fixed => Slot::Fixed(fixed),
        }
    }

    /// The parameter of this subject.
    fn parameter(&self, slot: &Slot) -> Parameter {
        match *slot {
            Slot::Fixed(ref parameter) => parameter.clone(),
            Slot::Elements(node) => Parameter::Elements(NodeRef::clone(&self.nodes[node])),
            Slot::Constant(node) => Parameter::Constant {
                node: self.nodes[node].id,
                value: self.constants[&node],
            },
            Slot::Check { node, axis, length } => Parameter::Check {
                node: NodeRef::clone(&self.nodes[node]),
                axis,
                length,
            },
        }
    }

    /// The kernels of this subject: those that are known, or else those that are generated.
    fn kernels(self, generate: impl FnOnce() -> Reduced, again: impl FnOnce() -> Self) -> Reduced {
        let known = KNOWN.lock().get(&self.pattern).map(Arc::clone);
        if let Some(known) = known {
            return known.each(|slot| self.parameter(slot));
        }
        let made = generate();
        // Another thread may have had a node stored meanwhile; what was generated is right then, and not for this pattern.
        if again().pattern == self.pattern {
            let template = Arc::new(made.each(|parameter| self.slot(parameter.clone())));
            let mut known = KNOWN.lock();
            if known.len() >= PATTERNS_MAX {
                known.clear();
            }
            known.insert(self.pattern, template);
        }
        made
    }
}

impl<P> Reduced<P> {
    /// The same kernels with other parameters.
    fn each<Q>(&self, mut parameter: impl FnMut(&P) -> Q) -> Reduced<Q> {
        let mut kernel = |(kernel, threads): &(Kernel<P>, usize)| {
            let kernel = Kernel {
                ptx: Arc::clone(&kernel.ptx),
                parameters: kernel.parameters.iter().map(&mut parameter).collect(),
                table: kernel.table.iter().map(&mut parameter).collect(),
                wide: kernel.wide,
                name: Arc::clone(&kernel.name),
            };
            (kernel, *threads)
        };
        Reduced {
            first: kernel(&self.first),
            rest: self.rest.as_ref().map(|rest| Rest {
                partials: rest.partials,
                slots: rest.slots.clone(),
                kernel: kernel(&rest.kernel),
            }),
        }
    }
}

/// As [`map::map`], which is called for what is not known yet.
pub(crate) fn map(node: &NodeRef, target: &Target<'_>) -> (Kernel, usize) {
    let look = || {
        let place = match target {
            Target::Dense => None,
            Target::Part { shape, map } => Some((Shape::clone(shape), AxisMap::clone(map))),
        };
        Subject::look(&[node], place, None)
    };
    let generate = || Reduced {
        first: map::map(node, target),
        rest: None,
    };
    look().kernels(generate, look).first
}

/// As [`reduce::reduce`], which is called for what is not known yet.
pub(crate) fn reduce(
    root: &NodeRef,
    node: &NodeRef,
    reduction: Reduction,
    source: &NodeRef,
    axes: &Axes,
) -> Reduced {
    let look = || Subject::look(&[root, node, source], None, Some((reduction, axes.clone())));
    let generate = || reduce::reduce(root, node, reduction, source, axes);
    look().kernels(generate, look)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis};

    use super::*;
    use crate::Array;

    #[test]
    fn a_reduction_that_another_thread_has_enqueued_meanwhile_is_still_generated() {
        let device = Device::simulated().unwrap();
        let x = Array::from_host(&device, &Array1::<f32>::ones(50)).unwrap();
        for sum in [(&x * 2.0).sum_axis(Axis(0)), (&x * 2.0).product_axis(Axis(0))] {
            let node = sum.node();
            let State::Planned(Op::Reduce {
                reduction,
                source,
                axes,
            }) = node.state()
            else {
                panic!("nobody has asked for it");
            };
            let of = |root: &NodeRef| reduce(root, node, reduction, &source, &axes).first.0;
            let before = of(node);
            sum.to_host().unwrap();
            assert!(node.storage().is_some());
            let after = of(node);
            assert_eq!(after.ptx, before.ptx, "{reduction:?}");
            assert_eq!(after.parameters.len(), before.parameters.len());
        }
    }
}
