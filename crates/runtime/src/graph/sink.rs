//! The conversion of a recorded operation to nodes with operands by number.

#![allow(unsafe_code, reason = "copies the arguments of launches")]

use std::{ops::Range, slice, sync::Arc};

use millstream_driver::{Copy2d, DevicePtr, GraphNode, KernelNode, Memory2d, Side2d};
use smallvec::SmallVec;

use super::{
    driver_graph::OwnedGraph,
    node::{Copy, Kernel, Work},
    operand::Address,
    params::Params,
};
use crate::{
    Result, UsageError, UsageErrorKind,
    context::{DeviceState, NodeSink, Operation, RelocatableKernel},
    kernel::ModuleCache,
    tracker::AccessKind,
};

/// The memory of an operand of the operation.
#[derive(Debug)]
pub(super) struct OperandRange {
    pub(super) operand: usize,
    /// The number of the parameter that gets its address, if one does.
    pub(super) param: u16,
    pub(super) kind: AccessKind,
    /// The address of the allocation.
    pub(super) pointer: DevicePtr,
    pub(super) bytes: u64,
    /// The range that the operation accesses, from the start of the allocation.
    pub(super) range: Range<u64>,
}

impl OperandRange {
    /// Returns the position of an address in the allocation or at its end.
    fn address(&self, pointer: DevicePtr) -> Option<Address> {
        let offset = pointer.as_raw().checked_sub(self.pointer.as_raw())?;
        (offset <= self.bytes).then_some(Address {
            operand: self.operand,
            offset,
        })
    }
}

/// Collects the nodes of one operation.
pub(super) struct Collector<'a> {
    device: &'a Arc<DeviceState>,
    operands: &'a [OperandRange],
    works: Vec<Work>,
    /// The reason why a node could not be converted.
    refused: Option<&'static str>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(device: &'a Arc<DeviceState>, operands: &'a [OperandRange]) -> Self {
        Self {
            device,
            operands,
            works: Vec::new(),
            refused: None,
        }
    }

    pub(super) fn finish(self, operation: &Operation<'_>) -> Result<Vec<Work>> {
        match self.refused {
            None => Ok(self.works),
            Some(why) => {
                let problem = UsageErrorKind::Recording { why };
                let refused = UsageError::new(operation.label, problem);
                Err(refused.at(operation.location).into())
            }
        }
    }

    /// Returns the position of an address in an operand that the operation accesses there. Earlier
    /// `kinds` are tried first.
    fn address(&self, pointer: DevicePtr, kinds: &[AccessKind]) -> Option<Address> {
        kinds.iter().find_map(|&kind| {
            let accessed = self.operands.iter().filter(|range| range.kind == kind);
            let mut addresses = accessed.filter_map(|range| {
                let address = range.address(pointer)?;
                range.range.contains(&address.offset).then_some(address)
            });
            addresses.next()
        })
    }

    fn side(&self, side: Side2d, kinds: &[AccessKind]) -> Option<(Address, usize)> {
        match side.memory {
            Memory2d::Device(first) => Some((self.address(first, kinds)?, side.pitch_bytes)),
            Memory2d::Host(_) => None,
        }
    }

    /// Returns the array whose address this parameter of a kernel gets, if it gets one.
    fn param(&self, number: u16) -> Option<&OperandRange> {
        self.operands.iter().find(|range| range.param == number)
    }

    fn kernel(&self, node: &KernelNode<'_>) -> Option<Work> {
        let sizes = ModuleCache::param_sizes(self.device, node.function)?;
        debug_assert_eq!(sizes.len(), node.params.len(), "parameters of the kernel");
        let mut params = Params::default();
        for ((&bytes, &param), number) in sizes.iter().zip(node.params).zip(0..) {
            // SAFETY: a launch passes a pointer to a value of each parameter's size, and the sizes
            // are those that loading has checked.
            let value = unsafe { slice::from_raw_parts(param.cast::<u8>(), bytes) };
            // Not so for a surface: the operand has the handle of its texture.
            let is_address = |array: &&OperandRange| {
                let address = array.pointer.offset(array.range.start).as_raw();
                value.starts_with(&address.to_ne_bytes())
            };
            let array = self.param(number);
            let address = array.filter(is_address).map(|array| Address {
                operand: array.operand,
                offset: array.range.start,
            });
            params.push(value, array.is_some(), address.map(|address| (0, address)));
        }
        Some(Work::Kernel(Kernel {
            function: node.function,
            dims: node.dims,
            attributes: node.attributes,
            params,
            is_part: false,
        }))
    }

    /// Returns one of the kernels of another library's call.
    fn relocatable_kernel(&self, moved: &RelocatableKernel) -> Option<Work> {
        let mut places: Vec<SmallVec<[(usize, Address); 1]>> = Vec::new();
        places.resize(moved.kernel.params.len(), SmallVec::new());
        for place in &moved.addresses {
            let address = self.param(place.operand)?.address(place.address)?;
            places[place.param].push((place.word, address));
        }
        let mut params = Params::default();
        for (value, places) in moved.kernel.params.iter().zip(places) {
            params.push(value, false, places);
        }
        Some(Work::Kernel(Kernel {
            function: moved.kernel.function,
            dims: moved.kernel.dims,
            attributes: moved.kernel.attributes,
            params,
            is_part: true,
        }))
    }
}

impl Collector<'_> {
    /// Adds a node, or notes that there is none.
    fn push(&mut self, work: Option<Work>) {
        match work {
            Some(work) => self.works.push(work),
            None => {
                self.refused = Some(
                    "it uses a kernel or memory that is unknown to this library: capture it in a \
                     graph of your own, or enqueue it around the replay",
                );
            }
        }
    }

    fn copy(&self, copy: Copy2d) -> Option<Work> {
        // An operation may also read what it has written.
        let (source, source_pitch_bytes) =
            self.side(copy.source, &[AccessKind::Read, AccessKind::Write])?;
        let (target, target_pitch_bytes) = self.side(copy.target, &[AccessKind::Write])?;
        Some(Work::Copy(Copy {
            source,
            source_pitch_bytes,
            target,
            target_pitch_bytes,
            width_bytes: copy.width_bytes,
            height: copy.height,
        }))
    }
}

impl NodeSink for Collector<'_> {
    fn add(&mut self, node: &GraphNode<'_>) {
        let work = match *node {
            GraphNode::Kernel(ref kernel) => self.kernel(kernel),
            GraphNode::Copy(copy) => self.copy(copy),
            GraphNode::Fill {
                target,
                pattern,
                count,
            } => self
                .address(target, &[AccessKind::Write])
                .map(|target| Work::Fill {
                    target,
                    pattern,
                    count,
                }),
            GraphNode::Child(handle) => {
                let graph = OwnedGraph::new(self.device, handle);
                Some(Work::Child(Arc::new(graph)))
            }
            GraphNode::Empty => return,
        };
        self.push(work);
    }

    fn add_kernels(&mut self, kernels: &[RelocatableKernel]) -> bool {
        let works = kernels.iter().map(|moved| self.relocatable_kernel(moved));
        let Some(works) = works.collect::<Option<Vec<Work>>>() else {
            return false;
        };
        self.works.extend(works);
        true
    }
}
