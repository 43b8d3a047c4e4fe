//! Copies and fills as nodes of graphs, of which a host source is read when the node runs.

use millstream_driver::{Copy2d, DevicePtr, FillPattern, StreamHandle};

use super::{
    copy::CopyForm,
    copy_location::{CopyLocation, CopyOperand, direction},
};
use crate::{
    core::{
        call_error::CallResult,
        gpu::StateGuard,
        graph::NodeOperation,
        op::{CopyOp, CopySource, CopyTarget, FillOp},
    },
    memory::Rows,
};

impl StateGuard<'_> {
    /// Validates a copy as the node of a graph, which reads its source when it runs.
    pub(crate) fn prepare_copy(
        &mut self,
        ends: (CopyOperand, CopyOperand),
        copy: &Copy2d,
    ) -> CallResult<CopyOp> {
        if copy.is_empty() {
            let text = "a copy of no bytes as a node of a graph".to_owned();
            return self.refuse_argument(text);
        }
        let rows = match copy.height {
            1 => Rows::one(copy.width_bytes as u64),
            _ => self.check_rows(ends, copy)?,
        };
        self.node_copy(ends, rows)
    }

    /// Resolves the ends of a copy as the node of a graph.
    fn node_copy(&mut self, ends: (CopyOperand, CopyOperand), rows: Rows) -> CallResult<CopyOp> {
        let target = self.locate(ends.0, rows.target_pitch, &rows)?;
        let source = self.locate(ends.1, rows.source_pitch, &rows)?;
        self.check_overlap(target, source, &rows);
        Ok(CopyOp {
            direction: direction(target, source),
            source: match source {
                CopyLocation::Pageable(range) => CopySource::Host(range),
                mapped => CopySource::Mapped(mapped.address()),
            },
            target: match target {
                CopyLocation::Pageable(range) => CopyTarget::Host(range),
                mapped => CopyTarget::Mapped(mapped.address()),
            },
            rows,
        })
    }

    pub(super) fn capture_copy(
        &mut self,
        stream: StreamHandle,
        ends: (CopyOperand, CopyOperand),
        rows: &Rows,
        form: CopyForm,
    ) -> CallResult<()> {
        if form != CopyForm::Async {
            self.refuse_in_capture(stream, "a copy that reads its source at once, or blocks,")?;
        }
        let copy = self.node_copy(ends, *rows)?;
        self.capture_node(stream, NodeOperation::Copy(copy));
        Ok(())
    }

    /// Validates a fill as the node of a graph.
    pub(crate) fn prepare_fill(
        &mut self,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
    ) -> CallResult<FillOp> {
        match self.locate_fill(target, pattern, count)? {
            Some((fill, _)) => Ok(fill),
            None => {
                let text = "a fill of no elements as a node of a graph".to_owned();
                self.refuse_argument(text)
            }
        }
    }
}
