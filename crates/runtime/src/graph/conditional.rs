//! Conditional nodes: operations that run as often as a flag in device memory says.
//!
//! A conditional node of the driver looks at a condition, a number in the driver's own memory, that
//! only a kernel can set. The kernel is ours: one launch in front of the node, and in a loop one at
//! the end of the body, copy the flag to the condition. The second also counts the iterations, so
//! that the limit ends every loop, and notes in host memory that it did ([`super::limit`]): in the
//! word of the replay, whose index a fill in front of the replay has written to the graph's memory.
//!
//! Without conditional nodes (a driver older than CUDA 12.4) the host looks at the flag between
//! iterations ([`super::steps`]).

use std::{collections::BTreeMap, ffi::c_void, ptr, sync::Arc};

use millstream_driver::{
    ConditionHandle, ConditionalKind, DevicePtr, FunctionHandle, GraphNode, KernelNode,
    LaunchAttributes, LaunchDims,
};
use smallvec::SmallVec;

use super::{
    node::{Node, NodeAccess},
    operand::{Address, Operand},
};
use crate::{
    Result, UsageError, UsageErrorKind,
    array::Span,
    context::DeviceState,
    memory::Allocation,
    tracker::{AccessKind, AccessUnion},
};

/// The nodes of a body and the flag that decides how often they run.
#[derive(Clone, Debug)]
pub(super) struct Conditional {
    pub(super) flag: Address,
    /// Set for a loop.
    pub(super) repeat: Option<Repeat>,
    /// The nodes, whose dependencies are numbers of nodes of the body.
    pub(super) body: Vec<Node>,
}

/// The count of a loop's iterations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    /// A word of the graph's memory.
    pub(super) counter: Address,
    pub(super) iterations_max: u32,
    /// The number of the loop in the graph, from 1.
    pub(super) number: u32,
}

/// A place of the kernel that sets the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetterPlace {
    /// In front of the conditional node.
    Front,
    /// At the end of a loop's body.
    End,
}

/// The memory by which the device notes that a loop ended at its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotingPlace {
    /// An array of words in host memory.
    pub(super) words: DevicePtr,
    /// The index of the replay's word, in device memory.
    pub(super) slot: DevicePtr,
}

impl Conditional {
    pub(super) fn kind(&self) -> ConditionalKind {
        match self.repeat {
            Some(_) => ConditionalKind::While,
            None => ConditionalKind::If,
        }
    }

    /// Returns the positions in operands that are not of the body.
    pub(super) fn addresses(&self) -> [Option<Address>; 2] {
        [Some(self.flag), self.repeat.map(|repeat| repeat.counter)]
    }

    /// Returns the positions in operands that are not of the body.
    pub(super) fn addresses_mut(&mut self) -> impl Iterator<Item = &mut Address> {
        let counter = self.repeat.as_mut().map(|repeat| &mut repeat.counter);
        std::iter::once(&mut self.flag).chain(counter)
    }

    pub(super) fn flag_access(&self) -> NodeAccess {
        word(self.flag, AccessKind::Read)
    }

    pub(super) fn accesses(&self) -> SmallVec<[NodeAccess; 3]> {
        let counted = |repeat: Repeat| word(repeat.counter, AccessKind::Write);
        let own = [Some(self.flag_access()), self.repeat.map(counted)];
        let mut unions: BTreeMap<usize, AccessUnion> = BTreeMap::new();
        let inner = self.body.iter().flat_map(|node| &node.accesses);
        for access in inner.chain(own.iter().flatten()) {
            let union = unions.entry(access.operand).or_default();
            union.add(&access.extent, access.kind, access.ordered);
        }
        NodeAccess::from_unions(unions).collect()
    }

    /// Calls `make` with the kernel that sets the condition.
    pub(super) fn with_setter<R>(
        &self,
        (function, place): (FunctionHandle, SetterPlace),
        condition: ConditionHandle,
        noting: NotingPlace,
        operands: &[Operand],
        make: impl FnOnce(&GraphNode<'_>) -> R,
    ) -> R {
        let flag = self.flag.resolve(operands).as_raw();
        let condition = condition.as_raw();
        let (limit, slot) = (noting.words.as_raw(), noting.slot.as_raw());
        let (counter, max, number) = match self.repeat {
            None => (0, 0, 0),
            Some(repeat) => {
                let max = match place {
                    SetterPlace::Front => 0,
                    SetterPlace::End => repeat.iterations_max,
                };
                let counter = repeat.counter.resolve(operands).as_raw();
                (counter, max, repeat.number)
            }
        };
        let params: [*const c_void; 7] = [
            ptr::from_ref(&condition).cast(),
            ptr::from_ref(&flag).cast(),
            ptr::from_ref(&counter).cast(),
            ptr::from_ref(&limit).cast(),
            ptr::from_ref(&slot).cast(),
            ptr::from_ref(&max).cast(),
            ptr::from_ref(&number).cast(),
        ];
        make(&GraphNode::Kernel(KernelNode {
            function,
            dims: LaunchDims {
                grid: [1; 3],
                block: [1; 3],
                shared_bytes: 0,
            },
            attributes: LaunchAttributes::default(),
            params: &params,
        }))
    }
}

fn word(address: Address, kind: AccessKind) -> NodeAccess {
    NodeAccess {
        operand: address.operand,
        extent: (address.offset..address.offset + size_of::<u32>() as u64).into(),
        kind,
        ordered: true,
    }
}

#[derive(Debug)]
pub(super) struct Flag {
    pub(super) allocation: Arc<Allocation>,
    /// The position of the word in the allocation.
    pub(super) offset: u64,
}

impl Flag {
    pub(super) fn of(
        device: &Arc<DeviceState>,
        name: &'static str,
        span: &Span<'_>,
    ) -> Result<Self> {
        let refused = |problem| -> crate::Error { UsageError::new(name, problem).into() };
        let allocation = span.allocation;
        if !Arc::ptr_eq(&allocation.device, device) {
            let (operand_device, stream_device) = allocation.device.told_apart(device);
            return Err(refused(UsageErrorKind::OtherDevice {
                operand: 0,
                name: Some("flag"),
                operand_device,
                stream_device,
                advice: "",
            }));
        }
        if span.bytes.is_empty() {
            let why = "the flag has no element";
            return Err(refused(UsageErrorKind::Recording { why }));
        }
        let allocation = Allocation::of(&allocation.history, 0).map_err(refused)?;
        let offset = span.bytes.start as u64;
        Ok(Self { allocation, offset })
    }
}
