//! The state that the nodes of one region share.

use std::{
    cell::Cell,
    collections::hash_map::Entry,
    panic::Location,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use millstream::{Buffer, Device, Stream};
use parking_lot::{Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use crate::{
    checks::{CheckResult, DeferredChecks, IndexChecks},
    element::DType,
    error::{Error, MeshErrorKind, Result, UsageError, UsageErrorKind},
    expr::{
        MeshMember, Node, NodeRef, Op, State, Storage,
        key::{NodeKey, node_key},
    },
    shape::{RANK_MAX, Shape},
    streams::Streams,
};

/// The number of planned nodes at which the oldest are evaluated, so that a long loop runs while it
/// is recorded, and chains of planned nodes stay short.
const PLANNED_MAX: usize = 512;

/// The number of planned nodes that are evaluated then. The others may be parts of an expression
/// whose end is not recorded yet.
const OVERDUE: usize = 256;

/// The state that the nodes of one region share.
pub(crate) struct Session {
    pub(crate) device: Device,
    /// The place in a mesh; `None` outside of mesh regions.
    pub(crate) member: Option<MeshMember>,
    inner: Mutex<Inner>,
    /// True if planned nodes are too many, so that the oldest are evaluated.
    is_overdue: AtomicBool,
    streams: Mutex<Streams>,
    checks: Arc<Mutex<IndexChecks>>,
    /// Set if the kernels are recorded.
    pub(crate) log: Option<LaunchLog>,
}

/// The generated kernels that a session launches, for a graph of them.
pub(crate) type LaunchLog = Mutex<Vec<LoggedLaunch>>;

/// The launch of a generated kernel.
pub(crate) struct LoggedLaunch {
    pub(crate) name: &'static str,
    /// The parameters that differ from launch to launch, each with its place among all.
    pub(crate) parameters: Vec<(usize, LoggedParameter)>,
}

/// A parameter that differs between launches of a plan. Nodes are numbered as in the plan.
#[derive(Clone, Copy)]
pub(crate) enum LoggedParameter {
    /// The value of a constant.
    Constant(u32),
    /// The code of an index check.
    CheckCode {
        node: u32,
        axis: usize,
        length: usize,
    },
    Flag,
    Counters,
}

#[derive(Default)]
struct Inner {
    tables: Tables,
    failure: Option<Error>,
}

#[derive(Default)]
struct Tables {
    /// The interning table of nodes, by operation.
    interned: FxHashMap<NodeKey, Weak<Node>>,
    /// The nodes planned since the last evaluation, and at most half as many before.
    planned: Vec<Weak<Node>>,
}

/// The number of nodes for which memory is reserved.
const NODES_USUAL: usize = 28;

/// The maximum capacity of an interning table that is kept for the thread's next session.
const SPARE_MAX: usize = 128;

thread_local! {
    /// The empty tables of an earlier session. They are large for an allocator, and most sessions
    /// are short.
    static SPARE: Cell<Option<Tables>> = const { Cell::new(None) };
}

impl Inner {
    /// Gives the tables memory before the first node. The session of a result that stays on the
    /// device usually has none.
    fn reserve(&mut self) {
        if self.tables.interned.capacity() > 0 {
            return;
        }
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        self.tables = spare.unwrap_or_default();
        self.tables.interned.reserve(NODES_USUAL);
        self.tables.planned.reserve(NODES_USUAL);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if (1..=SPARE_MAX).contains(&self.tables.interned.capacity()) {
            let mut tables = std::mem::take(&mut self.tables);
            tables.interned.clear();
            tables.planned.clear();
            // At the end of a thread there is no next session.
            let _ = SPARE.try_with(|spare| spare.set(Some(tables)));
        }
    }
}

impl Session {
    pub(crate) fn new(device: Device) -> Arc<Self> {
        Arc::new(Self::of(device, None))
    }

    /// Creates a session that logs its launches. The streams are its only ones.
    pub(crate) fn logging(device: Device, streams: Streams, checks: IndexChecks) -> Self {
        Self {
            streams: Mutex::new(streams),
            checks: Arc::new(Mutex::new(checks)),
            log: Some(LaunchLog::default()),
            ..Self::of(device, None)
        }
    }

    pub(crate) fn in_mesh(device: Device, member: MeshMember) -> Arc<Self> {
        Arc::new(Self::of(device, Some(member)))
    }

    fn of(device: Device, member: Option<MeshMember>) -> Self {
        Self {
            device,
            member,
            inner: Mutex::default(),
            is_overdue: AtomicBool::new(false),
            streams: Mutex::default(),
            checks: Arc::default(),
            log: None,
        }
    }

    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock()
    }

    /// Returns a stream of the device, preferably that of the last write to some of this memory.
    pub(crate) fn stream_behind(&self, stored: &[Arc<Storage>]) -> Result<Stream> {
        let arrays = stored.iter().map(|storage| &storage.buffer);
        Ok(self.device.stream_behind(arrays)?)
    }

    /// Enqueues downloads of the flags of this session and of all sessions the nodes depend on.
    pub(crate) fn check_result(&self, nodes: &[NodeRef]) -> Result<CheckResult> {
        let mut checks = DeferredChecks::default();
        checks.add(&self.checks);
        for storage in nodes.iter().filter_map(|node| node.storage()) {
            checks.join(&storage.checks);
        }
        checks.result(&mut self.streams(), &self.device)
    }

    /// Returns the checks that a node depends on whose kernels were enqueued in this session and
    /// read this memory.
    pub(crate) fn deferred_checks<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Storage>,
    ) -> Result<DeferredChecks> {
        let mut checks = DeferredChecks::default();
        if self.log.is_some() {
            // Only a replay computes elements.
            return Ok(checks);
        }
        checks.add(&self.checks);
        for storage in inputs {
            checks.join(&storage.checks);
        }
        checks.bound(&mut self.streams(), &self.device)?;
        Ok(checks)
    }

    /// Locks the bounds checks that kernels of this session make.
    pub(crate) fn checks(&self) -> MutexGuard<'_, IndexChecks> {
        self.checks.lock()
    }

    /// Returns the node of an operation: an existing node with the same key, or a new one. If the
    /// shape is invalid or the session has failed, the node is a failed one.
    pub(crate) fn plan(
        &self,
        dtype: DType,
        shape: Shape,
        op: Op,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> NodeRef {
        if let Some(problem) = shape_error(dtype, &shape) {
            let usage_error = UsageError::new(operation, problem, location);
            return self.fail(dtype, &shape, usage_error, location);
        }
        let key = node_key(dtype, &shape, &op);
        let mut inner = self.inner.lock();
        // No result can come of a failed session, so the operation need not be remembered.
        if let Some(failure) = &inner.failure {
            let failure = failure.clone();
            drop(inner);
            return self.fail(dtype, &shape, failure, location);
        }
        inner.reserve();
        let Tables { interned, planned } = &mut inner.tables;
        let entry = interned.entry(key);
        if let Entry::Occupied(node_ref) = &entry
            && let Some(node_ref) = node_ref.get().upgrade()
            && !node_ref.is_replaced()
        {
            return node_ref;
        }
        let node = self.node(dtype, shape, State::Planned(Arc::new(op)), location);
        entry.insert_entry(Arc::downgrade(&node));
        planned.push(Arc::downgrade(&node));
        if planned.len() >= PLANNED_MAX {
            self.is_overdue.store(true, Ordering::Relaxed);
        }
        drop(inner);
        if node.is_deferred
            && let Some(member) = &self.member
            && let Some(limit) = member.count_deferred()
        {
            let problem = UsageErrorKind::Mesh(MeshErrorKind::TooManyDeferred { limit });
            let usage_error = UsageError::new(operation, problem, location);
            return self.fail(dtype, &node.shape, usage_error, location);
        }
        node
    }

    /// Returns a node with host elements, which are copied before this returns.
    pub(crate) fn upload(
        &self,
        dtype: DType,
        shape: Shape,
        elements: &[u8],
        location: &'static Location<'static>,
    ) -> NodeRef {
        if let Some(problem) = shape_error(dtype, &shape) {
            let usage_error = UsageError::new("array", problem, location);
            return self.fail(dtype, &shape, usage_error, location);
        }
        let stream = self.streams().first(&self.device);
        let buffer = stream.and_then(|stream| Ok(stream.upload::<u8>(elements)?));
        match buffer {
            Ok(buffer) => self.stored(dtype, shape, buffer, location),
            Err(error) => self.fail(dtype, &shape, error, location),
        }
    }

    /// Returns a node with elements in device memory.
    pub(crate) fn stored(
        &self,
        dtype: DType,
        shape: Shape,
        buffer: Buffer<u8>,
        location: &'static Location<'static>,
    ) -> NodeRef {
        self.node(dtype, shape, State::stored(buffer), location)
    }

    /// Returns a failed node and records its error.
    pub(crate) fn fail(
        &self,
        dtype: DType,
        shape: &[usize],
        error: impl Into<Error>,
        location: &'static Location<'static>,
    ) -> NodeRef {
        let error = error.into();
        self.record_failure(error.clone());
        let shape = Shape::from_slice(shape);
        self.node(dtype, shape, State::Failed(error), location)
    }

    fn node(
        &self,
        dtype: DType,
        shape: Shape,
        state: State,
        location: &'static Location<'static>,
    ) -> NodeRef {
        let device = self.device.clone();
        Arc::new(Node::new(device, dtype, shape, state, location))
    }

    pub(crate) fn record_failure(&self, error: Error) {
        self.inner.lock().failure.get_or_insert(error);
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.inner.lock().failure.clone()
    }

    /// Returns the oldest planned nodes if there are many, and forgets that they are planned.
    pub(crate) fn take_overdue(&self) -> Option<Overdue> {
        // The thread that has planned the last of them sees its own write.
        if !self.is_overdue.load(Ordering::Relaxed) {
            return None;
        }
        let mut inner = self.inner.lock();
        let tables = &mut inner.tables;
        if tables.planned.len() < PLANNED_MAX {
            return None;
        }
        self.is_overdue.store(false, Ordering::Relaxed);
        let overdue: Vec<_> = tables.planned.drain(..OVERDUE).collect();
        let younger = tables.planned.clone();
        tables.interned.retain(|_, node| node.strong_count() > 0);
        drop(inner);
        let younger: Vec<NodeRef> = younger.iter().filter_map(Weak::upgrade).collect();
        let end = younger.first().map_or(u64::MAX, |node| node.id);
        let all = overdue.iter().filter_map(Weak::upgrade).chain(younger);
        let held = all
            .filter(|node| node.is_held() && !node.is_deferred)
            .filter_map(Node::computed_source)
            .collect();
        Some(Overdue { held, end })
    }
}

