//! P10: ranks make different calls.

use millstream::Result;

use crate::several_processes::prelude::*;

/// A collective that ranks call differently. Returns an error unless the rank calls nothing.
type Case = fn(&Collectives, &Stream, usize) -> Result<()>;

fn different_operations(collectives: &Collectives, stream: &Stream, rank: usize) -> Result<()> {
    let mut array = stream.zeros::<f32>(8)?;
    match rank {
        0 => collectives.all_reduce(&mut [&mut array], Reduce::Sum)?,
        _ => collectives.broadcast(1, &mut [&mut array])?,
    }
    stream.download(&array)?.wait().map(drop)
}

fn different_lengths(collectives: &Collectives, stream: &Stream, rank: usize) -> Result<()> {
    let mut array = stream.zeros::<f32>(8 + rank)?;
    collectives.all_reduce(&mut [&mut array], Reduce::Sum)?;
    stream.download(&array)?.wait().map(drop)
}

fn one_calls_nothing(collectives: &Collectives, stream: &Stream, rank: usize) -> Result<()> {
    if rank == 1 {
        return Ok(());
    }
    different_lengths(collectives, stream, rank)
}

fn different_messages(collectives: &Collectives, stream: &Stream, rank: usize) -> Result<()> {
    let mut array = stream.zeros::<f32>(8 + rank)?;
    collectives.group(|group| match rank {
        0 => group.send(0, 1, &array),
        _ => group.recv(1, 0, &mut array),
    })?;
    // The stand-in's sends do not wait for their receives.
    match rank {
        0 => Ok(()),
        _ => stream.download(&array)?.wait().map(drop),
    }
}

const CASES: [Case; 4] = [
    different_operations,
    different_lengths,
    one_calls_nothing,
    different_messages,
];

/// Runs all cases, each in a new group of the same world, and returns the errors.
pub(crate) fn program() -> Result<String> {
    let world = World::from_env()?;
    let device = world.local_device()?;
    let store = world.rendezvous(LONG)?;
    let mut errors = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let error = run(*case, &world, &device)?;
        errors.push(error.unwrap_or_else(|| "none".to_owned()));
        // The rank that calls nothing keeps the group until the other has its error.
        store.set(&format!("case/{number}/{}", world.rank()), &[])?;
        for rank in 0..world.size() {
            store.get(&format!("case/{number}/{rank}"), LONG)?;
        }
    }
    // Rank 0 serves the store, so it ends last.
    store.set(&format!("done/{}", world.rank()), &[])?;
    if world.rank() == 0 {
        store.get("done/1", LONG)?;
    }
    Ok(errors.join(";"))
}

fn run(case: Case, world: &World, device: &Device) -> Result<Option<String>> {
    let collectives = world.collectives(device)?;
    let stream = device.stream()?;
    let mut array = stream.upload(&[1_u64])?;
    collectives.all_reduce(&mut [&mut array], Reduce::Sum)?;
    assert_eq!(stream.download(&array)?.wait()?, [world.size() as u64]);
    // Not before, because NCCL connects the ranks at the first collective.
    collectives.set_deadline(Some(Duration::from_millis(300)));
    match case(&collectives, &stream, world.rank()) {
        Err(error @ Error::CollectiveLost { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
        // The rank answers the others, although it has nothing in flight.
        Ok(()) => {
            let lost = collectives.close().expect_err("the group is lost");
            Ok(Some(lost.to_string()))
        }
    }
}

#[test]
fn p10_the_first_difference_is_named_on_every_rank() {
    let differences: Vec<Vec<&str>> = vec![
        vec![
            "collective 2 is all_reduce of 8 f32 by Sum on rank 0 (",
            "), and broadcast of 8 f32 with root 1 on rank 1 (",
        ],
        vec![
            "collective 2 is all_reduce of 8 f32 by Sum on rank 0 (",
            "), and all_reduce of 9 f32 by Sum on rank 1 (",
        ],
        vec![
            "collective 2, all_reduce of 8 f32 by Sum on rank 0 (",
            "), was not called on rank 1, whose last is number 1",
        ],
        vec![
            "from rank 0 to rank 1, message 1 is 8 f32 on rank 0 (",
            "), and 9 f32 on rank 1 (",
        ],
    ];
    for (rank, process) in start_all("differ", torchrun, 2).into_iter().enumerate() {
        let text = result(process);
        let errors: Vec<&str> = text.split(';').collect();
        // The reason and the difference are separated by the same mark.
        let errors: Vec<String> = errors.chunks(2).map(|pair| pair.join(";")).collect();
        assert_eq!(errors.len(), differences.len(), "rank {rank}: {text}");
        for (error, parts) in errors.iter().zip(&differences) {
            for part in parts {
                assert!(error.contains(part), "rank {rank}: {error}\nlacks {part}");
            }
            let lines = error.matches("differing.rs:").count();
            assert!(lines >= 2, "rank {rank}: {error}");
        }
    }
}
