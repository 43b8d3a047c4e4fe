//! Execution of conditional nodes: the body's nodes run here, iteration by iteration.

use std::sync::Arc;

use millstream_driver::ResultCode;

use super::{
    execute::{Effected, OpFailure},
    graph::{BodyPlace, ConditionalOp, Conditions, NodeOperation},
    graph_template::Template,
    op::StreamOp,
    state::SimState,
};
use crate::{ReportKind, ids::OpId};

/// The number of iterations after which a loop counts as endless.
const ITERATIONS_MAX: u64 = 1 << 20;

/// The iteration that a body runs in.
#[derive(Clone, Copy)]
struct Iteration {
    /// The operation of the race checker for the accesses, if this is not the first iteration.
    repeats: Option<OpId>,
    /// Whether independent nodes run in reverse order.
    reversed: bool,
}

impl SimState {
    /// Runs the iterations of a conditional node, and returns their duration in nanoseconds.
    pub(super) fn run_conditional(
        &mut self,
        id: OpId,
        op: &StreamOp,
        conditional: &ConditionalOp,
    ) -> Result<u64, OpFailure> {
        let place = op.node.as_ref().expect("a conditional node is a node");
        let conditions = Arc::clone(&place.conditions);
        let first = Iteration {
            repeats: None,
            reversed: id.0 % 2 == 1,
        };
        let outcome = self.iterate((id, op), conditional, &conditions, first);
        for race_op in conditional.race_ops() {
            self.race_done(race_op, Vec::new());
        }
        outcome
    }

    fn iterate(
        &mut self,
        of: (OpId, &StreamOp),
        conditional: &ConditionalOp,
        conditions: &Conditions,
        outer: Iteration,
    ) -> Result<u64, OpFailure> {
        let mut duration_ns: u64 = 0;
        let mut iterations = 0;
        loop {
            let value = conditions.value(conditional.condition);
            let index = conditional.form.body(value, iterations == 0);
            let Some(body) = index.and_then(|index| conditional.bodies.get(index)) else {
                break;
            };
            if iterations == ITERATIONS_MAX {
                return Err(OpFailure {
                    kind: ReportKind::KernelFault,
                    code: ResultCode::LAUNCH_TIMEOUT,
                    text: format!("its condition still holds after {iterations} iterations"),
                    fault: None,
                });
            }
            let own = (iterations > 0).then_some(conditional.repeats);
            let iteration = Iteration {
                repeats: outer.repeats.or(own),
                reversed: outer.reversed ^ (iterations % 2 == 1),
            };
            let body = (&*body.template, &body.places[..]);
            let body_ns = self.run_body(of, body, conditions, iteration)?;
            duration_ns = duration_ns
                .saturating_add(self.config.cost.graph_iteration_ns)
                .saturating_add(body_ns);
            iterations += 1;
        }
        Ok(duration_ns)
    }

    /// Runs the nodes of a body or a child in it, and returns the duration in nanoseconds.
    fn run_body(
        &mut self,
        (id, op): (OpId, &StreamOp),
        (template, places): (&Template, &[BodyPlace]),
        conditions: &Conditions,
        iteration: Iteration,
    ) -> Result<u64, OpFailure> {
        let mut finish_ns = vec![0_u64; template.nodes.len()];
        for index in template.order(iteration.reversed) {
            let node = &template.nodes[index];
            let of = (id, op);
            let duration_ns = match (&node.operation, &places[index]) {
                (NodeOperation::Child(child), BodyPlace::Child(places)) => {
                    self.run_body(of, (child, places), conditions, iteration)?
                }
                (_, BodyPlace::Conditional(inner)) => {
                    self.iterate(of, inner, conditions, iteration)?
                }
                (operation, BodyPlace::Node(race_op, place)) => {
                    let kind = operation.kind();
                    let mut effects = self.effects_of(&kind);
                    let outcome = match self.effect(id, op, &kind, &mut effects) {
                        Ok(Effected::Took(duration_ns)) => Ok(duration_ns),
                        Ok(Effected::Waits(waiting)) => {
                            let waiting = self.never_woken((id, op), &kind, *waiting, &mut effects);
                            Err(OpFailure {
                                text: waiting.text + ", and no other operation runs beside a body",
                                ..waiting
                            })
                        }
                        Err(failure) => Err(failure),
                    };
                    self.race_did(iteration.repeats.unwrap_or(*race_op), effects);
                    outcome.map_err(|failure| OpFailure {
                        text: format!("{}: {}", place.summary(kind.summary()), failure.text),
                        ..failure
                    })?
                }
                (_, BodyPlace::Child(_)) => unreachable!("places are made from the template"),
            };
            let dependencies = node.dependencies.iter();
            let ready_ns = dependencies.map(|index| finish_ns[*index]).max();
            finish_ns[index] = ready_ns.unwrap_or(0).saturating_add(duration_ns);
        }
        Ok(finish_ns.into_iter().max().unwrap_or(0))
    }
}
