//! Draws a histogram: 256 bars on a logarithmic scale, so that one spike does not flatten the rest.

use super::canvas::{Canvas, Colour};

/// The width of a bar, in pixels.
const BAR: u32 = 3;
/// The size of the area that the bars stand in, in pixels.
const PLOT: (u32, u32) = (256 * BAR, 320);
/// The space around that area, in pixels.
const MARGIN: Margin = Margin {
    left: 62,
    top: 24,
    right: 26,
    bottom: 60,
};
/// The height of the strip below the bars that shows the brightnesses, in pixels.
const STRIP: u32 = 12;
/// The width and height of a dot of a letter, in pixels.
const DOT: u32 = 2;

const PAPER: Colour = [250, 250, 248];
const GRID: Colour = [218, 221, 225];
const BARS: Colour = [58, 84, 112];
const INK: Colour = [60, 64, 70];

struct Margin {
    left: u32,
    top: u32,
    right: u32,
    bottom: u32,
}

/// The histogram `bins` as a picture.
pub(super) fn draw(bins: &[u32; 256]) -> Canvas {
    let size = (
        MARGIN.left + PLOT.0 + MARGIN.right,
        MARGIN.top + PLOT.1 + MARGIN.bottom,
    );
    let mut chart = Canvas::new(size.0, size.1, PAPER);
    let most = bins.iter().copied().max().unwrap_or(0);
    draw_scale(&mut chart, most);
    for (level, &count) in (0..).zip(bins) {
        let height = height(count, most);
        fill(
            &mut chart,
            MARGIN.left + level * BAR,
            bottom() - height,
            BAR,
            height,
            BARS,
        );
    }
    draw_levels(&mut chart);
    chart
}

/// The row below the bars.
fn bottom() -> u32 {
    MARGIN.top + PLOT.1
}

/// The height of the bar for `count` where the largest is `most`, in pixels: 0 for 0 alone, else at
/// least 1.
fn height(count: u32, most: u32) -> u32 {
    if count == 0 {
        return 0;
    }
    let share = f64::from(count).ln_1p() / f64::from(most).ln_1p();
    ((share * f64::from(PLOT.1)).round() as u32).max(1)
}

/// A line across the plot, with its number, for every power of ten up to `most`.
fn draw_scale(chart: &mut Canvas, most: u32) {
    for power in (0..=9).filter(|&power| 10_u32.pow(power) <= most) {
        let y = bottom() - height(10_u32.pow(power), most);
        fill(chart, MARGIN.left - 6, y, PLOT.0 + 6, 1, GRID);
        let unit = ["", "k", "M", "G"][power as usize / 3];
        let text = format!("{}{unit}", 10_u32.pow(power % 3));
        write(
            chart,
            &text,
            MARGIN.left - 12 - text_width(&text),
            y - 5 * DOT / 2,
        );
    }
}

/// The axis below the bars: a strip of all brightnesses, and the numbers of some.
fn draw_levels(chart: &mut Canvas) {
    fill(chart, MARGIN.left, bottom(), PLOT.0, 1, INK);
    for level in 0..=255 {
        fill(
            chart,
            MARGIN.left + u32::from(level) * BAR,
            bottom() + 4,
            BAR,
            STRIP,
            [level; 3],
        );
    }
    for level in [0, 64, 128, 192, 255_u32] {
        let x = MARGIN.left + level * BAR + BAR / 2;
        fill(chart, x, bottom() + 4 + STRIP, 1, 6, INK);
        let text = level.to_string();
        write(
            chart,
            &text,
            x - text_width(&text) / 2,
            bottom() + STRIP + 16,
        );
    }
}

/// Fills the rectangle `width` × `height` whose upper left corner is (x, y).
fn fill(chart: &mut Canvas, x: u32, y: u32, width: u32, height: u32, colour: Colour) {
    for (row, column) in
        (y..y + height).flat_map(|row| (x..x + width).map(move |column| (row, column)))
    {
        chart.set(column, row, colour);
    }
}

/// Writes `text` with its upper left corner at (x, y).
fn write(chart: &mut Canvas, text: &str, x: u32, y: u32) {
    for (index, letter) in (0..).zip(text.chars()) {
        for (row, dots) in (0..).zip(glyph(letter)) {
            for column in (0..3).filter(|column| dots >> (2 - column) & 1 == 1) {
                fill(
                    chart,
                    x + (4 * index + column) * DOT,
                    y + row * DOT,
                    DOT,
                    DOT,
                    INK,
                );
            }
        }
    }
}

/// The width of `text` as written, in pixels.
fn text_width(text: &str) -> u32 {
    (4 * text.len() as u32 - 1) * DOT
}

/// A letter of three by five dots, a row a number.
///
/// # Panics
/// If it is neither a digit nor one of the units k, M and G.
fn glyph(letter: char) -> [u8; 5] {
    match letter {
        '0' => [0b111, 0b101, 0b101, 0b101, 0b111],
        '1' => [0b010, 0b110, 0b010, 0b010, 0b111],
        '2' => [0b111, 0b001, 0b111, 0b100, 0b111],
        '3' => [0b111, 0b001, 0b111, 0b001, 0b111],
        '4' => [0b101, 0b101, 0b111, 0b001, 0b001],
        '5' => [0b111, 0b100, 0b111, 0b001, 0b111],
        '6' => [0b111, 0b100, 0b111, 0b101, 0b111],
        '7' => [0b111, 0b001, 0b010, 0b010, 0b010],
        '8' => [0b111, 0b101, 0b111, 0b101, 0b111],
        '9' => [0b111, 0b101, 0b111, 0b001, 0b111],
        'k' => [0b100, 0b101, 0b110, 0b110, 0b101],
        'M' => [0b101, 0b111, 0b111, 0b101, 0b101],
        'G' => [0b111, 0b100, 0b101, 0b101, 0b111],
        other => panic!("no glyph for {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of pixels drawn of the bar of `level`.
    fn bar(chart: &Canvas, level: u32) -> usize {
        let x = MARGIN.left + level * BAR + 1;
        (0..bottom()).filter(|&y| chart.get(x, y) == BARS).count()
    }

    #[test]
    fn bars_are_as_high_as_their_logarithms() {
        let mut bins = [0; 256];
        (bins[0], bins[100], bins[255]) = (1, 1_000, 1_000_000);
        let chart = draw(&bins);
        assert_eq!(bar(&chart, 255), PLOT.1 as usize);
        assert_eq!(bar(&chart, 100), PLOT.1 as usize / 2);
        assert_eq!(bar(&chart, 0), 16);
        assert_eq!(bar(&chart, 1), 0);
    }

    #[test]
    fn every_count_can_be_drawn() {
        for count in [0, 1, 9, 10, 1 << 28, u32::MAX] {
            let chart = draw(&[count; 256]);
            assert_eq!(bar(&chart, 7), if count == 0 { 0 } else { PLOT.1 as usize });
        }
        let mut spike = [1; 256];
        spike[3] = u32::MAX;
        assert!(bar(&draw(&spike), 200) >= 1);
    }

    #[test]
    fn the_strip_shows_every_brightness() {
        let chart = draw(&[5; 256]);
        let shown = (0..256).map(|level| chart.get(MARGIN.left + level * BAR, bottom() + 5)[0]);
        assert_eq!(shown.collect::<Vec<_>>(), (0..=255).collect::<Vec<u8>>());
    }
}
