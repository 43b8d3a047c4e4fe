//! Bodies of conditional nodes: a recording of its own for each, whose nodes become part of one
//! node of the recording around it.

use std::{panic::Location, sync::Arc};

use super::{Recording, Role, State};
use crate::{
    Result, UsageError, UsageErrorKind,
    error::OperationKind,
    graph::{
        conditional::{Conditional, Flag, Repeat},
        limit::LoopSite,
        node::{Node, Work},
        operand::Address,
    },
    memory::Allocation,
    sync::ranked::Ranked,
};

/// The refusal of an operation of a recording whose conditional node is being recorded.
pub(super) const INSIDE: &str = "the body of a loop or a condition is being recorded: use the \
                                 streams of the body's recorder";

/// The recording of a body. The recording around it records nothing else until it is dropped.
#[derive(Debug)]
pub(in crate::graph) struct BodyRecording<'a> {
    outer: &'a Recording,
    recording: Arc<Recording>,
}

impl Recording {
    pub(in crate::graph) fn begin_body(&self, name: &'static str) -> Result<BodyRecording<'_>> {
        let recording = Arc::new(Self {
            device: Arc::clone(&self.device),
            eager: self.eager.clone(),
            options: self.options,
            loops: Arc::clone(&self.loops),
            state: Ranked::new(State::new()),
        });
        let mut state = self.state.lock();
        if let Some(why) = state.refusal() {
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(name, problem).into());
        }
        state.has_open_body = true;
        drop(state);
        Ok(BodyRecording {
            outer: self,
            recording,
        })
    }
}

impl Recording {
    /// Returns a word of memory for the counter of a loop.
    fn word(&self, location: &'static Location<'static>) -> Result<Arc<Allocation>> {
        let word = self.eager.zeros_at::<u32>(1, location)?;
        Ok(Allocation::recorded(word.shared_memory()))
    }
}

impl BodyRecording<'_> {
    pub(in crate::graph) fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }

    /// Adds the body to the recording around it, as one node. Does nothing if the body is empty.
    pub(in crate::graph) fn end(
        self,
        (label, location): (&'static str, &'static Location<'static>),
        flag: Flag,
        site: Option<LoopSite>,
    ) -> Result<()> {
        let mut inner = self.recording.state.lock();
        inner.over = true;
        let mut body = std::mem::take(&mut inner.nodes);
        let operands = std::mem::take(&mut inner.operands);
        inner.numbers.clear();
        drop(inner);
        if body.is_empty() {
            return Ok(());
        }
        let outer = self.outer;
        let counter = match site {
            Some(_) => Some(outer.word(location)?),
            None => None,
        };
        let mut state = outer.state.lock();
        let numbers: Vec<usize> = operands
            .into_iter()
            .map(|operand| state.operand(operand.allocation, operand.role))
            .collect();
        for node in &mut body {
            node.renumber(&numbers);
        }
        let flag = Address {
            operand: state.operand(flag.allocation, Role::Outside),
            offset: flag.offset,
        };
        let repeat = site.zip(counter).map(|(site, counter)| {
            let mut loops = outer.loops.lock();
            loops.push(site);
            Repeat {
                counter: Address {
                    operand: state.operand(counter, Role::Inside),
                    offset: 0,
                },
                iterations_max: site.iterations_max,
                number: u32::try_from(loops.len()).unwrap_or(u32::MAX),
            }
        });
        let conditional = Conditional { flag, repeat, body };
        let accesses = conditional.accesses();
        let node = Node {
            kind: OperationKind::Graph,
            label,
            location,
            accesses: accesses.clone(),
            work: Work::Conditional(conditional),
            dependencies: Vec::new(),
        };
        // Ordered by its bytes alone, because it is an operation of no stream.
        state.add(None, &accesses, vec![node])
    }
}

impl Drop for BodyRecording<'_> {
    fn drop(&mut self) {
        self.outer.state.lock().has_open_body = false;
    }
}
