//! The times as a bar chart.

use std::{fmt::Write, path::Path};

use anyhow::{Context, Result};

use super::Way;

const WIDTH: usize = 640;
const BAR: usize = 28;
const LEFT: usize = 190;
/// The space to the right of the longest bar, for its number.
const RIGHT: usize = 120;

/// The colours of the page, of the texts and of the bars, also on dark pages.
const STYLE: &str = "\
.page { fill: #ffffff; stroke: #d1d9e0 }
text { fill: #1f2328 }
.bar { fill: #4477aa }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; stroke: #3d444d }
text { fill: #f0f6fc }
}
";

/// Draws the time of a token in each way. The folder is made if it does not exist.
pub(crate) fn write(path: &Path, ways: &[Way]) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    std::fs::write(path, svg(ways)?).with_context(context)
}

fn svg(ways: &[Way]) -> Result<String> {
    let most = ways
        .iter()
        .map(|way| way.token_us)
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = (ways.len() + 1) * (BAR + 12);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text x=\"8\" y=\"20\">Time of a token</text>\n"
    );
    for (row, way) in ways.iter().enumerate() {
        let y = (row + 1) * (BAR + 12);
        let length = (way.token_us / most * (WIDTH - LEFT - RIGHT) as f64).max(1.0);
        let (middle, end) = (y + BAR / 2 + 4, LEFT as f64 + length + 8.0);
        writeln!(text, "<text x=\"8\" y=\"{middle}\">{}</text>", way.name)?;
        writeln!(
            text,
            "<rect class=\"bar\" x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\"/>"
        )?;
        writeln!(
            text,
            "<text x=\"{end:.1}\" y=\"{middle}\">{:.1} µs</text>",
            way.token_us
        )?;
    }
    text.push_str("</svg>\n");
    Ok(text)
}
