//! Comparison of several variants of the same work. They run in short batches, one after the other
//! in each round, so that other activity on the machine affects all of them alike.

use anyhow::Result;

use crate::harness::Harness;

/// The number of rounds that are run before the counted ones.
const WARM_UP_ROUNDS: usize = 3;

pub(crate) struct Variant<'a> {
    /// Does the work this many times.
    work: Box<dyn FnMut(usize) -> Result<()> + 'a>,
    /// Waits, outside the measured time, until the device is idle: a full queue would block the
    /// next batch (rule 54).
    drain: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> Variant<'a> {
    pub(crate) fn new(
        mut work: impl FnMut() -> Result<()> + 'a,
        drain: impl FnMut() -> Result<()> + 'a,
    ) -> Self {
        Self::batched(move |times| (0..times).try_for_each(|_| work()), drain)
    }

    /// Creates a variant that is told how many times to do the work, and may do it at once.
    pub(crate) fn batched(
        work: impl FnMut(usize) -> Result<()> + 'a,
        drain: impl FnMut() -> Result<()> + 'a,
    ) -> Self {
        Self {
            work: Box::new(work),
            drain: Box::new(drain),
        }
    }

    /// Does a batch of the work, waits until the device is idle, and returns how long the batch
    /// took, in nanoseconds.
    pub(crate) fn run(&mut self, harness: &Harness, batch: usize) -> Result<u64> {
        let start_ns = harness.now_ns();
        (self.work)(batch)?;
        let took_ns = harness.now_ns() - start_ns;
        (self.drain)()?;
        Ok(took_ns)
    }

    /// Creates a variant whose work is complete when it returns.
    pub(crate) fn complete(work: impl FnMut() -> Result<()> + 'a) -> Self {
        Self::new(work, || Ok(()))
    }
}

/// The number of repetitions of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleSize {
    /// The number of rounds, each with one batch of every variant. The result is the median of the
    /// rounds.
    pub(crate) rounds: usize,
    /// The number of times that a batch does the work.
    pub(crate) batch: usize,
}

impl SampleSize {
    pub(crate) const fn of(rounds: usize, batch: usize) -> Self {
        Self { rounds, batch }
    }

    pub(crate) const fn in_batches_of(self, batch: usize) -> Self {
        Self { batch, ..self }
    }
}

/// Returns the median time of each variant for doing the work once, in nanoseconds.
pub(crate) fn medians<const N: usize>(
    harness: &Harness,
    sample_size: SampleSize,
    mut variants: [Variant<'_>; N],
) -> Result<[f64; N]> {
    let medians = medians_of(harness, sample_size, &mut variants)?;
    Ok(std::array::from_fn(|which| medians[which]))
}

/// The same for any number of variants.
pub(crate) fn medians_of(
    harness: &Harness,
    sample_size: SampleSize,
    variants: &mut [Variant<'_>],
) -> Result<Vec<f64>> {
    let sample_size = harness.scaled(sample_size);
    let count = variants.len();
    let mut samples = vec![Vec::new(); count];
    for round in 0..WARM_UP_ROUNDS + sample_size.rounds {
        for turn in 0..count {
            // The order alternates, so that no variant is always first or always follows the same
            // other.
            let which = if round % 2 == 0 {
                turn
            } else {
                count - 1 - turn
            };
            let took_ns = variants[which].run(harness, sample_size.batch)?;
            if round >= WARM_UP_ROUNDS {
                samples[which].push(took_ns as f64 / sample_size.batch as f64);
            }
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

/// Returns the median of at least one sample; the mean of the middle two if their number is even.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 {
        samples[middle]
    } else {
        f64::midpoint(samples[middle - 1], samples[middle])
    }
}

/// Converts `bytes` in `ns` nanoseconds to GB/s.
pub(crate) fn gb_per_s(bytes: usize, ns: f64) -> f64 {
    bytes as f64 / ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_sample() {
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
    }
}
