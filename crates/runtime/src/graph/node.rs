//! The nodes of a graph: what the recording knows of each, with operands by number, so that their
//! memory can change.

use std::{collections::BTreeMap, fmt, panic::Location, sync::Arc};

use millstream_driver::{
    Copy2d, FillPattern, FunctionHandle, GraphNode, KernelNode, LaunchAttributes, LaunchDims,
    Side2d,
};
use smallvec::SmallVec;

use super::{
    conditional::Conditional,
    driver_graph::OwnedGraph,
    operand::{Address, Operand},
    params::Params,
};
use crate::{
    error::OperationKind,
    tracker::{AccessKind, AccessUnion, Extent},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeAccess {
    pub(super) operand: usize,
    pub(super) extent: Extent,
    pub(super) kind: AccessKind,
    pub(super) ordered: bool,
}

impl NodeAccess {
    /// Returns the accesses of unions, by the numbers of their operands.
    pub(super) fn from_unions(unions: BTreeMap<usize, AccessUnion>) -> impl Iterator<Item = Self> {
        unions.into_iter().flat_map(|(operand, union)| {
            let entries = union.into_entries().into_iter();
            entries.map(move |entry| Self {
                operand,
                extent: entry.extent,
                kind: entry.kind,
                ordered: entry.ordered,
            })
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: OperationKind,
    pub(super) label: &'static str,
    pub(super) location: &'static Location<'static>,
    pub(super) work: Work,
    pub(super) accesses: SmallVec<[NodeAccess; 3]>,
    /// The nodes that run before, by number, in ascending order.
    pub(super) dependencies: Vec<usize>,
}

impl Node {
    /// Gives each operand a new number, found at its old one.
    pub(super) fn renumber(&mut self, numbers: &[usize]) {
        for access in &mut self.accesses {
            access.operand = numbers[access.operand];
        }
        for address in self.work.addresses_mut() {
            address.operand = numbers[address.operand];
        }
        for node in self.work.body_mut() {
            node.renumber(numbers);
        }
    }

    /// Adds `first` to the number of each loop.
    pub(super) fn renumber_loops(&mut self, first: u32) {
        if let Work::Conditional(conditional) = &mut self.work {
            if let Some(repeat) = &mut conditional.repeat {
                repeat.number = repeat.number.saturating_add(first);
            }
            for node in &mut conditional.body {
                node.renumber_loops(first);
            }
        }
    }

    /// Returns whether the node uses one of these operands by an address that cannot be changed: a
    /// kernel that uses a variable by its name has more accesses to the operand than places for its
    /// address.
    pub(super) fn is_fixed_to(&self, swapped: &impl Fn(usize) -> bool) -> bool {
        if let Work::Conditional(conditional) = &self.work {
            return conditional
                .body
                .iter()
                .any(|node| node.is_fixed_to(swapped));
        }
        if matches!(&self.work, Work::Kernel(kernel) if kernel.is_part) {
            return false;
        }
        let mut accesses = self.accesses.iter();
        accesses.any(|access| {
            let number = access.operand;
            let accesses = self.accesses.iter().filter(|other| other.operand == number);
            let places = self.work.addresses();
            let places = places.filter(|address| address.operand == number);
            swapped(number) && accesses.count() > places.count()
        })
    }

    /// Returns whether both are the same operation at the same place of a graph, up to parameters
    /// that an executable graph can change.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.dependencies == other.dependencies && self.work.is_like(&other.work)
    }
}

/// Sets the addresses of operands in the arguments of all kernels. To be called after each change
/// of an operand's address.
pub(super) fn resolve(nodes: &mut [Node], operands: &[Operand]) {
    for node in nodes {
        if let Work::Kernel(kernel) = &mut node.work {
            kernel.params.resolve(operands);
        }
        resolve(node.work.body_mut(), operands);
    }
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Kernel(Kernel),
    Copy(Copy),
    Fill {
        target: Address,
        pattern: FillPattern,
        count: usize,
    },
    /// The captured call of another library.
    Child(Arc<OwnedGraph>),
    /// Nodes that run as often as a flag says.
    Conditional(Conditional),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) source: Address,
    pub(super) source_pitch_bytes: usize,
    pub(super) target: Address,
    pub(super) target_pitch_bytes: usize,
    pub(super) width_bytes: usize,
    pub(super) height: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) function: FunctionHandle,
    pub(super) dims: LaunchDims,
    pub(super) attributes: LaunchAttributes,
    pub(super) params: Params,
    /// True if it is one of several kernels of an operation, which need not use all its operands.
    pub(super) is_part: bool,
}

impl Work {
    /// Returns the positions in operands.
    fn addresses_mut(&mut self) -> SmallVec<[&mut Address; 4]> {
        match self {
            Self::Kernel(kernel) => kernel.params.addresses_mut().collect(),
            Self::Copy(copy) => SmallVec::from_iter([&mut copy.source, &mut copy.target]),
            Self::Fill { target, .. } => SmallVec::from_iter([target]),
            Self::Child(_) => SmallVec::new(),
            Self::Conditional(conditional) => conditional.addresses_mut().collect(),
        }
    }

    pub(super) fn body(&self) -> &[Node] {
        match self {
            Self::Conditional(conditional) => &conditional.body,
            _ => &[],
        }
    }

    fn body_mut(&mut self) -> &mut [Node] {
        match self {
            Self::Conditional(conditional) => &mut conditional.body,
            _ => &mut [],
        }
    }

    /// Returns the positions in operands, without those of a conditional node's body.
    fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        let (params, others) = match self {
            Self::Kernel(kernel) => (kernel.params.addresses(), [None, None]),
            Self::Copy(copy) => (&[][..], [Some(copy.source), Some(copy.target)]),
            Self::Fill { target, .. } => (&[][..], [Some(*target), None]),
            Self::Child(_) => (&[][..], [None, None]),
            Self::Conditional(conditional) => (&[][..], conditional.addresses()),
        };
        let params = params.iter().map(|&(_, address)| address);
        params.chain(others.into_iter().flatten())
    }

    /// Returns whether both are the same operation of the driver.
    pub(super) fn equals(&self, operands: &[Operand], other: &Self, others: &[Operand]) -> bool {
        if let (Self::Kernel(one), Self::Kernel(two)) = (self, other) {
            return (one.function, one.dims, one.attributes)
                == (two.function, two.dims, two.attributes)
                && one.params.equals(&two.params);
        }
        self.with_node(operands, |one| other.with_node(others, |two| one == two))
    }

    /// Calls `body` with the operation for the driver. The kernels' arguments are
    /// [resolved](resolve).
    #[inline]
    pub(super) fn with_node<R>(
        &self,
        operands: &[Operand],
        body: impl FnOnce(&GraphNode<'_>) -> R,
    ) -> R {
        match self {
            Self::Kernel(kernel) => {
                debug_assert!(
                    kernel.params.are_resolved(operands),
                    "addresses of a kernel"
                );
                kernel.params.with_pointers(|params| {
                    body(&GraphNode::Kernel(KernelNode {
                        function: kernel.function,
                        dims: kernel.dims,
                        attributes: kernel.attributes,
                        params,
                    }))
                })
            }
            Self::Copy(copy) => body(&GraphNode::Copy(copy.resolve(operands))),
            &Self::Fill {
                target,
                pattern,
                count,
            } => body(&GraphNode::Fill {
                target: target.resolve(operands),
                pattern,
                count,
            }),
            Self::Child(graph) => body(&GraphNode::Child(graph.handle())),
            Self::Conditional(_) => unreachable!("a conditional node is several operations"),
        }
    }

    /// Returns whether an executable graph can change one to the other.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kernel(one), Self::Kernel(other)) => one.attributes == other.attributes,
            (Self::Copy(_), Self::Copy(_)) if self.can_be_set() => other.can_be_set(),
            (Self::Copy(one), Self::Copy(other)) => one == other,
            (Self::Fill { .. }, Self::Fill { .. }) => true,
            (Self::Child(one), Self::Child(other)) => one == other,
            _ => false,
        }
    }

    /// Returns whether an executable graph can take other addresses for the operation: not for a
    /// copy of several rows, nor for the body of a conditional node.
    pub(super) fn can_be_set(&self) -> bool {
        match self {
            Self::Kernel(_) | Self::Fill { .. } => true,
            Self::Copy(copy) => copy.height <= 1,
            Self::Child(_) | Self::Conditional(_) => false,
        }
    }

    /// Returns whether the operation contains addresses that only a new capture can change.
    pub(super) fn is_captured(&self) -> bool {
        match self {
            Self::Child(_) => true,
            _ => self.body().iter().any(|node| node.work.is_captured()),
        }
    }
}

impl Copy {
    pub(super) fn resolve(&self, operands: &[Operand]) -> Copy2d {
        let side =
            |address: Address, pitch_bytes| Side2d::device(address.resolve(operands), pitch_bytes);
        Copy2d {
            source: side(self.source, self.source_pitch_bytes),
            target: side(self.target, self.target_pitch_bytes),
            width_bytes: self.width_bytes,
            height: self.height,
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}", self.label, self.location)
    }
}
