//! Measurement of errors in units of the last place.

/// The largest errors found so far, with their operands.
#[derive(Debug, Default, Clone)]
pub(crate) struct Worst {
    /// The largest distance from the correctly rounded value, in units of the last place.
    pub(crate) distance: u64,
    /// The largest distance from the exact value, in units of the last place.
    pub(crate) error: f64,
    /// The operands with the largest distance.
    place: String,
    /// Results that are wrong regardless of distance: a NaN or a sign.
    pub(crate) wrong: Vec<String>,
}

/// A result, with its rank among all numbers of its type.
#[derive(Clone, Copy)]
pub(crate) struct Ranked {
    order: i64,
    is_nan: bool,
    is_negative: bool,
}

macro_rules! ranked {
    ($($type:ty),*) => {$(
        impl From<$type> for Ranked {
            fn from(value: $type) -> Self {
                let magnitude = i64::from(value.abs().to_bits().cast_signed());
                let is_negative = value.is_sign_negative();
                Self {
                    order: if is_negative { -magnitude } else { magnitude },
                    is_nan: value.is_nan(),
                    is_negative,
                }
            }
        }
    )*};
}

ranked!(f32, f64);

impl Worst {
    /// Records a result, given the correctly rounded value and the distance of the exact value
    /// above that, in units of the last place.
    pub(crate) fn record(
        &mut self,
        got: Ranked,
        rounded: Ranked,
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

    /// Records a single-precision result, given the value in double precision.
    pub(crate) fn record_single(&mut self, got: f32, value: f64, place: impl Fn() -> String) {
        let rounded = value as f32;
        let rest = value - f64::from(rounded);
        let above = if rest == 0.0 || !rest.is_finite() {
            0.0
        } else {
            let magnitude = rounded.abs();
            rest / (f64::from(magnitude.next_up()) - f64::from(magnitude)).min(2f64.powi(104))
        };
        self.record(got.into(), rounded.into(), above, place);
    }

    /// Merges the largest errors of two sets of results.
    pub(crate) fn join(&mut self, other: Self) {
        self.error = self.error.max(other.error);
        self.wrong.extend(other.wrong);
        if other.distance > self.distance {
            (self.distance, self.place) = (other.distance, other.place);
        }
    }

    /// Prints the errors as a row of a table, and fails if they exceed `limit`.
    pub(crate) fn check_limit(&self, function: &str, limit: u64) -> Result<(), String> {
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

/// Fails with all errors beyond their limits.
pub(crate) fn assert_within_limits(results: impl IntoIterator<Item = Result<(), String>>) {
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
