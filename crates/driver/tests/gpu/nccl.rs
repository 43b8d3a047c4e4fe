//! NVIDIA's NCCL between two GPUs of one process, and the stand-in for it on the same GPUs.

#![allow(unsafe_code, reason = "calls NCCL and the stand-in")]

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::Failed;
use millstream_driver::{
    CurrentContext, DeviceOrdinal,
    nccl::{self, CommHandle, CommState, DataType, Loopback, Nccl, Progress, ReduceOp},
};

use crate::harness::{Gpu, Outcome};

/// The time within which NCCL must do what depends on this process only.
const LIMIT: Duration = Duration::from_secs(60);

const COUNT: usize = 1000;

/// Waits until no call of the communicator is in progress.
fn settled(nccl: &dyn Nccl, comm: CommHandle) -> Result<CommState, Failed> {
    let start = Instant::now();
    loop {
        // SAFETY: the communicator is alive.
        let state = unsafe { nccl.async_error(comm) }?;
        if state != CommState::InProgress {
            return Ok(state);
        }
        if start.elapsed() > LIMIT {
            return Err("the communicator stays in progress".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sums over two ranks, twice in one group; then gathers, and ends the communicators.
fn sum_and_gather(nccl: &dyn Nccl, first: &Gpu, blocks: bool) -> Outcome {
    let second = Gpu::open(DeviceOrdinal::from_raw(1))?;
    let gpus = [first, &second];
    let id = nccl.unique_id()?;
    nccl.group_start()?;
    let mut comms = Vec::new();
    for (rank, gpu) in gpus.iter().enumerate() {
        // SAFETY: the context lives as long as its device.
        let _current = unsafe { CurrentContext::enter(&*gpu.cuda, gpu.context) }?;
        // SAFETY: the context is current and outlives the communicator.
        comms.push(unsafe { nccl.comm_init_rank(gpu.context, 2, &id, rank, blocks) }?);
    }
    // SAFETY: the group has no operations.
    let _ = unsafe { nccl.group_end() }?;
    for comm in &comms {
        assert_eq!(settled(nccl, *comm)?, CommState::Success);
    }
    let mut arrays = Vec::new();
    for (rank, gpu) in gpus.iter().enumerate() {
        let (numbers, all) = (gpu.alloc(4 * COUNT)?, gpu.alloc(8 * COUNT)?);
        gpu.write(numbers, &vec![rank as f32 + 1.0; COUNT])?;
        arrays.push((numbers, all));
    }
    for _ in 0..2 {
        nccl.group_start()?;
        for ((gpu, (numbers, _)), comm) in gpus.iter().zip(&arrays).zip(&comms) {
            let (kind, op, stream) = (DataType::F32, ReduceOp::Sum, gpu.stream);
            // SAFETY: the array has this size, and only this stream uses it.
            let _ = unsafe { nccl.all_reduce(*numbers, *numbers, COUNT, kind, op, *comm, stream) }?;
        }
        // SAFETY: the arrays and streams are alive.
        let _: Progress = unsafe { nccl.group_end() }?;
        for comm in &comms {
            assert_eq!(settled(nccl, *comm)?, CommState::Success);
        }
    }
    nccl.group_start()?;
    for ((gpu, (numbers, all)), comm) in gpus.iter().zip(&arrays).zip(&comms) {
        let kind = DataType::F32;
        // SAFETY: the arrays have these sizes, and only this stream uses them.
        let _ = unsafe { nccl.all_gather(*numbers, *all, COUNT, kind, *comm, gpu.stream) }?;
    }
    // SAFETY: the arrays and streams are alive.
    let _ = unsafe { nccl.group_end() }?;
    for ((gpu, (numbers, all)), comm) in gpus.iter().zip(&arrays).zip(&comms) {
        assert_eq!(settled(nccl, *comm)?, CommState::Success);
        assert_eq!(gpu.read::<f32>(*all, 2 * COUNT)?, [6.0; 2 * COUNT]);
        gpu.free(*numbers)?;
        gpu.free(*all)?;
    }
    // A call of a blocking communicator outside of a group would wait for the other rank.
    nccl.group_start()?;
    for comm in &comms {
        // SAFETY: no operation follows.
        let _ = unsafe { nccl.finalize(*comm) }?;
    }
    // SAFETY: the arrays and streams are alive.
    let _ = unsafe { nccl.group_end() }?;
    for comm in &comms {
        assert_eq!(settled(nccl, *comm)?, CommState::Success);
    }
    for comm in comms {
        // SAFETY: the communicator is not used again.
        unsafe { nccl.destroy(comm) }?;
    }
    Ok(())
}

pub(crate) fn nccl_sums_and_gathers(first: &Gpu) -> Outcome {
    let nccl = nccl::load()?;
    println!("{nccl:?}");
    sum_and_gather(&*nccl, first, false)?;
    sum_and_gather(&*nccl, first, true)
}

pub(crate) fn the_stand_in_for_nccl_sums_and_gathers(first: &Gpu) -> Outcome {
    let cuda = Arc::clone(&first.cuda);
    sum_and_gather(&Loopback::new(cuda), first, false)
}

pub(crate) fn a_communicator_without_its_peers_can_be_aborted(gpu: &Gpu) -> Outcome {
    let nccl = nccl::load()?;
    let id = nccl.unique_id()?;
    // SAFETY: the context lives as long as its device.
    let _current = unsafe { CurrentContext::enter(&*gpu.cuda, gpu.context) }?;
    // SAFETY: the context is current and outlives the communicator.
    let comm = unsafe { nccl.comm_init_rank(gpu.context, 2, &id, 0, false) }?;
    thread::sleep(Duration::from_secs(1));
    // SAFETY: the communicator is alive.
    assert_eq!(unsafe { nccl.async_error(comm) }?, CommState::InProgress);
    let start = Instant::now();
    // SAFETY: the communicator is not used again.
    unsafe { nccl.abort(comm) }?;
    assert!(start.elapsed() < LIMIT);
    Ok(())
}
