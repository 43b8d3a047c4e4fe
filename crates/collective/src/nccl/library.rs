//! NVIDIA's NCCL as an [`Nccl`], loaded at run time, once per process, and never unloaded.
//!
//! Declarations are those of `nccl.h` of NCCL 2.28.9 (the wheel `nvidia-nccl-cu12`). The
//! configuration of a communicator is the struct of NCCL 2.18, which later versions extend at its
//! end: NCCL copies as many bytes as the struct's own size field says, and fills later fields with
//! their defaults if the struct's version is older (`parseCommConfig` in its `src/init.cc`).

#![allow(unsafe_code, reason = "finds NCCL's functions and calls them")]

use std::{
    ffi::{CStr, c_char, c_int},
    fmt, ptr,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    CommHandle, CommState, DataType, Nccl, NcclCode, NcclError, NcclLoadError, Operation,
    OperationType, Progress, Reduce, Result, UniqueId,
};
use millstream_driver::{
    ContextHandle, DevicePtr, StreamHandle, libraries::NvidiaLibrary, library_functions,
};

/// The oldest supported version of NCCL: 2.18.0.
pub const OLDEST_NCCL_VERSION: i32 = 21_800;

/// The value of an integer field of the configuration that is not set.
const UNDEFINED: c_int = c_int::MIN;

/// `ncclConfig_t` of NCCL 2.18.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    /// Padding in NCCL 2.18, whose struct ends here. Later versions copy these bytes too, into
    /// their field `trafficClass`, so they must be defined.
    traffic_class: c_int,
}

impl Config {
    /// The configuration of a communicator that blocks, or does not.
    fn new(blocks: bool) -> Self {
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: OLDEST_NCCL_VERSION.unsigned_abs(),
            blocking: blocks.into(),
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: ptr::null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
        }
    }
}

library_functions! {
    ncclGetVersion: fn(*mut c_int) -> NcclCode;
    ncclGetUniqueId: fn(*mut UniqueId) -> NcclCode;
    ncclCommInitRankConfig: fn(*mut CommHandle, c_int, UniqueId, c_int, *mut Config) -> NcclCode;
    ncclCommGetAsyncError: fn(CommHandle, *mut NcclCode) -> NcclCode;
    ncclCommFinalize: fn(CommHandle) -> NcclCode;
    ncclCommDestroy: fn(CommHandle) -> NcclCode;
    ncclCommAbort: fn(CommHandle) -> NcclCode;
    ncclGetLastError: fn(CommHandle) -> *const c_char;
    ncclGroupStart: fn() -> NcclCode;
    ncclGroupEnd: fn() -> NcclCode;
    ncclAllReduce: fn(
        DevicePtr, DevicePtr, usize, DataType, Reduce, CommHandle, StreamHandle
    ) -> NcclCode;
    ncclReduceScatter: fn(
        DevicePtr, DevicePtr, usize, DataType, Reduce, CommHandle, StreamHandle
    ) -> NcclCode;
    ncclAllGather: fn(DevicePtr, DevicePtr, usize, DataType, CommHandle, StreamHandle) -> NcclCode;
    ncclBroadcast: fn(
        DevicePtr, DevicePtr, usize, DataType, c_int, CommHandle, StreamHandle
    ) -> NcclCode;
    ncclReduce: fn(
        DevicePtr, DevicePtr, usize, DataType, Reduce, c_int, CommHandle, StreamHandle
    ) -> NcclCode;
    ncclSend: fn(DevicePtr, usize, DataType, c_int, CommHandle, StreamHandle) -> NcclCode;
    ncclRecv: fn(DevicePtr, usize, DataType, c_int, CommHandle, StreamHandle) -> NcclCode;
}

/// NVIDIA's library.
struct Library {
    functions: Functions,
    version: c_int,
    origin: String,
}

