//! Every operation against plain Rust, under several schedules of the simulated device.

#![allow(unsafe_code, reason = "calls the stand-in")]

use millstream_collective::nccl::{NcclError, Reduce};
use millstream_sim::{Gpu, SimConfig};

use super::rank::world;
use crate::nccl::prelude::*;

const COUNT: usize = 5;

fn schedules() -> [Schedule; 4] {
    [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(3),
    ]
}

/// The elements of one rank before an operation.
fn input(rank: usize, count: usize) -> Vec<i64> {
    let first = 100 * (rank as i64 + 1);
    (first..).take(count).collect()
}

fn summed(size: usize, count: usize) -> Vec<i64> {
    let inputs: Vec<_> = (0..size).map(|rank| input(rank, count)).collect();
    (0..count)
        .map(|at| inputs.iter().map(|input| input[at]).sum())
        .collect()
}

/// Runs every operation once, in one stream, and checks the results.
fn every_operation(rank: &Rank) -> Result<(), NcclError> {
    let (me, size) = (rank.rank, rank.size);
    let (long, root) = (COUNT * size, size - 1);
    let empty = vec![0_i64; COUNT];
    let [reduced, gathered, scattered, told, collected] = [
        rank.upload(&input(me, COUNT)),
        rank.upload(&vec![0_i64; long]),
        rank.upload(&empty),
        rank.upload(&input(me, COUNT)),
        rank.upload(&empty),
    ];
    let short = rank.upload(&input(me, COUNT));
    let whole = rank.upload(&input(me, long));
    let op = Reduce::Sum;
    let enqueue = |kind, arrays, count| rank.enqueue(kind, arrays, count, DataType::I64);
    enqueue(OperationType::AllReduce(op), [reduced, reduced], COUNT)?;
    enqueue(OperationType::AllGather, [short, gathered], COUNT)?;
    enqueue(OperationType::ReduceScatter(op), [whole, scattered], COUNT)?;
    enqueue(OperationType::Broadcast { root }, [told, told], COUNT)?;
    enqueue(
        OperationType::Reduce { op, root },
        [short, collected],
        COUNT,
    )?;
    enqueue(OperationType::AllReduce(op), [reduced, reduced], 0)?;
    let take = |array, count| rank.take::<i64>(array, count);
    let all: Vec<i64> = (0..size).flat_map(|from| input(from, COUNT)).collect();
    assert_eq!(take(reduced, COUNT), summed(size, COUNT));
    assert_eq!(take(gathered, long), all);
    let part = &summed(size, long)[COUNT * me..][..COUNT];
    assert_eq!(take(scattered, COUNT), part);
    assert_eq!(take(told, COUNT), input(root, COUNT));
    let expected = if me == root {
        summed(size, COUNT)
    } else {
        empty
    };
    assert_eq!(take(collected, COUNT), expected);
    rank.free(short);
    rank.free(whole);
    Ok(())
}

#[test]
fn every_operation_gives_the_result_of_plain_rust() {
    for schedule in schedules() {
        for size in 1..=4 {
            world(size, &schedule, |rank| {
                every_operation(rank).expect("all calls are valid")
            });
        }
    }
}

#[test]
fn sums_of_floats_are_the_same_on_all_ranks_to_the_bit() {
    let sums = world(3, &Schedule::Timed, |rank| {
        let values = [[1.0e8_f32], [1.0], [-1.0e8]];
        let array = rank.upload(&values[rank.rank]);
        rank.sum(array, 1, DataType::F32);
        rank.take::<f32>(array, 1)
    });
    assert_eq!(sums, [[0.0], [0.0], [0.0]]);
}

