//! A stand-in for NCCL in tests: collective operations over TCP, on one machine, for any driver.
//!
//! [`Loopback`] implements [`Nccl`] without NVIDIA's library and without a GPU. The ranks are
//! processes, or threads of one process, of one machine. Each operation copies its input to
//! page-locked memory, exchanges it with the other ranks through a router in the process that
//! created the [`UniqueId`], and copies the result to the device. Reductions are made in order of
//! ranks, so results are the same on every run.
//!
//! # Differences from NCCL
//!
//! - Operations are enqueued when a call returns: only the creation and the end of a communicator
//!   are in progress for a while.
//! - A send does not wait for its receive.
//! - Ranks with different world sizes, or the same rank twice, are an error.
//!
//! As with NCCL, ranks that make different calls, or name different counts, wait for each other
//! until they are aborted. If a rank's process ends, the communicators of the other ranks fail, and
//! their operations end when they are aborted.
//!
//! # Host functions
//!
//! The exchange happens in a host function, which makes the stream wait. A driver runs the host
//! functions of all its devices on one thread, where ranks on two devices of one driver would wait
//! for each other for ever. So if a process has communicators on several devices of one driver,
//! each operation instead waits on the calling thread until the stream reaches it, and exchanges
//! the data there, before the call returns. A call then blocks until the other ranks have made
//! theirs. One thread that drives several ranks must issue their operations in one group, as with
//! NCCL.

#![allow(unsafe_code, reason = "enqueues copies and host functions")]

mod frame;
mod hub;
mod link;
mod operation;
mod reduce;
mod staging;

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt,
    net::SocketAddr,
    slice,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    CommHandle, CommState, DataType, Nccl, NcclCode, NcclError, Progress, ReduceOp, Result,
    UniqueId,
};
use crate::{ContextHandle, DevicePtr, Driver, DriverError, StreamHandle};
use hub::Hub;
use link::{Aborted, Link};
use operation::{Operation, OperationType, Sequence};
use staging::{Blocks, Memory};

/// The first bytes of an identifier.
const ID_MAGIC: &[u8; 8] = b"MSLOOP01";

/// A failure to inject into an operation of a [`Loopback`] communicator.
///
/// ```
/// use millstream_driver::nccl::loopback::Fault;
/// assert_ne!(Fault::Hang, Fault::Fail);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The call returns an error, and nothing is enqueued.
    Refuse,
    /// The communicator fails when the stream reaches the operation, which then does not end until
    /// it is aborted.
    Fail,
    /// The operation does not end until it is aborted, and the communicator does not fail.
    Hang,
    /// The operation begins after this time.
    Delay(Duration),
}

