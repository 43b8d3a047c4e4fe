//! Evaluation: materialises planned nodes, by a graph of all kernels or kernel by kernel.

use rustc_hash::FxHashSet;

use crate::{
    error::{MeshErrorKind, Result, UsageError, UsageErrorKind},
    expr::{NodeRef, Overdue, Session, State},
    run::{
        plans::{Recalled, recall},
        replay,
        steps::{Interruption, materialise},
    },
};

/// Enqueues all work that these nodes depend on, without waiting for any of it.
///
/// # Errors
///
/// If one of the nodes has failed or depends on a collective that has not run, there is not enough
/// memory, or the device is lost.
pub(crate) fn evaluate(session: &Session, nodes: &[NodeRef]) -> Result<()> {
    if let Some(error) = nodes.iter().find_map(|node| node.failure()) {
        return Err(error);
    }
    check_deferred(nodes)?;
    materialise_all(session, nodes, u64::MAX)
}

/// Returns an error if a node depends on the result of a collective that has not run.
fn check_deferred(nodes: &[NodeRef]) -> Result<()> {
    let is_deferred = |node: &&NodeRef| node.is_deferred;
    let mut stack: Vec<NodeRef> = nodes.iter().filter(is_deferred).cloned().collect();
    let mut seen: FxHashSet<u64> = FxHashSet::default();
    while let Some(node) = stack.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        match node.state() {
            State::Awaiting => {
                let problem = UsageErrorKind::Mesh(MeshErrorKind::Awaiting);
                return Err(UsageError::new("evaluate", problem, node.location).into());
            }
            State::Planned(op) => op.operands(|operand| {
                if operand.is_deferred {
                    stack.push(NodeRef::clone(operand));
                }
            }),
            _ => {}
        }
    }
    Ok(())
}

/// Enqueues work for the oldest nodes before a result is requested, so that the device is busy
/// while a long loop is recorded. A failure becomes the session's error.
///
/// All nodes whose elements can be requested are planned as if they were, but only overdue ones are
/// enqueued. The kernels are therefore those that an evaluation at the end would have chosen.
pub(crate) fn evaluate_overdue(session: &Session, overdue: &Overdue) {
    if let Err(error) = materialise_all(session, &overdue.held, overdue.end) {
        session.record_failure(error);
    }
}

/// Enqueues the work of nodes with identifiers less than `end` that the targets depend on.
fn materialise_all(session: &Session, targets: &[NodeRef], end: u64) -> Result<()> {
    loop {
        let Recalled {
            graph,
            plan,
            is_known,
        } = recall(targets, end);
        if is_known && replay::replay(session, &plan, &graph) {
            return Ok(());
        }
        match materialise(session, &plan, graph) {
            Ok(()) => return Ok(()),
            Err(Interruption::Failure(error)) => return Err(error),
            // The other thread is between taking the memory and storing the update.
            Err(Interruption::Outdated) => std::thread::yield_now(),
        }
    }
}
