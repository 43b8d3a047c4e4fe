//! Random programs of graphs on one device: recordings, replays, and every change between them, of
//! arrays of all origins: several in one allocation, empty ones, module variables that kernels use
//! by name, memory that is lent to another library or adopted from it, and a stream that the other
//! library captures. Each step is compared with an oracle of plain vectors, which also says which
//! steps are refused.

mod device;
mod found;
mod kernels;
mod model;
mod step;

use millstream::{Device, Error, UsageErrorKind, sim::Gpu};

use crate::programs::shrink::shorten;
use device::Running;
use model::Model;
use step::{ARRAYS, Part};

pub(crate) use step::{Step, draw};

/// Runs a program.
///
/// # Errors
///
/// Returns a description of the first problem.
pub(crate) fn run(gpu: &Gpu, device: &Device, steps: &[Step]) -> Result<bool, String> {
    let running = Running::new(gpu, device);
    let mut running = running.map_err(|error| error.to_string())?;
    let mut model = Model::new();
    let downloads = (0..ARRAYS).map(|slot| Step::Download(0, Part::whole(slot)));
    let end = [Step::EndCapture].into_iter();
    let leases = (0..ARRAYS).map(Step::EndLease);
    let end: Vec<_> = end.chain(leases).chain(downloads).collect();
    for (number, step) in steps.iter().chain(&end).enumerate() {
        let mut after = model.clone();
        let expected = after.apply(step);
        match (expected, running.step(step)) {
            (Ok(()), Ok(())) => model = after,
            (Err(kind), Err(Error::Usage(refused))) if is_of_kind(refused.problem(), kind) => {
                model = after;
            }
            (expected, found) => {
                return Err(format!(
                    "{expected:?} was expected, and it came to {found:?}, in step {number}, \
                     {step:?}"
                ));
            }
        }
    }
    let downloads = std::mem::take(&mut running.downloads);
    for (number, (found, expected)) in downloads.into_iter().zip(model.downloads).enumerate() {
        let found = found.map(|found| found.wait()).transpose();
        let found = found.map_err(|error| format!("download {number}: {error}"))?;
        if found != expected {
            return Err(format!(
                "download {number}: {found:?} instead of {expected:?}"
            ));
        }
    }
    running.finish().map_err(|error| error.to_string())?;
    Ok(model.leaks)
}

/// Returns whether one of these names is that of the problem's kind.
fn is_of_kind(problem: &UsageErrorKind, kinds: &str) -> bool {
    let text = format!("{problem:?}");
    let name = text.split(|c: char| !c.is_alphanumeric()).next();
    kinds.split('|').any(|kind| Some(kind) == name)
}

/// Returns the shortest program found that still fails, as text, with its problem.
pub(crate) fn shrink(
    mut steps: Vec<Step>,
    problem: String,
    fails: impl FnMut(&[Step]) -> Option<String>,
) -> String {
    let problem = shorten(&mut steps, problem, fails);
    let lines = steps.iter().map(|step| format!("\n  {step:?}"));
    format!("{problem}{}", lines.collect::<String>())
}