/// Collective operations over TCP on one machine: a stand-in for NCCL in tests.
///
/// Dropping it aborts its communicators; [`Nccl::destroy`] and [`Nccl::abort`] also free the
/// page-locked memory that they have used.
///
/// ```
/// use std::thread;
/// use millstream_driver::{
///     DeviceOrdinal, Driver,
///     nccl::{CommState, DataType, Loopback, Nccl, NcclError, ReduceOp, UniqueId},
/// };
/// use millstream_sim::{Gpu, SimConfig};
///
/// /// Sums `rank + 1` over all ranks.
/// fn sum(loopback: &Loopback, driver: &dyn Driver, rank: usize, id: &UniqueId) -> u32 {
///     let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
///     // SAFETY: all handles are alive until they are destroyed below, and the copies and the
///     // operation are on one stream or wait for it.
///     unsafe {
///         let stream = driver.stream_create(context, true, 0).unwrap();
///         let array = driver.mem_alloc(context, 4).unwrap();
///         let mut number = rank as u32 + 1;
///         let host = std::ptr::from_mut(&mut number).cast();
///         driver.copy_host_to_device(context, array, host, 4).unwrap();
///         let comm = loopback.comm_init_rank(context, 2, id, rank).unwrap();
///         while loopback.async_error(comm) == Ok(CommState::InProgress) {
///             thread::yield_now();
///         }
///         let (kind, op) = (DataType::U32, ReduceOp::Sum);
///         let _ = loopback.all_reduce(array, array, 1, kind, op, comm, stream).unwrap();
///         driver.stream_synchronize(context, stream).unwrap();
///         driver.copy_device_to_host(context, host, array, 4).unwrap();
///         loopback.destroy(comm).unwrap();
///         driver.mem_free(context, array).unwrap();
///         driver.stream_destroy(context, stream).unwrap();
///         number
///     }
/// }
///
/// // Each rank has its own simulated GPU, as a process would.
/// let drivers = [0, 1].map(|_| Gpu::new(SimConfig::new()).driver());
/// let loopbacks = [0, 1].map(|rank: usize| Loopback::new(drivers[rank].clone()));
/// let id = loopbacks[0].unique_id()?;
/// let sums = thread::scope(|scope| {
///     let ranks = [0, 1].map(|rank: usize| {
///         let (loopback, driver) = (&loopbacks[rank], &*drivers[rank]);
///         scope.spawn(move || sum(loopback, driver, rank, &id))
///     });
///     ranks.map(|rank| rank.join().unwrap())
/// });
/// assert_eq!(sums, [3, 3]);
/// # Ok::<(), NcclError>(())
/// ```
pub struct Loopback {
    driver: Arc<dyn Driver>,
    /// Distinguishes the groups of several instances on one thread.
    instance: usize,
    faults: Vec<(u64, Fault)>,
    comms: Mutex<HashMap<CommHandle, Arc<Comm>>>,
    hubs: Mutex<Vec<Hub>>,
    blocks: Mutex<HashMap<ContextHandle, Blocks>>,
}

/// A communicator.
struct Comm {
    handle: CommHandle,
    context: ContextHandle,
    rank: u32,
    size: usize,
    link: Arc<Link>,
    counters: Mutex<Counters>,
}

/// The numbers of operations that a communicator has issued.
#[derive(Default)]
struct Counters {
    all: u64,
    collectives: u64,
    sends: HashMap<u32, u64>,
    receives: HashMap<u32, u64>,
}

/// A group that a thread has begun.
#[derive(Default)]
struct Group {
    depth: usize,
    operations: Vec<(Arc<Comm>, Operation)>,
}

thread_local! {
    /// The groups that are open on this thread, by instance.
    static GROUPS: RefCell<HashMap<usize, Group>> = RefCell::default();
}

/// The devices of all communicators of the process: handle space of the driver, context, handle.
static DEVICES: Mutex<Vec<(usize, ContextHandle, CommHandle)>> = Mutex::new(Vec::new());

/// Issues numbers of communicators and instances.
static NUMBERS: AtomicUsize = AtomicUsize::new(1);

