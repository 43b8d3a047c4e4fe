//! A reference for the kernels of `kernels/photo.cu` in plain Rust: slower, simple, and equal in
//! every bit.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Analysis {
    /// The edges of the blurred picture, one byte a pixel, row by row: 0 where it is flat, 255 at
    /// the strongest edges.
    pub(crate) edges: Vec<u8>,
    /// The number of pixels of each of the 256 brightnesses, before the blur.
    pub(crate) bins: [u32; 256],
}

/// The radius of the blur, in pixels.
const RADIUS: usize = 4;

/// A Gaussian of standard deviation 1.25, in 1/256ths, which sum to 256.
const WEIGHTS: [u32; 2 * RADIUS + 1] = [1, 5, 22, 59, 82, 59, 22, 5, 1];

/// Analyses a picture of `width` × `height` pixels, both at least 1, with three bytes (red, green,
/// blue) a pixel.
pub(crate) fn analyse(rgb: &[u8], width: usize, height: usize) -> Analysis {
    let luma = luminance(rgb);
    let blurred = blur_columns(&blur_rows(&luma, width, height), width, height);
    Analysis {
        edges: sobel(&blurred, width, height),
        bins: histogram(&luma),
    }
}

/// The brightness of each pixel: the weights of Rec. 709 in 1/65536ths, which sum to 65536, rounded
/// to the nearest, halves up.
pub(crate) fn luminance(rgb: &[u8]) -> Vec<u8> {
    let brightness = |pixel: &[u8]| {
        let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
        ((13_933 * red + 46_871 * green + 4_732 * blue + 32_768) >> 16) as u8
    };
    rgb.chunks_exact(3).map(brightness).collect()
}

/// The horizontal half of the blur, unrounded: 256ths of a brightness.
pub(crate) fn blur_rows(luma: &[u8], width: usize, height: usize) -> Vec<u16> {
    let mix = |x, y| {
        let weighted = |k: usize| {
            WEIGHTS[k] * u32::from(luma[at(x, y, k as isize - RADIUS as isize, 0, width, height)])
        };
        (0..WEIGHTS.len()).map(weighted).sum::<u32>() as u16
    };
    for_each_pixel(width, height, mix)
}

/// The vertical half of the blur: 65536ths of a brightness, rounded to the nearest, halves up.
pub(crate) fn blur_columns(rows: &[u16], width: usize, height: usize) -> Vec<u8> {
    let mix = |x, y| {
        let weighted = |k: usize| {
            WEIGHTS[k] * u32::from(rows[at(x, y, 0, k as isize - RADIUS as isize, width, height)])
        };
        (((0..WEIGHTS.len()).map(weighted).sum::<u32>() + 32_768) >> 16) as u8
    };
    for_each_pixel(width, height, mix)
}

/// The length of the Sobel gradient at each pixel, rounded down, at most 255.
pub(crate) fn sobel(blurred: &[u8], width: usize, height: usize) -> Vec<u8> {
    let length = |x, y| {
        let level = |dx, dy| i32::from(blurred[at(x, y, dx, dy, width, height)]);
        let gx = level(1, -1) + 2 * level(1, 0) + level(1, 1)
            - level(-1, -1)
            - 2 * level(-1, 0)
            - level(-1, 1);
        let gy = level(-1, 1) + 2 * level(0, 1) + level(1, 1)
            - level(-1, -1)
            - 2 * level(0, -1)
            - level(1, -1);
        (gx * gx + gy * gy).isqrt().min(255) as u8
    };
    for_each_pixel(width, height, length)
}

/// Counts the bytes of each value.
pub(crate) fn histogram(luma: &[u8]) -> [u32; 256] {
    let mut bins = [0; 256];
    for &level in luma {
        bins[usize::from(level)] += 1;
    }
    bins
}

