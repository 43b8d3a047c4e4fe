//! The bars of a picture, with labels and tooltips.

use std::{fmt, ops::Range};

use super::{
    super::{
        TimedOperation,
        engine::Work,
        units::{Rate, Size, Time},
    },
    Picture, colour,
    layout::Row,
    text::{Escaped, fit, line},
};
use crate::OperationKind;

/// The minimum width of a bar in pixels, however short the operation was.
pub(super) const BAR_WIDTH_MIN: f64 = 0.8;
/// The width in pixels above which a bar keeps a gap to the next one.
const BAR_WIDTH_GAP: f64 = 4.0;
pub(super) const LABEL_HEIGHT_MIN: f64 = 12.0;
const LABEL_FONT_SIZE: f64 = 11.0;
const LABEL_PADDING: f64 = 4.0;

impl Picture<'_> {
    /// Draws every operation's bars: in the row of its engine and in the row of its stream.
    pub(super) fn bars(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (operation, work) in self.drawn() {
            writeln!(f, r#"<g class="bar" fill="{}">"#, colour(operation.kind))?;
            write!(f, "<title>")?;
            self.describe(f, operation, work)?;
            writeln!(f, "</title>")?;
            let label = operation.label;
            if let Some(work) = work {
                let row = &self.layout.engines[work.engine as usize];
                self.bar(f, row, work.lane, &work.time_ns, label)?;
            }
            let row = &self.layout.streams[self.streams.index(operation.stream)];
            self.bar(f, row, 0, &operation.time_ns, label)?;
            writeln!(f, "</g>")?;
        }
        Ok(())
    }

    fn bar(
        &self,
        f: &mut fmt::Formatter<'_>,
        row: &Row,
        lane: usize,
        time_ns: &Range<u64>,
        label: &str,
    ) -> fmt::Result {
        let (x, y) = (self.layout.axis.x(time_ns.start), row.lane_top(lane));
        let mut width = (self.layout.axis.x(time_ns.end) - x).max(BAR_WIDTH_MIN);
        let mut radius = "";
        if width > BAR_WIDTH_GAP {
            width -= 1.0;
            radius = r#" rx="2""#;
        }
        let height = row.bar_height;
        writeln!(
            f,
            r#"<rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{height:.1}"{radius}/>"#
        )?;
        if height < LABEL_HEIGHT_MIN {
            return Ok(());
        }
        match fit(label, width - 2.0 * LABEL_PADDING, LABEL_FONT_SIZE) {
            Some(label) => line(
                f,
                "",
                x + LABEL_PADDING,
                y + height / 2.0 + 4.0,
                &Escaped(&label),
            ),
            None => Ok(()),
        }
    }

    fn describe(
        &self,
        f: &mut fmt::Formatter<'_>,
        operation: &TimedOperation,
        work: Option<&Work>,
    ) -> fmt::Result {
        let TimedOperation {
            label,
            kind,
            stream,
            time_ns,
            bytes,
            location,
            ..
        } = operation;
        writeln!(
            f,
            "{} ({}), stream {}",
            Escaped(label),
            singular(*kind),
            stream
        )?;
        let start_ns = self.layout.axis.since_start_ns(time_ns.start);
        let duration_ns = time_ns.end.saturating_sub(time_ns.start);
        write!(f, "at {} for {}", Time(start_ns), Time(duration_ns))?;
        let work_ns = work.map_or(0, Work::duration_ns);
        if work.is_some() && work_ns < duration_ns {
            write!(
                f,
                ", of which {} waiting for the engine",
                Time(duration_ns - work_ns)
            )?;
        }
        if *bytes > 0 {
            let of = if *kind == OperationKind::Kernel {
                " of operands"
            } else {
                ""
            };
            write!(f, "\n{}{of}", Size(*bytes))?;
            if work_ns > 0 {
                write!(f, ", {}", Rate(*bytes, work_ns))?;
            }
        }
        write!(f, "\n{}:{}", Escaped(location.file()), location.line())
    }
}

fn singular(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::HostToDevice => "copy host → device",
        OperationKind::Kernel => "kernel",
        OperationKind::DeviceToHost => "copy device → host",
        OperationKind::DeviceToDevice => "copy device → device",
        OperationKind::Fill => "fill",
        OperationKind::Allocation => "allocation",
        OperationKind::Collective => "collective",
        OperationKind::Graph => "graph",
    }
}
