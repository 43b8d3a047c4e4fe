//! Tests of the picture, which parse it as XML.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::{
    super::samples::{operation, pictures, trace},
    bars::{BAR_WIDTH_MIN, LABEL_HEIGHT_MIN},
    *,
};

/// A bar's edges in pixels: left, right, top.
type Edges = (f64, f64, f64);

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute)
        .and_then(|value| value.parse().ok())
        .unwrap()
}

fn of_class<'a>(document: &'a Document<'_>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document
        .descendants()
        .filter(move |node| node.attribute("class") == Some(class))
}

/// Returns every operation's bars: in the row of its engine, if it has one, and of its stream.
fn bars(document: &Document<'_>) -> Vec<Vec<Edges>> {
    let edges = |rect: Node<'_, '_>| {
        let left = number(rect, "x");
        (left, left + number(rect, "width"), number(rect, "y"))
    };
    let rects = |bar: Node<'_, '_>| {
        bar.children()
            .filter(|node| node.has_tag_name("rect"))
            .map(edges)
            .collect()
    };
    of_class(document, "bar").map(rects).collect()
}

/// Returns the paths of the arrows, each followed by its head. The first arrow of a picture, which
/// is in the legend, is skipped.
fn wait_paths<'a>(document: &'a Document<'_>) -> impl Iterator<Item = &'a str> {
    let arrows = of_class(document, "waits")
        .skip(1)
        .flat_map(|group| group.children());
    arrows.filter_map(|path| path.attribute("d"))
}

fn texts(document: &Document<'_>) -> Vec<String> {
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .filter_map(|node| node.text().map(String::from))
        .collect()
}

#[test]
fn every_operation_has_a_bar_on_its_stream_and_on_its_engine() {
    let trace = pictures(6);
    let svg = trace.to_svg();
    let document = Document::parse(&svg).unwrap();
    let bars = bars(&document);
    let allocations = trace
        .operations
        .iter()
        .filter(|operation| operation.kind == OperationKind::Allocation);
    let expected = trace.operations.len() - allocations.count();
    assert_eq!(bars.len(), expected);
    assert!(bars.iter().all(|bars| bars.len() == 2));
    let titles: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("title"))
        .collect();
    assert_eq!(titles.len(), expected);
}

#[test]
fn bars_of_a_row_do_not_overlap_and_stay_within_the_picture() {
    let svg = pictures(12).to_svg();
    let document = Document::parse(&svg).unwrap();
    let height = number(document.root_element(), "height");
    let mut rows: BTreeMap<u64, Vec<Edges>> = BTreeMap::new();
    for bar in bars(&document).into_iter().flatten() {
        assert!(
            bar.0 >= BARS_LEFT && bar.1 <= BARS_RIGHT + BAR_WIDTH_MIN && bar.2 < height,
            "{bar:?}"
        );
        rows.entry(bar.2 as u64).or_default().push(bar);
    }
    // Two copy engines, at least two lanes of kernels, four streams.
    assert!(rows.len() >= 8, "{:?}", rows.keys());
    for row in rows.values_mut() {
        row.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in row.windows(2) {
            assert!(pair[0].1 <= pair[1].0 + BAR_WIDTH_MIN, "{pair:?}");
        }
    }
}

#[test]
fn a_waiting_copy_is_clipped_on_its_engine_but_not_on_its_stream() {
    let svg = trace(vec![
        operation(OperationKind::HostToDevice, 1, 1_000..1_500),
        operation(OperationKind::HostToDevice, 2, 1_000..2_000),
    ])
    .to_svg();
    let document = Document::parse(&svg).unwrap();
    let bars = bars(&document);
    let middle = (BARS_LEFT + BARS_RIGHT) / 2.0;
    assert_eq!([bars[1][0].0, bars[1][1].0], [middle, BARS_LEFT]);
    assert_eq!(bars[0][0].2, bars[1][0].2, "the engine has one row");
    assert!(svg.contains("at 0 ns for 1 µs, of which 500 ns waiting for the engine"));
}

#[test]
fn concurrent_kernels_are_stacked() {
    let svg = trace(vec![
        operation(OperationKind::Kernel, 1, 0..20),
        operation(OperationKind::Kernel, 2, 10..30),
    ])
    .to_svg();
    let bars = bars(&Document::parse(&svg).unwrap());
    assert!(bars[0][0].2 + LABEL_HEIGHT_MIN < bars[1][0].2, "{bars:?}");
}

