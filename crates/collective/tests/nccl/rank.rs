//! One rank of a world: a simulated device, a stream, arrays, and a communicator.

#![allow(unsafe_code, reason = "calls the driver and the stand-in")]

use std::time::Instant;

use bytemuck::Pod;
use millstream_collective::nccl::{CommHandle, NcclError, Operation, Reduce};
use millstream_driver::{
    ContextHandle, CurrentContext, DeviceOrdinal, DevicePtr, Driver, StreamHandle,
};
use millstream_sim::{Gpu, SimConfig};

use crate::nccl::prelude::*;

/// The time within which something that does not depend on other ranks must happen.
const SOON: Duration = Duration::from_secs(20);

/// A driver with the ordinal of a device, NCCL, the identifier of a world, a rank and their number.
pub(crate) type Place<'a> = (
    Arc<dyn Driver>,
    i32,
    Arc<dyn Nccl>,
    &'a UniqueId,
    usize,
    usize,
);

/// A device with one stream, in use by one rank.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) ordinal: DeviceOrdinal,
    pub(crate) context: ContextHandle,
    pub(crate) stream: StreamHandle,
    pub(crate) nccl: Arc<dyn Nccl>,
    pub(crate) rank: usize,
    pub(crate) comm: CommHandle,
}

pub(crate) fn gpu(schedule: Schedule) -> Gpu {
    Gpu::new(SimConfig::new().schedule(schedule))
}

/// Runs `program` as every rank of a world, each with its own simulated GPU and thread, and checks
/// afterwards that nothing is left on the GPUs.
pub(crate) fn world<R: Send>(
    size: usize,
    schedule: &Schedule,
    program: impl Fn(&Rank) -> R + Sync,
) -> Vec<R> {
    let gpus: Vec<Gpu> = (0..size).map(|_| gpu(*schedule)).collect();
    let loopbacks: Vec<_> = gpus
        .iter()
        .map(|gpu| Arc::new(Loopback::new(gpu.driver())))
        .collect();
    let id = loopbacks[0].unique_id().expect("the hub starts");
    let results = thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (driver, loopback) = (gpus[rank].driver(), Arc::clone(&loopbacks[rank]));
                let program = &program;
                scope.spawn(move || {
                    let rank = Rank::join((driver, 0, loopback, &id, rank, size));
                    let result = program(&rank);
                    rank.leave();
                    result
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank panicked"))
            .collect()
    });
    for gpu in &gpus {
        assert_eq!(gpu.live_objects(), [], "something is left");
        assert_eq!(gpu.reports(), [], "the device reports mistakes");
    }
    results
}

impl Rank {
    /// Opens the device and joins the world.
    pub(crate) fn join(place: Place<'_>) -> Self {
        let joined = Self::begin(place);
        let state = joined.settled();
        assert_eq!(state, CommState::Success, "{}", joined.last_error());
        joined
    }

    /// Opens the device and begins to join the world.
    pub(crate) fn begin(place: Place<'_>) -> Self {
        Self::open(place, false)
    }

    /// Opens the device and begins to join the world, with a communicator that blocks or does not.
    pub(crate) fn open((driver, ordinal, nccl, id, rank, size): Place<'_>, blocks: bool) -> Self {
        let ordinal = DeviceOrdinal::from_raw(ordinal);
        let context = driver
            .primary_context_retain(ordinal)
            .expect("the device opens");
        // SAFETY: the context is alive.
        let stream = unsafe { driver.stream_create(context, true, 0) }.expect("a stream");
        // SAFETY: the context is alive.
        let current = unsafe { CurrentContext::enter(&*driver, context) };
        // SAFETY: the context outlives the communicator, and a GPU's is current.
        let comm = unsafe { nccl.comm_init_rank(context, size, id, rank, blocks) };
        drop(current);
        Self {
            driver,
            ordinal,
            context,
            stream,
            nccl,
            rank,
            comm: comm.expect("the arguments are valid"),
        }
    }

    /// Returns the state once no call is in progress.
    pub(crate) fn settled(&self) -> CommState {
        self.state_after(|state| state != CommState::InProgress)
    }

