//! The arrows of a picture, which show waits.

use std::fmt;

use super::{
    super::{TimedOperation, order::Wait},
    Picture,
    layout::Row,
};

/// The maximum number of arrows; more would only hide each other.
pub(super) const ARROWS_MAX: usize = 400;
/// The number of arrows up to which they are drawn opaque.
const ARROWS_STRONG: f64 = 80.0;
/// The length of an arrow's head, in pixels.
const HEAD_LENGTH: f64 = 6.0;
/// Half the width of an arrow's head, in pixels.
const HEAD_SIDE: f64 = 3.0;

pub(super) type Point = (f64, f64);

impl Picture<'_> {
    /// Draws an arrow for every wait, or for [`ARROWS_MAX`] of them.
    pub(super) fn arrows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = self.waits.len().min(ARROWS_MAX);
        let opacity = (ARROWS_STRONG / drawn as f64).sqrt().min(1.0);
        writeln!(f, r#"<g class="waits" opacity="{opacity:.2}">"#)?;
        for place in 0..drawn {
            self.wait(f, self.waits[place * self.waits.len() / drawn])?;
        }
        writeln!(f, "</g>")
    }

    /// Draws the arrow of a wait: from the edge of the earlier bar, at its end, to the facing edge
    /// of the later bar, at its start.
    fn wait(&self, f: &mut fmt::Formatter<'_>, wait: Wait) -> fmt::Result {
        let operations = &self.trace.operations;
        let (earlier, later) = (&operations[wait.earlier], &operations[wait.later]);
        let row =
            |operation: &TimedOperation| &self.layout.streams[self.streams.index(operation.stream)];
        let (from_row, to_row) = (row(earlier), row(later));
        let down = if from_row.top < to_row.top { 1.0 } else { -1.0 };
        let edge = |row: &Row, down: f64| row.lane_top(0) + row.bar_height / 2.0 * (1.0 + down);
        // A pixel inside the bars, so that arrows of neighbouring bars can be distinguished.
        let from = (
            self.layout.axis.x(earlier.time_ns.end) - 1.0,
            edge(from_row, down),
        );
        let tip = (
            self.layout.axis.x(later.time_ns.start) + 1.0,
            edge(to_row, -down),
        );
        arrow(f, from, tip, (0.0, down))
    }
}

/// Draws an arrow that leaves and arrives in `direction`, a vertical or horizontal unit vector.
pub(super) fn arrow(
    f: &mut fmt::Formatter<'_>,
    from: Point,
    tip: Point,
    direction: Point,
) -> fmt::Result {
    let along = |(x, y): Point, length: f64| (x + length * direction.0, y + length * direction.1);
    let aside = |(x, y): Point, length: f64| (x - length * direction.1, y + length * direction.0);
    let base = along(tip, -HEAD_LENGTH);
    let bend = 0.6 * ((base.0 - from.0) * direction.0 + (base.1 - from.1) * direction.1);
    let ((x1, y1), (x2, y2), (x3, y3), (x4, y4)) =
        (from, along(from, bend), along(base, -bend), base);
    writeln!(
        f,
        r#"<path d="M{x1:.2} {y1:.1}C{x2:.2} {y2:.1} {x3:.2} {y3:.1} {x4:.2} {y4:.1}"/>"#
    )?;
    let ((x1, y1), (x2, y2), (x3, y3)) = (tip, aside(base, HEAD_SIDE), aside(base, -HEAD_SIDE));
    writeln!(
        f,
        r#"<path class="head" d="M{x1:.2} {y1:.1}L{x2:.2} {y2:.1}L{x3:.2} {y3:.1}Z"/>"#
    )
}
