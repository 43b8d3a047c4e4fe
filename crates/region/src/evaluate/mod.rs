//! From planned nodes to kernels on streams.
//!
//! | file | |
//! |---|---|
//! | `plan.rs` | which nodes are stored, and which are calculated within the kernels of others |
//! | `steps.rs` | what is enqueued for one node that is stored |
//! | `lanes.rs` | on which stream |
//! | `launch.rs` | one generated kernel with its parameters |
//! | `checks.rs` | what the device finds wrong while it runs: indices that are none |

mod checks;
mod lanes;
mod launch;
mod plan;
mod steps;

pub(crate) use checks::{Checks, Doubts, Verdict};
pub(crate) use lanes::Lanes;

use crate::{
    error::Result,
    graph::{NodeRef, Session},
};

/// Enqueues all work that is needed for the elements of these nodes. Nothing is waited for.
///
/// # Errors
///
/// If one of the nodes has failed, there is not enough memory, or the device is lost.
pub(crate) fn evaluate(session: &Session, nodes: &[NodeRef]) -> Result<()> {
    if let Some(error) = nodes.iter().find_map(|node| node.failure()) {
        return Err(error);
    }
    for node in plan::steps(nodes) {
        steps::enqueue(session, &node)?;
    }
    Ok(())
}

/// Enqueues the work for nodes that nobody has asked for yet, so that the device has something to do. If that fails, the
/// session has.
pub(crate) fn ahead(session: &Session, nodes: &[NodeRef]) {
    if let Err(error) = evaluate(session, nodes) {
        session.note(error);
    }
}