impl Loopback {
    /// Creates a stand-in for the devices of this driver.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            instance: NUMBERS.fetch_add(1, Ordering::Relaxed),
            faults: Vec::new(),
            comms: Mutex::default(),
            hubs: Mutex::default(),
            blocks: Mutex::default(),
        }
    }

    /// Injects a fault into operation `number`, counted from 1 on each communicator. One operation
    /// may have several faults.
    #[must_use]
    pub fn fault(mut self, number: u64, fault: Fault) -> Self {
        self.faults.push((number, fault));
        self
    }

    fn comm(&self, call: &'static str, handle: CommHandle) -> Result<Arc<Comm>> {
        let comm = lock(&self.comms).get(&handle).cloned();
        comm.ok_or_else(|| invalid(call, format!("{handle:?} is not a communicator")))
    }

    /// Removes a communicator from the tables.
    fn remove(&self, call: &'static str, handle: CommHandle) -> Result<Arc<Comm>> {
        let comm = self.comm(call, handle)?;
        lock(&self.comms).remove(&handle);
        lock(&DEVICES).retain(|(.., other)| *other != handle);
        Ok(comm)
    }

    /// Frees the page-locked memory of a context without communicators.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn free_blocks(&self, context: ContextHandle) {
        let comms = lock(&self.comms);
        if comms.values().any(|comm| comm.context == context) {
            return;
        }
        let blocks = lock(&self.blocks).remove(&context);
        drop(comms);
        if let Some(blocks) = blocks {
            // SAFETY: the caller vouches for the context, which is the one of these blocks.
            unsafe { blocks.free(&*self.driver, context) };
        }
    }

    /// Checks an operation, and issues it or adds it to the thread's group.
    ///
    /// # Safety
    ///
    /// The contract of the operation's method.
    unsafe fn submit(&self, handle: CommHandle, operation: Operation) -> Result {
        let comm = self.comm(operation.call, handle)?;
        comm.check(&operation)?;
        let grouped = GROUPS.with_borrow_mut(|groups| {
            let group = groups.get_mut(&self.instance)?;
            group.operations.push((Arc::clone(&comm), operation));
            Some(())
        });
        if grouped.is_none() {
            // SAFETY: the caller vouches for the operation.
            unsafe { self.issue(&comm, &[operation]) }?;
        }
        Ok(Progress::Done)
    }

    /// Issues operations of one communicator, in this order.
    ///
    /// # Safety
    ///
    /// The contracts of the operations' methods.
    unsafe fn issue(&self, comm: &Arc<Comm>, operations: &[Operation]) -> Result<()> {
        for operation in operations {
            let failed = |error: DriverError| {
                let code = NcclCode::UNHANDLED_CUDA_ERROR;
                NcclError::new(operation.call, code, error.to_string())
            };
            let (number, sequence) = lock(&comm.counters).next(operation.kind);
            let faults: Vec<Fault> = self
                .faults
                .iter()
                .filter(|(at, _)| *at == number)
                .map(|(_, fault)| *fault)
                .collect();
            if faults.contains(&Fault::Refuse) {
                let text = format!("injected failure of operation {number}");
                return Err(NcclError::new(
                    operation.call,
                    NcclCode::INTERNAL_ERROR,
                    text,
                ));
            }
            // SAFETY: the caller vouches for the operation.
            unsafe { self.enqueue(comm, operation, sequence, faults) }.map_err(failed)?;
        }
        Ok(())
    }

    /// Enqueues the copies and the exchange of one operation.
    ///
    /// # Safety
    ///
    /// The contract of the operation's method.
    unsafe fn enqueue(
        &self,
        comm: &Arc<Comm>,
        operation: &Operation,
        sequence: Sequence,
        faults: Vec<Fault>,
    ) -> std::result::Result<(), DriverError> {
        let read = operation.read_bytes(comm.rank, comm.size).unwrap_or(0);
        let written = operation.written_bytes(comm.rank, comm.size).unwrap_or(0);
        let bytes = read.max(written);
        if bytes == 0 {
            return Ok(());
        }
        let (driver, context, stream) = (&*self.driver, comm.context, operation.stream);
        let mut blocks = lock(&self.blocks);
        // SAFETY: a communicator's context is alive; blocks are kept by context.
        let block = unsafe {
            blocks
                .entry(context)
                .or_default()
                .take(driver, context, bytes)
        }?;
        drop(blocks);
        // SAFETY: the caller vouches for the arrays and the stream; the block is not used by any
        // other operation, until its event says that this one is complete.
        let enqueued =
            unsafe { self.enqueue_parts(comm, operation, sequence, faults, block.memory) };
        let mut blocks = lock(&self.blocks);
        let blocks = blocks.entry(context).or_default();
        // SAFETY: the block was taken for this context; the caller vouches for the stream.
        let put = unsafe { blocks.put(driver, context, block, stream) };
        enqueued.and(put)
    }

    /// Enqueues the copy to the host, the exchange, and the copy to the device.
    ///
    /// # Safety
    ///
    /// The contract of the operation's method. No other operation uses the memory until these are
    /// complete.
    unsafe fn enqueue_parts(
        &self,
        comm: &Arc<Comm>,
        operation: &Operation,
        sequence: Sequence,
        faults: Vec<Fault>,
        memory: Memory,
    ) -> std::result::Result<(), DriverError> {
        let (driver, context, stream) = (&*self.driver, comm.context, operation.stream);
        let read = operation.read_bytes(comm.rank, comm.size).unwrap_or(0);
        let written = operation.written_bytes(comm.rank, comm.size).unwrap_or(0);
        let host = memory.pointer.as_ptr();
        if read > 0 {
            // SAFETY: the caller vouches for the array, its order and the memory.
            unsafe {
                driver.copy_device_to_host_async(context, host, operation.send, read, stream)
            }?;
        }
        let exchange = Exchange {
            link: Arc::clone(&comm.link),
            rank: comm.rank,
            size: comm.size,
            operation: *operation,
            sequence,
            faults,
            memory,
            read,
        };
        comm.link.begin();
        if comm.shares_driver(self.driver.handle_space()) {
            // SAFETY: the caller vouches for the stream.
            let reached = unsafe { driver.stream_synchronize(context, stream) };
            if reached.is_ok() {
                exchange.run();
            } else {
                comm.link.end();
            }
            reached?;
        } else {
            let function = Box::new(move || exchange.run());
            // SAFETY: the caller vouches for the stream; the function makes no driver call.
            let enqueued = unsafe { driver.launch_host_function(context, stream, function) };
            enqueued.inspect_err(|_| comm.link.end())?;
        }
        if written > 0 {
            // SAFETY: the caller vouches for the array, its order and the memory, which the
            // exchange has written when the copy runs.
            unsafe {
                driver.copy_host_to_device_async(context, operation.recv, host, written, stream)
            }?;
        }
        Ok(())
    }
}

