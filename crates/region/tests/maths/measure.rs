//! How far results are from what they should be.

/// The larger errors found so far, and where.
#[derive(Debug, Default, Clone)]
pub(crate) struct Worst {
    /// The largest distance from the correctly rounded value, in units of the last place.
    pub(crate) distance: u64,
    /// The largest distance from the value itself, in units of the last place.
    pub(crate) error: f64,
    /// Where the distance was found.
    place: String,
    /// What is wrong by more than any distance: a NaN, a sign.
    pub(crate) wrong: Vec<String>,
}

/// A result and its place in the order of all numbers of its type.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    order: i64,
    is_nan: bool,
    is_negative: bool,
}

impl From<f32> for Placed {
    fn from(value: f32) -> Self {
        let magnitude = i64::from(value.abs().to_bits());
        Self {
            order: if value.is_sign_negative() {
                -magnitude
            } else {
                magnitude
            },
            is_nan: value.is_nan(),
            is_negative: value.is_sign_negative(),
        }
    }
}

impl From<f64> for Placed {
    fn from(value: f64) -> Self {
        let magnitude = value.abs().to_bits().cast_signed();
        Self {
            order: if value.is_sign_negative() {
                -magnitude
            } else {
                magnitude
            },
            is_nan: value.is_nan(),
            is_negative: value.is_sign_negative(),
        }
    }
}

impl Worst {
    /// Notes a result, beside the correctly rounded value and how far the value itself is above
    /// that, in units of the last place.
    pub(crate) fn note(
        &mut self,
        got: Placed,
        rounded: Placed,
        above: f64,
        place: impl Fn() -> String,
    ) {
        if rounded.is_nan || got.is_nan {
            if rounded.is_nan != got.is_nan {
                self.wrong.push(place());
            }
            return;
        }
        if got.is_negative != rounded.is_negative {
            self.wrong.push(place());
        }
        let distance = got.order.abs_diff(rounded.order);
        if distance > self.distance {
            (self.distance, self.place) = (distance, place());
        }
        let error = (i128::from(got.order) - i128::from(rounded.order)) as f64 - above;
        self.error = self.error.max(error.abs());
    }

    /// Notes a single-precision result, beside the value in double precision.
    pub(crate) fn note_single(&mut self, got: f32, value: f64, place: impl Fn() -> String) {
        let rounded = value as f32;
        let rest = value - f64::from(rounded);
        let above = if rest == 0.0 || !rest.is_finite() {
            0.0
        } else {
            let magnitude = rounded.abs();
            rest / (f64::from(magnitude.next_up()) - f64::from(magnitude)).min(2f64.powi(104))
        };
        self.note(got.into(), rounded.into(), above, place);
    }

    /// The worse of two.
    pub(crate) fn join(&mut self, other: Self) {
        self.error = self.error.max(other.error);
        self.wrong.extend(other.wrong);
        if other.distance > self.distance {
            (self.distance, self.place) = (other.distance, other.place);
        }
    }

    /// Says what was found, as a row of a table, and what is beyond `limit`.
    pub(crate) fn verdict(&self, function: &str, limit: u64) -> Result<(), String> {
        println!(
            "{function:16} {} of {limit}, error {:.3}",
            self.distance, self.error
        );
        if self.distance <= limit && self.wrong.is_empty() {
            return Ok(());
        }
        let wrong = &self.wrong[..self.wrong.len().min(5)];
        Err(format!(
            "{function}: {} units at {}; {} wrong: {wrong:?}",
            self.distance,
            self.place,
            self.wrong.len()
        ))
    }
}

/// Fails with all that is beyond its limit.
pub(crate) fn all_well(verdicts: impl IntoIterator<Item = Result<(), String>>) {
    let failures: Vec<String> = verdicts.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
