//! Times of several ways to do the same work: in short batches, one after the other, round by
//! round, so that whatever else happens on the machine happens to all of them.

use anyhow::Result;

use crate::rig::Rig;

/// Rounds that are run and not counted.
const WARM_UP_ROUNDS: usize = 3;

/// One way to do the work.
pub(crate) struct Contender<'a> {
    /// Does it this many times.
    work: Box<dyn FnMut(usize) -> Result<()> + 'a>,
    /// Waits, outside the measured time, until the device has nothing more to do: queues that fill
    /// up block (rule 54).
    rest: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(
        mut work: impl FnMut() -> Result<()> + 'a,
        rest: impl FnMut() -> Result<()> + 'a,
    ) -> Self {
        Self {
            work: Box::new(move |times| (0..times).try_for_each(|_| work())),
            rest: Box::new(rest),
        }
    }

    /// Work that is complete when it returns.
    pub(crate) fn complete(work: impl FnMut() -> Result<()> + 'a) -> Self {
        Self::new(work, || Ok(()))
    }
}

/// How often the work is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds, each with one batch of every contender. The median of the rounds counts.
    pub(crate) rounds: usize,
    /// How often the work is done in a batch.
    pub(crate) batch: usize,
}

/// The median time of the work once, in nanoseconds, of each contender.
pub(crate) fn medians<const N: usize>(
    rig: &Rig,
    effort: Effort,
    mut contenders: [Contender<'_>; N],
) -> Result<[f64; N]> {
    let effort = rig.scaled(effort);
    let mut samples: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..WARM_UP_ROUNDS + effort.rounds {
        for turn in 0..N {
            // Nobody is always the first, or always behind the same other.
            let which = if round % 2 == 0 { turn } else { N - 1 - turn };
            let contender = &mut contenders[which];
            let start_ns = rig.now_ns();
            (contender.work)(effort.batch)?;
            let took_ns = rig.now_ns() - start_ns;
            (contender.rest)()?;
            if round >= WARM_UP_ROUNDS {
                samples[which].push(took_ns as f64 / effort.batch as f64);
            }
        }
    }
    Ok(samples.map(median))
}

/// The middle of the samples, or the mean of the two in the middle. There is at least one.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 {
        samples[middle]
    } else {
        f64::midpoint(samples[middle - 1], samples[middle])
    }
}

/// What `bytes` in `ns` nanoseconds are in GB/s.
pub(crate) fn gb_per_s(bytes: usize, ns: f64) -> f64 {
    bytes as f64 / ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
    }
}