/// The exchange of one operation, which a host function or the calling thread runs.
struct Exchange {
    link: Arc<Link>,
    rank: u32,
    size: usize,
    operation: Operation,
    sequence: Sequence,
    faults: Vec<Fault>,
    memory: Memory,
    /// The number of bytes that the operation reads.
    read: usize,
}

impl Exchange {
    /// Exchanges the data. If the communicator is aborted meanwhile, the result is undefined.
    fn run(self) {
        if let Ok(output) = self.output() {
            let memory = self.memory;
            // SAFETY: the memory has room for what the operation writes, and belongs to this
            // operation, whose copy of the input is complete.
            let target =
                unsafe { slice::from_raw_parts_mut(memory.pointer.as_ptr(), output.len()) };
            target.copy_from_slice(&output);
        }
        self.link.end();
    }

    fn output(&self) -> std::result::Result<Vec<u8>, Aborted> {
        for fault in &self.faults {
            match fault {
                // Refused calls have no exchange.
                Fault::Refuse => {}
                Fault::Fail => {
                    let text = format!("injected failure of {}", self.operation.call);
                    self.link.fail(NcclCode::SYSTEM_ERROR, text);
                    self.link.sleep(None)?;
                }
                Fault::Hang => self.link.sleep(None)?,
                Fault::Delay(time) => self.link.sleep(Some(*time))?,
            }
        }
        // SAFETY: the copy from the device has written these bytes and is complete, and nothing
        // else accesses the memory meanwhile.
        let input = unsafe { slice::from_raw_parts(self.memory.pointer.as_ptr(), self.read) };
        let Self {
            link,
            rank,
            size,
            sequence,
            ..
        } = self;
        self.operation
            .exchange(link, *rank, *size, *sequence, input)
    }
}

