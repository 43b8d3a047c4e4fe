//! Evaluation: materialises planned nodes by executing the steps of a fusion plan in order.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::{
    error::{MeshErrorKind, Result, UsageError, UsageErrorKind},
    fuse::{FusedKernel, Step, Work, steps},
    graph::{NodeRef, Overdue, Session, State, Storage},
    launch::{allocate, enqueue},
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
    for step in steps(nodes, u64::MAX) {
        materialise(session, &step)?;
    }
    Ok(())
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
        if node.is_awaiting() {
            let problem = UsageErrorKind::Mesh(MeshErrorKind::Awaiting);
            return Err(UsageError::new("evaluate", problem, node.location).into());
        }
        if let State::Planned(op) = node.state() {
            op.operands(|operand| {
                if operand.is_deferred {
                    stack.push(NodeRef::clone(operand));
                }
            });
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
    for step in steps(&overdue.held, overdue.end) {
        if let Err(error) = materialise(session, &step) {
            session.record_failure(error);
            return;
        }
    }
}

/// Enqueues the work of one step, all of whose inputs are enqueued. Does nothing if another thread
/// has materialised the node meanwhile.
fn materialise(session: &Session, Step { node, work }: &Step) -> Result<()> {
    if !node.is_planned() {
        return Ok(());
    }
    let kernels = match work {
        Work::Alias(source) => {
            let storage = source
                .storage()
                .expect("operands are enqueued before their aliases");
            node.store(storage);
            return Ok(());
        }
        Work::Kernels(kernels) => kernels,
    };
    let inputs = inputs(kernels);
    let ids: SmallVec<[u64; 8]> = inputs.iter().map(|node| node.id).collect();
    let stream = session.streams().choose(&session.device, node.id, &ids)?;
    let mut buffer = allocate(&stream, node.bytes())?;
    if node.elements > 0 {
        for kernel in kernels {
            enqueue(session, &stream, kernel, &mut [&mut buffer])?;
        }
    }
    node.store(Arc::new(Storage {
        buffer,
        checks: session.deferred_checks(&inputs),
    }));
    Ok(())
}

/// Returns the nodes that the kernels read from memory, each once, oldest first.
fn inputs(kernels: &[FusedKernel]) -> SmallVec<[&NodeRef; 8]> {
    let mut inputs: SmallVec<[&NodeRef; 8]> =
        kernels.iter().flat_map(|kernel| &kernel.inputs).collect();
    inputs.sort_unstable_by_key(|node| node.id);
    inputs.dedup_by_key(|node| node.id);
    inputs
}
