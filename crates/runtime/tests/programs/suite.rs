//! The random programs of the regular test suite.

use std::{
    env,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use millstream_testkit::{configurations::on_gpu, share};

use crate::programs::{
    case::{Case, Kind, cases},
    graphs,
    shrink::{TRIES, shrink},
};

/// The numbers of programs of a day and of the whole suite, of each kind.
const PROGRAMS: (u64, u64) = (150, 1800);
const PROGRAMS_WITH_FAULTS: (u64, u64) = (60, 400);
const PROGRAMS_OF_GRAPHS: (u64, u64) = (60, 400);
/// The number of workers, more than one for each core: a run sleeps while the reactor still holds
/// its device.
const WORKERS: usize = 4;

/// The environment variable that selects a single case.
const VARIABLE: &str = "MILLSTREAM_PROGRAM";

/// Runs a case; if it fails, panics with the problem, the command that reruns it, and the shortest
/// failing program.
pub(crate) fn run(case: &Case) {
    let fail = |problem: &str, shortest: String| {
        panic!(
            "program {case}: {problem}\n\
             to run it again: {VARIABLE}='{case}' cargo test -p millstream --test all \
             programs::suite\n\
             shortest: {shortest}"
        )
    };
    if case.kind == Kind::Graphs {
        let steps = graphs::draw(case.program);
        if let Err(problem) = case.run_graphs(&steps) {
            let fails = |steps: &[_]| (0..TRIES).find_map(|_| case.run_graphs(steps).err());
            fail(&problem, graphs::shrink(steps, problem.clone(), fails));
        }
        return;
    }
    let program = case.draw();
    if let Err(problem) = case.run(&program) {
        let (shortest, its_problem) = shrink(case, program, problem.clone());
        fail(&problem, format!("{its_problem}\n{shortest}"));
    }
}

/// Runs all cases of the programs that `next` returns, on several threads; calls `done` for each
/// program.
pub(crate) fn run_all(next: impl Fn() -> Option<(u64, Kind)> + Sync, done: impl Fn() + Sync) {
    let has_failed = AtomicBool::new(false);
    // Programs on one GPU share its memory and its memory statistics.
    let workers = if on_gpu() { 1 } else { WORKERS };
    let first_failure = Mutex::new(None);
    thread::scope(|scope| {
        let work = || {
            while let (false, Some((program, kind))) = (has_failed.load(Ordering::Relaxed), next())
            {
                for case in cases(program, kind) {
                    if let Err(panic) = std::panic::catch_unwind(|| run(&case)) {
                        has_failed.store(true, Ordering::Relaxed);
                        let mut first =
                            first_failure.lock().unwrap_or_else(PoisonError::into_inner);
                        first.get_or_insert(panic);
                        return;
                    }
                }
                done();
            }
        };
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    if let Some(panic) = first_failure
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
    {
        resume_unwind(panic);
    }
}

/// Runs a day's programs, or the single case that the environment selects.
fn run_share((share, whole): (u64, u64), kind: Kind) {
    if let Ok(text) = env::var(VARIABLE) {
        let case: Case = text
            .parse()
            .unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
        if case.kind == kind {
            run(&case);
        }
        return;
    }
    let programs = share::numbers(share, whole);
    println!("programs {programs:?}");
    let next = AtomicU64::new(programs.start);
    let draw = || {
        let program = next.fetch_add(1, Ordering::Relaxed);
        (program < programs.end).then_some((program, kind))
    };
    run_all(draw, || ());
}

#[test]
fn random_programs_agree_with_plain_vectors() {
    run_share(PROGRAMS, Kind::Plain);
}

/// Skipped on a GPU, where no faults can be injected.
#[test]
fn random_programs_with_failing_calls_are_correct_or_return_errors() {
    if !on_gpu() {
        run_share(PROGRAMS_WITH_FAULTS, Kind::Faults);
    }
}

/// Skipped on a GPU, where nothing reports races.
#[test]
fn random_programs_of_graphs_agree_with_plain_vectors_after_every_change() {
    if !on_gpu() {
        run_share(PROGRAMS_OF_GRAPHS, Kind::Graphs);
    }
}

#[test]
fn a_case_survives_a_round_trip_through_text() {
    for kind in [Kind::Plain, Kind::Faults, Kind::Graphs] {
        for case in cases(12, kind) {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
    }
}
