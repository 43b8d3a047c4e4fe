//! The programs that run with every test.

use std::{
    env,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    case::{Case, cases, on_gpu},
    shrink::shrink,
};

const PROGRAMS: u64 = 2000;
const PROGRAMS_WITH_FAULTS: u64 = 400;
/// More than one for each core: a run sleeps while the reactor still holds its device.
const WORKERS: usize = 4;

/// The environment variable that names the one case to be run.
const VARIABLE: &str = "MILLSTREAM_PROGRAM";

/// Runs a case, and panics with all that one wants to know if it fails.
pub(crate) fn run(case: &Case) {
    let program = case.draw();
    if let Err(problem) = case.run(&program) {
        let (shortest, its_problem) = shrink(case, program.clone(), problem.clone());
        panic!(
            "program {case}: {problem}\n\
             to run it again: {VARIABLE}='{case}' cargo test -p millstream --test programs suite\n\
             shortest, with {} of {} steps: {its_problem}\n{shortest}",
            shortest.steps.len(),
            program.steps.len(),
        );
    }
}

/// Runs all cases of the programs that `next` gives, on several threads; `done` is called for each
/// program.
pub(crate) fn run_all(next: impl Fn() -> Option<(u64, bool)> + Sync, done: impl Fn() + Sync) {
    let has_failed = AtomicBool::new(false);
    // The programs of one GPU share its memory and its figures.
    let workers = if on_gpu() { 1 } else { WORKERS };
    let first_failure = Mutex::new(None);
    thread::scope(|scope| {
        let work = || {
            while let (false, Some((program, faults))) =
                (has_failed.load(Ordering::Relaxed), next())
            {
                for case in cases(program, faults) {
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

/// The programs from 0 on; or the one case that the environment names.
fn run_first(programs: u64, faults: bool) {
    if let Ok(text) = env::var(VARIABLE) {
        let case: Case = text
            .parse()
            .unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
        if case.faults == faults {
            run(&case);
        }
        return;
    }
    let next = AtomicU64::new(0);
    let draw = || {
        let program = next.fetch_add(1, Ordering::Relaxed);
        (program < programs).then_some((program, faults))
    };
    run_all(draw, || ());
}

#[test]
fn random_programs_do_what_plain_vectors_do() {
    run_first(PROGRAMS, false);
}

/// On a GPU nothing fails by order.
#[test]
fn random_programs_whose_calls_fail_are_right_or_say_so() {
    if !on_gpu() {
        run_first(PROGRAMS_WITH_FAULTS, true);
    }
}

#[test]
fn a_case_is_read_as_it_is_written() {
    for case in cases(12, true).into_iter().chain(cases(7, false)) {
        assert_eq!(case.to_string().parse(), Ok(case));
    }
}