/// Loads NCCL, or returns the library that an earlier call has loaded.
///
/// It is searched for as [`libraries`](millstream_driver::libraries) describes: at the path in
/// `MILLSTREAM_NCCL`, in the process, in Python's wheel `nvidia-nccl-cu12` or `nvidia-nccl-cu13`,
/// and where the system's loader searches. NCCL itself reads its `NCCL_*` variables, among them
/// `NCCL_COMM_ID`.
///
/// ```
/// use millstream_collective::nccl::{self, OLDEST_NCCL_VERSION};
/// if let Ok(nccl) = nccl::load() {
///     assert!(nccl.version() >= OLDEST_NCCL_VERSION);
/// }
/// ```
///
/// # Errors
///
/// [`NcclLoadError`] if no location has the library, or if it is older than
/// [`OLDEST_NCCL_VERSION`].
pub fn load() -> std::result::Result<Arc<dyn Nccl>, NcclLoadError> {
    static LOADED: Mutex<Option<Arc<Library>>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &*loaded {
        return Ok(Arc::clone(library) as Arc<dyn Nccl>);
    }
    let library = Arc::new(find()?);
    *loaded = Some(Arc::clone(&library));
    Ok(library)
}

fn find() -> std::result::Result<Library, NcclLoadError> {
    // SAFETY: the initialisers of NVIDIA's libraries of this name require nothing of their loader.
    let found = unsafe { NvidiaLibrary::NCCL.spec().find() }?;
    let origin = found.origin().to_owned();
    let functions = Functions::find(&found).map_err(|symbol| NcclLoadError::SymbolMissing {
        symbol,
        origin: origin.as_str().into(),
    })?;
    let mut version = 0;
    // SAFETY: the result goes to a local.
    let code = unsafe { (functions.ncclGetVersion)(&mut version) };
    if code != NcclCode::SUCCESS {
        return Err(NcclError::new("ncclGetVersion", code, "").into());
    }
    if version < OLDEST_NCCL_VERSION {
        let origin = origin.into();
        return Err(NcclLoadError::TooOld { version, origin });
    }
    Ok(Library {
        functions,
        version,
        origin,
    })
}

impl Library {
    /// Turns the result of `call` into the progress or the error.
    fn check(&self, call: &'static str, code: NcclCode) -> Result {
        match code {
            NcclCode::SUCCESS => Ok(Progress::Done),
            NcclCode::IN_PROGRESS => Ok(Progress::InProgress),
            _ => Err(NcclError::new(call, code, self.last_text(NULL_COMM))),
        }
    }

