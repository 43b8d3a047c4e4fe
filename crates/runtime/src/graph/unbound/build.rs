//! Making graphs whose arrays are arguments: the recording, and the driver's objects.

#![allow(unsafe_code, reason = "makes driver graphs")]

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;

use super::{
    super::{
        GraphOptions, GraphRecorder,
        node::Work,
        operand::{Address, Operand, OperandMemory},
        recorder,
        recording::RecordedGraph,
    },
    BoundArray, GraphObjects, UnboundGraph, UnboundNode, UnboundWork, ValuePlace,
};
use crate::{Device, Result, context::DeviceState, kernel::Argument};

/// The alignment of temporaries in the memory that a replay gives them.
const ALIGNMENT: u64 = 256;

/// The kernels of a recording whose arrays are not yet arguments.
#[doc(hidden)]
#[derive(Debug)]
pub struct RecordedKernels {
    device: Arc<DeviceState>,
    location: &'static Location<'static>,
    graph: RecordedGraph,
}

impl Device {
    /// Records kernels and fills of generated code. The arrays that they use can be made arguments
    /// with [`RecordedKernels::unbind`].
    ///
    /// # Errors
    ///
    /// As [`record`](Self::record).
    #[doc(hidden)]
    #[track_caller]
    pub fn record_kernels(
        &self,
        body: impl FnOnce(&GraphRecorder) -> Result<()>,
    ) -> Result<RecordedKernels> {
        Ok(RecordedKernels {
            device: Arc::clone(self.state()),
            location: Location::caller(),
            graph: recorder::record(self.state(), GraphOptions::new(), body)?,
        })
    }
}

impl RecordedKernels {
    /// Returns the names of the kernels, in the order of their recording.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let kernels = self.graph.nodes.iter();
        let kernels = kernels.filter(|node| matches!(node.work, Work::Kernel(_)));
        kernels.map(|node| node.label)
    }

    /// Makes a graph with arguments in place of these arrays, and in place of the scalar parameters
    /// at `scalars`, each the number of a kernel and of its parameter. All other arrays are
    /// temporaries. Returns `None` if there is anything else than kernels and fills, or an array
    /// that is neither.
    ///
    /// # Errors
    ///
    /// If the driver cannot make the graph, or the device is lost.
    pub fn unbind(
        self,
        name: &'static str,
        arrays: &[Argument<'_>],
        scalars: &[(usize, usize)],
    ) -> Result<Option<UnboundGraph>> {
        let Self {
            device,
            location,
            graph,
        } = self;
        let Some(slots) = Slots::of(&graph.operands, arrays) else {
            return Ok(None);
        };
        // SAFETY: the device keeps its context alive.
        let template = unsafe { device.driver.graph_create(device.context) };
        let mut unbound = UnboundGraph {
            objects: GraphObjects {
                driver: Arc::clone(&device.driver),
                context: device.context,
                idle_frees: Arc::clone(&device.page_locked().idle_frees),
                template: device.checked(template)?,
                exec: None,
            },
            name,
            location,
            nodes: Vec::with_capacity(graph.nodes.len()),
            is_changed: true,
            values: Vec::new(),
            arrays: Vec::new(),
            scalars: Vec::new(),
            temporary_bytes: slots.temporary_bytes,
            last: None,
        };
        let count = arrays.len() + usize::from(slots.temporary_bytes > 0);
        unbound.arrays.resize_with(count, BoundArray::default);
        let mut kernels: Vec<usize> = Vec::new();
        for (number, node) in graph.nodes.iter().enumerate() {
            let first = unbound.values.len();
            let mut addresses: SmallVec<[(usize, Address); 8]> = SmallVec::new();
            let work = match &node.work {
                Work::Kernel(kernel) => {
                    kernels.push(number);
                    unbound.values.extend_from_slice(kernel.params.words());
                    let places = kernel.params.addresses().iter();
                    addresses.extend(places.map(|&(word, address)| (first + word, address)));
                    let params = kernel.params.first_words();
                    let params = params.map(|word| first + word).collect();
                    UnboundWork::Kernel {
                        function: kernel.function,
                        dims: kernel.dims,
                        attributes: kernel.attributes,
                        params,
                    }
                }
                &Work::Fill {
                    target,
                    pattern,
                    count,
                } => {
                    unbound.values.push(0);
                    addresses.push((first, target));
                    UnboundWork::Fill {
                        target: first,
                        pattern,
                        count,
                    }
                }
                Work::Copy(_) | Work::Child(_) | Work::Conditional(_) => return Ok(None),
            };
            for (value, address) in addresses {
                // The driver's node gets the address of the recording, which no launch uses.
                unbound.values[value] = address.resolve(&graph.operands).as_raw();
                let (array, offset) = slots.of_operands[address.operand];
                let place = ValuePlace {
                    node: number,
                    value,
                };
                let places = &mut unbound.arrays[array].places;
                places.push((place, offset + address.offset));
            }
            let before = node.dependencies.iter();
            let before: Vec<_> = before.map(|&at| unbound.nodes[at].handle).collect();
            let _name = device.named(node.label, node.location);
            let handle = work.with_node(&unbound.values, |operation| {
                let objects = &unbound.objects;
                // SAFETY: the graph and its nodes are alive. Each launch names the arrays to which
                // it has set the addresses.
                unsafe {
                    device.driver.graph_add_node(
                        objects.context,
                        objects.template,
                        &before,
                        operation,
                    )
                }
            });
            unbound.nodes.push(UnboundNode {
                label: node.label,
                location: node.location,
                work,
                handle: device.checked(handle)?,
                is_changed: true,
            });
        }
        for &(kernel, param) in scalars {
            let node = kernels[kernel];
            let UnboundWork::Kernel { params, .. } = &unbound.nodes[node].work else {
                unreachable!("the node is a kernel");
            };
            let value = params[param];
            unbound.scalars.push(ValuePlace { node, value });
        }
        let objects = &unbound.objects;
        objects.idle_frees.make_room_for_graph(&device);
        // SAFETY: the graph is alive. Kernels stay loaded while the device is open.
        let exec = unsafe {
            device
                .driver
                .graph_instantiate(objects.context, objects.template)
        };
        unbound.objects.exec = Some(device.checked(exec)?);
        Ok(Some(unbound))
    }
}

/// The places of operands among the arrays of a replay.
struct Slots {
    /// The array of each operand, and the position in it.
    of_operands: Vec<(usize, u64)>,
    temporary_bytes: u64,
}

impl Slots {
    /// Returns `None` if an operand is neither a temporary nor one of the arrays.
    fn of(operands: &[Operand], arrays: &[Argument<'_>]) -> Option<Self> {
        let mut temporary_bytes: u64 = 0;
        let mut of_operands = Vec::with_capacity(operands.len());
        for operand in operands {
            of_operands.push(match &operand.memory {
                OperandMemory::Outside(allocation) => {
                    let is_it = |array: &Argument<'_>| {
                        let slice = array.as_slice();
                        slice.is_some_and(|(span, _)| {
                            std::ptr::eq(span.allocation, Arc::as_ptr(allocation))
                        })
                    };
                    (arrays.iter().position(is_it)?, 0)
                }
                OperandMemory::Recorded {
                    constant: false, ..
                } => {
                    let start = temporary_bytes;
                    temporary_bytes += operand.bytes.next_multiple_of(ALIGNMENT);
                    (arrays.len(), start)
                }
                OperandMemory::Recorded { .. } | OperandMemory::Block(_) => {
                    return None;
                }
            });
        }
        Some(Self {
            of_operands,
            temporary_bytes,
        })
    }
}
