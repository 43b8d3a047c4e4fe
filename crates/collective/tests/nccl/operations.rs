//! Ranks that share a driver, and calls that are refused. Results are compared by the tests of
//! groups over the stand-in: `several_processes`, and `communicators` in the crate.

#![allow(unsafe_code, reason = "calls the stand-in")]

use millstream_sim::{Gpu, SimConfig};

use super::rank::world;
use crate::nccl::prelude::*;

const COUNT: usize = 5;

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
                let array = rank.upload(&[rank.rank as i64 + 1; COUNT]);
                rank.sum(array, COUNT, DataType::I64);
                assert_eq!(rank.take::<i64>(array, COUNT), [6; COUNT]);
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