#[test]
fn a_bar_has_a_tooltip_and_a_label() {
    let mut upload = operation(OperationKind::HostToDevice, 900, 2_000_000..2_100_000);
    (upload.label, upload.bytes) = ("upload", 4 << 20);
    let line = upload.location.line();
    let svg = trace(vec![
        operation(OperationKind::Kernel, 31, 1_000_000..1_500_000),
        upload,
    ])
    .to_svg();
    let document = Document::parse(&svg).unwrap();
    let mut titles = document
        .descendants()
        .filter(|node| node.has_tag_name("title"));
    let title = titles.next_back().and_then(|title| title.text()).unwrap();
    let lines: Vec<_> = title.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "upload (copy host → device), stream 900",
            "at 1 ms for 100 µs",
            "4 MiB, 41.9 GB/s"
        ]
    );
    assert!(lines[3].ends_with(&format!("tests.rs:{line}")), "{lines:?}");
    assert!(texts(&document).contains(&"upload".into()));
}

#[test]
fn a_wait_is_an_arrow_between_two_bars() {
    let mut later = operation(OperationKind::Kernel, 2, 300..400);
    later.waits = vec![(1, 1)];
    let svg = trace(vec![operation(OperationKind::Kernel, 1, 0..200), later]).to_svg();
    let document = Document::parse(&svg).unwrap();
    let bars = bars(&document);
    let paths: Vec<_> = wait_paths(&document).collect();
    let [arrow, head] = paths[..] else {
        panic!("one arrow: {paths:?}")
    };
    let x = |path: &str| {
        path[1..]
            .split(' ')
            .next()
            .and_then(|x| x.parse::<f64>().ok())
            .unwrap()
    };
    assert!((x(arrow) - bars[0][1].1).abs() < 1.5, "{arrow} {bars:?}");
    assert!((x(head) - bars[1][1].0).abs() < 1.5, "{head} {bars:?}");
}

#[test]
fn the_number_of_arrows_is_bounded_and_the_legend_says_so() {
    let trace = pictures(1_000);
    let count = waits(&trace.operations).len();
    assert!(trace.operations.len() > 7_000 && count > 1_000);
    let svg = trace.to_svg();
    let document = Document::parse(&svg).unwrap();
    assert_eq!(wait_paths(&document).count(), 2 * ARROWS_MAX);
    let note = format!("is waited for by ({ARROWS_MAX} of {count} drawn)");
    assert!(texts(&document).contains(&note));
    assert!(svg.len() < 5_000_000, "{} bytes", svg.len());
}

#[test]
fn names_are_escaped() {
    let mut kernel = operation(OperationKind::Kernel, 1, 0..100);
    kernel.label = "scale<'a', \"b\"> & \u{1}";
    let trace = Trace {
        device: "GPU <0> & \"friends\"".into(),
        operations: vec![kernel],
    };
    let svg = trace.to_svg();
    let texts = texts(&Document::parse(&svg).unwrap());
    assert_eq!(texts[0], "GPU <0> & \"friends\"");
    assert!(
        texts.contains(&"scale<'a', \"b\"> & \u{fffd}".into()),
        "{texts:?}"
    );
}

#[test]
fn an_empty_trace_draws_a_small_picture_with_a_note() {
    let svg = trace(Vec::new()).to_svg();
    let document = Document::parse(&svg).unwrap();
    assert!(texts(&document)[1].starts_with("Nothing was traced"));
    assert!(number(document.root_element(), "height") < 100.0);
}

#[test]
fn operations_of_zero_length_have_bars_unless_they_are_allocations() {
    let svg = trace(vec![
        operation(OperationKind::Fill, 1, 5..5),
        operation(OperationKind::Allocation, 1, 5..5),
    ])
    .to_svg();
    let document = Document::parse(&svg).unwrap();
    let bars = bars(&document);
    assert_eq!(bars.len(), 1);
    assert!(bars[0].iter().all(|bar| bar.1 > bar.0));
    assert!(
        !texts(&document).contains(&"allocations".into()),
        "allocations are not in the legend"
    );
    assert!(!svg.contains("NaN"), "no share of no time is written");
}

#[test]
fn many_streams_and_concurrent_kernels_fit_into_the_picture() {
    let kernels = (0..128)
        .map(|stream| operation(OperationKind::Kernel, stream, stream..1_000))
        .collect();
    let svg = trace(kernels).to_svg();
    let document = Document::parse(&svg).unwrap();
    let mut engine: Vec<_> = bars(&document).iter().map(|bars| bars[0].2).collect();
    engine.dedup();
    assert_eq!(engine.len(), 128, "each kernel has its own lane");
    assert!(engine[127] - engine[0] < 400.0);
    assert!(number(document.root_element(), "height") < 3_000.0);
}

#[test]
fn the_picture_is_deterministic() {
    assert_eq!(pictures(6).to_svg(), pictures(6).to_svg());
}
