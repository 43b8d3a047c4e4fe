//! Failures of communicators: one that hangs, wrong worlds, and calls that do not match.

use std::sync::Barrier;

use millstream_collective::nccl::loopback::Fault;

use super::rank::{gpu, world};
use crate::nccl::prelude::*;

/// Runs `program` as two ranks, each with a GPU of its own, its number and a barrier for both. The
/// first has this fault, if any, in its second operation.
fn two(schedule: Schedule, fault: Option<Fault>, program: impl Fn(Rank, usize, &Barrier) + Sync) {
    let barrier = Barrier::new(2);
    let gpus = [0, 1].map(|_| gpu(schedule));
    let loopbacks = [0, 1].map(|rank: usize| {
        let loopback = Loopback::new(gpus[rank].driver());
        let fault = fault.filter(|_| rank == 0);
        Arc::new(match fault {
            Some(fault) => loopback.fault(2, fault),
            None => loopback,
        })
    });
    let id = loopbacks[0].unique_id().expect("the hub starts");
    thread::scope(|scope| {
        for me in 0..2 {
            let (driver, loopback) = (gpus[me].driver(), Arc::clone(&loopbacks[me]));
            let (program, barrier) = (&program, &barrier);
            scope.spawn(move || {
                let rank = Rank::join((driver, 0, loopback, &id, me, 2));
                program(rank, me, barrier);
            });
        }
    });
    for gpu in &gpus {
        assert_eq!(gpu.live_objects(), [], "something is left");
    }
}

#[test]
fn a_hanging_operation_ends_when_it_is_aborted() {
    two(Schedule::Timed, Some(Fault::Hang), |rank, me, _| {
        let array = rank.upload(&[me as i32 + 1]);
        rank.sum(array, 1, DataType::I32);
        assert_eq!(rank.take::<i32>(array, 1), [3]);
        let array = rank.upload(&[1_i32]);
        rank.sum(array, 1, DataType::I32);
        thread::sleep(Duration::from_millis(50));
        if me == 0 {
            assert_eq!(rank.state(), CommState::Success);
        } else {
            // The other rank goes away without a goodbye.
            let state = rank.state_after(|state| state != CommState::Success);
            assert_eq!(state, CommState::Failed(NcclCode::REMOTE_ERROR));
            assert_eq!(rank.last_error(), "the connection to rank 0 is lost");
        }
        rank.abort_and_free(array);
    });
}

#[test]
fn ranks_with_different_counts_wait_until_they_are_aborted() {
    two(Schedule::Eager, None, |rank, me, barrier| {
        let array = rank.upload(&[1_i32, 2]);
        rank.sum(array, me + 1, DataType::I32);
        assert!(!rank.is_idle_after(Duration::from_millis(200)));
        assert_eq!(rank.state(), CommState::Success);
        barrier.wait();
        rank.abort_and_free(array);
    });
}

/// Returns the error text of the rank that joins last, after a first rank of a world of two.
fn refused(id_of: impl Fn(&Loopback) -> UniqueId, second: usize, size: usize) -> String {
    let gpus = [0, 1].map(|_| gpu(Schedule::Timed));
    let loopbacks = [0, 1].map(|rank: usize| Arc::new(Loopback::new(gpus[rank].driver())));
    let id = id_of(&loopbacks[0]);
    let driver = gpus[0].driver();
    let first = Rank::begin((driver, 0, loopbacks[0].clone(), &id, 0, 2));
    // The first connects first.
    thread::sleep(Duration::from_millis(100));
    assert_eq!(first.state(), CommState::InProgress);
    let driver = gpus[1].driver();
    let last = Rank::begin((driver, 0, loopbacks[1].clone(), &id, second, size));
    assert_eq!(last.settled(), CommState::Failed(NcclCode::INVALID_USAGE));
    let text = last.last_error();
    last.abort();
    first.abort();
    text
}

#[test]
fn a_rank_with_another_world_size_or_a_number_in_use_is_refused() {
    let id = |loopback: &Loopback| loopback.unique_id().expect("the hub starts");
    assert_eq!(
        refused(id, 1, 3),
        "rank 1 has a world of 3 ranks, but other ranks have one of 2"
    );
    assert_eq!(refused(id, 0, 2), "rank 0 is connected already");
}

#[test]
fn a_communicator_that_ends_well_is_no_failure_for_the_others() {
    world(2, &Schedule::Timed, |rank| {
        // One rank leaves much earlier than the other.
        if rank.rank == 1 {
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(rank.state(), CommState::Success);
    });
}
