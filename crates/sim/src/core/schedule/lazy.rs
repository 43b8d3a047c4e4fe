//! The lazy policy: no operation runs until the host forces it, and then only operations that the
//! awaited work depends on.

use std::collections::BTreeSet;

use super::policy::{IdleQueries, Policy, SchedulePoint, View};
use crate::ids::OpId;

/// The state of the lazy policy: the last queried operations, and the operations that the host
/// forces now.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    /// The unfinished operations of the last query.
    last_asked: Vec<OpId>,
    idle_queries: IdleQueries,
    /// The operations for which one step must run, if any.
    forced: Option<Vec<OpId>>,
    walk: DependencyWalk,
}

impl Policy for Lazy {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], view: &View<'_>) {
        self.forced = match point {
            SchedulePoint::AfterCall => None,
            SchedulePoint::Query => self.asked(awaited),
            SchedulePoint::Pause => Some(self.still_wanted(view)),
            SchedulePoint::Wait => Some(awaited.to_vec()),
        };
    }

    fn pick(&mut self, _: SchedulePoint, _: &[OpId], view: &View<'_>) -> Option<OpId> {
        let wanted = self.forced.take()?;
        let found = self.walk.next(view, &wanted);
        // Any operation may be the one that a kernel waits for.
        found.or_else(|| view.eligible.first().copied().filter(|_| view.some_wait))
    }
}

impl Lazy {
    /// Handles a query of `awaited` and returns the operations that it forces.
    fn asked(&mut self, awaited: &[OpId]) -> Option<Vec<OpId>> {
        if !awaited.is_empty() {
            self.last_asked = awaited.to_vec();
        }
        let forced = self
            .idle_queries
            .force_progress(SchedulePoint::Query, awaited);
        forced.then(|| awaited.to_vec())
    }

    /// Returns the unfinished operations of the last query, or the oldest eligible operation if
    /// there are none.
    fn still_wanted(&self, view: &View<'_>) -> Vec<OpId> {
        let mut wanted = self.last_asked.clone();
        wanted.retain(|op| view.ops.contains_key(op));
        if wanted.is_empty() {
            wanted.extend(view.eligible.first());
        }
        wanted
    }
}

/// A depth-first walk from awaited operations to the ones that they depend on. Of each stream it
/// visits only the first pending operation, and later walks go on from it, so that the cost of a
/// step grows neither with the queues nor with a graph's nodes.
#[derive(Debug, Default)]
pub(super) struct DependencyWalk {
    stack: Vec<OpId>,
    /// The operations whose predecessors are on the stack. Those that are pending are there too,
    /// below their predecessors, unless the walk is stuck.
    seen: BTreeSet<OpId>,
    /// Set if the walk has left a pending operation that could not run.
    is_stuck: bool,
}

impl DependencyWalk {
    /// Returns an eligible operation among `awaited` and those that they depend on, if there is
    /// one.
    pub(super) fn next(&mut self, view: &View<'_>, awaited: &[OpId]) -> Option<OpId> {
        let mut walk = Self::default();
        let roots = awaited.iter().map(|op| first_before(view, *op));
        walk.stack.extend(roots);
        let found = walk.go_on(view, Some(self));
        let is_own = found.is_none() || walk.stack.last().copied() == found;
        if is_own && !walk.seen.is_empty() {
            *self = walk;
        }
        found
    }

    /// Goes on to the next eligible operation, or to one of an earlier walk that has been at an
    /// operation of this one.
    fn go_on(&mut self, view: &View<'_>, mut earlier: Option<&mut Self>) -> Option<OpId> {
        while let Some(id) = self.stack.last().copied() {
            if view.eligible.contains(&id) {
                return Some(id);
            }
            let op = view.ops.get(&id);
            if op.is_some()
                && let Some(earlier) = &mut earlier
                && !earlier.is_stuck
                && earlier.seen.contains(&id)
            {
                let found = earlier.go_on(view, None);
                if !earlier.is_stuck {
                    return found;
                }
            }
            match op {
                Some(op) if self.seen.insert(id) => {
                    let predecessors = op.predecessors.iter().rev();
                    let pending = predecessors.filter(|op| view.ops.contains_key(op));
                    self.stack.extend(pending.map(|op| first_before(view, *op)));
                }
                op => {
                    self.is_stuck |= op.is_some();
                    self.stack.pop();
                }
            }
        }
        None
    }
}

/// Returns the first pending operation in the queue of the operation's stream, which must run
/// before it. A graph's nodes are in no queue.
fn first_before(view: &View<'_>, id: OpId) -> OpId {
    let queued = view.ops.get(&id).filter(|op| op.node.is_none());
    let stream = queued.and_then(|op| view.streams.get(&op.stream));
    stream
        .and_then(|stream| stream.pending.front().copied())
        .unwrap_or(id)
}

/// A policy that runs as few operations as late as legal, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct AsLateAsPossible {
    idle_queries: IdleQueries,
    must_run: bool,
}

impl Policy for AsLateAsPossible {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], _: &View<'_>) {
        self.must_run = self.idle_queries.force_progress(point, awaited);
    }

    fn pick(&mut self, _: SchedulePoint, _: &[OpId], view: &View<'_>) -> Option<OpId> {
        let must_run = std::mem::take(&mut self.must_run);
        view.eligible.first().copied().filter(|_| must_run)
    }
}
