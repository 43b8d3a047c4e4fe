//! NVIDIA's NCCL between two GPUs of this process, and the stand-in on the same GPUs. The
//! tests need two GPUs and NCCL: `cargo xtask gpu` runs them.

#![allow(unsafe_code, reason = "calls NCCL and the stand-in")]

use millstream_collective::nccl;
use millstream_driver::{Driver, cuda::Cuda};

use crate::nccl::prelude::*;

const COUNT: usize = 1000;

/// Returns the driver of at least two GPUs.
fn gpus() -> Arc<dyn Driver> {
    let driver: Arc<dyn Driver> = Cuda::load().expect("there is a GPU");
    assert!(driver.device_count().expect("the driver works") >= 2);
    driver
}

fn nccl() -> Arc<dyn Nccl> {
    nccl::load().expect("NCCL is installed")
}

/// Sums over two ranks, twice in groups; then gathers.
fn sum_and_gather(driver: &Arc<dyn Driver>, nccl: &Arc<dyn Nccl>, blocks: bool) {
    let id = nccl.unique_id().expect("an identifier");
    nccl.group_start().expect("groups nest");
    let ranks = [0, 1].map(|rank: usize| {
        let (driver, nccl) = (Arc::clone(driver), Arc::clone(nccl));
        Rank::open((driver, rank as i32, nccl, &id, rank, 2), blocks)
    });
    let end = || {
        // SAFETY: the arrays and streams are alive.
        let _ = unsafe { nccl.group_end() }.expect("all calls are valid");
        for rank in &ranks {
            assert_eq!(rank.settled(), CommState::Success, "{}", rank.last_error());
        }
    };
    end();
    let numbers = [1.0_f32, 2.0].map(|number| vec![number; COUNT]);
    let arrays = [0, 1].map(|rank| ranks[rank].upload(&numbers[rank]));
    let gathered = ranks
        .each_ref()
        .map(|rank| rank.upload(&[0.0_f32; 2 * COUNT]));
    for _ in 0..2 {
        nccl.group_start().expect("groups nest");
        for (rank, array) in ranks.iter().zip(arrays) {
            let called = rank.all_reduce(array, COUNT, DataType::F32);
            called.expect("the call is valid");
        }
        end();
    }
    nccl.group_start().expect("groups nest");
    for (rank, (from, to)) in ranks.iter().zip(arrays.into_iter().zip(gathered)) {
        let called = rank.enqueue(OperationType::AllGather, [from, to], COUNT, DataType::F32);
        called.expect("the call is valid");
    }
    end();
    for (rank, (from, to)) in ranks.iter().zip(arrays.into_iter().zip(gathered)) {
        assert_eq!(rank.take::<f32>(to, 2 * COUNT), [6.0; 2 * COUNT]);
        rank.free(from);
    }
    thread::scope(|scope| {
        for rank in ranks {
            scope.spawn(move || rank.leave());
        }
    });
}

#[test]
#[ignore = "needs two GPUs and NCCL"]
fn nccl_sums_and_gathers() {
    let (driver, nccl) = (gpus(), nccl());
    println!("{nccl:?}");
    sum_and_gather(&driver, &nccl, false);
    sum_and_gather(&driver, &nccl, true);
}

#[test]
#[ignore = "needs two GPUs"]
fn the_stand_in_for_nccl_sums_and_gathers_on_gpus() {
    let driver = gpus();
    let loopback: Arc<dyn Nccl> = Arc::new(Loopback::new(Arc::clone(&driver)));
    sum_and_gather(&driver, &loopback, false);
}

#[test]
#[ignore = "needs two GPUs and NCCL"]
fn a_communicator_without_its_peers_can_be_aborted() {
    let (driver, nccl) = (gpus(), nccl());
    let id = nccl.unique_id().expect("an identifier");
    let rank = Rank::begin((driver, 0, nccl, &id, 0, 2));
    thread::sleep(Duration::from_secs(1));
    assert_eq!(rank.state(), CommState::InProgress);
    rank.abort();
}
