//! One file for each target, or for a few that measure the same thing.

mod allocate;
mod copies;
mod launches;
mod peers;
mod pipeline;
mod regions;
mod small;
mod threads;
mod waiting;

use anyhow::Result;

pub(crate) use regions::ten;

use crate::{pytorch, report::Row, rig::Rig};

/// What a measurement needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Gpu,
    /// It means something on the simulated device, too.
    AnyDevice,
}

/// A measurement of one target.
struct Measurement {
    target: &'static str,
    what: &'static str,
    needs: Needs,
    measure: fn(&Rig) -> Result<Vec<Row>>,
}

/// All measurements on devices, in the order of their targets.
const MEASUREMENTS: [Measurement; 12] = [
    of("T1", "launch, one stream in use", launches::one_stream),
    of(
        "T2",
        "launch, operands shared with a second stream",
        launches::shared,
    ),
    of(
        "T3",
        "ping-pong between two streams, a pair",
        launches::ping_pong,
    ),
    of("T5", "allocate and drop 1 MiB", allocate::measure),
    of("T6", "pageable upload", copies::upload),
    of("T7", "pageable download", copies::download),
    of("T8", "upload of 4 KiB", small::measure),
    Measurement {
        needs: Needs::AnyDevice,
        ..of("T9", "launch, then await", waiting::measure)
    },
    Measurement {
        needs: Needs::AnyDevice,
        ..of("T10", "upload, kernel, download", pipeline::measure)
    },
    of("T12", "16 threads on 16 streams", threads::measure),
    of("T13", "GPU to GPU, 1 GiB", peers::measure),
    of("T15", "ten operations on each element", regions::measure),
];

const fn of(
    target: &'static str,
    what: &'static str,
    measure: fn(&Rig) -> Result<Vec<Row>>,
) -> Measurement {
    Measurement {
        target,
        what,
        needs: Needs::Gpu,
        measure,
    }
}

/// What is not measured here, and why.
const ELSEWHERE: [(&str, &str, &str); 2] = [
    (
        "T11",
        "replay of a graph of 100 kernels",
        "there are no graphs yet",
    ),
    (
        "T14",
        "speed of the simulated device",
        "see cargo bench -p millstream-sim --bench speed",
    ),
];

/// The names of all targets, T4 among them, which needs no device.
pub(crate) fn names() -> Vec<&'static str> {
    let measured = MEASUREMENTS.iter().map(|one| one.target);
    let elsewhere = ELSEWHERE.iter().map(|&(target, ..)| target);
    let mut names: Vec<_> = measured.chain(elsewhere).chain(["T4"]).collect();
    names.sort_unstable_by_key(|name| (name.len(), *name));
    names
}

/// Rows, and the device that they are of.
pub(crate) struct Measured {
    pub(crate) device: String,
    pub(crate) rows: Vec<Row>,
    /// Whether something that could have been measured was not, for an error.
    pub(crate) failed: bool,
}

/// Measures what is `wanted` and can be measured here; says of the rest that it cannot.
pub(crate) fn measure(quick: bool, wanted: &dyn Fn(&str) -> bool) -> Result<Measured> {
    let mut measured = Measured {
        device: String::from("no device"),
        rows: Vec::new(),
        failed: false,
    };
    for (target, what, why) in ELSEWHERE.into_iter().filter(|(target, ..)| wanted(target)) {
        measured.rows.push(Row::absent(target, what, why));
    }
    let measurements: Vec<_> = MEASUREMENTS
        .iter()
        .filter(|one| wanted(one.target))
        .collect();
    if measurements.is_empty() {
        return Ok(measured);
    }
    let gpu = Rig::gpu(quick);
    let simulated = Rig::simulated(quick)?;
    if let Err(why) = &gpu {
        eprintln!("no GPU: {why}");
    }
    measured.device = gpu.as_ref().unwrap_or(&simulated).device.to_string();
    for one in measurements {
        let rig = match &gpu {
            Ok(rig) => rig,
            Err(_) if one.needs == Needs::AnyDevice => &simulated,
            Err(_) => {
                measured
                    .rows
                    .push(Row::absent(one.target, one.what, "needs a GPU"));
                continue;
            }
        };
        eprintln!("{} {} on {}", one.target, one.what, rig.device);
        // One failure is no reason to lose the others' figures.
        match (one.measure)(rig) {
            Ok(rows) if rig.device.is_simulated() => {
                let simulated = rows.into_iter().map(|row| row.noting("simulated device"));
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
    fn everything_runs_on_the_simulated_device() {
        let rig = Rig::simulated(true).unwrap();
        for one in &MEASUREMENTS {
            let rows = (one.measure)(&rig).unwrap();
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
