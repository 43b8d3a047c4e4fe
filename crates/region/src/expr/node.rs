//! Nodes of the expression graph.

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

use millstream::{Buffer, Device};
use parking_lot::Mutex;

use crate::{
    checks::DeferredChecks,
    element::DType,
    error::Error,
    expr::{Op, op::FunctionOperands},
    shape::Shape,
};

pub(crate) type NodeRef = Arc<Node>;

/// A set of mesh axes, a bit for each: those along which the devices' elements differ.
pub(crate) type AxisSet = u32;

/// A node of the lazy expression graph: an element type, a shape, and the operation or the memory
/// of its elements.
pub(crate) struct Node {
    /// An identifier that is unique in the process and greater than those of the operands.
    pub(crate) id: u64,
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    /// The number of elements; 0 for a failed node whose shape is too large.
    pub(crate) elements: usize,
    /// The source line of the operation.
    pub(crate) location: &'static Location<'static>,
    /// The mesh axes along which the elements differ from device to device.
    pub(crate) varies: AxisSet,
    /// True if the elements depend on a collective of a region that had not ended when the node was
    /// made.
    pub(crate) is_deferred: bool,
    /// The number of array handles that refer to the node.
    handles: AtomicUsize,
    /// True if one of the references is that of a prepared region, which keeps the node for a later
    /// call and does nothing with it before that reference is the only one.
    is_kept: AtomicBool,
    state: Mutex<State>,
}

#[derive(Clone)]
pub(crate) enum State {
    /// A node that is not evaluated, with its operation.
    Planned(Arc<Op>),
    /// A node whose elements are in memory, or will be once the enqueued work is done.
    Stored(Arc<Storage>),
    /// A node whose memory holds the elements of another that replaced a part of them. Only that
    /// node leads to this one.
    Replaced,
    /// The result of a collective that has not run.
    Awaiting,
    /// A node without elements, with the error that caused it.
    Failed(Error),
}

/// Device memory with all elements of a node, row-major and contiguous.
pub(crate) struct Storage {
    pub(crate) buffer: Buffer<u8>,
    /// The bounds checks of indices that the elements depend on.
    pub(crate) checks: DeferredChecks,
}

impl State {
    /// Returns the state of a node with this memory, whose elements depend on no checks.
    pub(crate) fn stored(buffer: Buffer<u8>) -> Self {
        let checks = DeferredChecks::default();
        Self::Stored(Arc::new(Storage { buffer, checks }))
    }
}