    pub(crate) fn state_after(&self, holds: impl Fn(CommState) -> bool) -> CommState {
        let deadline = Instant::now() + SOON;
        loop {
            let state = self.state();
            if holds(state) {
                return state;
            }
            assert!(
                Instant::now() < deadline,
                "rank {} stays {state:?}",
                self.rank
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn state(&self) -> CommState {
        // SAFETY: the communicator is alive.
        unsafe { self.nccl.async_error(self.comm) }.expect("the communicator is known")
    }

    pub(crate) fn last_error(&self) -> String {
        // SAFETY: the communicator is alive.
        unsafe { self.nccl.last_error(self.comm) }
    }

    /// Ends the use of the communicator with the other ranks, and closes the device.
    pub(crate) fn leave(self) {
        // SAFETY: the communicator is not used again.
        unsafe { self.nccl.destroy(self.comm) }.expect("the communicator is alive");
        self.close();
    }

    /// Aborts the communicator, and closes the device.
    pub(crate) fn abort(self) {
        self.end_by_abort();
        self.close();
    }

    /// Aborts the communicator, waits for the stream, frees an array and closes the device.
    pub(crate) fn abort_and_free(self, array: DevicePtr) {
        self.end_by_abort();
        self.synchronize();
        self.free(array);
        self.close();
    }

    fn end_by_abort(&self) {
        // SAFETY: the communicator is not used again.
        unsafe { self.nccl.abort(self.comm) }.expect("the communicator is alive");
    }

    /// Returns whether the stream becomes idle within this real time.
    pub(crate) fn is_idle_after(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            // SAFETY: the stream is alive.
            let done = unsafe { self.driver.stream_query(self.context, self.stream) };
            if done.expect("no fault").is_complete() {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            self.driver.pause(Duration::from_millis(1));
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn close(self) {
        // SAFETY: the stream is not used again.
        unsafe { self.driver.stream_destroy(self.context, self.stream) }.expect("it is idle");
        // SAFETY: every handle of the context has been destroyed.
        unsafe { self.driver.primary_context_release(self.ordinal) }.expect("it is retained");
    }

    pub(crate) fn synchronize(&self) {
        // SAFETY: the stream is alive.
        unsafe { self.driver.stream_synchronize(self.context, self.stream) }.expect("no fault");
    }

    pub(crate) fn upload<T: Pod>(&self, values: &[T]) -> DevicePtr {
        let bytes = size_of_val(values);
        // SAFETY: the context is alive.
        let array = unsafe { self.driver.mem_alloc(self.context, bytes) }.expect("memory");
        let source = values.as_ptr().cast();
        // SAFETY: the new array has room for the values; the copy has read them when it returns, or
        // they are in staging memory.
        unsafe {
            self.driver
                .copy_host_to_device(self.context, array, source, bytes)
        }
        .expect("both ranges are valid");
        // Waits, because non-blocking streams do not wait for the legacy default stream.
        // SAFETY: the context is alive.
        unsafe { self.driver.context_synchronize(self.context) }.expect("no fault");
        array
    }

    /// Waits for the stream, returns the elements of an array and frees it.
    pub(crate) fn take<T: Pod>(&self, array: DevicePtr, count: usize) -> Vec<T> {
        self.synchronize();
        let mut values = vec![T::zeroed(); count];
        let (target, bytes) = (values.as_mut_ptr().cast(), count * size_of::<T>());
        // SAFETY: the array has this size, and the stream is idle.
        unsafe {
            self.driver
                .copy_device_to_host(self.context, target, array, bytes)
        }
        .expect("both ranges are valid");
        self.free(array);
        values
    }

    pub(crate) fn free(&self, array: DevicePtr) {
        // SAFETY: the stream is idle, and the array is not used again.
        unsafe { self.driver.mem_free(self.context, array) }.expect("the array is alive");
    }

    /// Enqueues a sum over all ranks, in place.
    pub(crate) fn all_reduce(
        &self,
        array: DevicePtr,
        count: usize,
        data_type: DataType,
    ) -> Result<(), NcclError> {
        let kind = OperationType::AllReduce(Reduce::Sum);
        self.enqueue(kind, [array, array], count, data_type)
    }

    /// Enqueues a sum over all ranks, in place, which must be accepted.
    pub(crate) fn sum(&self, array: DevicePtr, count: usize, data_type: DataType) {
        let called = self.all_reduce(array, count, data_type);
        called.expect("the call is valid");
    }

    /// Enqueues an operation on arrays that have the sizes that it accesses and that only this
    /// rank's stream uses.
    pub(crate) fn enqueue(
        &self,
        kind: OperationType,
        [send, recv]: [DevicePtr; 2],
        count: usize,
        data_type: DataType,
    ) -> Result<(), NcclError> {
        let operation = Operation {
            kind,
            send,
            recv,
            count,
            data_type,
        };
        // SAFETY: the arrays have these sizes, and only this stream uses them.
        let issued = unsafe { self.nccl.enqueue(&operation, self.comm, self.stream) };
        issued.map(drop)
    }
}
