//! Shrinks a failing program as long as it still fails.

use crate::programs::{
    case::Case,
    program::step::{Placed, Program, Step},
};

/// The number of runs before a program counts as passing: host threads are real, and the schedule
/// does not control them.
pub(crate) const TRIES: usize = 3;
/// The maximum number of programs tried.
const PROGRAMS_MAX: usize = 3000;

/// Returns the shortest program found that still fails, and its problem.
pub(crate) fn shrink(case: &Case, program: Program, problem: String) -> (Program, String) {
    let mut best = (program.clone(), problem);
    let mut left = PROGRAMS_MAX;
    let mut fails = |program: &Program| {
        left = left.checked_sub(1)?;
        (0..TRIES).find_map(|_| case.run(program).err())
    };
    best.1 = shorten(&mut best.0.steps, best.1, |steps| {
        fails(&Program {
            steps: steps.to_vec(),
            ..program.clone()
        })
    });
    for at in 0..best.0.steps.len() {
        for simpler in simpler(&best.0.steps[at]) {
            let mut program = best.0.clone();
            program.steps[at] = simpler;
            if let Some(problem) = fails(&program) {
                best = (program, problem);
                break;
            }
        }
    }
    best
}

/// Removes steps as long as the program still fails. Returns the problem of the rest.
pub(crate) fn shorten<S: Clone>(
    steps: &mut Vec<S>,
    mut problem: String,
    mut fails: impl FnMut(&[S]) -> Option<String>,
) -> String {
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 {
        let mut start = 0;
        let before = steps.len();
        while start < steps.len() {
            let mut shorter = steps.clone();
            let end = (start + chunk).min(shorter.len());
            shorter.drain(start..end);
            match fails(&shorter) {
                Some(found) => (*steps, problem) = (shorter, found),
                None => start = end,
            }
        }
        if chunk > 1 || steps.len() == before {
            chunk /= 2;
        }
    }
    problem
}

/// Returns simplifications of a step, the simplest first.
fn simpler(placed: &Placed) -> Vec<Placed> {
    let mut all = Vec::new();
    let thread = placed.thread;
    match &placed.step {
        Step::Apart(lists) => {
            let [first, second] = lists;
            for step in first {
                all.push(Step::Apart([vec![step.clone()], second.clone()]));
            }
            for step in second {
                all.push(Step::Apart([first.clone(), vec![step.clone()]]));
            }
        }
        Step::Scope {
            device,
            copies,
            end,
        } => {
            for copy in copies {
                all.push(Step::Scope {
                    device: *device,
                    copies: vec![copy.clone()],
                    end: *end,
                });
            }
        }
        _ => {}
    }
    if thread != 0 {
        all.push(placed.step.clone());
    }
    all.into_iter()
        .map(|step| Placed { thread: 0, step })
        .collect()
}
