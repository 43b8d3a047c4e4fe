//! The conversion of a recorded operation to nodes with operands by number.

#![allow(unsafe_code, reason = "copies the arguments of launches")]

use std::{slice, sync::Arc};

use millstream_driver::{Copy2d, DevicePtr, GraphNode, KernelNode, Memory2d, Side2d};
use smallvec::SmallVec;

use super::{
    exec::OwnedGraph,
    node::{Address, Copy, Kernel, Work},
    params::Params,
};
use crate::{
    Result, UsageError, UsageErrorKind,
    context::{DeviceState, NodeSink, Operation, RelocatableKernel},
    kernel::ModuleCache,
};

/// The memory of an operand of the operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandRange {
    pub(super) operand: usize,
    /// The address of the allocation.
    pub(super) pointer: DevicePtr,
    /// The size of the allocation.
    pub(super) bytes: u64,
    /// The address of the first byte that the operation accesses.
    pub(super) start: DevicePtr,
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

    /// Returns the nodes.
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

    /// Returns the operand that contains this address.
    fn address(&self, pointer: DevicePtr) -> Option<Address> {
        let offset = |range: &OperandRange| {
            let offset = pointer.as_raw().checked_sub(range.pointer.as_raw())?;
            (offset < range.bytes).then_some(Address {
                operand: range.operand,
                offset,
            })
        };
        self.operands.iter().find_map(offset)
    }

    fn side(&self, side: Side2d) -> Option<(Address, usize)> {
        match side.memory {
            Memory2d::Device(first) => Some((self.address(first)?, side.pitch_bytes)),
            Memory2d::Host(_) => None,
        }
    }

    /// Returns the operand that begins at this address.
    fn start(&self, pointer: DevicePtr) -> Option<Address> {
        let starts = |range: &&OperandRange| range.start == pointer;
        let range = self.operands.iter().find(starts)?;
        Some(Address {
            operand: range.operand,
            offset: pointer.as_raw() - range.pointer.as_raw(),
        })
    }

    fn kernel(&self, node: &KernelNode<'_>) -> Option<Work> {
        let shapes = ModuleCache::param_shapes(self.device, node.function)?;
        debug_assert_eq!(shapes.len(), node.params.len(), "parameters of the kernel");
        let mut params = Params::default();
        for (shape, &param) in shapes.iter().zip(node.params) {
            // SAFETY: a launch passes a pointer to a value of each parameter's size, and the sizes
            // are those that loading has checked.
            let value = unsafe { slice::from_raw_parts(param.cast::<u8>(), shape.bytes) };
            let raw = match value.first_chunk() {
                Some(first) if shape.may_be_array => Some(u64::from_ne_bytes(*first)),
                _ => None,
            };
            let address = raw.and_then(|raw| self.start(DevicePtr::from_raw(raw)));
            params.push(value, address.map(|address| (0, address)));
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
            let operand = self.address(place.operand)?.operand;
            let address = self.address(place.address)?;
            if address.operand != operand {
                return None;
            }
            places[place.param].push((place.word, address));
        }
        let mut params = Params::default();
        for (value, places) in moved.kernel.params.iter().zip(places) {
            params.push(value, places);
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
        let (source, source_pitch_bytes) = self.side(copy.source)?;
        let (target, target_pitch_bytes) = self.side(copy.target)?;
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
            } => self.address(target).map(|target| Work::Fill {
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
