//! The parts that the conditional nodes of a graph share: the kernel that sets conditions, and the
//! memory for loops.

use std::{panic::Location, sync::Arc};

use millstream_driver::{DevicePtr, FunctionHandle, ResultCode};
use parking_lot::Mutex;

use super::{
    conditional::NotingPlace,
    driver_graph::OwnedGraph,
    limit::LoopNotes,
    operand::{Operand, OperandMemory},
    recording::RecordedGraph,
};
use crate::{
    Device, Result, Stream, context::DeviceState, kernel::load_generated, memory::Allocation,
};

/// The compute capability from which on the kernel below can be loaded.
const CAPABILITY_MIN: (i32, i32) = (7, 5);

/// A kernel of one thread that copies a flag to a condition, as 0 or 1.
///
/// With the address of a counter it belongs to a loop. With `max` 0 it resets the counter.
/// Otherwise it counts an iteration; if the flag is still set in iteration `max`, it clears the
/// condition and notes the loop's number in the word at `limit` whose index is at `slot`. The note
/// is atomic, because another loop of the graph may write it at the same time. The driver provides
/// the function that the kernel calls.
const PTX: &str = include_str!("conditions.ptx");

/// The parts of a graph with conditional nodes that its nodes share.
#[derive(Debug)]
pub(super) struct Conditions {
    /// The kernel that sets conditions. `None` if the host runs loops.
    pub(super) setter: Option<FunctionHandle>,
    pub(super) notes: Arc<LoopNotes>,
    /// The number of the operand that holds the index of a replay's word, if there are loops.
    slot: Option<usize>,
}

impl Conditions {
    /// Creates the shared parts, if a node is conditional. Adds an operand for loops.
    pub(super) fn of(
        device: &Arc<DeviceState>,
        name: &'static str,
        graph: &mut RecordedGraph,
    ) -> Result<Option<Self>> {
        if graph.nodes.iter().all(|node| node.work.body().is_empty()) {
            return Ok(None);
        }
        let loops = std::mem::take(&mut graph.loops);
        let slot = match loops.is_empty() {
            true => None,
            false => {
                let word = Stream::new(device, 0)?.zeros_at::<u32>(1, Location::caller())?;
                let allocation = Allocation::recorded(word.shared_memory());
                let number = graph.operands.len();
                let (pointer, bytes) = (allocation.pointer, allocation.history.bytes());
                let memory = OperandMemory::Recorded {
                    allocation,
                    constant: false,
                };
                graph.operands.push(Operand::new(pointer, bytes, memory));
                Some(number)
            }
        };
        Ok(Some(Self {
            setter: setter(device)?,
            notes: LoopNotes::new(device, name, loops)?,
            slot,
        }))
    }

    /// Returns the address of the index of a replay's word, if there are loops.
    pub(super) fn slot(&self, operands: &[Operand]) -> Option<DevicePtr> {
        self.slot.map(|number| operands[number].pointer)
    }

    /// Returns the memory by which the device notes that a loop ended at its limit.
    pub(super) fn noting_place(&self, operands: &[Operand]) -> NotingPlace {
        NotingPlace {
            words: self.notes.pointer(),
            // No kernel uses it without loops.
            slot: self.slot(operands).unwrap_or(DevicePtr::from_raw(0)),
        }
    }

    /// Creates the parts of another graph with the same nodes.
    pub(super) fn again(&self, device: &Arc<DeviceState>, name: &'static str) -> Result<Self> {
        Ok(Self {
            setter: self.setter,
            notes: LoopNotes::new(device, name, self.notes.loops().to_vec())?,
            slot: self.slot,
        })
    }
}

/// The kernel that sets conditions, once it is known whether the driver has conditional nodes.
#[derive(Debug, Default)]
struct Setter(Mutex<Option<Option<FunctionHandle>>>);

/// Returns the kernel that sets conditions, loaded at the first call. `None` if the driver or the
/// device has no conditional nodes.
pub(super) fn setter(device: &Arc<DeviceState>) -> Result<Option<FunctionHandle>> {
    let user = Device::from_state(Arc::clone(device));
    let slot = user.slot(Setter::default);
    let setter = *slot.0.lock();
    if let Some(setter) = setter {
        return Ok(setter);
    }
    let is_capable = device.limits.compute_capability >= CAPABILITY_MIN;
    let setter = match is_capable && has_conditional_nodes(device)? {
        true => {
            let name = "set_condition";
            let kernel = load_generated(&user, PTX, "millstream_set_condition", || name, 7)?;
            Some(kernel.handle())
        }
        false => None,
    };
    *slot.0.lock() = Some(setter);
    Ok(setter)
}

fn has_conditional_nodes(device: &Arc<DeviceState>) -> Result<bool> {
    let condition = OwnedGraph::create(device).and_then(|graph| graph.condition());
    match condition {
        Ok(_) => Ok(true),
        Err(error) if error.code() == ResultCode::NOT_SUPPORTED => Ok(false),
        Err(error) => Err(device.record_failure(error)),
    }
}
