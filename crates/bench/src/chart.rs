//! The rows as a picture: bars whose length says how far each figure is from its target.

use std::fmt::Write;

use crate::report::{Goal, Row};

const WIDTH: usize = 980;
const ROW_HEIGHT: usize = 26;
const TOP: usize = 34;
const BOTTOM: usize = 14;
/// The longest text in front of a bar.
const LABEL_CHARS_MAX: usize = 66;
/// Where bars begin, and where they would have three times the length of the target.
const LEFT: usize = 470;
const RIGHT: usize = 770;
/// The longest bar, as a multiple of the target's.
const LONGEST: f64 = 3.0;

const STYLE: &str = "text { font: 13px system-ui, sans-serif; fill: #1f2328 } .dim { fill: #59636e } \
.met { fill: #2a9d6f } .missed { fill: #d9822b } .other { fill: #9aa4af } .line { stroke: #1f2328 } \
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .dim { fill: #9198a1 } .line { stroke: #e6edf3 } }";

/// One bar.
struct Bar<'a> {
    row: &'a Row,
    /// The cost as a multiple of what the target allows: 1 or less meets it.
    cost: f64,
    /// What is written behind it.
    text: String,
    class: &'static str,
}

/// An SVG picture of the rows that have a target and a figure; of several with one target, that
/// which is furthest from it.
pub(crate) fn draw(rows: &[Row]) -> String {
    let bars = bars(rows);
    let height = TOP + bars.len() * ROW_HEIGHT + BOTTOM;
    let line = LEFT + scaled(1.0);
    let mut svg = String::new();
    let mut put =
        |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("a String takes everything");
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\">\n<title>Measured figures against their targets</title>\n<style>{STYLE}</style>\n\
         <text class=\"dim\" x=\"{line}\" y=\"20\" text-anchor=\"middle\">target</text>\n"
    ));
    for (number, bar) in bars.iter().enumerate() {
        let y = TOP + number * ROW_HEIGHT;
        let (class, width, text_y) = (bar.class, scaled(bar.cost), y + 14);
        let is_ours = bar.class != "other";
        let label = if is_ours {
            format!("{}  {}", bar.row.target, bar.row.what)
        } else {
            bar.row.who.clone()
        };
        let (shade, inset) = if is_ours {
            ("", 0)
        } else {
            (" class=\"dim\"", 3)
        };
        put(format_args!(
            "<text{shade} x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{}</text>\n\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"2\"/>\n\
             <text{shade} x=\"{}\" y=\"{text_y}\">{}</text>\n",
            LEFT - 10,
            escaped(&fitted(&label)),
            y + inset,
            18 - 2 * inset,
            LEFT + width.max(scaled(1.0)) + 8,
            escaped(&bar.text),
        ));
    }
    let bottom = height - BOTTOM;
    put(format_args!(
        "<line class=\"line\" x1=\"{line}\" y1=\"26\" x2=\"{line}\" y2=\"{bottom}\" stroke-dasharray=\"3 3\"/>\n</svg>\n"
    ));
    svg
}

/// A bar's length, for a multiple of the target.
fn scaled(cost: f64) -> usize {
    (cost.min(LONGEST) / LONGEST * (RIGHT - LEFT) as f64).round() as usize
}

fn bars(rows: &[Row]) -> Vec<Bar<'_>> {
    let mut bars: Vec<Bar<'_>> = Vec::new();
    for row in rows {
        let Some((judged, cost)) = cost(row, row.goal) else {
            continue;
        };
        let bar = Bar {
            row,
            cost,
            text: written(row, judged),
            class: if cost <= 1.0 { "met" } else { "missed" },
        };
        let same =
            |known: &&mut Bar<'_>| known.row.target == row.target && known.row.goal == row.goal;
        match bars.iter_mut().find(same) {
            Some(known) if known.cost >= bar.cost => {}
            Some(known) => *known = bar,
            None => bars.push(bar),
        }
    }
    with_others(bars, rows)
}

/// The bars, each followed by those of others who did the same.
fn with_others<'a>(bars: Vec<Bar<'a>>, rows: &'a [Row]) -> Vec<Bar<'a>> {
    let mut all = Vec::new();
    for ours in bars {
        let row = ours.row;
        let others = rows.iter().filter(|other| {
            other.who != row.who
                && other.target == row.target
                && other.what == row.what
                && other.unit == row.unit
        });
        let others = others.filter_map(|other| {
            let (judged, cost) = cost(other, row.goal)?;
            Some(Bar {
                row: other,
                cost,
                text: written(other, judged),
                class: "other",
            })
        });
        let others: Vec<_> = others.collect();
        all.push(ours);
        all.extend(others);
    }
    all
}

/// What is judged, and as what multiple of the target it costs.
fn cost(row: &Row, goal: Goal) -> Option<(f64, f64)> {
    let judged = row.judged?;
    match goal {
        Goal::None => None,
        // Nothing is allowed: either there is nothing, or there is too much.
        Goal::AtMost(0.0) => Some((judged, if judged == 0.0 { 0.0 } else { LONGEST })),
        Goal::AtMost(most) => Some((judged, judged / most)),
        Goal::AtLeast(least) => Some((judged, least / judged)),
    }
}

/// The figure as it is judged, with its target.
fn written(row: &Row, judged: f64) -> String {
    let is_ratio = row.raw.is_some() && row.judged != row.figure;
    let unit = if is_ratio {
        "× raw"
    } else {
        row.unit.as_str()
    };
    let digits = if judged < 10.0 { 2 } else { 0 };
    match row.goal {
        Goal::None => format!("{judged:.digits$} {unit}"),
        goal => format!("{judged:.digits$} {unit} ({goal})")
            .replace("<=", "≤")
            .replace(">=", "≥"),
    }
}

/// The text, or as much of its beginning as there is room for in front of the bars.
fn fitted(text: &str) -> String {
    if text.chars().count() <= LABEL_CHARS_MAX {
        return text.to_owned();
    }
    text.chars()
        .take(LABEL_CHARS_MAX - 1)
        .chain(['…'])
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        vec![
            Row::times("T1", "launch", "ns", 102.0, 100.0, Goal::AtMost(1.03)),
            Row::times("T1", "launch", "ns", 145.0, 100.0, Goal::None).by("cudarc"),
            Row::count(
                "T4",
                "few",
                "instructions",
                390.0,
                46.0,
                Goal::AtMost(400.0),
            ),
            Row::count(
                "T4",
                "many & more",
                "instructions",
                500.0,
                46.0,
                Goal::AtMost(400.0),
            ),
            Row::times("T6", "upload", "GB/s", 40.0, 8.0, Goal::AtLeast(5.5)),
            Row::absent("T13", "GPU to GPU", "needs two GPUs"),
        ]
    }

    #[test]
    fn bars_say_how_far_from_the_target_each_is() {
        let rows = rows();
        let bars: Vec<_> = bars(&rows)
            .iter()
            .map(|bar| (bar.row.what.clone(), bar.class, scaled(bar.cost)))
            .collect();
        let expected = [
            ("launch", "met", 99),
            ("launch", "other", 141),
            ("many & more", "missed", 125),
            ("upload", "missed", 110),
        ];
        assert_eq!(
            bars,
            expected.map(|(what, class, width)| (what.to_owned(), class, width))
        );
    }

    #[test]
    fn the_picture_is_the_same_every_time_and_escaped() {
        let svg = draw(&rows());
        assert_eq!(svg, draw(&rows()));
        assert!(
            svg.contains("many &amp; more") && svg.contains("1.02 × raw (≤ 1.03)"),
            "{svg}"
        );
    }
}