    /// Returns NCCL's description of the last error.
    fn last_text(&self, comm: CommHandle) -> String {
        // SAFETY: NCCL ignores the communicator, which may be null, and returns the text of the
        // process's last error.
        let text = unsafe { (self.functions.ncclGetLastError)(comm) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the text ends in a zero byte, lives in a static array, and is copied at once.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

/// The null communicator, for calls that need none.
const NULL_COMM: CommHandle = CommHandle::from_raw(0);

/// Converts a rank or a number of ranks to NCCL's type.
fn rank_number(call: &'static str, rank: usize) -> Result<c_int> {
    c_int::try_from(rank).map_err(|_| {
        let text = format!("rank {rank} exceeds the range of NCCL's ranks");
        NcclError::new(call, NcclCode::INVALID_ARGUMENT, text)
    })
}

/// Calls one function under its own name and checks the result.
macro_rules! call {
    ($library:expr, $function:ident($($argument:expr),*)) => {{
        // SAFETY: the contract of the method that makes this call.
        let code = unsafe { ($library.functions.$function)($($argument),*) };
        $library.check(stringify!($function), code)
    }};
}

impl Nccl for Library {
    fn version(&self) -> i32 {
        self.version
    }

    fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId::from_bytes([0; UniqueId::BYTES]);
        call!(self, ncclGetUniqueId(&mut id)).map(|_| id)
    }

    unsafe fn comm_init_rank(
        &self,
        _context: ContextHandle,
        world_size: usize,
        id: &UniqueId,
        rank: usize,
        blocks: bool,
    ) -> Result<CommHandle> {
        const CALL: &str = "ncclCommInitRankConfig";
        let (size, rank) = (rank_number(CALL, world_size)?, rank_number(CALL, rank)?);
        let mut config = Config::new(blocks);
        // Leaked: the thread that initialises a communicator may store the handle once
        // more when it ends, after this call has returned (`ncclCommInitRankFunc`).
        let cell = Box::into_raw(Box::new(NULL_COMM));
        // The state of the new communicator tells its progress.
        let _ = call!(
            self,
            ncclCommInitRankConfig(cell, size, *id, rank, &mut config)
        )?;
        // SAFETY: the cell is never freed; the only value that NCCL may store concurrently is the
        // one that is there already, by an atomic store.
        Ok(unsafe { cell.read_volatile() })
    }

    unsafe fn async_error(&self, comm: CommHandle) -> Result<CommState> {
        let mut state = NcclCode::SUCCESS;
        call!(self, ncclCommGetAsyncError(comm, &mut state)).map(|_| match state {
            NcclCode::SUCCESS => CommState::Success,
            NcclCode::IN_PROGRESS => CommState::InProgress,
            code => CommState::Failed(code),
        })
    }

    unsafe fn finalize(&self, comm: CommHandle) -> Result {
        call!(self, ncclCommFinalize(comm))
    }

    unsafe fn destroy(&self, comm: CommHandle) -> Result<()> {
        call!(self, ncclCommDestroy(comm)).map(drop)
    }

    unsafe fn abort(&self, comm: CommHandle) -> Result<()> {
        call!(self, ncclCommAbort(comm)).map(drop)
    }

    unsafe fn last_error(&self, comm: CommHandle) -> String {
        self.last_text(comm)
    }

    fn group_start(&self) -> Result<()> {
        call!(self, ncclGroupStart()).map(drop)
    }

    unsafe fn group_end(&self) -> Result {
        call!(self, ncclGroupEnd())
    }

    unsafe fn enqueue(
        &self,
        operation: &Operation,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let Operation {
            kind,
            send,
            recv,
            count,
            data_type,
        } = *operation;
        let number = |rank| rank_number(kind.function(), rank);
        match kind {
            OperationType::AllReduce(op) => {
                call!(
                    self,
                    ncclAllReduce(send, recv, count, data_type, op, comm, stream)
                )
            }
            OperationType::ReduceScatter(op) => {
                call!(
                    self,
                    ncclReduceScatter(send, recv, count, data_type, op, comm, stream)
                )
            }
            OperationType::AllGather => {
                call!(
                    self,
                    ncclAllGather(send, recv, count, data_type, comm, stream)
                )
            }
            OperationType::Broadcast { root } => {
                let root = number(root)?;
                call!(
                    self,
                    ncclBroadcast(send, recv, count, data_type, root, comm, stream)
                )
            }
            OperationType::Reduce { op, root } => {
                let root = number(root)?;
                call!(
                    self,
                    ncclReduce(send, recv, count, data_type, op, root, comm, stream)
                )
            }
            OperationType::Send { peer } => {
                let peer = number(peer)?;
                call!(self, ncclSend(send, count, data_type, peer, comm, stream))
            }
            OperationType::Recv { peer } => {
                let peer = number(peer)?;
                call!(self, ncclRecv(recv, count, data_type, peer, comm, stream))
            }
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version, origin, ..
        } = self;
        write!(f, "NCCL {version} from {origin}")
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_configuration_has_the_layout_of_nccls_header() {
        assert_eq!(offset_of!(Config, magic), 8);
        assert_eq!(offset_of!(Config, version), 12);
        assert_eq!(offset_of!(Config, blocking), 16);
        assert_eq!(offset_of!(Config, net_name), 32);
        assert_eq!(offset_of!(Config, split_share), 40);
        // No padding: NCCL copies every byte.
        assert_eq!(offset_of!(Config, traffic_class), 44);
        assert_eq!(size_of::<Config>(), 48);
        for blocks in [false, true] {
            let config = Config::new(blocks);
            assert_eq!((config.size, config.blocking), (48, c_int::from(blocks)));
        }
    }
}
