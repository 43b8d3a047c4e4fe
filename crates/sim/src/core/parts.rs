//! Copies and fills of a range that consists of several mappings, in parts of one mapping each.

use super::{
    op::{CopyOp, CopySource, CopyTarget, FillOp, OpKind},
    state::SimState,
};
use crate::memory::Rows;

impl SimState {
    /// Returns the parts of a copy or fill; `None` if one allocation holds each of its sides.
    pub(super) fn parts_of(&self, kind: &OpKind) -> Option<Vec<OpKind>> {
        let (source, target, rows) = match kind {
            OpKind::Fill(fill) => (None, Some(fill.target), Rows::one(fill.bytes)),
            OpKind::Copy(copy) => {
                let source = match copy.source {
                    CopySource::Mapped(source) => Some(source),
                    _ => None,
                };
                let target = match copy.target {
                    CopyTarget::Mapped(target) => Some(target),
                    CopyTarget::Host(_) => None,
                };
                (source, target, copy.rows)
            }
            _ => return None,
        };
        // The bytes that one mapping holds.
        let left = |start: Option<u64>, offset: u64, bytes: u64| {
            let at = start.map(|start| start + offset);
            let mapping = at.and_then(|at| Some((at, self.memory.mapping(at)?)));
            mapping.map_or(bytes, |(at, mapping)| bytes.min(mapping.end() - at))
        };
        let [from, to] = [rows.source_span(), rows.target_span()];
        if left(source, 0, from) == from && left(target, 0, to) == to {
            return None;
        }
        let mut parts = Vec::new();
        for (from, to) in rows.offsets() {
            let mut done = 0;
            while done < rows.width {
                let bytes = left(source, from + done, rows.width - done);
                let bytes = left(target, to + done, bytes);
                parts.push(part(kind, (from + done, to + done), bytes));
                done += bytes;
            }
        }
        Some(parts)
    }
}

/// Returns the part of a copy or fill at these offsets of its source and target.
fn part(kind: &OpKind, (from, to): (u64, u64), bytes: u64) -> OpKind {
    match kind {
        OpKind::Fill(fill) => OpKind::Fill(FillOp {
            target: fill.target + to,
            bytes,
            ..*fill
        }),
        OpKind::Copy(copy) => OpKind::Copy(CopyOp {
            source: match &copy.source {
                CopySource::Mapped(address) => CopySource::Mapped(address + from),
                CopySource::Captured(captured) => {
                    CopySource::Captured(captured[from as usize..][..bytes as usize].into())
                }
                CopySource::Host(range) => CopySource::Host(range.part(from, bytes)),
            },
            target: match &copy.target {
                CopyTarget::Mapped(address) => CopyTarget::Mapped(address + to),
                CopyTarget::Host(range) => CopyTarget::Host(range.part(to, bytes)),
            },
            rows: Rows::one(bytes),
            direction: copy.direction,
        }),
        _ => OpKind::Marker,
    }
}
