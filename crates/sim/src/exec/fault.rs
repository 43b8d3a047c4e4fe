//! How a kernel can fail.

use thiserror::Error;

/// A kernel that failed: which thread of it, at which line of its PTX, and how.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "kernel `{kernel}` failed at line {ptx_line} in block ({}, {}, {}), thread ({}, {}, {}): {kind}",
    block[0], block[1], block[2], thread[0], thread[1], thread[2]
)]
pub struct KernelFault {
    /// The kernel's name.
    pub kernel: Box<str>,
    /// The block's index.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// The line of the PTX text, counted from 1; 0 where the launch as a whole was wrong.
    pub ptx_line: u32,
    /// File and line of the source, if the PTX has them (NVRTC's `-lineinfo`).
    pub source_line: Option<Box<str>>,
    /// What happened.
    pub kind: KernelFaultKind,
}

/// What made a kernel fail.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelFaultKind {
    /// A global access that no live allocation contains.
    #[error("{} of {bytes} bytes at {address:#x}, which no allocation contains", verb(*write))]
    OutOfBounds {
        /// The first byte's address.
        address: u64,
        /// The size of the access.
        bytes: u32,
        /// Whether it would have written.
        write: bool,
    },
    /// An access whose address is not a multiple of its size.
    #[error("{} of {bytes} bytes at {address:#x}, which is not a multiple of {bytes}", verb(*write))]
    Misaligned {
        /// The first byte's address, or its offset in shared or local memory.
        address: u64,
        /// The size of the access.
        bytes: u32,
        /// Whether it would have written.
        write: bool,
    },
    /// An access outside the block's shared memory.
    #[error("{} of {bytes} bytes at offset {offset:#x} of {size} bytes of shared memory", verb(*write))]
    SharedOutOfBounds {
        /// The first byte's offset.
        offset: u64,
        /// The size of the access.
        bytes: u32,
        /// The size of the block's shared memory, static and dynamic together.
        size: u32,
        /// Whether it would have written.
        write: bool,
    },
    /// An access outside the thread's local memory.
    #[error("{} of {bytes} bytes at offset {offset:#x} of {size} bytes of local memory", verb(*write))]
    LocalOutOfBounds {
        /// The first byte's offset.
        offset: u64,
        /// The size of the access.
        bytes: u32,
        /// The size of the thread's local memory.
        size: u32,
        /// Whether it would have written.
        write: bool,
    },
    /// An access outside the kernel's parameters.
    #[error("access of {bytes} bytes at offset {offset:#x} of the kernel's parameters")]
    ParamOutOfBounds {
        /// The first byte's offset.
        offset: u64,
        /// The size of the access.
        bytes: u32,
    },
    /// A write to memory that kernels may only read.
    #[error("write to read-only memory at {address:#x}")]
    ReadOnly {
        /// The first byte's address.
        address: u64,
    },
    /// A call through a pointer that is not a function of the module, or not one with so many
    /// parameters and results.
    #[error(
        "call through the pointer {pointer:#x}, which is no function with these parameters and results"
    )]
    InvalidCall {
        /// The pointer.
        pointer: u64,
    },
    /// Calls nested too deep.
    #[error("calls nested deeper than {limit}, in `{function}`")]
    CallDepth {
        /// The function that was called once too often.
        function: String,
        /// How deep calls may nest.
        limit: usize,
    },
    /// `assert` of something that does not hold.
    #[error("{0}")]
    Assertion(Box<Assertion>),
    /// `free` of something: the simulated device has no heap that it could come from.
    #[error("free of {address:#x}, which `malloc` has not given")]
    InvalidFree {
        /// The pointer.
        address: u64,
    },
    /// `printf` or `assert` with a text that cannot be read.
    #[error("the text or the arguments at {address:#x} cannot be read")]
    Unreadable {
        /// Where they should be.
        address: u64,
    },
    /// `trap`, or `brkpt`.
    #[error("the kernel executed `trap`")]
    Trap,
    /// `brx.idx` with an index that its list of targets does not have.
    #[error("indexed branch to target {index} of {targets}")]
    InvalidBranch {
        /// The index.
        index: u32,
        /// The length of the list.
        targets: u32,
    },
    /// A barrier that does not exist, or one for a number of threads that is not a positive
    /// multiple of 32.
    #[error(
        "barrier {id} for {threads:?} threads: there are barriers 0 to 15, for multiples of 32 threads"
    )]
    InvalidBarrier {
        /// The barrier's number.
        id: u32,
        /// The number of threads, if one is given.
        threads: Option<u32>,
    },
    /// A barrier or a warp-wide operation that can never complete, because the threads it waits for
    /// have exited or wait elsewhere.
    #[error("waits at `{what}` for threads that will never arrive")]
    BarrierDeadlock {
        /// The operation waited at.
        what: &'static str,
    },
    /// An operation on a barrier object in shared memory that its state does not allow.
    #[error("`{operation}` on the barrier object at {offset:#x} of shared memory: {problem}")]
    InvalidBarrierObject {
        /// The PTX instruction, without what is said about order and space.
        operation: &'static str,
        /// Where the object lies in shared memory, or the generic address if it does not.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// The launch executed more warp instructions than it may: most likely it never ends.
    #[error("the launch exceeded {limit} warp instructions")]
    StepLimit {
        /// The limit.
        limit: u64,
    },
    /// A launch that does not fit the kernel.
    #[error("{0}")]
    InvalidLaunch(String),
}

/// What a kernel's `assert` said.
///
/// ```
/// use millstream_sim::exec::Assertion;
/// let failed = Assertion { message: "n == 3".into(), file: "x.cu".into(), line: 12, function: "k".into() };
/// assert_eq!(failed.to_string(), "assertion `n == 3` failed, in x.cu:12, k");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("assertion `{message}` failed, in {file}:{line}, {function}")]
pub struct Assertion {
    /// What does not hold, as written.
    pub message: String,
    /// The source file.
    pub file: String,
    /// The line there.
    pub line: u32,
    /// The function.
    pub function: String,
}

fn verb(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}
