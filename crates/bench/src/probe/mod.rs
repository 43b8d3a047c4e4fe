//! Small measurements of a machine, for those who design how copies are staged and how completion is noticed.

mod both_ways;
mod calls;
mod chunk;
mod memory;
mod staging;
mod waits;

use anyhow::{Result, anyhow};

use crate::rig::Rig;

pub(crate) use chunk::{Chunk, Stores};

/// Measures something and prints it.
type Print = fn(&Rig) -> Result<()>;

/// Measures everything that there is here and prints it.
pub(crate) fn run(quick: bool) -> Result<()> {
    println!("==== host memory");
    memory::print(quick);
    println!("==== threads and sleep");
    waits::print_host(quick);
    let rig = Rig::gpu(quick).map_err(|why| anyhow!("the rest needs a GPU: {why}"))?;
    println!("==== {}", rig.device);
    let parts: [(&str, Print); 5] = [
        ("driver calls, host time", calls::print),
        ("small uploads, host time of a call", staging::print_small),
        ("staged copies of 256 MiB", staging::print_large),
        ("host memory both ways at once", both_ways::print),
        ("noticing that a kernel is done", waits::print),
    ];
    let mut failed = None;
    for (title, print) in parts {
        println!("==== {title}");
        if let Err(error) = print(&rig) {
            println!("FAILED: {error:#}");
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probes_run_on_the_simulated_device() {
        let rig = Rig::simulated(true).unwrap();
        calls::print(&rig).unwrap();
        staging::print_small(&rig).unwrap();
        staging::copies_work_both_ways(&rig).unwrap();
        both_ways::all_ways_are_counted(&rig).unwrap();
    }
}
