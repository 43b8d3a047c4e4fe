//! A missing wait between two streams: results that depend on luck, the report that does not, the run made again, the repair.
//!
//! Needs no GPU. The program with the mistake is in `program.rs`.

mod program;

use std::error::Error;

use millstream::sim::{Gpu, ReplayToken, Replayed, Schedule, Search, SimConfig};

use program::{BYTES, fill_and_fetch};

const SCHEDULES: [Schedule; 7] = [
    Schedule::Timed,
    Schedule::Eager,
    Schedule::Lazy,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Pct { seed: 1, depth: 2 },
    Schedule::Pct { seed: 2, depth: 2 },
];

/// What became of one run.
struct Outcome {
    stale: usize,
    reports: Vec<String>,
    token: ReplayToken,
    replayed: Replayed,
}

fn run(gpu: &Gpu, repaired: bool) -> Result<Outcome, Box<dyn Error>> {
    let stale = fill_and_fetch(gpu, repaired)?;
    Ok(Outcome {
        stale,
        reports: gpu.reports().iter().map(|report| report.text.clone()).collect(),
        token: gpu.replay_token(),
        replayed: gpu.replayed(),
    })
}

/// Runs the program under every schedule that its host can tell from others: how many, and in how many bytes were stale, and in
/// how many something was reported.
fn search(repaired: bool) -> Result<[u64; 3], Box<dyn Error>> {
    let (mut search, mut wrong, mut reported) = (Search::new(), 0, 0);
    while let Some(gpu) = search.next_gpu(&SimConfig::new()) {
        let outcome = run(&gpu, repaired)?;
        wrong += u64::from(outcome.stale > 0);
        reported += u64::from(!outcome.reports.is_empty());
    }
    if !search.is_complete() {
        return Err("the program is not the same every time".into());
    }
    Ok([search.runs(), wrong, reported])
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "Stream `compute` fills an array, stream `copies` brings it home. Nothing tells `copies` to wait.\n"
    );
    let mut wrong = None;
    let mut report = String::new();
    for schedule in SCHEDULES {
        let outcome = run(&Gpu::new(SimConfig::new().schedule(schedule)), false)?;
        let result = match outcome.stale {
            0 => "right, by luck".into(),
            stale => format!("wrong: {stale} of {BYTES} bytes are stale"),
        };
        println!(
            "  {:<28} {result}; {} reported",
            schedule.to_string(),
            outcome.reports.len()
        );
        report = outcome.reports.join("\n");
        if outcome.stale > 0 {
            wrong.get_or_insert(outcome);
        }
    }
    let [runs, stale, reported] = search(false)?;
    println!("  every schedule there is: of {runs}, wrong in {stale}, reported in {reported}\n");

    println!("The report, the same after a right run as after a wrong one:\n");
    println!("  {}\n", report.replace('\n', "\n  "));

    let wrong = wrong.ok_or("no schedule has shown the mistake")?;
    println!(
        "The first wrong run again, from its choices: sim:replay={}",
        wrong.token
    );
    let again = run(&Gpu::new(SimConfig::new().replay(wrong.token)), false)?;
    println!(
        "  {} bytes are stale; the replay met the run: {:?}\n",
        again.stale, again.replayed
    );

    println!("The repair is the line that the report asks for, between the fill and the fetch:\n");
    println!("  gpu.stream_wait_event(context, copies, filled)\n");
    let [runs, stale, reported] = search(true)?;
    println!("  every schedule there is: of {runs}, wrong in {stale}, reported in {reported}");
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
        let outcomes =
            SCHEDULES.map(|schedule| run(&Gpu::new(SimConfig::new().schedule(schedule)), false).unwrap());
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.reports == outcomes[0].reports)
        );
        assert!(
            outcomes[0].reports[0].contains("never waits"),
            "{:?}",
            outcomes[0].reports
        );
        for outcome in outcomes {
            let again = run(&Gpu::new(SimConfig::new().replay(outcome.token)), false).unwrap();
            assert_eq!((again.stale, again.replayed), (outcome.stale, Replayed::Exactly));
        }
    }

    #[test]
    fn the_repair_repairs_it() {
        let [runs, wrong, reported] = search(true).unwrap();
        assert!(runs > 0);
        assert_eq!((wrong, reported), (0, 0));
    }
}
