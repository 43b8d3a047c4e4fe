//! Export of a trace as an SVG picture: the operations of each engine and each stream, and the
//! waits between them.

mod arrows;
mod axis;
mod bars;
mod layout;
mod text;

use std::fmt::{self, Display};

use super::{
    TimedOperation, Trace,
    engine::{Engine, Work, work},
    order::{StreamIndices, Wait, waits},
    overlap::{Share, total_ns, union},
};
use crate::OperationKind;
use arrows::{ARROWS_MAX, arrow};
use layout::{BARS_LEFT, BARS_RIGHT, MARGIN, PictureLayout, Row, WIDTH};
use text::{Escaped, fit, line};

/// The style sheet. All rules are below the class `millstream`, because the picture may become part
/// of a page with its own styles.
const STYLE: &str = "\
.millstream{font-family:system-ui,-apple-system,'Segoe UI',Roboto,\
'Helvetica Neue',Arial,sans-serif;font-size:12px}
.millstream text{fill:#1f2933}
.millstream .title{font-size:19px;font-weight:600}
.millstream .quiet{fill:#5f6c7b}
.millstream .heading{fill:#5f6c7b;font-size:10.5px;font-weight:600;letter-spacing:.09em}
.millstream .end{text-anchor:end}
.millstream .centre{text-anchor:middle}
.millstream .row{fill:#eef1f5}
.millstream .grid{stroke:#d5dbe3;stroke-width:1}
.millstream .bar text{fill:#fff;font-size:11px;pointer-events:none}
.millstream .bar:hover rect{stroke:#1f2933;stroke-width:1.5}
.millstream .waits{pointer-events:none}
.millstream .waits path{fill:none;stroke:#1f2933;stroke-opacity:.65}
.millstream .waits .head{fill:#1f2933;stroke:none}
.millstream .page{fill:#fbfcfd;stroke:#cfd6de}
@media (prefers-color-scheme:dark){
.millstream text{fill:#f0f6fc}
.millstream .quiet,.millstream .heading{fill:#9198a1}
.millstream .row{fill:#1a2029}
.millstream .grid{stroke:#323a44}
.millstream .bar:hover rect{stroke:#f0f6fc}
.millstream .waits path{stroke:#f0f6fc}
.millstream .waits .head{fill:#f0f6fc;stroke:none}
.millstream .page{fill:#0d1117;stroke:#3d444d}
}
";

impl Trace {
    /// Draws the trace as a standalone SVG picture, 1200 pixels wide, in light or dark colours
    /// as the reader prefers.
    ///
    /// The upper rows are the device's engines: copies to the device, work within the device
    /// (kernels, fills and copies; concurrent ones are stacked), and copies to the host. The lower
    /// rows are the streams, by their numbers ([`Stream::id`](crate::Stream::id)), with an arrow
    /// for every wait that the library made, from the operation that was waited for to the one that
    /// waited. Hovering over a bar shows the operation's name, times, bytes and source line.
    /// Allocations that took no time have no bars.
    ///
    /// In its stream's row an operation begins when it reaches the head of the stream. In the row
    /// of a copy engine it begins when the engine is also free. The time axis begins with the first
    /// operation.
    ///
    /// If there are more than 400 waits, 400 evenly distributed ones are drawn, and the picture
    /// says so. The output is deterministic.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let (work, streams) = (work(&self.operations), StreamIndices::of(self));
        let layout = PictureLayout::new(self, &work, &streams);
        Picture {
            trace: self,
            waits: waits(&self.operations),
            work,
            streams,
            layout,
        }
        .to_string()
    }
}

/// The data of a picture being drawn.
struct Picture<'a> {
    trace: &'a Trace,
    work: Vec<Option<Work>>,
    waits: Vec<Wait>,
    streams: StreamIndices,
    layout: PictureLayout,
}

impl Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let height = self.layout.height;
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="millstream" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">"#
        )?;
        writeln!(f, "<style>\n{STYLE}</style>")?;
        let (inner_width, inner_height) = (WIDTH - 1.0, height - 1.0);
        writeln!(
            f,
            "<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" \
             height=\"{inner_height}\" rx=\"10\"/>"
        )?;
        let title = fit(&self.trace.device, WIDTH - 2.0 * MARGIN, 19.0).unwrap_or_default();
        line(f, "title", MARGIN, 40.0, &Escaped(&title))?;
        if self.trace.operations.is_empty() {
            line(
                f,
                "quiet",
                MARGIN,
                64.0,
                &"Nothing was traced: no operation was submitted while the timeline ran.",
            )?;
        } else {
            self.head(f)?;
            self.rows(f)?;
            self.axis(f)?;
            self.bars(f)?;
            self.arrows(f)?;
        }
        writeln!(f, "</svg>")
    }
}

impl Picture<'_> {
    /// Draws the figures and the legend.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations = Count(self.trace.operations.len(), "operation");
        let streams = Count(self.streams.count(), "stream");
        let overlap = self.trace.overlap();
        line(
            f,
            "quiet",
            MARGIN,
            62.0,
            &format_args!("{operations} on {streams} · {overlap}"),
        )?;
        let mut x = MARGIN;
        for kind in KINDS {
            if self.drawn().any(|(operation, _)| operation.kind == kind) {
                let colour = colour(kind);
                writeln!(
                    f,
                    r#"<rect x="{x:.1}" y="83" width="12" height="12" rx="2.5" fill="{colour}"/>"#
                )?;
                let name = kind.to_string();
                line(f, "", x + 18.0, 93.0, &name)?;
                x += 18.0 + 6.6 * name.chars().count() as f64 + 22.0;
            }
        }
        if !self.waits.is_empty() {
            writeln!(f, r#"<g class="waits">"#)?;
            arrow(f, (x, 89.0), (x + 20.0, 89.0), (1.0, 0.0))?;
            writeln!(f, "</g>")?;
            let drawn = match self.waits.len() {
                0..=ARROWS_MAX => String::new(),
                count => format!(" ({ARROWS_MAX} of {count} drawn)"),
            };
            line(
                f,
                "",
                x + 27.0,
                93.0,
                &format_args!("is waited for by{drawn}"),
            )?;
        }
        Ok(())
    }

    /// Draws the rows' backgrounds, names and headings.
    fn rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PictureLayout {
            engines, streams, ..
        } = &self.layout;
        let span_ns = self.trace.overlap().span_ns;
        line(f, "heading", MARGIN, engines[0].top - 9.0, &"ENGINES")?;
        for (engine, row) in Engine::ALL.into_iter().zip(engines) {
            let name = match engine {
                Engine::HostToDevice => "host → device",
                Engine::Compute => "within the device",
                Engine::DeviceToHost => "device → host",
            };
            self.row(f, row, &name)?;
            let busy_ns = total_ns(&union(
                self.work_of(engine).map(|work| work.time_ns.clone()),
            ));
            if span_ns > 0 {
                let y = row.middle() + 4.0;
                line(
                    f,
                    "quiet end",
                    BARS_LEFT - 12.0,
                    y,
                    &Share(busy_ns, span_ns),
                )?;
            }
        }
        line(f, "heading", MARGIN, streams[0].top - 9.0, &"STREAMS")?;
        for (number, row) in self.streams.numbers().zip(streams) {
            self.row(f, row, &format_args!("stream {number}"))?;
        }
        Ok(())
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, row: &Row, name: &dyn Display) -> fmt::Result {
        let (width, height) = (BARS_RIGHT - BARS_LEFT, row.height() - 1.0);
        let top = row.top;
        writeln!(
            f,
            "<rect class=\"row\" x=\"{BARS_LEFT}\" y=\"{top:.1}\" width=\"{width}\" \
             height=\"{height:.1}\"/>"
        )?;
        line(f, "", MARGIN, row.middle() + 4.0, name)
    }

    /// Returns the operations that have bars, and their work. An allocation of zero length has
    /// none, because its bar would only hide the next one.
    fn drawn(&self) -> impl Iterator<Item = (&TimedOperation, Option<&Work>)> {
        let seen = |operation: &TimedOperation| {
            operation.kind != OperationKind::Allocation || !operation.time_ns.is_empty()
        };
        let works = self.work.iter().map(Option::as_ref);
        self.trace
            .operations
            .iter()
            .zip(works)
            .filter(move |(operation, _)| seen(operation))
    }

    fn work_of(&self, engine: Engine) -> impl Iterator<Item = &Work> {
        self.work
            .iter()
            .flatten()
            .filter(move |work| work.engine == engine)
    }

    /// Draws the ticks, through all rows, and their times below.
    fn axis(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PictureLayout {
            axis,
            engines,
            streams,
            ..
        } = &self.layout;
        let bottom = streams[streams.len() - 1].bottom();
        line(
            f,
            "quiet",
            MARGIN,
            bottom + 20.0,
            &"since the first started",
        )?;
        for tick in axis.ticks() {
            let x = tick.x;
            for (from, to) in [
                (engines[0].top, engines[2].bottom()),
                (streams[0].top, bottom + 5.0),
            ] {
                writeln!(f, r#"<path class="grid" d="M{x:.2} {from:.1}V{to:.1}"/>"#)?;
            }
            line(f, "quiet centre", x, bottom + 20.0, &tick.text)?;
        }
        Ok(())
    }
}

/// A count with a noun, in the singular or plural.
struct Count(usize, &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}{}",
            self.0,
            self.1,
            if self.0 == 1 { "" } else { "s" }
        )
    }
}

const KINDS: [OperationKind; 8] = [
    OperationKind::HostToDevice,
    OperationKind::Kernel,
    OperationKind::DeviceToHost,
    OperationKind::DeviceToDevice,
    OperationKind::Fill,
    OperationKind::Allocation,
    OperationKind::Collective,
    OperationKind::Graph,
];

/// Returns the colour of a kind: dark enough for white text, and distinguishable with colour vision
/// deficiency.
fn colour(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::HostToDevice => "#2166b0",
        OperationKind::Kernel => "#c85a11",
        OperationKind::DeviceToHost => "#0e7c66",
        OperationKind::DeviceToDevice => "#7d4fa3",
        OperationKind::Fill => "#8a7215",
        OperationKind::Allocation => "#6b7785",
        OperationKind::Collective => "#a3324f",
        OperationKind::Graph => "#3b6e8f",
    }
}

#[cfg(test)]
mod tests;
