//! Kernel faults: the failing thread, its PTX line and the reason.

use std::fmt;

use thiserror::Error;

/// A kernel's failure: the thread, the line of its PTX, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "kernel `{kernel}` failed at line {ptx_line} in block ({}, {}, {}), \
     thread ({}, {}, {}): {kind}",
    block[0], block[1], block[2], thread[0], thread[1], thread[2]
)]
pub struct KernelFault {
    /// The kernel's name.
    pub kernel: Box<str>,
    /// The block's index.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// The line of the PTX text, counted from 1; 0 if the launch as a whole was invalid.
    pub ptx_line: u32,
    /// The file and line of the source, if the PTX has line information (NVRTC's `-lineinfo`).
    pub source_line: Option<Box<str>>,
    /// The reason for the failure.
    pub kind: KernelFaultKind,
}

/// The reason why a kernel failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelFaultKind {
    /// A global access that lies in no live allocation.
    #[error("{} of {bytes} bytes at {address:#x}, which no allocation contains", verb(*write))]
    OutOfBounds {
        /// The first byte's address.
        address: u64,
        /// The size of the access.
        bytes: u32,
        /// True for a write, false for a read.
        write: bool,
    },
    /// An access whose address is not a multiple of its size.
    #[error(
        "{} of {bytes} bytes at {address:#x}, which is not a multiple of {bytes}",
        verb(*write)
    )]
    Misaligned {
        /// The first byte's address, or its offset in shared or local memory.
        address: u64,
        /// The size of the access.
        bytes: u32,
        /// True for a write, false for a read.
        write: bool,
    },
    /// An access outside the block's shared memory.
    #[error(
        "{} of {bytes} bytes at offset {offset:#x} of {size} bytes of shared memory",
        verb(*write)
    )]
    SharedOutOfBounds {
        /// The first byte's offset.
        offset: u64,
        /// The size of the access.
        bytes: u32,
        /// The size of the block's shared memory, static and dynamic together.
        size: u32,
        /// True for a write, false for a read.
        write: bool,
    },
    /// An access outside the thread's local memory.
    #[error(
        "{} of {bytes} bytes at offset {offset:#x} of {size} bytes of local memory",
        verb(*write)
    )]
    LocalOutOfBounds {
        /// The first byte's offset.
        offset: u64,
        /// The size of the access.
        bytes: u32,
        /// The size of the thread's local memory.
        size: u32,
        /// True for a write, false for a read.
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
    /// A call through a pointer that does not point to a function of the module with these numbers
    /// of parameters and results.
    #[error(
        "call through the pointer {pointer:#x}, which is no function with as many \
         parameters and results"
    )]
    InvalidCall {
        /// The pointer.
        pointer: u64,
    },
    /// Calls nested too deeply.
    #[error("calls nested deeper than {limit}, in `{function}`")]
    CallDepth {
        /// The function whose call exceeded the limit.
        function: String,
        /// The maximum depth of nested calls.
        limit: usize,
    },
    /// A failed `assert`.
    #[error("{0}")]
    Assertion(Box<Assertion>),
    /// A `free` of a pointer that no `malloc` of the context returned, or of a freed block.
    #[error("free of {address:#x}, at which no live block of the heap starts")]
    InvalidFree {
        /// The pointer.
        address: u64,
    },
    /// A call of `cudaGraphSetConditional` outside a graph, or with another graph's condition.
    #[error(
        "`cudaGraphSetConditional` with {condition:#x}, which is no condition of the graph that \
         the kernel runs in"
    )]
    UnknownCondition {
        /// The number of the condition.
        condition: u64,
    },
    /// `printf` or `assert` with a format string or arguments that cannot be read.
    #[error("a string or an argument of `printf` or `assert` at {address:#x} is not readable")]
    Unreadable {
        /// The address of the format string or arguments.
        address: u64,
    },
    /// A loop that polls memory that nothing can write any more.
    #[error("waits for a change of the memory at {address:#x}")]
    NeverWoken {
        /// The first byte that the loop reads.
        address: u64,
    },
    /// A handle that is not that of the texture or surface that the instruction needs.
    #[error("{handle:#x} {problem}")]
    InvalidImage {
        /// The handle.
        handle: u64,
        /// The reason.
        problem: String,
    },
    /// An access outside of a surface with the rule `.trap` (`cudaBoundaryModeTrap`).
    #[error(
        "access of {bytes} bytes outside of a surface: at byte {}, row {}, layer {}",
        place[0], place[1], place[2]
    )]
    OutsideSurface {
        /// The size of the access.
        bytes: u32,
        /// The byte of the row, the row, and the layer or depth.
        place: [i64; 3],
    },
    /// A `trap` or `brkpt` instruction.
    #[error("the kernel executed `trap`")]
    Trap,
    /// A `brx.idx` whose index exceeds its list of targets.
    #[error("indexed branch to target {index} of {targets}")]
    InvalidBranch {
        /// The index.
        index: u32,
        /// The length of the list.
        targets: u32,
    },
    /// A barrier that does not exist, or a barrier with a thread count that is not a positive
    /// multiple of 32.
    #[error(
        "barrier {id}{}: there are barriers 0 to 15, for multiples of 32 threads",
        count(*threads)
    )]
    InvalidBarrier {
        /// The barrier's number.
        id: u32,
        /// The thread count, if one is given.
        threads: Option<u32>,
    },
    /// A barrier or warp-wide operation that can never complete, because the threads it waits for
    /// have exited or wait elsewhere.
    #[error("waits at `{what}` for threads that will never arrive{threads}")]
    BarrierDeadlock {
        /// The operation that the thread waits at.
        what: &'static str,
        /// The threads of the block, or of the warp if only that cannot continue.
        threads: Box<DeadlockedThreads>,
    },
    /// An operation on an mbarrier object in shared memory that the object's state does not allow.
    #[error("`{operation}` on the barrier object at {offset:#x} of shared memory: {problem}")]
    InvalidBarrierObject {
        /// The PTX instruction, without its qualifiers of order and space.
        operation: &'static str,
        /// The object's offset in shared memory, or its generic address if it lies elsewhere.
        offset: u64,
        /// The violated condition.
        problem: String,
    },
    /// No block ended for more warp instructions than the limit: most likely the kernel never ends.
    #[error(
        "no block has ended for {limit} warp instructions: either the kernel never ends, or the \
         limit must be raised (`steps=N` of the device, `--steps N` of `millstream run`)"
    )]
    StepLimit {
        /// The limit in warp instructions.
        limit: u64,
    },
    /// A launch whose parameters do not fit the kernel.
    #[error("{0}")]
    InvalidLaunch(String),
}

