//! The world: the one owner of all simulated state. Everything in it happens under one lock, in an order that only the
//! calls and the schedule decide.
//!
//! A call enqueues operations ([`World::enqueue`]). An operation whose predecessors are done is *eligible*. The schedule
//! picks when an eligible operation runs ([`World::run`], in `execute.rs`); running it has its whole effect at once and
//! fixes its place in virtual time. [`World::retire`] then tells its successors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_driver::{
    ContextHandle, EventHandle, EventKind, FunctionHandle, ModuleHandle, PoolHandle, ResultCode, StreamHandle,
};

use crate::{
    Grade, Report, ReportKind, SimConfig, Span,
    context::{Context, Device},
    engine::Engines,
    exec::Stats,
    fault::Armed,
    host_functions::HostFunctions,
    ids::{Mint, OpId},
    memory::{MemoryMap, pool::Pool},
    module::{Function, LoadedModule},
    op::{Op, OpKind, Successor},
    printed::Printed,
    race::{Enqueued, Gone, Race, Seen, Site},
    schedule::Scheduler,
};

/// A stream's queue, seen from its end.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: ContextHandle,
    pub(crate) non_blocking: bool,
    pub(crate) priority: i32,
    /// The last operation, while it is not done.
    pub(crate) last: Option<OpId>,
    /// When the last operation that is done was done.
    pub(crate) last_finish_ns: u64,
    /// The caller's label and source line at its creation, if there is one.
    pub(crate) site: Option<Site>,
    /// Given up; stays until its work is done (rule 21).
    pub(crate) destroyed: bool,
    /// The operations that its queue's bound is about, oldest first (rule 54).
    pub(crate) queued: VecDeque<OpId>,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextHandle,
    pub(crate) kind: EventKind,
    /// The caller's label and source line at its creation, if there is one.
    pub(crate) site: Option<Site>,
    pub(crate) capture: Option<Capture>,
}

/// What an event captured (rule 22).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    pub(crate) op: OpId,
    /// When the record was done, once it is.
    pub(crate) finish_ns: Option<u64>,
}

/// A host thread's wait for operations.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ops: Vec<OpId>,
    pub(crate) unmet: usize,
    pub(crate) finish_ns: u64,
}

/// What a wait or query is about: operations that are not done, and when the others were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Goal {
    pub(crate) ops: Vec<OpId>,
    pub(crate) finish_ns: u64,
}

/// A call's refusal: what the driver answers.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: ResultCode,
    pub(crate) detail: Option<String>,
}

impl Refusal {
    pub(crate) fn new(code: ResultCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: Some(detail.into()),
        }
    }
}

pub(crate) type Answer<T> = Result<T, Refusal>;

/// All simulated state.
pub(crate) struct World {
    pub(crate) config: SimConfig,
    pub(crate) now_ns: u64,
    /// The driver function at work.
    pub(crate) call: &'static str,
    /// The device of the context that the driver function was given.
    pub(crate) call_device: Option<u32>,
    /// Rises whenever an operation runs or starts.
    pub(crate) progress: u64,
    /// How many calls there were.
    pub(crate) calls: u64,
    pub(crate) mint: Mint,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: BTreeMap<ContextHandle, Context>,
    pub(crate) streams: BTreeMap<StreamHandle, Stream>,
    pub(crate) events: BTreeMap<EventHandle, Event>,
    pub(crate) modules: BTreeMap<ModuleHandle, std::sync::Arc<LoadedModule>>,
    pub(crate) functions: BTreeMap<FunctionHandle, Function>,
    pub(crate) memory: MemoryMap,
    pub(crate) ops: BTreeMap<OpId, Op>,
    pub(crate) ops_enqueued: u64,
    pub(crate) eligible: BTreeSet<OpId>,
    pub(crate) waiters: BTreeMap<u64, Waiter>,
    waiters_made: u64,
    pub(crate) scheduler: Scheduler,
    pub(crate) host_functions: HostFunctions,
    /// Faults at work, and how many calls or contexts they hit.
    pub(crate) faults: Vec<Armed>,
    pub(crate) faults_injected: u64,
    pub(crate) race: Race,
    pub(crate) printed: Printed,
    /// How many of the checker's findings are among the reports.
    pub(crate) findings_reported: usize,
    pub(crate) kernel_stats: Stats,
    pub(crate) reports: Vec<Report>,
    /// Remarks about the modules that were loaded, each once.
    pub(crate) notes: Vec<String>,
    pub(crate) timeline: Vec<Span>,
}