/// The oldest planned nodes of a session.
pub(crate) struct Overdue {
    /// All planned nodes whose elements can be requested, younger ones included.
    pub(crate) held: Vec<NodeRef>,
    /// The end of the range of identifiers of overdue nodes.
    pub(crate) end: u64,
}

/// Returns an error if no array can have this shape.
pub(crate) fn shape_error(dtype: DType, shape: &[usize]) -> Option<UsageErrorKind> {
    let lengths = || shape.into();
    if shape.len() > RANK_MAX {
        return Some(UsageErrorKind::TooManyAxes { shape: lengths() });
    }
    // Axes of length 0 are left out: ndarray limits the product of the other lengths, too.
    let mut long = shape.iter().filter(|&&length| length != 0);
    let bytes = long.try_fold(dtype.bytes(), |bytes, &length| bytes.checked_mul(length));
    let is_countable = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
    (!is_countable).then(|| UsageErrorKind::TooLarge { shape: lengths() })
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, Axis, IxDyn};

    use super::*;
    use crate::RegionExt;

    fn problem<T>(result: Result<T>) -> UsageErrorKind {
        match result {
            Err(Error::Usage(usage_error)) => usage_error.problem().clone(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("the shape is accepted"),
        }
    }

    #[test]
    fn arrays_of_seven_axes_are_rejected() {
        let device = Device::simulated().unwrap();
        let seven = ArrayD::<f32>::zeros(IxDyn(&[2, 1, 2, 1, 2, 1, 2]));
        let uploaded = device.region(|g| g.array(&seven) + g.array(&seven));
        let made = device.region(|g| g.ones::<f32, _>(IxDyn(&[2; 7])).sum());
        let inserted = device.region(|g| g.ones::<f32, _>([2; 6]).insert_axis(Axis(0)) * 2.0);
        for problem in [problem(uploaded), problem(made), problem(inserted)] {
            let is_expected = matches!(problem, UsageErrorKind::TooManyAxes { .. });
            assert!(is_expected, "{problem}");
        }
        let six = device.region(|g| g.ones::<f32, _>([2; 6]).sum()).unwrap();
        assert_eq!(six.wait().unwrap()[()], 64.0);
    }

    #[test]
    fn an_empty_shape_beyond_isize_max_is_rejected() {
        let device = Device::simulated().unwrap();
        for shape in [(usize::MAX, 2, 0), (0, usize::MAX, 1)] {
            let result = device.region(|g| g.zeros::<f32, _>(shape));
            assert!(matches!(problem(result), UsageErrorKind::TooLarge { .. }));
            let axes = [Axis(0), Axis(1)];
            let reduced = device.region(|g| g.zeros::<f32, _>(shape).mean_keepdims(&axes));
            assert!(matches!(problem(reduced), UsageErrorKind::TooLarge { .. }));
        }
    }

    #[test]
    fn a_failed_array_keeps_its_axes() {
        let device = Device::simulated().unwrap();
        let result = device.region(|g| {
            let much = g.ones::<f32, _>((usize::MAX, 2));
            assert_eq!(much.shape()[1], 2);
            much.sum()
        });
        assert!(matches!(problem(result), UsageErrorKind::TooLarge { .. }));
    }
}
