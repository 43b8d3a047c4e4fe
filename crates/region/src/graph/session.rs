//! What the nodes of one region have in common.

use std::{
    panic::Location,
    sync::{Arc, Weak},
};

use millstream::Device;
use parking_lot::{Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::{Node, NodeRef, Op, State, Storage, key::Key};
use crate::{
    element::DType,
    error::{Error, Misuse, Problem, Result},
    evaluate::{Checks, Doubts, Lanes, Verdict},
    shape::{Shape, elements},
};

/// How many nodes may be planned before those that arrays stand for are evaluated, so that a long loop is on its way
/// while it is being written down, and no chain of nodes gets long.
const PLANNED_MAX: usize = 256;

/// What the nodes of one region have in common.
pub(crate) struct Session {
    pub(crate) device: Device,
    inner: Mutex<Inner>,
    lanes: Mutex<Lanes>,
    checks: Arc<Mutex<Checks>>,
}

#[derive(Default)]
struct Inner {
    /// Nodes by what they calculate.
    known: FxHashMap<Key, Weak<Node>>,
    /// Nodes that were planned since the last evaluation.
    planned: Vec<Weak<Node>>,
    /// What failed first.
    failure: Option<Error>,
}

impl Session {
    pub(crate) fn new(device: Device) -> Arc<Self> {
        Arc::new(Self {
            device,
            inner: Mutex::default(),
            lanes: Mutex::default(),
            checks: Arc::default(),
        })
    }

    /// The streams of this session.
    pub(crate) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock()
    }

    /// What the device will have found wrong, of this session and of what the nodes depend on.
    pub(crate) fn verdict(&self, nodes: &[NodeRef]) -> Result<Verdict> {
        let mut doubts = Doubts::default();
        doubts.add(&self.checks);
        for storage in nodes.iter().filter_map(|node| node.storage()) {
            doubts.join(&storage.doubts);
        }
        doubts.verdict(&mut self.lanes(), &self.device)
    }

    /// What may turn out to be wrong with a node that was enqueued here and needs what these are.
    pub(crate) fn doubts(&self, below: &[NodeRef]) -> Doubts {
        let mut doubts = Doubts::default();
        if self.checks().are_made() {
            doubts.add(&self.checks);
        }
        for storage in below.iter().filter_map(|node| node.storage()) {
            doubts.join(&storage.doubts);
        }
        doubts
    }

    /// What the device is to find wrong while it runs.
    pub(crate) fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock()
    }

    /// The node of an operation: a new one, or one that is the same.
    pub(crate) fn plan(
        &self,
        dtype: DType,
        shape: Shape,
        op: Op,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> NodeRef {
        let bytes = elements(&shape).and_then(|elements| elements.checked_mul(dtype.bytes()));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            let shape = shape.as_slice().into();
            let misuse = Misuse::new(operation, Problem::TooLarge { shape }, location);
            return self.fail(dtype, &[], misuse, location);
        }
        let key = Key::new(dtype, &shape, &op);
        let mut inner = self.inner.lock();
        // Nothing will come of it, so that there is no reason to remember how it is calculated.
        if let Some(failure) = inner.failure.clone() {
            drop(inner);
            return self.fail(dtype, &shape, failure, location);
        }
        if let Some(known) = inner.known.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let node = Arc::new(Node::new(
            self.device.clone(),
            dtype,
            shape,
            State::Planned(op),
            location,
        ));
        inner.known.insert(key, Arc::downgrade(&node));
        inner.planned.push(Arc::downgrade(&node));
        node
    }

    /// A node with elements of the host, which are copied before this returns.
    pub(crate) fn upload(
        &self,
        dtype: DType,
        shape: Shape,
        elements: &[u8],
        location: &'static Location<'static>,
    ) -> NodeRef {
        let stream = self.lanes().any(&self.device);
        let buffer = stream.and_then(|stream| Ok(stream.upload::<u8>(elements)?));
        match buffer {
            Ok(buffer) => {
                let state = State::Stored(Arc::new(Storage {
                    buffer,
                    doubts: Doubts::default(),
                }));
                Arc::new(Node::new(self.device.clone(), dtype, shape, state, location))
            }
            Err(error) => self.fail(dtype, &shape, error, location),
        }
    }

    /// A node that stands for a failure, which is noted.
    pub(crate) fn fail(
        &self,
        dtype: DType,
        shape: &[usize],
        error: impl Into<Error>,
        location: &'static Location<'static>,
    ) -> NodeRef {
        let error = error.into();
        self.note(error.clone());
        let shape = Shape::from_slice(shape);
        Arc::new(Node::new(
            self.device.clone(),
            dtype,
            shape,
            State::Failed(error),
            location,
        ))
    }

    /// Notes that something failed, if it is the first.
    pub(crate) fn note(&self, error: Error) {
        self.inner.lock().failure.get_or_insert(error);
    }

    /// What failed first.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.inner.lock().failure.clone()
    }

    /// If many nodes are planned: those of them that arrays stand for.
    pub(crate) fn overdue(&self) -> Option<Vec<NodeRef>> {
        let mut inner = self.inner.lock();
        if inner.planned.len() < PLANNED_MAX {
            return None;
        }
        let planned = std::mem::take(&mut inner.planned);
        inner.known.retain(|_, node| node.strong_count() > 0);
        drop(inner);
        let nodes = planned.iter().filter_map(Weak::upgrade);
        Some(
            nodes
                .filter(|node| node.is_held() && node.failure().is_none())
                .collect(),
        )
    }
}
