//! Draws a histogram: 256 bars on a logarithmic scale, so that one spike does not flatten the rest.

use std::fmt::{Result, Write};

/// The width of a bar, and the size of the area that the bars stand in, in pixels.
const BAR: f64 = 3.0;
const PLOT: (f64, f64) = (256.0 * BAR, 320.0);

/// The start of the picture: its coordinates begin at the lower left corner of the plot.
const OPENING: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="-62 -344 856 404"
 font-family="sans-serif" font-size="13" fill="#3c4046">
<linearGradient id="levels"><stop stop-color="black"/><stop offset="1" stop-color="white"/>
</linearGradient><rect x="-62" y="-344" width="856" height="404" fill="#fafaf8"/>
<rect y="4" width="768" height="12" fill="url(#levels)"/>
"##;

/// The histogram `bins` as an SVG picture.
pub(super) fn draw(bins: &[u32; 256]) -> String {
    let mut svg = String::from(OPENING);
    add(&mut svg, bins).expect("a string can be written to");
    svg
}

fn add(svg: &mut String, bins: &[u32; 256]) -> Result {
    let most = bins.iter().copied().max().unwrap_or(0);
    // A line with its number for every power of ten.
    for power in (0..=9).filter(|&power| 10_u32.pow(power) <= most) {
        let y = -height(10_u32.pow(power), most);
        let number = 10_u32.pow(power % 3);
        let unit = ["", "k", "M", "G"][power as usize / 3];
        writeln!(svg, r##"<path d="M-6 {y}H{}" stroke="#dadde1"/>"##, PLOT.0)?;
        writeln!(
            svg,
            r#"<text x="-12" y="{}" text-anchor="end">{number}{unit}</text>"#,
            y + 5.0
        )?;
    }
    for (level, &count) in bins.iter().enumerate() {
        let (x, height) = (level as f64 * BAR, height(count, most));
        if count > 0 {
            writeln!(
                svg,
                r##"<rect x="{x}" y="-{height}" width="{BAR}" height="{height}" fill="#3a5470"/>"##
            )?;
        }
    }
    for level in [0, 64, 128, 192, 255] {
        let x = (f64::from(level) + 0.5) * BAR;
        writeln!(
            svg,
            r#"<text x="{x}" y="34" text-anchor="middle">{level}</text>"#
        )?;
    }
    svg.write_str("</svg>\n")
}

/// The height of the bar for `count` where the largest is `most`, in pixels: 0 for 0 alone, else at
/// least 1.
fn height(count: u32, most: u32) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let share = f64::from(count).ln_1p() / f64::from(most).ln_1p();
    (share * PLOT.1).round().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The height of the bar of `level`, as drawn.
    fn bar(chart: &str, level: u32) -> f64 {
        let start = format!(r#"<rect x="{}" y="-"#, f64::from(level) * BAR);
        let height = chart
            .split_once(&start)
            .map(|(_, rest)| rest.split('"').next().unwrap());
        height.map_or(0.0, |height| height.parse().unwrap())
    }

    #[test]
    fn bars_are_as_high_as_their_logarithms() {
        let mut bins = [0; 256];
        (bins[0], bins[100], bins[255]) = (1, 1_000, 1_000_000);
        let chart = draw(&bins);
        assert_eq!(bar(&chart, 255), PLOT.1);
        assert_eq!(bar(&chart, 100), PLOT.1 / 2.0);
        assert_eq!(bar(&chart, 0), 16.0);
        assert_eq!(bar(&chart, 1), 0.0);
        assert!(
            chart.contains(">100k</text>") && chart.contains(">255</text>"),
            "{chart}"
        );
    }

    #[test]
    fn every_count_can_be_drawn() {
        for count in [0, 1, 9, 10, 1 << 28, u32::MAX] {
            let chart = draw(&[count; 256]);
            assert_eq!(bar(&chart, 7), if count == 0 { 0.0 } else { PLOT.1 });
        }
        let mut spike = [1; 256];
        spike[3] = u32::MAX;
        assert!(bar(&draw(&spike), 200) >= 1.0);
    }
}