#[test]
fn a_ring_of_sends_and_receives_in_one_group_does_not_deadlock() {
    for schedule in schedules() {
        world(3, &schedule, |rank| {
            let (me, size) = (rank.rank, rank.size);
            let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
            let own = rank.upload(&input(me, COUNT));
            let other = rank.upload(&[0_i64; COUNT]);
            let enqueue = |kind, array| {
                let issued = rank.enqueue(kind, [array, array], COUNT, DataType::I64);
                issued.expect("the call is valid");
            };
            rank.nccl.group_start().expect("groups nest");
            enqueue(OperationType::Recv { peer: previous }, other);
            enqueue(OperationType::Send { peer: next }, own);
            // SAFETY: the arrays are alive until the stream is idle.
            let _ = unsafe { rank.nccl.group_end() }.expect("the group is open");
            assert_eq!(rank.take::<i64>(other, COUNT), input(previous, COUNT));
            rank.free(own);
        });
    }
}

#[test]
fn one_thread_drives_the_devices_of_one_driver_in_groups() {
    for schedule in schedules() {
        let gpu = Gpu::new(SimConfig::new().devices(2).schedule(schedule));
        let loopback = Arc::new(Loopback::new(gpu.driver()));
        let id = loopback.unique_id().expect("the hub starts");
        let ranks = [0, 1].map(|rank: usize| {
            let (driver, loopback) = (gpu.driver(), Arc::clone(&loopback));
            Rank::begin((driver, rank as i32, loopback, &id, rank, 2))
        });
        ranks.iter().for_each(|rank| {
            rank.settled();
        });
        let arrays = [0, 1].map(|rank: usize| ranks[rank].upload(&input(rank, COUNT)));
        for _ in 0..2 {
            loopback.group_start().expect("groups nest");
            for (rank, array) in ranks.iter().zip(arrays) {
                rank.sum(array, COUNT, DataType::I64);
            }
            // SAFETY: the arrays and streams are alive.
            let _ = unsafe { loopback.group_end() }.expect("all calls are valid");
        }
        let doubled: Vec<i64> = summed(2, COUNT).iter().map(|sum| 2 * sum).collect();
        for (rank, array) in ranks.iter().zip(arrays) {
            assert_eq!(rank.take::<i64>(array, COUNT), doubled);
        }
        thread::scope(|scope| {
            for rank in ranks {
                scope.spawn(move || rank.leave());
            }
        });
        assert_eq!(gpu.live_objects(), []);
    }
}

#[test]
fn threads_drive_the_devices_of_one_driver() {
    let gpu = Gpu::new(SimConfig::new().devices(3));
    let loopback = Arc::new(Loopback::new(gpu.driver()));
    let id = loopback.unique_id().expect("the hub starts");
    thread::scope(|scope| {
        for rank in 0..3 {
            let (driver, loopback) = (gpu.driver(), Arc::clone(&loopback));
            scope.spawn(move || {
                let rank = Rank::join((driver, rank as i32, loopback, &id, rank, 3));
                every_operation(&rank).expect("all calls are valid");
                rank.leave();
            });
        }
    });
    assert_eq!(gpu.live_objects(), []);
}

#[test]
fn invalid_calls_are_errors_that_name_the_call() {
    world(1, &Schedule::Timed, |rank| {
        let array = rank.upload(&[1_i64; COUNT]);
        let refused = [
            (OperationType::Send { peer: 1 }, 1),
            (OperationType::Broadcast { root: 7 }, 1),
            (OperationType::Recv { peer: 0 }, usize::MAX),
        ];
        let refused =
            refused.map(|(kind, count)| rank.enqueue(kind, [array, array], count, DataType::I64));
        let texts = refused.map(|result| {
            let error = result.expect_err("the call is invalid");
            assert_eq!(error.code(), NcclCode::INVALID_ARGUMENT);
            error.to_string()
        });
        assert_eq!(
            texts,
            [
                "ncclSend failed: ncclInvalidArgument (4): rank 1 is not in a world of 1 ranks",
                "ncclBroadcast failed: ncclInvalidArgument (4): rank 7 is not in a world of 1 \
                 ranks",
                "ncclRecv failed: ncclInvalidArgument (4): the count is too large",
            ]
        );
        // SAFETY: no group is open.
        let error = unsafe { rank.nccl.group_end() }.expect_err("no group is open");
        assert_eq!(error.code(), NcclCode::INVALID_USAGE);
        rank.free(array);
    });
}