impl World {
    pub(crate) fn new(config: SimConfig, scheduler: Scheduler) -> Self {
        let mut mint = Mint::new(config.devices);
        let devices = (0..config.devices)
            .map(|_| Device {
                pool_handle: mint.next::<PoolHandle>(),
                pool: Pool::default(),
                plain_bytes: 0,
                context: None,
                references: 0,
                engines: Engines::new(config.cost.resident_threads),
            })
            .collect();
        Self {
            now_ns: 0,
            call: "",
            call_device: None,
            progress: 0,
            calls: 0,
            mint,
            devices,
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            memory: MemoryMap::new(config.devices, config.poison_max_bytes),
            ops: BTreeMap::new(),
            ops_enqueued: 0,
            eligible: BTreeSet::new(),
            waiters: BTreeMap::new(),
            waiters_made: 0,
            scheduler,
            host_functions: HostFunctions::default(),
            faults: config.faults.iter().cloned().map(Armed::new).collect(),
            faults_injected: 0,
            race: Race::new(&config),
            printed: Printed::default(),
            findings_reported: 0,
            kernel_stats: Stats::default(),
            reports: Vec::new(),
            notes: Vec::new(),
            timeline: Vec::new(),
            config,
        }
    }

    /// Adds a report about the call.
    pub(crate) fn report(&mut self, kind: ReportKind, text: String) {
        self.report_of(self.call_device, kind, text);
    }

    /// Adds a report about a device.
    pub(crate) fn report_of(&mut self, device: Option<u32>, kind: ReportKind, text: String) {
        self.reports.push(Report {
            kind,
            grade: Grade::Error,
            call: self.call,
            device: device.filter(|_| self.mint.has_several_devices()),
            text,
            time_ns: self.now_ns,
        });
    }

    /// Notes a breach of the caller's obligations and makes the answer to it.
    pub(crate) fn breach(&mut self, kind: ReportKind, code: ResultCode, text: String) -> Refusal {
        self.report(kind, text.clone());
        Refusal::new(code, text)
    }

    /// Puts an operation at the end of `stream`, behind `after` and the barriers that the stream's kind brings.
    pub(crate) fn enqueue(&mut self, stream: StreamHandle, kind: OpKind, after: &Goal) -> OpId {
        self.ops_enqueued += 1;
        let id = OpId(self.ops_enqueued);
        let context_handle = self.streams[&stream].context;
        let context = &mut self
            .contexts
            .get_mut(&context_handle)
            .expect("a stream's context lives");
        let mut ready_ns = self.now_ns.max(after.finish_ns).max(context.fence.finish_ns);
        // Every operation in flight is still in `ops`; one that is not has told its finish to whom it concerns.
        context.fence.ops.retain(|op| self.ops.contains_key(op));
        let mut predecessors: BTreeSet<OpId> = after.ops.iter().chain(&context.fence.ops).copied().collect();
        let device = context.device;
        let mut gone = Gone::None;
        let queues = if stream == context.legacy {
            gone = Gone::Blocking(context_handle);
            ready_ns = ready_ns.max(context.gone_blocking_until_ns);
            self.blocking_streams(context_handle).collect()
        } else if self.streams[&stream].non_blocking {
            vec![stream]
        } else {
            vec![stream, context.legacy]
        };
        self.race.enqueued(&Enqueued {
            id,
            stream,
            queues: &queues,
            gone,
            after: &after.ops,
            kind: &kind,
            call: self.call,
        });
        for queue in queues {
            let queue = &self.streams[&queue];
            ready_ns = ready_ns.max(queue.last_finish_ns);
            predecessors.extend(queue.last);
        }
        let mut unmet = 0;
        for predecessor in &predecessors {
            if let Some(op) = self.ops.get_mut(predecessor) {
                op.successors.push(Successor::Op(id));
                unmet += 1;
            }
        }
        let held = matches!(kind, OpKind::Hold(None));
        let bounded = kind.is_bounded();
        self.ops.insert(
            id,
            Op {
                stream,
                context: context_handle,
                device,
                kind,
                site: Site::current(),
                predecessors: predecessors.into_iter().collect(),
                unmet,
                enqueued_ns: self.now_ns,
                ready_ns,
                successors: Default::default(),
            },
        );
        if unmet == 0 && !held {
            self.eligible.insert(id);
        }
        let queue = self.streams.get_mut(&stream).expect("looked up above");
        queue.last = Some(id);
        if bounded {
            queue.queued.push_back(id);
        }
        id
    }

    /// Takes a finished operation out and tells whoever waited for it.
    pub(crate) fn retire(&mut self, id: OpId, op: Op, finish_ns: u64) {
        self.progress += 1;
        if let Some(stream) = self.streams.get_mut(&op.stream) {
            stream.last_finish_ns = stream.last_finish_ns.max(finish_ns);
            if op.kind.is_bounded() {
                // The first, unless the context was lost.
                stream.queued.retain(|queued| *queued != id);
            }
            if stream.last == Some(id) {
                stream.last = None;
                if stream.destroyed {
                    self.remove_stream(op.stream);
                }
            }
        }
        if let Some(context) = self.contexts.get_mut(&op.context) {
            context.busy_until_ns = context.busy_until_ns.max(finish_ns);
            context.fence.note(id, finish_ns);
        }
        if let OpKind::Record(event) = op.kind
            && let Some(event) = self.events.get_mut(&event)
            && let Some(capture) = &mut event.capture
            && capture.op == id
        {
            capture.finish_ns = Some(finish_ns);
        }
        for successor in op.successors {
            match successor {
                Successor::Waiter(waiter) => {
                    if let Some(waiter) = self.waiters.get_mut(&waiter) {
                        waiter.unmet -= 1;
                        waiter.finish_ns = waiter.finish_ns.max(finish_ns);
                    }
                }
                Successor::Op(next_id) => {
                    if let Some(next) = self.ops.get_mut(&next_id) {
                        next.unmet -= 1;
                        next.ready_ns = next.ready_ns.max(finish_ns);
                        if next.unmet == 0 && !matches!(next.kind, OpKind::Hold(None)) {
                            self.eligible.insert(next_id);
                        }
                    }
                }
            }
        }
    }