impl Comm {
    /// Checks that the communicator is ready and the operation's arguments are valid.
    fn check(&self, operation: &Operation) -> Result<()> {
        let call = operation.call;
        match self.link.comm_state() {
            CommState::Success => {}
            CommState::InProgress => {
                return Err(invalid(call, "the communicator is not ready".to_owned()));
            }
            CommState::Failed(code) => {
                return Err(NcclError::new(call, code, self.link.failure_text()));
            }
        }
        let named = operation.kind.named_rank();
        if let Some(named) = named.filter(|rank| *rank as usize >= self.size) {
            let text = format!("rank {named} is not in a world of {} ranks", self.size);
            return Err(invalid(call, text));
        }
        let sizes = [
            operation.read_bytes(self.rank, self.size),
            operation.written_bytes(self.rank, self.size),
        ];
        if sizes.contains(&None) {
            return Err(invalid(call, "the count is too large".to_owned()));
        }
        Ok(())
    }

    /// Returns whether the process has communicators on other devices of the same driver.
    fn shares_driver(&self, handle_space: usize) -> bool {
        let devices = lock(&DEVICES);
        devices
            .iter()
            .any(|(space, context, _)| *space == handle_space && *context != self.context)
    }
}

impl Counters {
    /// Counts an operation, and returns its number and its position among those that it must match.
    fn next(&mut self, kind: OperationType) -> (u64, Sequence) {
        self.all += 1;
        let counter = match kind {
            OperationType::Send { peer } => self.sends.entry(peer).or_default(),
            OperationType::Recv { peer } => self.receives.entry(peer).or_default(),
            _ => &mut self.collectives,
        };
        *counter += 1;
        (self.all, *counter)
    }
}

fn invalid(call: &'static str, text: String) -> NcclError {
    NcclError::new(call, NcclCode::INVALID_ARGUMENT, text)
}

/// Converts a rank. Ranks beyond the type are as invalid as the largest of it.
fn rank_number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the identifier for a hub at this address: magic, secret, address.
fn encode(secret: u64, address: SocketAddr) -> UniqueId {
    let mut bytes = [0; UniqueId::BYTES];
    bytes[..8].copy_from_slice(ID_MAGIC);
    bytes[8..16].copy_from_slice(&secret.to_le_bytes());
    let text = address.to_string();
    bytes[16..16 + text.len()].copy_from_slice(text.as_bytes());
    UniqueId::from_bytes(bytes)
}

/// Returns the secret and the address in an identifier, or `None` if a [`Loopback`] did not create
/// it.
fn decode(id: &UniqueId) -> Option<(u64, SocketAddr)> {
    let (secret, text) = id.as_bytes().strip_prefix(ID_MAGIC)?.split_at_checked(8)?;
    let text = std::str::from_utf8(text).ok()?.trim_end_matches('\0');
    Some((
        u64::from_le_bytes(secret.try_into().ok()?),
        text.parse().ok()?,
    ))
}

/// Returns a number that other hubs of this machine do not have.
fn new_secret(number: usize) -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let time = since_1970.as_nanos() as u64;
    time ^ u64::from(std::process::id()).rotate_left(40) ^ (number as u64).rotate_left(20)
}

impl Nccl for Loopback {
    fn version(&self) -> i32 {
        super::OLDEST_NCCL_VERSION
    }

    fn unique_id(&self) -> Result<UniqueId> {
        let secret = new_secret(NUMBERS.fetch_add(1, Ordering::Relaxed));
        let hub = Hub::start(secret).map_err(|error| {
            NcclError::new("ncclGetUniqueId", NcclCode::SYSTEM_ERROR, error.to_string())
        })?;
        let id = encode(secret, hub.address());
        lock(&self.hubs).push(hub);
        Ok(id)
    }

