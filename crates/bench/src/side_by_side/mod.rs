//! The rows R1 to R35: works of regions beside PyTorch, JAX and CuPy, measured in turns in one run.
//!
//! A time is that of one call from its start until the device is idle, allocation of the results
//! included. The time in a row is that of twenty calls until the device is idle, for each: where
//! the device is slower than the host, it is the device's time.

mod patterns;
mod rival;
mod work;

use std::{any::Any, time::Instant};

use anyhow::{Result, anyhow};

use crate::{harness::Harness, timing::median};
use rival::Rival;
use work::{Size, Work, works};

/// The number of rounds, in each of which every library has a turn.
const ROUNDS: usize = 5;
/// The number of calls of a turn.
const CALLS: usize = 20;
/// The number of calls before the first round.
const WARM_UP: usize = 3;
/// The longest time of a call for which a turn has all its calls, in nanoseconds.
const LONG_NS: f64 = 20e6;

struct Figures {
    who: &'static str,
    /// The times of single calls, in nanoseconds.
    times: Vec<f64>,
    /// The times in a row, in nanoseconds.
    in_a_row: Vec<f64>,
    /// The reason why there are none.
    missing: Option<String>,
}

impl Figures {
    fn new(who: &'static str) -> Self {
        Self {
            who,
            times: Vec::new(),
            in_a_row: Vec::new(),
            missing: None,
        }
    }

    fn median(&self) -> Option<f64> {
        (!self.times.is_empty()).then(|| median(self.times.clone()))
    }

    /// Returns the times between which the middle half of all calls lies.
    fn quartiles(&self) -> Option<(f64, f64)> {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some((sorted[last / 4], sorted[last - last / 4]))
    }
}

/// Measures the wanted rows, and prints a table of them. Returns whether all could be measured.
pub(crate) fn measure(quick: bool, wanted: &dyn Fn(&str) -> bool) -> Result<bool> {
    let harness = Harness::gpu(quick).map_err(|why| anyhow!("the rows need a GPU: {why}"))?;
    let mut rivals = Vec::new();
    for name in rival::NAMES {
        rivals.extend(Rival::start(name)?);
    }
    println!("| R | work | library | µs | middle half | in a row, µs | of the fastest other |");
    println!("|---|---|---|---|---|---|---|");
    let mut complete = true;
    for work in works().iter().filter(|work| wanted(work.row)) {
        match row(&harness, &mut rivals, work, quick) {
            Ok(figures) => print_row(work, &figures),
            Err(error) => {
                complete = false;
                println!("| {} | {} | FAILED: {error:#} |", work.row, work.what);
            }
        }
    }
    Ok(complete)
}

fn row(
    harness: &Harness,
    rivals: &mut [Rival],
    work: &Work<'_>,
    quick: bool,
) -> Result<Vec<Figures>> {
    let (rounds, calls) = if quick { (1, 3) } else { (ROUNDS, CALLS) };
    let device = harness.device.clone();
    let (row, what) = (work.row, work.what);
    let own = works().into_iter().find(|own| own.row == row);
    let mut call = (own
        .ok_or_else(|| anyhow!("{row} {what} is no work"))?
        .prepare)(&device, Size::Full)?;
    let mut ours = Figures::new("Millstream");
    let mut time = |calls: usize| -> Result<f64> {
        let start = Instant::now();
        let held: Vec<Box<dyn Any>> = (0..calls).map(|_| call()).collect::<Result<_>>()?;
        harness.raw.synchronize()?;
        let took_ns = start.elapsed().as_nanos() as f64;
        drop(held);
        Ok(took_ns / calls as f64)
    };
    let mut figures: Vec<Figures> = rivals
        .iter()
        .map(|rival| Figures::new(rival.name))
        .collect();
    for (rival, figures) in rivals.iter_mut().zip(&mut figures) {
        figures.missing = rival.prepare(row)?.err();
    }
    let mut first_ns = 0.0;
    for _ in 0..WARM_UP {
        first_ns = time(1)?;
    }
    let calls = if first_ns > LONG_NS {
        calls.min(5)
    } else {
        calls
    };
    for _ in 0..rounds {
        for _ in 0..calls {
            ours.times.push(time(1)?);
        }
        // Each call holds its result, of which there may be many only if they are small.
        ours.in_a_row.push(time(calls)?);
        for (rival, figures) in rivals.iter_mut().zip(&mut figures) {
            if figures.missing.is_some() {
                continue;
            }
            let turn = rival.times(calls).and_then(|times| {
                figures.times.extend(times);
                rival.in_a_row(calls)
            });
            match turn {
                Ok(in_a_row) => figures.in_a_row.push(in_a_row),
                // For example, because the results of all libraries do not fit in memory.
                Err(why) => {
                    *figures = Figures::new(figures.who);
                    figures.missing = Some(format!("{why:#}"));
                }
            }
        }
    }
    figures.insert(0, ours);
    Ok(figures)
}

fn print_row(work: &Work<'_>, figures: &[Figures]) {
    let others = figures[1..].iter().filter_map(Figures::median);
    let fastest = others.fold(f64::INFINITY, f64::min);
    for one in figures {
        let (Some(median_ns), Some((low_ns, high_ns))) = (one.median(), one.quartiles()) else {
            let why = one.missing.as_deref().unwrap_or("not measured");
            println!(
                "| {} | {} | {} | {why} | | | |",
                work.row, work.what, one.who
            );
            continue;
        };
        println!(
            "| {} | {} | {} | {:.1} | {:.1} to {:.1} | {:.1} | {:.2} |",
            work.row,
            work.what,
            one.who,
            median_ns / 1e3,
            low_ns / 1e3,
            high_ns / 1e3,
            median(one.in_a_row.clone()) / 1e3,
            median_ns / fastest,
        );
    }
}

pub(crate) fn names() -> Vec<&'static str> {
    works().iter().map(|work| work.row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_runs_on_the_simulated_device() {
        let harness = Harness::simulated(true).unwrap();
        let device = harness.device.clone();
        for work in works() {
            let mut call = (work.prepare)(&device, Size::Small).unwrap();
            for _ in 0..2 {
                call().unwrap_or_else(|error| panic!("{}: {error:#}", work.row));
            }
            harness.raw.synchronize().unwrap();
        }
    }

    #[test]
    fn the_middle_half_of_five_times_leaves_out_one_at_each_end() {
        let mut figures = Figures::new("x");
        figures.times = vec![5.0, 1.0, 9.0, 2.0, 4.0];
        assert_eq!(figures.quartiles(), Some((2.0, 5.0)));
        assert_eq!(figures.median(), Some(4.0));
    }
}