/// Threads of a block at one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadGroup {
    /// The number of threads.
    pub threads: u32,
    /// The index of the first of them in its block.
    pub first: [u32; 3],
    /// The line of the PTX text, counted from 1.
    pub ptx_line: u32,
    /// The file and line of the source, if the PTX has line information.
    pub source_line: Option<Box<str>>,
}

/// Threads of a block or a warp that cannot continue, grouped by their lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadlockedThreads {
    /// The threads that wait.
    pub waiting: Vec<WaitingThreads>,
    /// The threads that have exited, if a thread count may include them.
    pub exited: Vec<ThreadGroup>,
}

impl fmt::Display for DeadlockedThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "; waiting: ";
        for group in &self.waiting {
            write!(f, "{before}{group}")?;
            before = "; ";
        }
        self.exited
            .iter()
            .try_for_each(|group| write!(f, "; {group}"))
    }
}

/// Threads of a block that wait at one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThreads {
    /// The threads, and their line.
    pub group: ThreadGroup,
    /// The operation that they wait at, with the barrier's number or the member mask.
    pub what: Box<str>,
    /// The number of threads that they wait for; 0 if these have arrived with other member masks.
    pub missing: u32,
    /// The index of the first of these in its block; `None` if any threads of the block will do.
    pub first_missing: Option<[u32; 3]>,
    /// The thread count, if they wait at a barrier with one.
    pub count: Option<u32>,
}

/// Threads in a text: their number, and the first one.
struct Counted(u32, [u32; 3]);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(threads, [x, y, z]) = self;
        match threads {
            1 => write!(f, "thread ({x}, {y}, {z})"),
            _ => write!(f, "{threads} threads, the first ({x}, {y}, {z}),"),
        }
    }
}

impl ThreadGroup {
    fn write(&self, f: &mut fmt::Formatter<'_>, does: &str) -> fmt::Result {
        let threads = Counted(self.threads, self.first);
        write!(f, "{threads} {does} in line {} of the PTX", self.ptx_line)?;
        match &self.source_line {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ThreadGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "exited")
    }
}

impl fmt::Display for WaitingThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.group.write(f, &format!("at `{}`", self.what))?;
        let missing = self.missing;
        match (self.count, self.first_missing) {
            (Some(count), _) => write!(f, " for {missing} more of {count} threads"),
            (None, Some(first)) if missing > 0 => {
                let threads = Counted(missing, first).to_string();
                write!(f, " for {}", threads.trim_end_matches(','))
            }
            _ => f.write_str(" with other member masks"),
        }
    }
}

/// The message of a kernel's failed `assert`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("assertion `{message}` failed, in {file}:{line}, {function}")]
pub struct Assertion {
    /// The asserted expression, as written.
    pub message: String,
    /// The source file.
    pub file: String,
    /// The line in that file.
    pub line: u32,
    /// The name of the function.
    pub function: String,
}

fn count(threads: Option<u32>) -> String {
    threads.map_or_else(String::new, |threads| format!(" for {threads} threads"))
}

fn verb(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}
