//! The errors of driver calls.

use millstream_driver::{GraphNodeHandle, ResultCode};

#[derive(Clone, Debug)]
pub(crate) struct CallError {
    pub(crate) code: ResultCode,
    pub(crate) detail: Option<String>,
    pub(crate) graph_node: Option<GraphNodeHandle>,
}

impl CallError {
    pub(crate) fn new(code: ResultCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: Some(detail.into()),
            graph_node: None,
        }
    }

    /// Adds the node of a graph that the call failed at.
    pub(crate) fn at_node(self, node: GraphNodeHandle) -> Self {
        Self {
            graph_node: Some(node),
            ..self
        }
    }
}

pub(crate) type CallResult<T> = Result<T, CallError>;
