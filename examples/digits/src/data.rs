//! The images: 1,797 digits of 8 × 8 pixels, 1,500 for training and 297 for the test.

use anyhow::{Context, Result, ensure};
use ndarray::{Array2, Axis, s};

/// The data, included so that the program reads no file.
const CSV: &str = include_str!("../data/digits.csv");
const PIXELS: usize = 64;
/// The largest brightness of a pixel.
const BRIGHT: f32 = 16.0;
/// The number of images for training.
const LEARNT: usize = 1500;

/// The images, one in each row, with brightness from 0 to 1.
pub(crate) struct Digits {
    pub(crate) images: Array2<f32>,
    /// For each training image, a 1 in the column of its digit.
    pub(crate) classes: Array2<f32>,
    /// The images for the test.
    pub(crate) unseen: Array2<f32>,
    /// The digits of the test images.
    unseen_digits: Vec<usize>,
}

impl Digits {
    pub(crate) fn read() -> Result<Self> {
        let (mut pixels, mut digits) = (Vec::new(), Vec::new());
        for (number, line) in CSV.lines().enumerate() {
            let numbers = line
                .split(',')
                .map(str::parse::<u8>)
                .collect::<Result<Vec<_>, _>>();
            let numbers = numbers.with_context(|| format!("line {} of the digits", number + 1))?;
            ensure!(
                numbers.len() == PIXELS + 1 && numbers[PIXELS] < 10,
                "line {} of the digits",
                number + 1
            );
            pixels.extend(
                numbers[..PIXELS]
                    .iter()
                    .map(|&pixel| f32::from(pixel) / BRIGHT),
            );
            digits.push(usize::from(numbers[PIXELS]));
        }
        ensure!(digits.len() > LEARNT, "{} digits are too few", digits.len());
        let all = Array2::from_shape_vec((digits.len(), PIXELS), pixels)?;
        let classes = Array2::from_shape_fn((LEARNT, 10), |(image, digit)| {
            f32::from(u8::from(digits[image] == digit))
        });
        Ok(Self {
            images: all.slice(s![..LEARNT, ..]).to_owned(),
            classes,
            unseen: all.slice(s![LEARNT.., ..]).to_owned(),
            unseen_digits: digits.split_off(LEARNT),
        })
    }

    /// The share of the test images whose own digit has the highest probability.
    pub(crate) fn share_read(&self, probabilities: &Array2<f32>) -> f64 {
        let rows = probabilities.axis_iter(Axis(0)).zip(&self.unseen_digits);
        let read = rows
            .filter(|(row, digit)| row.iter().all(|other| *other <= row[**digit]))
            .count();
        read as f64 / self.unseen_digits.len() as f64
    }
}
