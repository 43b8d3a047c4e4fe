//! P09: a process ends in the middle of a collective.

use std::{panic, sync::Arc};

use millstream::Result;
use millstream_collective::nccl::Loopback;

use crate::several_processes::prelude::*;

/// The deadline of the collective that does not end.
const DEADLINE: Duration = Duration::from_secs(2);

/// Begins an all-reduce on both ranks, and ends the process of rank `victim`. The other rank checks
/// that it goes on, and returns the error.
pub(crate) fn program(victim: usize) -> Result<String> {
    let world = World::from_env()?;
    let gpu = Gpu::new(millstream::sim::SimConfig::new());
    let device = millstream::Device::open_simulated(&gpu, 0)?;
    let mut library = Loopback::new(gpu.driver());
    if world.rank() == victim {
        library = library.fault(2, Fault::Hang);
    }
    let location = panic::Location::caller();
    let collectives = world.collectives_by(&device, Arc::new(library), location)?;
    collectives.set_deadline(Some(DEADLINE));
    let store = world.rendezvous(LONG)?;
    let stream = device.stream()?;
    let mut array = stream.upload(&[1_u32, 2, 3])?;
    collectives.all_reduce(&mut [&mut array], Reduce::Sum)?;
    assert_eq!(stream.download(&array)?.wait()?, [2, 4, 6]);

    let began = Instant::now();
    collectives.all_reduce(&mut [&mut array], Reduce::Sum)?;
    let line = line!() - 1;
    if world.rank() == victim {
        store.get("called", LONG)?;
        std::process::abort();
    }
    let pending = stream.download(&array)?;
    store.set("called", &[])?;
    let lost = pending.wait().expect_err("the rank is gone");
    assert!(began.elapsed() < DEADLINE + Duration::from_secs(5));
    assert!(matches!(lost, Error::CollectiveLost { .. }), "{lost}");
    let text = lost.to_string();
    let place = format!("killed.rs:{line}:");
    assert!(
        text.contains("`all_reduce` at") && text.contains(&place),
        "{text}"
    );

    // The results are invalid, and the rest of the program works.
    let again = stream.download(&array).and_then(|pending| pending.wait());
    assert_eq!(again.expect_err("invalid").to_string(), text);
    let refused = collectives.all_reduce(&mut [&mut array], Reduce::Sum);
    assert_eq!(refused.expect_err("the group is lost").to_string(), text);
    let other = device.stream()?;
    assert_eq!(other.download(&other.upload(&[7_u8; 9])?)?.wait()?, [7; 9]);
    stream.fill(&mut array, 5)?;
    assert_eq!(stream.download(&array)?.wait()?, [5; 3]);
    let began = Instant::now();
    let Err(refused) = world.collectives(&device) else {
        panic!("a rank is gone");
    };
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(
        refused.to_string().contains("the world is not complete"),
        "{refused}"
    );
    drop(collectives);
    Ok(text)
}

/// Kills one of two ranks, and returns the error of the other.
fn kill(victim: usize) -> String {
    let mut processes = start_all(&format!("kill {victim}"), torchrun, 2);
    let survivor = processes.remove(1 - victim);
    let text = result(survivor);
    let ended = processes.remove(0).wait().expect("it ends");
    assert!(!ended.success(), "{ended}");
    text
}

#[test]
fn p09_rank_1_ends_in_the_middle_of_an_all_reduce() {
    let text = kill(1);
    let silent = "rank 1 does not answer: its process may have ended";
    assert!(text.contains(silent), "{text}");
}

#[test]
fn p09_rank_0_ends_in_the_middle_of_an_all_reduce() {
    let text = kill(0);
    let gone = "the store of the ranks cannot be reached: the connection to rank 0 at";
    assert!(text.contains(gone), "{text}");
}