    /// Begins a host thread's wait for a goal.
    pub(crate) fn add_waiter(&mut self, goal: &Goal) -> u64 {
        self.waiters_made += 1;
        let id = self.waiters_made;
        let mut unmet = 0;
        for op in &goal.ops {
            if let Some(op) = self.ops.get_mut(op) {
                op.successors.push(Successor::Waiter(id));
                unmet += 1;
            }
        }
        self.waiters.insert(
            id,
            Waiter {
                ops: goal.ops.clone(),
                unmet,
                finish_ns: goal.finish_ns,
            },
        );
        id
    }

    /// Removes a destroyed stream whose work is done. The end of that work stays part of what waits
    /// for its context.
    pub(crate) fn remove_stream(&mut self, handle: StreamHandle) {
        let Some(stream) = self.streams.remove(&handle) else {
            return;
        };
        if let Some(context) = self.contexts.get_mut(&stream.context)
            && !stream.non_blocking
        {
            let until_ns = &mut context.gone_blocking_until_ns;
            *until_ns = stream.last_finish_ns.max(*until_ns);
        }
        let blocking = !stream.non_blocking;
        self.race.stream_gone(handle, stream.context, blocking);
    }

    /// The streams that work of a context's legacy default stream comes after (rule 17), that
    /// stream among them.
    fn blocking_streams(&self, context: ContextHandle) -> impl Iterator<Item = StreamHandle> {
        let streams = self.streams.iter();
        let blocking = move |other: &Stream| other.context == context && !other.non_blocking;
        streams
            .filter(move |(_, other)| blocking(other))
            .map(|(handle, _)| *handle)
    }

    /// Whether the stream is the legacy default stream of its context.
    fn is_legacy(&self, stream: StreamHandle) -> bool {
        let context = self.streams[&stream].context;
        self.contexts
            .get(&context)
            .is_some_and(|context| context.legacy == stream)
    }

    /// The work that a synchronisation with the stream waits for: all enqueued on it so far, and
    /// for the legacy default stream all on blocking streams, too (rule 55).
    pub(crate) fn stream_goal(&self, handle: StreamHandle) -> Goal {
        let stream = &self.streams[&handle];
        let mut goal = Goal {
            ops: stream.last.into_iter().collect(),
            finish_ns: stream.last_finish_ns,
        };
        if self.is_legacy(handle) {
            let gone_ns = self.contexts[&stream.context].gone_blocking_until_ns;
            goal.finish_ns = goal.finish_ns.max(gone_ns);
            for blocking in self.blocking_streams(stream.context).filter(|it| *it != handle) {
                let blocking = &self.streams[&blocking];
                goal.ops.extend(blocking.last);
                goal.finish_ns = goal.finish_ns.max(blocking.last_finish_ns);
            }
        }
        goal
    }

    /// The same work, for the race checker.
    pub(crate) fn stream_seen(&self, handle: StreamHandle) -> Seen {
        if !self.is_legacy(handle) {
            return self.race.ends_of([handle].into_iter(), Gone::None);
        }
        let context = self.streams[&handle].context;
        let streams = self.blocking_streams(context);
        self.race.ends_of(streams, Gone::Blocking(context))
    }

    /// All work enqueued in the context so far.
    pub(crate) fn context_goal(&self, context: ContextHandle) -> Goal {
        Goal {
            ops: self
                .streams
                .values()
                .filter(|stream| stream.context == context)
                .filter_map(|stream| stream.last)
                .collect(),
            finish_ns: self.contexts.get(&context).map_or(0, |c| c.busy_until_ns),
        }
    }

    /// What the event captured.
    pub(crate) fn event_goal(event: &Event) -> Goal {
        match event.capture {
            None => Goal::default(),
            Some(Capture {
                finish_ns: Some(finish_ns),
                ..
            }) => Goal {
                ops: Vec::new(),
                finish_ns,
            },
            Some(Capture { op, .. }) => Goal {
                ops: vec![op],
                finish_ns: 0,
            },
        }
    }
}

impl Goal {
    /// An operation of the goal is done.
    pub(crate) fn note(&mut self, op: OpId, finish_ns: u64) {
        if self.ops.contains(&op) {
            self.finish_ns = self.finish_ns.max(finish_ns);
        }
    }
}