    unsafe fn comm_init_rank(
        &self,
        context: ContextHandle,
        world_size: usize,
        id: &UniqueId,
        rank: usize,
    ) -> Result<CommHandle> {
        const CALL: &str = "ncclCommInitRankConfig";
        let (secret, hub) =
            decode(id).ok_or_else(|| invalid(CALL, format!("{id:?} is not a loopback's")))?;
        if rank >= world_size || u32::try_from(world_size).is_err() {
            let text = format!("rank {rank} is not in a world of {world_size} ranks");
            return Err(invalid(CALL, text));
        }
        let rank = rank_number(rank);
        let handle = CommHandle::from_raw(NUMBERS.fetch_add(1, Ordering::Relaxed));
        // Registered before any rank can be ready, so that every operation sees all devices.
        lock(&DEVICES).push((self.driver.handle_space(), context, handle));
        let link = Link::connect(hub, secret, rank, world_size).map_err(|error| {
            lock(&DEVICES).retain(|(.., other)| *other != handle);
            NcclError::new(CALL, NcclCode::SYSTEM_ERROR, error.to_string())
        })?;
        let comm = Comm {
            handle,
            context,
            rank,
            size: world_size,
            link,
            counters: Mutex::default(),
        };
        lock(&self.comms).insert(handle, Arc::new(comm));
        Ok(handle)
    }

    unsafe fn async_error(&self, comm: CommHandle) -> Result<CommState> {
        let comm = self.comm("ncclCommGetAsyncError", comm)?;
        Ok(comm.link.comm_state())
    }

    unsafe fn finalize(&self, comm: CommHandle) -> Result {
        self.comm("ncclCommFinalize", comm)?.link.finalize();
        Ok(Progress::InProgress)
    }

    unsafe fn destroy(&self, comm: CommHandle) -> Result<()> {
        let comm = self.comm("ncclCommDestroy", comm)?;
        comm.link.finalize();
        comm.link.wait_finished();
        // Ends the operations of a communicator that failed.
        comm.link.abort();
        self.remove("ncclCommDestroy", comm.handle)?;
        // SAFETY: the context is alive until this call returns.
        unsafe { self.free_blocks(comm.context) };
        Ok(())
    }

    unsafe fn abort(&self, comm: CommHandle) -> Result<()> {
        let comm = self.comm("ncclCommAbort", comm)?;
        comm.link.abort();
        self.remove("ncclCommAbort", comm.handle)?;
        // SAFETY: the context is alive until this call returns.
        unsafe { self.free_blocks(comm.context) };
        Ok(())
    }

    unsafe fn last_error(&self, comm: CommHandle) -> String {
        let comm = self.comm("ncclGetLastError", comm);
        comm.map_or_else(|_| String::new(), |comm| comm.link.failure_text())
    }

    fn group_start(&self) -> Result<()> {
        GROUPS.with_borrow_mut(|groups| groups.entry(self.instance).or_default().depth += 1);
        Ok(())
    }

