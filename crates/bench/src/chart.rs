//! Draws the measurements as an SVG bar chart: how many times as fast as the same work written by
//! hand against the driver, on one scale.

use std::fmt::{Arguments, Write};

use crate::report::{Goal, Row};

/// The measurements that are drawn, in this order: the text of the rows, and the label in the
/// chart. Rows whose raw figure is not that of the same work are left out.
const DRAWN: &str = "\
upload, pageable, against the driver's = Upload 256 MiB from a slice
download to a slice, against the driver's = Download 256 MiB to a slice
allocate, drop: 1 MiB = Allocate and free 1 MiB
allocate, fill with zeros, drop: 1 MiB = Allocate, zero and free 1 MiB
upload of 4 KiB, pageable = Upload 4 KiB from a slice
launch, download of one number, .await = Launch a kernel, await one number
launch, one stream in use = Launch a kernel
launch, operands shared with a second stream = Launch, operands read on two streams
ping-pong between two streams, a pair = Launches alternating on two streams
two launches, the second on another stream and after the first = \
    A launch that waits for another stream
the same two launches, to completion = The same, until it is complete
16 threads on 16 streams, two operands shared = Launch from 16 threads at once
graph of 32 kernels and 34 arrays, host time of a replay = Replay a graph of 32 kernels
graph of 32 kernels and 34 arrays, launch to completion = The same, until it is complete
the same, against three raw streams, each with its own memory = \
    Upload, kernel, download in 32 chunks
the same, against raw staging threads, to reused vectors = The same from and to slices";

/// Returns the lines of [`DRAWN`].
fn drawn() -> impl Iterator<Item = (&'static str, &'static str)> {
    DRAWN.lines().filter_map(|line| line.split_once(" = "))
}

const WIDTH: usize = 960;
/// The ends of the scale's line, in pixels from the left.
const LEFT: usize = 330;
const RIGHT: usize = 800;
const TOP: usize = 104;
const BOTTOM: usize = 34;
const BAR_HEIGHT: usize = 10;
/// From one bar to the next of the same measurement, and between measurements.
const BAR_STEP: usize = 13;
const GROUP_GAP: usize = 9;

/// The classes of the bars, and their names in the legend: the one at the end is for any other.
const CLASSES: [(&str, &str); 5] = [
    ("ours", "Millstream"),
    ("cudarc", "cudarc"),
    ("core", "cuda-core"),
    ("async", "cuda-async"),
    ("pytorch", "PyTorch"),
];

const STYLE: &str = include_str!("chart.css");

/// A measurement: its label, and the rows that are about it.
struct Group<'a> {
    label: &'static str,
    /// Each row's factor, the largest being the fastest.
    bars: Vec<(&'a Row, f64)>,
}

/// An SVG picture of the rows whose figures stand beside the same work written by hand.
pub(crate) fn draw(rows: &[Row]) -> String {
    let groups = groups(rows);
    let factors = groups.iter().flat_map(|group| &group.bars);
    let most = factors.map(|(_, factor)| *factor).fold(1.0, f64::max);
    // Whole numbers, so that the scale ends at a tick.
    let scale = Scale(most.ceil() as usize);
    let height = TOP + groups.iter().map(Group::height).sum::<usize>() + BOTTOM;
    let mut svg = Svg(String::new());
    svg.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>Speed beside the same work by hand</title>\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>",
        WIDTH - 1,
        height - 1
    ));
    svg.text("title", 24, 34, "Times as fast as the same work by hand");
    let subtitle = "by hand: written directly against the CUDA driver, without a library";
    let subtitle = format!("higher is better · {subtitle} · targets are those of this project");
    svg.text("quiet", 24, 56, &subtitle);
    legend(&mut svg, &groups);
    axis(&mut svg, &scale, height - BOTTOM);
    let mut y = TOP;
    for group in &groups {
        group.draw(&mut svg, &scale, y);
        y += group.height();
    }
    svg.put(format_args!("</svg>"));
    svg.0
}

/// The measurements that have a figure, in the order of [`DRAWN`].
fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let group = |(what, label): (&str, &'static str)| {
        let mut bars: Vec<_> = rows
            .iter()
            .filter(|row| row.what == what)
            .filter_map(|row| Some((row, factor(row)?)))
            .collect();
        bars.sort_by_key(|(row, _)| class(row));
        (!bars.is_empty()).then_some(Group { label, bars })
    };
    drawn().filter_map(group).collect()
}

/// The row's speed as a multiple of the raw one.
fn factor(row: &Row) -> Option<f64> {
    speed(row, row.of_raw()?)
}

/// A ratio to the raw figure as a ratio of speeds: itself for rates, its inverse for times.
fn speed(row: &Row, of_raw: f64) -> Option<f64> {
    match row.unit.as_str() {
        unit if unit.ends_with("/s") => Some(of_raw),
        "ns" => Some(1.0 / of_raw),
        _ => None,
    }
}

/// The class and the text that say whether the row meets its target, if it has one.
fn verdict(row: &Row) -> Option<(&'static str, String)> {
    let (Goal::AtMost(bound) | Goal::AtLeast(bound)) = row.goal else {
        return None;
    };
    let verdict = if row.is_met()? { "met" } else { "missed" };
    let target = speed(row, bound)?;
    Some((verdict, format!("target {target:.2}× {verdict}")))
}

/// The class of a row's bar, and its index in [`CLASSES`].
fn class(row: &Row) -> usize {
    let is_of = |(_, name): &(&str, &str)| row.who.starts_with(name);
    CLASSES.iter().position(is_of).unwrap_or(CLASSES.len() - 1)
}

