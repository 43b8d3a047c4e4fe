//! The profiler's side of NVTX 3. A profiler names a library in `NVTX_INJECTION64_PATH`; its
//! function `InitializeInjectionNvtx2` stores the profiler's functions in tables that the program
//! offers. NVIDIA's headers do this within each program, so there is no NVTX library to load.

#![allow(unsafe_code, reason = "exchanges functions with a profiler's library")]

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr::{self, null_mut},
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use super::{RangePop, RangePush};
use crate::libraries::{LibraryNotFound, LibrarySpec};

/// The variable with which a profiler names its library.
pub(super) const VARIABLE: &str = if cfg!(target_pointer_width = "64") {
    "NVTX_INJECTION64_PATH"
} else {
    "NVTX_INJECTION32_PATH"
};

const INJECTION: LibrarySpec = LibrarySpec {
    name: "the profiler's NVTX library",
    path_variable: VARIABLE,
    files: &[],
    wheel_folders: &[],
};

/// The value of the variable with which a program asks for no profiler.
const NONE: &str = "./.";

/// The version of NVTX whose protocol this is.
const NVTX_VERSION: u32 = 3;

/// The number of entries of each of NVTX's function tables, by its number: core functions, names
/// of CUDA's objects, of OpenCL's, of the CUDA runtime's, domains, and synchronisation. The first
/// entry of each is unused.
const SIZES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];

/// The number of the table of core functions.
const CORE: usize = 1;
const RANGE_PUSH: usize = 9;
const RANGE_POP: usize = 11;

/// The places in which a profiler stores its functions.
static FUNCTIONS: [[AtomicPtr<c_void>; 16]; SIZES.len()] =
    [const { [const { AtomicPtr::new(null_mut()) }; 16] }; SIZES.len()];

/// The addresses of these places, table by table.
static TABLES: [Table; SIZES.len()] = [
    table(0),
    table(1),
    table(2),
    table(3),
    table(4),
    table(5),
    table(6),
];

#[repr(transparent)]
struct Table([*const AtomicPtr<c_void>; 17]);

// SAFETY: the table itself is never written, and the places that it points to are atomic.
unsafe impl Sync for Table {}

const fn table(number: usize) -> Table {
    let mut places = [ptr::null(); 17];
    let mut at = 1;
    while at < SIZES[number] {
        places[at] = &raw const FUNCTIONS[number][at];
        at += 1;
    }
    Table(places)
}

/// NVTX's `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    struct_size: usize,
    module_function_table: unsafe extern "C" fn(c_uint, *mut *const Table, *mut c_uint) -> c_int,
}

/// NVTX's `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    struct_size: usize,
    version: u32,
    reserved: u32,
    set_injection_version: extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks {
    struct_size: size_of::<Callbacks>(),
    module_function_table,
};

static VERSION_INFO: VersionInfo = VersionInfo {
    struct_size: size_of::<VersionInfo>(),
    version: NVTX_VERSION,
    reserved: 0,
    set_injection_version,
};

type ExportTable = extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(ExportTable) -> c_int;

/// Returns the export table of this number, or null.
extern "C" fn export_table(number: u32) -> *const c_void {
    match number {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

/// Gives the profiler a table of places for its functions. Returns 0 if there is none of that
/// number.
///
/// # Safety
///
/// The pointers are null, or valid for a write.
unsafe extern "C" fn module_function_table(
    number: c_uint,
    table: *mut *const Table,
    size: *mut c_uint,
) -> c_int {
    let number = number as usize;
    if number == 0 || number >= SIZES.len() {
        return 0;
    }
    if !table.is_null() {
        // SAFETY: the caller says so.
        unsafe { table.write(&raw const TABLES[number]) };
    }
    if !size.is_null() {
        // SAFETY: the caller says so.
        unsafe { size.write(SIZES[number] as c_uint) };
    }
    1
}

/// Is told the version of the profiler.
extern "C" fn set_injection_version(_: u32) {}

/// A profiler's functions.
#[derive(Clone)]
pub(super) struct Injected {
    pub(super) push: RangePush,
    pub(super) pop: RangePop,
    pub(super) origin: String,
}

/// Returns whether a profiler asks for ranges.
pub(super) fn is_named() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|path| !path.is_empty() && path != NONE)
}

/// Returns the functions of the profiler's library, which is attached once for the process.
pub(super) fn attach() -> Result<Injected, LibraryNotFound> {
    static ATTACHED: OnceLock<Result<Injected, LibraryNotFound>> = OnceLock::new();
    ATTACHED.get_or_init(attach_anew).clone()
}

fn attach_anew() -> Result<Injected, LibraryNotFound> {
    // SAFETY: the profiler that set the variable vouches for its library.
    let library = unsafe { INJECTION.find() }?;
    let origin = library.origin().to_owned();
    // SAFETY: the function of this name has this type since NVTX 3.
    let initialize = unsafe { library.function::<Initialize>("InitializeInjectionNvtx2") };
    let lacking = |functions| INJECTION.lacking(&origin, functions);
    let initialize = initialize.ok_or_else(|| lacking("InitializeInjectionNvtx2"))?;
    // SAFETY: `export_table` follows the protocol of this function.
    if unsafe { initialize(export_table) } == 0 {
        return Err(lacking("successful InitializeInjectionNvtx2"));
    }
    let function = |number: usize| FUNCTIONS[CORE][number].load(Ordering::Acquire);
    let (push, pop) = (function(RANGE_PUSH), function(RANGE_POP));
    if push.is_null() || pop.is_null() {
        return Err(lacking("functions for ranges"));
    }
    Ok(Injected {
        // SAFETY: the profiler stores a function of this type in this place.
        push: unsafe { std::mem::transmute::<*mut c_void, RangePush>(push) },
        // SAFETY: the profiler stores a function of this type in this place.
        pop: unsafe { std::mem::transmute::<*mut c_void, RangePop>(pop) },
        origin,
    })
}