impl Storage {
    /// Returns whether the memory has no other reference, and was not adopted.
    fn is_only_here(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && !self.buffer.is_adopted()
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Node {
    pub(crate) fn new(
        device: Device,
        dtype: DType,
        shape: Shape,
        state: State,
        location: &'static Location<'static>,
    ) -> Self {
        let (mut varies, mut is_deferred) = (0, matches!(state, State::Awaiting));
        if let State::Planned(op) = &state {
            op.operands(|operand| {
                varies |= operand.varies;
                is_deferred |= operand.is_deferred && !operand.is_stored();
            });
        }
        Self {
            varies,
            is_deferred,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            elements: crate::shape::element_count(&shape).unwrap_or(0),
            device,
            dtype,
            shape,
            location,
            handles: AtomicUsize::new(0),
            is_kept: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Returns a node of the same type and shape.
    pub(crate) fn alike(&self, state: State, location: &'static Location<'static>) -> Self {
        let (device, shape) = (self.device.clone(), self.shape.clone());
        Self::new(device, self.dtype, shape, state, location)
    }

    /// Sets the mesh axes along which the elements differ.
    pub(crate) fn varying(mut self, varies: AxisSet) -> Self {
        self.varies = varies;
        self
    }

    /// Moves the operands to `dropped` if the node is planned and has the only reference to its
    /// operation.
    fn move_operands(&mut self, dropped: &mut FunctionOperands) {
        if let State::Planned(op) = std::mem::replace(self.state.get_mut(), State::Awaiting)
            && let Some(op) = Arc::into_inner(op)
        {
            op.into_operands(dropped);
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        match &*self.state.lock() {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    pub(crate) fn storage(&self) -> Option<Arc<Storage>> {
        match &*self.state.lock() {
            State::Stored(storage) => Some(Arc::clone(storage)),
            _ => None,
        }
    }

    /// Makes a planned or awaiting node stored, once the work that writes the memory is enqueued.
    /// Drops the memory if another thread has stored the node before.
    pub(crate) fn store(&self, storage: Arc<Storage>) {
        let mut state = self.state.lock();
        let is_open = matches!(&*state, State::Planned(_) | State::Awaiting);
        let before = is_open.then(|| std::mem::replace(&mut *state, State::Stored(storage)));
        drop(state);
        // This may drop operands, and theirs, which must not happen under the lock.
        drop(before);
    }

    /// Takes the memory of a stored node if nothing else uses it: the node has only `references`
    /// references besides that of a prepared region, the memory has one, and no other library owns
    /// it.
    pub(crate) fn take_storage(self: &Arc<Self>, references: usize) -> Option<Storage> {
        let mut state = self.state.lock();
        // A session that finds the node among its interned ones gets a reference before it looks at
        // the state, so that either is seen here or there.
        let counted = Arc::strong_count(self);
        // With the fence, a reference that a prepared region has dropped before is not taken for
        // another's: it has cleared the flag first.
        fence(Ordering::Acquire);
        let held = usize::from(self.is_kept.load(Ordering::Relaxed));
        if counted != references + held
            || !matches!(&*state, State::Stored(storage) if storage.is_only_here())
        {
            return None;
        }
        match std::mem::replace(&mut *state, State::Replaced) {
            State::Stored(storage) => Arc::into_inner(storage),
            _ => None,
        }
    }

    /// Sets whether a prepared region keeps the node. Cleared before its reference is dropped.
    pub(crate) fn keep(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Ordering::Release);
    }

    /// Returns whether nothing else refers to the memory of a node without other references.
    pub(crate) fn has_idle_memory(&mut self) -> bool {
        let memory = self.own_memory();
        memory.is_some_and(|storage| storage.buffer.is_sole_owner())
    }

    fn own_memory(&mut self) -> Option<&mut Storage> {
        match self.state.get_mut() {
            State::Stored(storage) => Arc::get_mut(storage),
            _ => None,
        }
    }

    /// Makes a node without other references one of other elements, which the caller writes to the
    /// memory that is returned. Panics unless the memory is idle.
    pub(crate) fn renew(&mut self) -> &mut Buffer<u8> {
        // Interned operations name their operands by identifier.
        self.id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let storage = self.own_memory().expect("the memory is idle");
        storage.checks.clear();
        &mut storage.buffer
    }

    /// Sets the checks that the elements in idle memory depend on. Panics unless it is idle.
    pub(crate) fn depend_on(&mut self, checks: &DeferredChecks) {
        let storage = self.own_memory().expect("the memory is idle");
        storage.checks.clone_from(checks);
    }

    /// Makes a node fail whose memory was taken for an update that has failed.
    pub(crate) fn fail_replaced(&self, error: Error) {
        let mut state = self.state.lock();
        if matches!(&*state, State::Replaced) {
            *state = State::Failed(error);
        }
    }

    /// Returns whether another node has taken the memory.
    pub(crate) fn is_replaced(&self) -> bool {
        matches!(&*self.state.lock(), State::Replaced)
    }

    /// Returns the planned node whose elements this one shows: itself, or the source of a view.
    /// Returns `None` if there is nothing to compute.
    pub(crate) fn computed_source(self: Arc<Self>) -> Option<NodeRef> {
        let mut node = self;
        loop {
            let State::Planned(op) = node.state() else {
                return None;
            };
            match &*op {
                Op::Constant(_) | Op::Iota => return None,
                Op::View(source, _) | Op::Reshape(source) => node = NodeRef::clone(source),
                _ => return Some(node),
            }
        }
    }

    pub(crate) fn is_planned(&self) -> bool {
        matches!(&*self.state.lock(), State::Planned(_))
    }

    /// Returns whether the node is in memory, or will be once the enqueued work is done.
    fn is_stored(&self) -> bool {
        matches!(&*self.state.lock(), State::Stored(_))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements * self.dtype.bytes()
    }

    /// Counts one more array handle.
    pub(crate) fn hold(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one array handle less.
    pub(crate) fn release(&self) {
        self.handles.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether an array handle refers to the node.
    pub(crate) fn is_held(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Node {
    /// Drops the operands that have no other reference, and theirs, in a loop: a recursion along a
    /// chain of thousands of nodes would overflow the stack.
    fn drop(&mut self) {
        if !matches!(self.state.get_mut(), State::Planned(_)) {
            return;
        }
        let mut dropped = FunctionOperands::new();
        self.move_operands(&mut dropped);
        while let Some(node) = dropped.pop() {
            if let Some(mut node) = NodeRef::into_inner(node) {
                node.move_operands(&mut dropped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_nodes_is_dropped_in_a_loop() {
        let device = Device::simulated().unwrap();
        let node = |op: Op| {
            let (device, state) = (device.clone(), State::Planned(Arc::new(op)));
            let location = Location::caller();
            NodeRef::new(Node::new(device, DType::F32, Shape::new(), state, location))
        };
        let first = node(Op::Iota);
        let mut last = NodeRef::clone(&first);
        for _ in 0..200_000 {
            last = node(Op::Reshape(last));
        }
        drop(last);
        assert_eq!(NodeRef::strong_count(&first), 1);
    }
}
