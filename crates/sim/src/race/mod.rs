//! The race checker: happens-before detection of data races between operations, and with the host.
//!
//! Each operation that accesses memory has a vector clock (`vector_clock`) that follows from the
//! calls alone, and a list of effects, made when it runs (`effect`). Two operations race if they
//! access the same byte, one of them writes it, and neither happens before the other. The time at
//! which they ran does not matter. An operation is checked once all enqueued before it have run, so
//! every schedule of one trace finds the same races. The method is that of FastTrack (Flanagan and
//! Freund, *FastTrack: Efficient and Precise Dynamic Race Detection*, PLDI 2009,
//! <https://doi.org/10.1145/1542476.1542490>), with histories shared by many bytes in the place of
//! epochs.
//!
//! # Order
//!
//! - An operation comes after the one before it in its stream (rule 16: a stream is first in, first
//!   out), and after all work that the host had seen complete when it was enqueued.
//! - Operations behind a wait for an event come after the work of the stream at the last record of
//!   the event before the wait (rules 22 to 24).
//! - The legacy default stream and blocking streams order each other as rules 17 to 19 say.
//! - The host comes after the work of a stream, an event or a context that it synchronised with, or
//!   queried and saw complete; for the legacy default stream, after the work of all blocking
//!   streams (rule 55).
//! - The host comes after a copy that, by the documentation, blocks until it is complete (rules 2,
//!   3, 5, 11, 12), or after the work before it (rule 1).
//! - The host comes after all work at a call that frees memory synchronously (rule 30: such a call
//!   waits until the device is idle).
//! - A host function comes after the work before it, and the work behind it comes after the host
//!   function (rule 27).
//! - An allocation that waits for another stream's free comes after that free (rule 35).
//! - A node of a graph comes after its dependencies and the work before the launch, and the work
//!   behind the launch after all nodes. A launch comes after the earlier ones of the same
//!   executable graph (rule 46).
//! - A kernel that waits for a flag of another kernel comes after it, if it reads the flag by
//!   volatile, relaxed or acquire loads alone, or was seen waiting for it, and the other one writes
//!   the flag by an atomic or such a store and has a fence or a release operation. The kernels
//!   count as a whole.
//!
//! The host counts as one actor: its threads synchronise by means that no driver observes, so work
//! that one has seen complete is complete for the calls of all. The compiler prevents races between
//! threads of the host. Orders that only some drivers keep do not count: rule 6, rules 8 and 9
//! (asynchronous copies of pageable memory that block), and rule 29.
//!
//! # Accesses
//!
//! Kernels access the bytes that their PTX accesses; atomic operations, and loads and stores that
//! are volatile, relaxed, acquire or release, are ordered with each other and race only with plain
//! ones. Copies and fills access their ranges; a copy from pageable memory has read it when the
//! call returns. Plain loads and stores of the host are invisible to the checker: the program
//! reports them with [`Gpu::host_read`](crate::Gpu::host_read) and
//! [`Gpu::host_write`](crate::Gpu::host_write), or through the driver interface with
//! [`note_host_access`](millstream_driver::Driver::note_host_access) at the beginning and at the
//! end of an access that lasts.
//!
//! # Findings
//!
//! Findings are races between operations and with the host; uses of an allocation that are not
//! ordered after its allocation or before its free; accesses outside of all allocations and
//! misaligned ones; and reads of uninitialised bytes, by kernels and by copies to the host. A copy
//! within device memory copies uninitialised bytes without a finding, so that padding may be
//! copied. Page-locked memory counts as initialised, because the host may have written it; so do a
//! module's variables. The lifetime of a graph's memory begins anew at its allocation node in every
//! launch, and ends at its free (rule 45), so that a node or a later operation behind the free is a
//! use after free.
//!
//! An access that makes its kernel fail is a finding as well, without a separate report: the report
//! of the fault describes it.
//!
//! In arrays that are declared to hold floating-point numbers
//! ([`note_float_operands`](millstream_driver::Driver::note_float_operands)), accesses to single
//! numbers of another size are findings, such as `ld.f32` in an array of `f64`. Vectors, packed
//! pairs and values without a floating-point type are accepted. A conservative dataflow analysis of
//! the PTX attributes addresses to parameters; accesses that it cannot attribute are not checked.
//!
//! An access to a byte is forgotten when a later one that is ordered after it subsumes it:
//! everything that races with the earlier one races with the later one too, and that race is found.
//! Repairing it may uncover the other. A fault ends a trace, as it does on a device: later accesses
//! are not checked.
//!
//! # Races within a kernel
//!
//! With [`SimConfig::kernel_race_check`](crate::SimConfig::kernel_race_check) the threads of each
//! launch are checked against each other: two of them race if they access the same byte of shared
//! or global memory, one of them writes, and neither access happens before the other.
//!
//! - The accesses of a thread are ordered by program order.
//! - Accesses behind a barrier of the block (`bar.sync`, `bar.red`, with or without a number and a
//!   count) come after the accesses of all threads that arrived there, by `bar.arrive` too, before
//!   their arrivals; behind a barrier for all threads, also after those of threads that had exited.
//! - Accesses of a lane behind an operation between lanes (`bar.warp.sync`, `shfl.sync`,
//!   `vote.sync`, `match.sync`, `redux.sync`) come after the accesses of all participating lanes
//!   before it; instructions on matrices (`ldmatrix`, `mma`) order nothing.
//! - Accesses behind an acquire pattern come after the accesses before a release pattern, as in the
//!   [PTX memory model][ptx]. A release pattern is a release operation, or a fence followed by an
//!   atomic or a volatile, relaxed or release store; an acquire pattern is an acquire operation, or
//!   an atomic or such a load followed by a fence. The load must read the value of the store, or
//!   that of an atomic that read it, and so on. The scopes of the two operations at either end, and
//!   of each store and the load of its value, must include the thread of the other: a fence or an
//!   atomic of scope `.cta` (`__threadfence_block()`) orders no other block.
//! - Accesses behind an `mbarrier.test_wait` or `try_wait` that returned a completed phase come
//!   after the accesses of all threads that arrived in that phase or before, up to their arrivals;
//!   `.relaxed` forms order nothing.
//! - Accesses behind a `fence.sc` (`__threadfence()`) come after the accesses before another one if
//!   the values that the threads read leave no other order of the two fences: an access behind the
//!   other fence, at any distance of the orders above, and an access in front of this one are to
//!   the same location, both atomic or strong, and the latter reads what the former wrote or
//!   something later, or writes after it. Thus all threads of a block may fence what they wrote,
//!   one of them take a ticket between two barriers, and all threads of the block with the last
//!   ticket fence and read.
//! - An atomic or strong write comes before what is behind a later atomic or strong read of the
//!   same location, whether or not there is a fence, if that reads its value, or that of an atomic
//!   that read it, and so on. Nothing else that the writing thread did is ordered by this: the
//!   thread that takes the last ticket may reset the counter by a plain write.
//!
//! Lockstep execution of a warp is not an order, and neither is the execution of one block before
//! another. The order in which two fences are executed is none by itself, because it may be the
//! other way round in another run. Atomics, and relaxed, acquire
//! and release accesses, do not race with each other, unless one has scope `.cta` and the other is
//! in another block.
//!
//! Much code from before Volta has a fence in front of an atomic and none behind it. With
//! [`RaceModel::lenient_acquire`](crate::exec::RaceModel::lenient_acquire), a value that was read
//! atomically needs no fence behind the read.
//!
//! The checker is more lenient than CUDA's documentation in one point on which widely used programs
//! rely: all operations between lanes order memory, not only `bar.warp.sync`. It is also more
//! lenient than the PTX memory model where coherence leaves no doubt: an atomic or strong access
//! does not race with a plain one if a strong write of the location is ordered behind the former,
//! and in front of the latter. On the other hand, a plain read and an atomic race even if the
//! program ignores the value that it read, and racing accesses force no order of two fences.
//!
//! Volatile accesses take part in release and acquire patterns, as in PTX. They race with each
//! other and with atomics nevertheless, because volatile accesses are not synchronisation in CUDA
//! C++. Such a race is a [warning](crate::Severity::Warning), and a plain access that races is an
//! error. With [`RaceModel::strong_volatile`](crate::exec::RaceModel::strong_volatile), volatile
//! accesses count as relaxed ones, which is the rule of PTX.
//!
//! Threads that write the same bytes to one address race too, including lanes of one instruction.
//! Such a race is a [note](crate::Severity::Note) instead of an error if no other access races for
//! these bytes: no read, no atomic, and no write of other values. Accesses of different widths are
//! compared byte by byte. If all races of a launch are notes, none of them changes a value in any
//! schedule. The severity is therefore the same in every order, except where values depend on the
//! order of atomics. Notes are reported with
//! [`SimConfig::kernel_race_notes`](crate::SimConfig::kernel_race_notes).
//!
//! Which thread takes a lock or a counter first decides which accesses an atomic orders, so that
//! one order of execution hides races that another one shows. If an atomic, or a volatile, relaxed
//! or acquire load, returns a value that can depend on the order, the kernel therefore runs in
//! several orders of its blocks and warps, four by default
//! ([`SimConfig::kernel_race_orders`](crate::SimConfig::kernel_race_orders)). The order of the
//! indices runs on the memory itself, each other one on a private copy. The findings are those of
//! all orders together. A finding of some orders only says so, and names one of these
//! ([`SimConfig::kernel_race_order`](crate::SimConfig::kernel_race_order) repeats it). The orders
//! are the same under every schedule of operations. Each costs as much as the check in one.
//!
//! A launch reports one race for each pair of lines of the PTX, with the bytes of all its races in
//! the same allocation or variable, and the worst severity; at most 256 pairs of each severity. The
//! checker does not see:
//!
//! - accesses on paths that none of the runs took, and races that only an order shows in which the
//!   launch did not run;
//! - accesses to the target of a `cp.async` behind the phase of an `mbarrier` object that another
//!   thread has observed;
//! - more than the last 64 unordered accesses of each word;
//! - differences in width of strong accesses to one address, which PTX calls races;
//! - a release operation or a relaxed read of a location that only a later operation on the same
//!   location completes to a release or acquire pattern, if the thread has since used eight other
//!   locations in this way: it may then report a race where there is none;
//! - accesses of other devices and of the host while the kernel runs.
//!
//! A `cp.async` is in flight until its thread waits for it, or until a thread observes the phase
//! of an `mbarrier` object that tracks it. Meanwhile it races with every access of its target and
//! every write of its source, by the copying thread, too, and behind barriers. Vector atomics are
//! accesses to each of their elements, and operations on `mbarrier` objects are atomic accesses of
//! scope `.cta`.
//!
//! # Synchronisation within a kernel
//!
//! Uses of barriers and of operations between lanes that PTX leaves undefined are errors, although
//! the kernel goes on: [`KernelErrorKind`](crate::exec::KernelErrorKind) lists them. They are found
//! without an option, except skipped barriers. Threads that can never go on are a fault
//! ([`BarrierDeadlock`](crate::exec::KernelFaultKind::BarrierDeadlock)), which names all that wait,
//! the threads that each group waits for, and their lines. Threads that have exited are not waited
//! for, as on devices since Volta: neither lanes of a member mask nor threads of the block.
//!
//! [ptx]: https://docs.nvidia.com/cuda/parallel-thread-execution/#memory-consistency-model
//!
//! # Proposals
//!
//! A race has a [`Proposal`]: the smallest synchronisation that would order the two, judged on the
//! trace. [`SimConfig::edge`](crate::SimConfig::edge) tries one between two operations. A
//! [repair](crate::exec::KernelRepair) of a race within a kernel was tried by running the launch
//! again. [`Gpu::redundant_syncs`](crate::Gpu::redundant_syncs) lists waits that order nothing.
//!
//! # Labels
//!
//! A finding shows the [`Label`] that was set where an operation was enqueued, with its source
//! line.
//!
//! ```
//! use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
//! use millstream_sim::{Gpu, SimConfig, race::Label};
//! let gpu = Gpu::new(SimConfig::new());
//! let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
//! // SAFETY: context, streams and memory are alive.
//! unsafe {
//!     let one = gpu.stream_create(context, true, 0).unwrap();
//!     let other = gpu.stream_create(context, true, 0).unwrap();
//!     let memory = gpu.mem_alloc(context, 64).unwrap();
//!     for (stream, name) in [(one, "first pass"), (other, "second pass")] {
//!         let _label = Label::new(name);
//!         gpu.memset_async(context, memory, FillPattern::U8(0), 64, stream).unwrap();
//!     }
//!     gpu.context_synchronize(context).unwrap();
//! }
//! assert!(gpu.findings()[0].to_string().contains("second pass"));
//! ```
//!
//! # How
//!
//! | file | holds |
//! |---|---|
//! | `vector_clock` | vector clocks and timestamps |
//! | `happens_before` | the order of streams, events, barriers and the host |
//! | `enqueued` | an operation as it is enqueued |
//! | `effect` | the effects of operations on memory |
//! | `through_memory` | the order of kernels by flags in memory |
//! | `pending` | operations that are not checked yet |
//! | `history`, `pages` | shadow memory: histories, and the history of each byte |
//! | `checker`, `check` | the race checker, and its checks of accesses |
//! | `finding`, `findings`, `describe` | findings, their list and their texts |
//! | `proposal`, `propose` | the synchronisation that would order the two actors of a finding |
//! | `trace`, `redundant` | inputs of the checks; waits that order nothing which a conflict needs |
//! | `intra_kernel` | findings within one kernel: races, other errors, invalid accesses |
//!
//! The simulator state reports the effects of operations (`core/race_hooks.rs`), the host its own
//! accesses (`api/host_access.rs`).

mod check;
mod checker;
mod describe;
mod effect;
mod enqueued;
mod finding;
mod findings;
mod happens_before;
mod history;
mod intra_kernel;
mod pages;
mod pending;
mod proposal;
mod propose;
mod redundant;
mod through_memory;
mod trace;
mod vector_clock;

pub use finding::{Finding, FindingMemory, Party};
pub use findings::UnlistedFindings;
pub use millstream_ptx::{Label, Site};
pub use proposal::{Proposal, ProposalKind};
pub use trace::RedundantSync;

pub(crate) use checker::RaceChecker;
pub(crate) use describe::OperationSummary;
pub(crate) use effect::{ByteRanges, Effect, ElementMismatch, InvalidAccess};
pub(crate) use enqueued::{EnqueuedOp, OpClock};
pub(crate) use happens_before::{ClockSnapshot, DestroyedStreams};
pub(crate) use through_memory::Synchronisation;
pub(crate) use trace::{Input, SnapshotOf};
