//! Finds a missing wait between two streams without a GPU: results that depend on the schedule, the
//! report that does not, a wrong run repeated, and the repair.
//!
//! The program with the mistake is in `program.rs`.

mod program;

use std::error::Error;

use millstream::sim::{Gpu, ReplayStatus, ReplayToken, Schedule, Search, SimConfig};

use program::{BYTES, fill_and_fetch};

/// The number of seeds of each schedule that has a seed.
const SEEDS: u64 = 50;

/// The schedules, in groups with a name.
fn schedules() -> [(&'static str, Vec<Schedule>); 5] {
    let pct = |seed| Schedule::Pct { seed, depth: 2 };
    [
        ("by the cost model", vec![Schedule::Timed]),
        ("as early as is legal", vec![Schedule::Eager]),
        ("as late as is legal", vec![Schedule::Lazy]),
        ("at random", (0..SEEDS).map(Schedule::Random).collect()),
        ("by priorities (PCT)", (0..SEEDS).map(pct).collect()),
    ]
}

struct Outcome {
    stale: usize,
    reports: Vec<String>,
    token: ReplayToken,
    replay_status: ReplayStatus,
}

impl Outcome {
    /// Counts the run: all runs, runs with a wrong result, runs with a report.
    fn count_in(&self, counts: &mut [u64; 3]) {
        let [runs, wrong, reported] = counts;
        *runs += 1;
        *wrong += u64::from(self.stale > 0);
        *reported += u64::from(!self.reports.is_empty());
    }
}

fn run(gpu: &Gpu, repaired: bool) -> Result<Outcome, Box<dyn Error>> {
    let stale = fill_and_fetch(gpu, repaired)?;
    Ok(Outcome {
        stale,
        reports: gpu
            .reports()
            .iter()
            .map(|report| report.text.clone())
            .collect(),
        token: gpu.replay_token(),
        replay_status: gpu.replay_status(),
    })
}

/// Runs the program under every schedule that its host can tell from others.
fn search(repaired: bool) -> Result<[u64; 3], Box<dyn Error>> {
    let (mut search, mut counts) = (Search::new(), [0; 3]);
    while let Some(gpu) = search.next_gpu(&SimConfig::new()) {
        run(&gpu, repaired)?.count_in(&mut counts);
    }
    if !search.is_complete() {
        return Err("the program is not the same every time".into());
    }
    Ok(counts)
}

fn print_counts(group: &str, [runs, wrong, reported]: [u64; 3]) {
    println!("  {group:<28}{runs:>6}{wrong:>8}{reported:>10}");
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("Stream `compute` fills an array, stream `copies` downloads it and does not wait.\n");
    println!(
        "  {:<28}{:>6}{:>8}{:>10}",
        "operations run", "runs", "wrong", "reported"
    );
    let mut first_wrong = None;
    let mut report = String::new();
    for (group, schedules) in schedules() {
        let mut counts = [0; 3];
        for schedule in schedules {
            let outcome = run(&Gpu::new(SimConfig::new().schedule(schedule)), false)?;
            outcome.count_in(&mut counts);
            report = outcome.reports.join("\n");
            if outcome.stale > 0 {
                first_wrong.get_or_insert((schedule, outcome));
            }
        }
        print_counts(group, counts);
    }
    print_counts("every distinct schedule", search(false)?);

    println!("\nThe report, the same after a right run as after a wrong one:\n");
    println!("  {}\n", report.replace('\n', "\n  "));

    let (schedule, wrong) = first_wrong.ok_or("no schedule has shown the mistake")?;
    println!(
        "With {schedule}, {} of {BYTES} bytes were downloaded before they were filled.",
        wrong.stale
    );
    println!("The same run, repeated with sim:replay={}:", wrong.token);
    let again = run(&Gpu::new(SimConfig::new().replay(wrong.token)), false)?;
    println!(
        "  {} bytes too early; the replay matched the original run: {:?}\n",
        again.stale, again.replay_status
    );

    println!("The repair is the wait that the report names, between the fill and the download:\n");
    println!("  gpu.stream_wait_event(context, copies, filled)\n");
    let mut counts = search(true)?;
    for schedule in schedules().into_iter().flat_map(|(_, schedules)| schedules) {
        run(&Gpu::new(SimConfig::new().schedule(schedule)), true)?.count_in(&mut counts);
    }
    print_counts("all of these, repaired", counts);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mistake_is_always_reported_and_only_sometimes_shows() {
        let [runs, wrong, reported] = search(false).unwrap();
        assert!(
            0 < wrong && wrong < runs && reported == runs,
            "{runs} {wrong} {reported}"
        );
        let all = schedules().into_iter().flat_map(|(_, schedules)| schedules);
        let outcomes: Vec<Outcome> = all
            .map(|schedule| run(&Gpu::new(SimConfig::new().schedule(schedule)), false).unwrap())
            .collect();
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.reports == outcomes[0].reports)
        );
        assert!(
            outcomes[0].reports[0].contains("missing: "),
            "{:?}",
            outcomes[0].reports
        );
        for outcome in outcomes {
            let again = run(&Gpu::new(SimConfig::new().replay(outcome.token)), false).unwrap();
            assert_eq!(
                (again.stale, again.replay_status),
                (outcome.stale, ReplayStatus::Exactly)
            );
        }
    }

    #[test]
    fn the_repair_repairs_it() {
        let [runs, wrong, reported] = search(true).unwrap();
        assert!(runs > 0);
        assert_eq!((wrong, reported), (0, 0));
    }
}
