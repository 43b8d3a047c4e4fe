//! The layout of the picture, in pixels.

use super::{
    super::{
        Trace,
        engine::{Engine, Work},
        order::StreamIndices,
    },
    axis::Axis,
};

pub(super) const WIDTH: f64 = 1200.0;
pub(super) const MARGIN: f64 = 28.0;
/// The left edge of the bars. The rows' names are left of it.
pub(super) const BARS_LEFT: f64 = 200.0;
pub(super) const BARS_RIGHT: f64 = WIDTH - MARGIN;

/// The top of the rows, below the title, the figures and the legend.
const ROWS_TOP: f64 = 122.0;
const HEADING_HEIGHT: f64 = 26.0;
const SECTION_GAP: f64 = 14.0;
/// The height of the ticks' labels and the bottom margin.
const FOOT_HEIGHT: f64 = 48.0;

/// The height of a picture without operations, which has a title and a sentence.
const HEIGHT_EMPTY: f64 = 90.0;

/// A row of bars: an engine or a stream.
pub(super) struct Row {
    pub(super) top: f64,
    lanes: usize,
    pub(super) bar_height: f64,
    lane_gap: f64,
    padding: f64,
}

impl Row {
    /// Creates an engine's row. It has at least one lane; many lanes are thinner.
    fn engine(top: f64, lanes: usize) -> Self {
        let lanes = lanes.max(1);
        let pitch = (132.0 / lanes as f64).clamp(3.0, 22.0);
        let lane_gap = if pitch < 8.0 { 1.0 } else { 2.0 };
        Self {
            top,
            lanes,
            bar_height: pitch - lane_gap,
            lane_gap,
            padding: 4.0,
        }
    }

    /// Creates a stream's row, which is thinner if there are many.
    fn stream(top: f64, count: usize) -> Self {
        let (bar_height, padding) = if count <= 24 {
            (20.0, 7.0)
        } else {
            (13.0, 2.0)
        };
        Self {
            top,
            lanes: 1,
            bar_height,
            lane_gap: 0.0,
            padding,
        }
    }

    pub(super) fn height(&self) -> f64 {
        let lanes = self.lanes as f64;
        2.0 * self.padding + lanes * self.bar_height + (lanes - 1.0) * self.lane_gap
    }

    /// Returns the upper edge of a lane's bars.
    pub(super) fn lane_top(&self, lane: usize) -> f64 {
        self.top + self.padding + lane as f64 * (self.bar_height + self.lane_gap)
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height()
    }

    pub(super) fn middle(&self) -> f64 {
        self.top + self.height() / 2.0
    }
}

pub(super) struct PictureLayout {
    pub(super) axis: Axis,
    /// The rows of the engines, in the order of [`Engine::ALL`].
    pub(super) engines: [Row; 3],
    /// The rows of the streams, in the order of their numbers.
    pub(super) streams: Vec<Row>,
    pub(super) height: f64,
}

impl PictureLayout {
    pub(super) fn new(trace: &Trace, work: &[Option<Work>], streams: &StreamIndices) -> Self {
        let times = || trace.operations.iter().map(|operation| &operation.time_ns);
        let start_ns = times().map(|time| time.start).min().unwrap_or(0);
        let end_ns = times().map(|time| time.end).max().unwrap_or(0);
        let mut top = ROWS_TOP + HEADING_HEIGHT;
        let engines = Engine::ALL.map(|engine| {
            let lanes = work
                .iter()
                .flatten()
                .filter(|work| work.engine == engine)
                .map(|work| work.lane + 1);
            let row = Row::engine(top, lanes.max().unwrap_or(1));
            top = row.bottom();
            row
        });
        top += SECTION_GAP + HEADING_HEIGHT;
        let mut stream = || {
            let row = Row::stream(top, streams.count());
            top = row.bottom();
            row
        };
        let streams = (0..streams.count()).map(|_| stream()).collect();
        Self {
            axis: Axis::new(start_ns, end_ns, BARS_LEFT, BARS_RIGHT - BARS_LEFT),
            engines,
            streams,
            height: if trace.operations.is_empty() {
                HEIGHT_EMPTY
            } else {
                top + FOOT_HEIGHT
            },
        }
    }
}