    unsafe fn group_end(&self) -> Result {
        const CALL: &str = "ncclGroupEnd";
        let ended = GROUPS.with_borrow_mut(|groups| {
            let group = groups.get_mut(&self.instance)?;
            group.depth -= 1;
            Some(if group.depth == 0 {
                groups.remove(&self.instance)
            } else {
                None
            })
        });
        let Some(outermost) = ended else {
            let text = "the thread has not begun a group";
            return Err(NcclError::new(CALL, NcclCode::INVALID_USAGE, text));
        };
        let mut by_comm: Vec<(Arc<Comm>, Vec<Operation>)> = Vec::new();
        for (comm, operation) in outermost.unwrap_or_default().operations {
            match by_comm
                .iter_mut()
                .find(|(known, _)| known.handle == comm.handle)
            {
                Some((_, operations)) => operations.push(operation),
                None => by_comm.push((comm, vec![operation])),
            }
        }
        for (_, operations) in &mut by_comm {
            operations.sort_by_key(|operation| operation.kind.place_in_group());
        }
        // Calls that wait for each other, because they exchange data before they return, need a
        // thread each.
        let mut results = thread::scope(|scope| {
            let (first, others) = match by_comm.split_first() {
                Some(parts) => parts,
                None => return Vec::new(),
            };
            // SAFETY: the caller vouches for the operations.
            let issue = |(comm, operations): &(Arc<Comm>, Vec<Operation>)| unsafe {
                self.issue(comm, operations)
            };
            let others: Vec<_> = others
                .iter()
                .map(|part| scope.spawn(move || issue(part)))
                .collect();
            let mut results = vec![issue(first)];
            results.extend(others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    let text = "a thread of the group has panicked";
                    Err(NcclError::new(CALL, NcclCode::INTERNAL_ERROR, text))
                })
            }));
            results
        });
        results
            .drain(..)
            .collect::<Result<()>>()
            .map(|()| Progress::Done)
    }

    unsafe fn all_reduce(
        &self,
        send: DevicePtr,
        recv: DevicePtr,
        count: usize,
        data_type: DataType,
        op: ReduceOp,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let kind = OperationType::AllReduce(op);
        let arrays = (send, recv);
        let operation = operation("ncclAllReduce", kind, arrays, count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }

    unsafe fn reduce_scatter(
        &self,
        send: DevicePtr,
        recv: DevicePtr,
        recv_count: usize,
        data_type: DataType,
        op: ReduceOp,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let kind = OperationType::ReduceScatter(op);
        let (call, arrays) = ("ncclReduceScatter", (send, recv));
        let operation = operation(call, kind, arrays, recv_count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }

    unsafe fn all_gather(
        &self,
        send: DevicePtr,
        recv: DevicePtr,
        send_count: usize,
        data_type: DataType,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let kind = OperationType::AllGather;
        let (call, arrays) = ("ncclAllGather", (send, recv));
        let operation = operation(call, kind, arrays, send_count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }

    unsafe fn broadcast(
        &self,
        send: DevicePtr,
        recv: DevicePtr,
        count: usize,
        data_type: DataType,
        root: usize,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let root = rank_number(root);
        let kind = OperationType::Broadcast { root };
        let arrays = (send, recv);
        let operation = operation("ncclBroadcast", kind, arrays, count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }

    unsafe fn reduce(
        &self,
        send: DevicePtr,
        recv: DevicePtr,
        count: usize,
        data_type: DataType,
        op: ReduceOp,
        root: usize,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let root = rank_number(root);
        let kind = OperationType::Reduce { op, root };
        let arrays = (send, recv);
        let operation = operation("ncclReduce", kind, arrays, count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }

    unsafe fn send(
        &self,
        send: DevicePtr,
        count: usize,
        data_type: DataType,
        peer: usize,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let peer = rank_number(peer);
        let kind = OperationType::Send { peer };
        let arrays = (send, send);
        let operation = operation("ncclSend", kind, arrays, count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }

    unsafe fn recv(
        &self,
        recv: DevicePtr,
        count: usize,
        data_type: DataType,
        peer: usize,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let peer = rank_number(peer);
        let kind = OperationType::Recv { peer };
        let arrays = (recv, recv);
        let operation = operation("ncclRecv", kind, arrays, count, data_type, stream)?;
        // SAFETY: this method's contract.
        unsafe { self.submit(comm, operation) }
    }
}

/// Creates an operation on the arrays `send` and `recv`.
fn operation(
    call: &'static str,
    kind: OperationType,
    (send, recv): (DevicePtr, DevicePtr),
    count: usize,
    data_type: DataType,
    stream: StreamHandle,
) -> Result<Operation> {
    let bytes = count.checked_mul(data_type.size());
    Ok(Operation {
        kind,
        call,
        data_type,
        bytes: bytes.ok_or_else(|| invalid(call, "the count is too large".to_owned()))?,
        send,
        recv,
        stream,
    })
}

impl Drop for Loopback {
    fn drop(&mut self) {
        for (handle, comm) in lock(&self.comms).drain() {
            comm.link.abort();
            lock(&DEVICES).retain(|(.., other)| *other != handle);
        }
    }
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback")
            .field("driver", &self.driver)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_encodes_secret_and_address() {
        let address = SocketAddr::from(([127, 0, 0, 1], 40_123));
        let id = encode(7 << 50, address);
        assert_eq!(decode(&id), Some((7 << 50, address)));
        assert_eq!(decode(&UniqueId::from_bytes([1; UniqueId::BYTES])), None);
    }
}