/// `value(x, y)` of every pixel, row by row.
fn for_each_pixel<T>(width: usize, height: usize, value: impl Fn(usize, usize) -> T) -> Vec<T> {
    (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .map(|(x, y)| value(x, y))
        .collect()
}

/// The index of the pixel `dx` to the right of and `dy` below (x, y), or of the one nearest to it
/// at the picture's border.
fn at(x: usize, y: usize, dx: isize, dy: isize, width: usize, height: usize) -> usize {
    y.saturating_add_signed(dy).min(height - 1) * width + x.saturating_add_signed(dx).min(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brightness_keeps_grey_and_weighs_colours() {
        let grey: Vec<u8> = (0..=255).flat_map(|level| [level; 3]).collect();
        assert_eq!(luminance(&grey), (0..=255).collect::<Vec<u8>>());
        assert_eq!(luminance(&[255, 0, 0, 0, 255, 0, 0, 0, 255]), [54, 182, 18]);
        // 0.2126 × 40 = 8.504 is rounded up, 0.2126 × 2 = 0.4252 down.
        assert_eq!(luminance(&[40, 0, 0, 2, 0, 0]), [9, 0]);
    }

    #[test]
    fn the_weights_sum_to_one_and_are_symmetric() {
        assert_eq!(WEIGHTS.iter().sum::<u32>(), 256);
        assert!((0..WEIGHTS.len()).all(|k| WEIGHTS[k] == WEIGHTS[WEIGHTS.len() - 1 - k]));
    }

    #[test]
    fn a_flat_picture_stays_flat_at_every_size() {
        for (width, height) in [(1, 1), (1, 7), (7, 1), (3, 2), (40, 9)] {
            for level in [0, 1, 128, 255] {
                let flat = vec![level; width * height];
                let rows = blur_rows(&flat, width, height);
                assert_eq!(rows, vec![u16::from(level) * 256; width * height]);
                assert_eq!(blur_columns(&rows, width, height), flat);
                assert_eq!(sobel(&flat, width, height), vec![0; width * height]);
            }
        }
    }

    #[test]
    fn a_point_is_blurred_into_the_weights() {
        let mut point = vec![0; 11 * 11];
        point[5 * 11 + 5] = 255;
        let rows = blur_rows(&point, 11, 11);
        let blurred = blur_columns(&rows, 11, 11);
        for (y, x) in (0..11).flat_map(|y| (0..11).map(move |x| (y, x))) {
            let weight = |at: usize| {
                if (1..=9).contains(&at) {
                    WEIGHTS[at - 1]
                } else {
                    0
                }
            };
            assert_eq!(
                u32::from(rows[y * 11 + x]),
                if y == 5 { 255 * weight(x) } else { 0 }
            );
            let exact = f64::from(255 * weight(x) * weight(y)) / 65_536.0;
            assert_eq!(blurred[y * 11 + x], exact.round() as u8, "at {x}, {y}");
        }
    }

    #[test]
    fn the_border_is_repeated_outwards() {
        // What lies left of the first pixel counts as the first: 1 + 5 + 22 + 59 + 82 parts of it
        // and 87 of the others.
        assert_eq!(blur_rows(&[100, 0, 0, 0, 0, 0], 6, 1)[0], 169 * 100);
        assert_eq!(
            blur_columns(&[32_768, 0, 0, 0, 0, 0], 1, 6)[0],
            85,
            "84.5 rounds up"
        );
    }

    #[test]
    fn edges_are_gradients_rounded_down_and_limited() {
        // A step of 10 between columns: gx = 4 × 10 on both sides of it.
        let step: Vec<u8> = [0, 0, 10, 10].repeat(3);
        assert_eq!(sobel(&step, 4, 3), [0, 40, 40, 0].repeat(3));
        assert_eq!(sobel(&[0, 255], 2, 1), [255, 255]);
        // The lower right corner alone: gx = gy = 7 in the middle, and √98 = 9.89….
        assert_eq!(sobel(&[0, 0, 0, 0, 0, 0, 0, 0, 7], 3, 3)[4], 9);
    }

    #[test]
    fn the_float_square_root_of_the_kernel_is_the_integer_one() {
        // Every sum of two squares that a gradient of 8-bit values can give, and all integers
        // around the squares.
        for root in 0..=1_443_u32 {
            for square in (root * root).saturating_sub(1)..=root * root + 1 {
                assert_eq!((square as f32).sqrt() as u32, square.isqrt());
            }
        }
    }

    #[test]
    fn a_histogram_counts_every_byte_once() {
        let bins = histogram(&[0, 255, 3, 3, 255, 255]);
        assert_eq!(
            (bins[0], bins[3], bins[255], bins.iter().sum::<u32>()),
            (1, 2, 3, 6)
        );
        assert_eq!(histogram(&[]), [0; 256]);
    }

    #[test]
    fn an_analysis_counts_the_picture_as_it_was() {
        let analysis = analyse(&[0, 0, 0, 255, 255, 255], 2, 1);
        assert_eq!((analysis.bins[0], analysis.bins[255]), (1, 1));
        assert_eq!(analysis.edges.len(), 2);
        assert!(analysis.edges[0] > 0);
    }
}
