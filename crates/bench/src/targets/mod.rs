//! The measurements, in one file for each target or for a few related ones.

mod allocate;
mod collectives;
mod copies;
mod first_calls;
mod gradients;
mod graphs;
mod launches;
mod peers;
mod pipeline;
mod prelude;
mod regions;
mod shapes;
mod small;
mod threads;
mod waiting;

use anyhow::Result;

pub(crate) use peers::first_use;
pub(crate) use regions::ten_operations;

use crate::{harness::Harness, pytorch, report::Row};

/// The device that a measurement requires.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Gpu,
    /// A GPU or the simulated device, whose figures are meaningful too.
    AnyDevice,
}

struct Measurement {
    target: &'static str,
    what: &'static str,
    needs: Needs,
    measure: Measure,
}

/// All measurements on devices, in the order of their targets.
const MEASUREMENTS: [Measurement; 18] = [
    of("T1", launches::one_stream, "launch, one stream in use"),
    of(
        "T2",
        launches::shared,
        "launch, operands shared with a second stream",
    ),
    of(
        "T3",
        launches::ping_pong,
        "ping-pong between two streams, a pair",
    ),
    of("T5", allocate::measure, "allocate and drop 1 MiB"),
    of("T6", copies::upload, "pageable upload"),
    of("T7", copies::download, "pageable download"),
    of("T8", small::measure, "upload of 4 KiB"),
    anywhere("T9", waiting::measure, "launch, then await"),
    anywhere("T10", pipeline::measure, "upload, kernel, download"),
    anywhere("T11", graphs::measure, "replay of a graph"),
    of("T12", threads::measure, "16 threads on 16 streams"),
    of("T13", peers::measure, "GPU to GPU"),
    of("T15", regions::measure, "ten operations on each element"),
    of("T16", collectives::measure, "all-reduce on two GPUs"),
    of(
        "T17",
        launches::hand_over,
        "hand-over to another library's stream",
    ),
    of(
        "T18",
        gradients::measure,
        "all-reduce of gradients under kernels",
    ),
    of(
        "T19",
        shapes::measure,
        "reductions and functions of rows over 256 MiB",
    ),
    anywhere("T20", first_calls::measure, "first call of a kernel"),
];

type Measure = fn(&Harness) -> Result<Vec<Row>>;

/// A measurement that needs a GPU.
const fn of(target: &'static str, measure: Measure, what: &'static str) -> Measurement {
    Measurement {
        target,
        what,
        needs: Needs::Gpu,
        measure,
    }
}

const fn anywhere(target: &'static str, measure: Measure, what: &'static str) -> Measurement {
    Measurement {
        needs: Needs::AnyDevice,
        ..of(target, measure, what)
    }
}

/// Targets that are measured elsewhere or not at all: target, work and reason.
const NOT_MEASURED: [(&str, &str, &str); 1] = [(
    "T14",
    "speed of the simulated device",
    "see cargo bench -p millstream-sim --bench speed",
)];

/// Returns the names of all targets, including T4, which needs no device.
pub(crate) fn names() -> Vec<&'static str> {
    let measured = MEASUREMENTS.iter().map(|one| one.target);
    let elsewhere = NOT_MEASURED.iter().map(|&(target, ..)| target);
    let mut names: Vec<_> = measured.chain(elsewhere).chain(["T4"]).collect();
    names.sort_unstable_by_key(|name| (name.len(), *name));
    names
}

/// The rows of a run, and its device.
pub(crate) struct Measured {
    pub(crate) device: String,
    pub(crate) rows: Vec<Row>,
    /// Set if a measurement failed.
    pub(crate) failed: bool,
}

/// Runs the measurements that are `wanted` and possible here. The others get a row with the reason.
pub(crate) fn measure(quick: bool, wanted: &dyn Fn(&str) -> bool) -> Result<Measured> {
    let mut measured = Measured {
        device: String::from("no device"),
        rows: Vec::new(),
        failed: false,
    };
    for (target, what, why) in NOT_MEASURED
        .into_iter()
        .filter(|(target, ..)| wanted(target))
    {
        measured.rows.push(Row::absent(target, what, why));
    }
    let measurements: Vec<_> = MEASUREMENTS
        .iter()
        .filter(|one| wanted(one.target))
        .collect();
    if measurements.is_empty() {
        return Ok(measured);
    }
    let gpu = Harness::gpu(quick);
    let simulated = Harness::simulated(quick)?;
    if let Err(why) = &gpu {
        eprintln!("no GPU: {why}");
    }
    measured.device = gpu.as_ref().unwrap_or(&simulated).device.to_string();
    for one in measurements {
        let harness = match &gpu {
            Ok(harness) => harness,
            Err(_) if one.needs == Needs::AnyDevice => &simulated,
            Err(_) => {
                measured
                    .rows
                    .push(Row::absent(one.target, one.what, "needs a GPU"));
                continue;
            }
        };
        eprintln!("{} {} on {}", one.target, one.what, harness.device);
        // A failed measurement does not stop the others.
        match (one.measure)(harness) {
            Ok(rows) if harness.device.is_simulated() => {
                let simulated = rows
                    .into_iter()
                    .map(|row| row.with_note("simulated device"));
                measured.rows.extend(simulated);
            }
            Ok(rows) => measured.rows.extend(rows),
            Err(error) => {
                measured.failed = true;
                measured.rows.push(Row::absent(
                    one.target,
                    one.what,
                    format!("FAILED: {error:#}"),
                ));
            }
        }
    }
    if gpu.is_ok() {
        let others = pytorch::measure(quick, wanted, &measured.rows);
        measured.failed |= others.is_err();
        match others {
            Ok(rows) => measured.rows.extend(rows),
            Err(error) => eprintln!("FAILED: {error:#}"),
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_runs_on_the_simulated_device() {
        let harness = Harness::simulated(true).unwrap();
        for one in &MEASUREMENTS {
            let rows = (one.measure)(&harness).unwrap();
            assert!(!rows.is_empty(), "{}", one.target);
            for row in rows {
                assert_eq!(row.target, one.target);
                assert!(
                    row.figure
                        .is_none_or(|figure| figure.is_finite() && figure >= 0.0),
                    "{row:?}"
                );
            }
        }
    }
}