/// The scale: from zero to a whole number.
struct Scale(usize);

impl Scale {
    /// The place of a factor, in pixels from the left.
    fn x(&self, factor: f64) -> usize {
        LEFT + (factor / self.0 as f64 * (RIGHT - LEFT) as f64).round() as usize
    }
}

impl Group<'_> {
    fn height(&self) -> usize {
        self.bars.len() * BAR_STEP + GROUP_GAP
    }

    fn draw(&self, svg: &mut Svg, scale: &Scale, top: usize) {
        let middle = top + self.bars.len() * BAR_STEP / 2;
        svg.text("end", LEFT - 14, middle + 3, self.label);
        for (place, (row, factor)) in self.bars.iter().enumerate() {
            let y = top + place * BAR_STEP;
            let end = scale.x(*factor);
            let (class, name) = CLASSES[class(row)];
            svg.put(format_args!(
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{}\" \
                 height=\"{BAR_HEIGHT}\" rx=\"2\"/>",
                (end - LEFT).max(1)
            ));
            // What tells two bars of one library apart stands behind a comma.
            let which = row.who.strip_prefix(name).unwrap_or(&row.who);
            let which = which.split_once(", ").map_or("", |(_, which)| which);
            let verdict = verdict(row);
            let (class, about) = match &verdict {
                Some((class, text)) => (*class, text.as_str()),
                None => ("quiet", which),
            };
            let text = format!("{factor:.2}×, {about}");
            // Beyond the line at 1, which would cross it.
            let x = end.max(scale.x(1.0)) + 7;
            svg.text(
                &format!("small {class}"),
                x,
                y + 9,
                text.trim_end_matches(", "),
            );
        }
    }
}

/// A square and a name for each library that has a bar.
fn legend(svg: &mut Svg, groups: &[Group<'_>]) {
    let mut x = 24;
    for (index, (class_name, name)) in CLASSES.iter().enumerate() {
        let bars = groups.iter().flat_map(|group| &group.bars);
        if bars.map(|(row, _)| class(row)).any(|found| found == index) {
            svg.put(format_args!(
                "<rect class=\"{class_name}\" x=\"{x}\" y=\"71\" width=\"12\" height=\"12\" \
                 rx=\"2\"/>"
            ));
            svg.text("", x + 18, 82, name);
            x += 36 + 8 * name.len();
        }
    }
}

/// A line for each whole number, and a strong one at 1.
fn axis(svg: &mut Svg, scale: &Scale, bottom: usize) {
    for factor in 0..=scale.0 {
        let x = scale.x(factor as f64);
        let (class, text) = match factor {
            1 => ("one", "1× by hand".to_owned()),
            _ => ("grid", format!("{factor}×")),
        };
        svg.put(format_args!(
            "<line class=\"{class}\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{bottom}\"/>",
            TOP - 8
        ));
        svg.text("quiet middle", x, bottom + 18, &text);
    }
}

/// The text of a picture.
struct Svg(String);

impl Svg {
    fn put(&mut self, line: Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a String takes everything");
    }

    fn text(&mut self, class: &str, x: usize, y: usize, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"
        ));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rows() -> Vec<Row> {
        let launch = "launch, one stream in use";
        let upload = "upload, pageable, against the driver's";
        vec![
            Row::times("T1", launch, "ns", 125.0, 100.0, Goal::AtMost(1.03)),
            Row::times("T1", launch, "ns", 200.0, 100.0, Goal::None).by("cudarc, any other"),
            Row::times("T6", upload, "GB/s", 40.0, 8.0, Goal::AtLeast(5.5)),
            Row::times("T6", upload, "GB/s", 8.0, 8.0, Goal::None).by("PyTorch 2.11.0"),
            Row::count("T4", "few", "instructions", 390.0, 46.0, Goal::None),
            Row::absent("T13", "GPU to GPU", "needs two GPUs"),
        ]
    }

    #[test]
    fn bars_are_factors_and_higher_is_better() {
        let rows = rows();
        let groups = groups(&rows);
        let factors = |group: &Group<'_>| {
            let bars = group.bars.iter();
            bars.map(|(_, factor)| *factor).collect::<Vec<_>>()
        };
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].label, "Upload 256 MiB from a slice");
        assert_eq!(factors(&groups[0]), [5.0, 1.0]);
        assert_eq!(factors(&groups[1]), [0.8, 0.5]);
    }

    #[test]
    fn the_picture_is_the_same_every_time_and_says_whose_bars_there_are() {
        let svg = draw(&rows());
        assert_eq!(svg, draw(&rows()));
        for part in [
            "5.00×, target 5.50× missed",
            "0.50×, any other",
            "0.80×, target 0.97× missed",
            ">cudarc<",
            ">PyTorch<",
            "1× by hand",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("T1"), "{svg}");
    }

    #[test]
    fn every_measurement_in_the_chart_exists() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = ["src/targets", "nvidia/src"]
            .iter()
            .flat_map(|folder| own.join(folder).read_dir().unwrap());
        let sources: String = files
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        for (what, _) in drawn() {
            assert!(sources.contains(&format!("\"{what}\"")), "{what}");
        }
    }

    #[test]
    fn every_label_is_escaped_and_the_longest_bar_ends_on_the_scale() {
        assert_eq!(escaped("a & b < c"), "a &amp; b &lt; c");
        let scale = Scale(6);
        assert_eq!((scale.x(0.0), scale.x(6.0)), (LEFT, RIGHT));
        assert!(scale.x(1.0) < scale.x(5.3));
    }
}
