//! Declarations of libcuda's functions, and their look-up in the loaded library.
//!
//! Results are [`ResultCode`]s and handles are this crate's newtypes around plain numbers, so that
//! an unknown value from a newer driver is not undefined behaviour. `tests/declarations` compares
//! every type and number of this file with published bindings.
//!
//! Several functions have changed their parameters over the years, and the library exports later
//! versions with a suffix (`cuMemAlloc_v2`). Each function is therefore looked up in the driver's
//! versioned table first (`cuGetProcAddress`), as it was in the CUDA version whose headers these
//! declarations follow, and only then by its suffixed name.

#![allow(unsafe_code, reason = "types the addresses found in the library")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::Library;

use super::LoadError;
use crate::{
    ArrayHandle, ConditionHandle, ContextHandle, DevicePtr, EventHandle, FunctionHandle,
    GraphExecHandle, GraphHandle, GraphNodeHandle, ModuleHandle, PoolHandle, ResultCode,
    StreamHandle, SurfaceHandle, TextureHandle,
};

/// The CUDA version that the declarations follow, 1000 × major + 10 × minor.
pub const DECLARED_VERSION: c_int = 12_000;
/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`: versions in which a null stream is the legacy default
/// stream.
pub const GET_PROC_ADDRESS_LEGACY_STREAM: u64 = 1;
/// `CU_STREAM_DEFAULT`: a stream that takes part in the legacy default stream's barriers.
pub const STREAM_DEFAULT: c_uint = 0;
/// `CU_STREAM_NON_BLOCKING`: a stream exempt from the legacy default stream's barriers.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`
pub const POINTER_MEMORY_TYPE: c_int = 2;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
pub const POINTER_DEVICE_ORDINAL: c_int = 9;
/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR`
pub const POINTER_RANGE_START: c_int = 11;
/// `CU_POINTER_ATTRIBUTE_RANGE_SIZE`
pub const POINTER_RANGE_SIZE: c_int = 12;
/// `CU_MEMORYTYPE_HOST`
pub const MEMORYTYPE_HOST: c_int = 1;
/// `CU_MEMORYTYPE_DEVICE`
pub const MEMORYTYPE_DEVICE: c_int = 2;
/// `CU_MEMORYTYPE_ARRAY`
pub const MEMORYTYPE_ARRAY: c_int = 3;
/// `CUDA_ARRAY3D_LAYERED`
pub const ARRAY3D_LAYERED: c_uint = 1;
/// `CUDA_ARRAY3D_SURFACE_LDST`
pub const ARRAY3D_SURFACE_LDST: c_uint = 2;
/// `CUDA_ARRAY3D_TEXTURE_GATHER`
pub const ARRAY3D_TEXTURE_GATHER: c_uint = 8;
/// `CU_RESOURCE_TYPE_ARRAY`
pub const RESOURCE_TYPE_ARRAY: c_int = 0;
/// `CU_RESOURCE_TYPE_LINEAR`
pub const RESOURCE_TYPE_LINEAR: c_int = 2;
/// `CU_RESOURCE_TYPE_PITCH2D`
pub const RESOURCE_TYPE_PITCH2D: c_int = 3;
/// `CU_TRSF_READ_AS_INTEGER`
pub const TRSF_READ_AS_INTEGER: c_uint = 1;
/// `CU_TRSF_NORMALIZED_COORDINATES`
pub const TRSF_NORMALIZED_COORDINATES: c_uint = 2;
/// `CU_EVENT_DEFAULT`: an event with a time stamp.
pub const EVENT_DEFAULT: c_uint = 0;
/// `CU_EVENT_DISABLE_TIMING`: an event without a time stamp.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_EVENT_INTERPROCESS`: an event that other processes may use, and captures may not.
pub const EVENT_INTERPROCESS: c_uint = 4;
/// `CU_EVENT_WAIT_DEFAULT`: the only flag of `cuStreamWaitEvent` that is used.
pub const EVENT_WAIT_DEFAULT: c_uint = 0;
/// `CU_MEMHOSTALLOC_PORTABLE`: page-locked for every context.
pub const MEMHOSTALLOC_PORTABLE: c_uint = 1;
/// `CU_MEMHOSTREGISTER_PORTABLE`: page-locked for every context.
pub const MEMHOSTREGISTER_PORTABLE: c_uint = 1;
/// `CU_MEM_ATTACH_GLOBAL`: managed memory that every stream of every device may use.
pub const MEM_ATTACH_GLOBAL: c_uint = 1;
/// `CU_DEVICE_CPU`: the host, as a location of managed memory.
pub const DEVICE_CPU: c_int = -1;
/// `CU_MEM_ADVISE_SET_READ_MOSTLY`, an advice of `cuMemAdvise`.
pub const MEM_ADVISE_SET_READ_MOSTLY: c_int = 1;
/// `CU_MEM_ADVISE_UNSET_READ_MOSTLY`, an advice of `cuMemAdvise`.
pub const MEM_ADVISE_UNSET_READ_MOSTLY: c_int = 2;
/// `CU_MEM_ADVISE_SET_PREFERRED_LOCATION`, an advice of `cuMemAdvise`.
pub const MEM_ADVISE_SET_PREFERRED_LOCATION: c_int = 3;
/// `CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION`, an advice of `cuMemAdvise`.
pub const MEM_ADVISE_UNSET_PREFERRED_LOCATION: c_int = 4;
/// `CU_MEM_ADVISE_SET_ACCESSED_BY`, an advice of `cuMemAdvise`.
pub const MEM_ADVISE_SET_ACCESSED_BY: c_int = 5;
/// `CU_MEM_ADVISE_UNSET_ACCESSED_BY`, an advice of `cuMemAdvise`.
pub const MEM_ADVISE_UNSET_ACCESSED_BY: c_int = 6;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`: a pool's release threshold in bytes.
pub const MEMPOOL_ATTR_RELEASE_THRESHOLD: c_int = 4;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`: a pool's reserved bytes.
pub const MEMPOOL_ATTR_RESERVED_MEM_CURRENT: c_int = 5;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH`: the peak of a pool's reserved bytes.
pub const MEMPOOL_ATTR_RESERVED_MEM_HIGH: c_int = 6;
/// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`: a pool's allocated bytes.
pub const MEMPOOL_ATTR_USED_MEM_CURRENT: c_int = 7;
/// `CU_MEMPOOL_ATTR_USED_MEM_HIGH`: the peak of a pool's allocated bytes.
pub const MEMPOOL_ATTR_USED_MEM_HIGH: c_int = 8;
/// `CU_MEM_LOCATION_TYPE_DEVICE`: a memory location on a device.
pub const MEM_LOCATION_TYPE_DEVICE: c_int = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_NONE`: no access to memory.
pub const MEM_ACCESS_FLAGS_PROT_NONE: c_int = 0;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`: access to read and write memory.
pub const MEM_ACCESS_FLAGS_PROT_READWRITE: c_int = 3;
/// `CU_JIT_ERROR_LOG_BUFFER`: the buffer for the PTX compiler's error messages.
pub const JIT_ERROR_LOG_BUFFER: c_int = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`: the size of the error log buffer.
pub const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`: a grid whose blocks are all resident at once.
pub const LAUNCH_ATTRIBUTE_COOPERATIVE: c_int = 2;
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: the blocks of a cluster.
pub const LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: c_int = 4;
/// `CU_LAUNCH_ATTRIBUTE_PRIORITY`: the priority of a launch.
pub const LAUNCH_ATTRIBUTE_PRIORITY: c_int = 8;

/// `CU_GRAPH_NODE_TYPE_KERNEL`: a kernel.
pub const GRAPH_NODE_TYPE_KERNEL: c_int = 0;
/// `CU_GRAPH_NODE_TYPE_CONDITIONAL`: a conditional node.
pub const GRAPH_NODE_TYPE_CONDITIONAL: c_int = 13;
/// `CU_GRAPH_COND_TYPE_IF`: a body that runs at most once.
pub const GRAPH_COND_TYPE_IF: c_int = 0;
/// `CU_GRAPH_COND_TYPE_WHILE`: a body that runs while its condition holds.
pub const GRAPH_COND_TYPE_WHILE: c_int = 1;
/// `CU_GRAPH_COND_ASSIGN_DEFAULT`: a condition with its initial value in each launch.
pub const GRAPH_COND_ASSIGN_DEFAULT: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_GLOBAL`
pub const STREAM_CAPTURE_MODE_GLOBAL: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
pub const STREAM_CAPTURE_MODE_THREAD_LOCAL: c_int = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
pub const STREAM_CAPTURE_MODE_RELAXED: c_int = 2;
/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`
pub const STREAM_CAPTURE_STATUS_ACTIVE: c_int = 1;
/// `CU_STREAM_CAPTURE_STATUS_INVALIDATED`
pub const STREAM_CAPTURE_STATUS_INVALIDATED: c_int = 2;
/// `CU_STREAM_SET_CAPTURE_DEPENDENCIES`: replaces a capturing stream's dependencies.
pub const STREAM_SET_CAPTURE_DEPENDENCIES: c_uint = 1;

/// `CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL`: the source is read before the call returns.
pub const MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL: c_int = 2;

/// Declares the structures of the table. A field is documented by its name in CUDA's headers.
macro_rules! structures {
    ($($(#[$attribute:meta])* $name:ident = $published:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty $(= $theirs:ident)?;)*
    })*) => {$(
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[doc = concat!("`", stringify!($theirs), "`.")])? $(#[$doc])* pub $field: $type,)*
        }
    )*};
}

crate::cuda_structures!(structures);

/// Returns the symbol of a row: the name, unless another one follows.
macro_rules! symbol {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $symbol:ident) => {
        stringify!($symbol)
    };
}

/// Declares the functions of the table, and looks them up.
macro_rules! functions {
    (
        required { $($name:ident $([$symbol:ident])? ($($parameter:ident: $type:ty),*);)* }
        optional {
            $($optional:ident $([$optional_symbol:ident])?
                ($($optional_parameter:ident: $optional_type:ty),*);)*
        }
    ) => {
        /// The type of each function, under the function's name.
        #[allow(non_camel_case_types, reason = "the functions' own names")]
        pub mod types {
            use super::*;
            $(
                #[doc = concat!("`", symbol!($name $($symbol)?), "`")]
                pub type $name = unsafe extern "C" fn($($parameter: $type),*) -> ResultCode;
            )*
            $(
                #[doc = concat!("`", symbol!($optional $($optional_symbol)?), "`, optional")]
                pub type $optional =
                    unsafe extern "C" fn($($optional_parameter: $optional_type),*) -> ResultCode;
            )*
        }

        /// The functions that the library provides.
        #[allow(non_snake_case, reason = "the functions' own names")]
        pub(super) struct Api {
            $(pub(super) $name: types::$name,)*
            $(pub(super) $optional: Option<types::$optional>,)*
        }

        impl Api {
            /// Looks up every function in the library of a driver of version `driver_version`.
            pub(super) fn find(
                library: &'static Library,
                driver_version: c_int,
            ) -> Result<Self, LoadError> {
                let lookup = Lookup::new(library, driver_version)?;
                Ok(Self {
                    $($name: {
                        let symbol = symbol!($name $($symbol)?);
                        let address = lookup.required(stringify!($name), symbol)?;
                        // SAFETY: the address is that of the function declared under this name and
                        // version.
                        unsafe { std::mem::transmute::<*mut c_void, types::$name>(address) }
                    },)*
                    $($optional: {
                        let symbol = symbol!($optional $($optional_symbol)?);
                        let address = lookup.find(stringify!($optional), symbol);
                        address.map(|address| {
                            // SAFETY: the address is that of the function declared under this name
                            // and version.
                            unsafe { std::mem::transmute::<*mut c_void, types::$optional>(address) }
                        })
                    },)*
                })
            }

            /// Creates the functions of a driver that was never initialised: each required function
            /// returns that error, and the optional ones are missing.
            #[cfg(test)]
            pub(super) fn uninitialised() -> Self {
                Self {
                    $($name: {
                        unsafe extern "C" fn stand_in($(_: $type),*) -> ResultCode {
                            ResultCode::NOT_INITIALIZED
                        }
                        stand_in
                    },)*
                    $($optional: None,)*
                }
            }
        }
    };
}

crate::cuda_functions!(functions);

/// `CUhostFn`: a host function of `cuLaunchHostFunc`.
pub type HostCallback = Option<unsafe extern "C" fn(*mut c_void)>;
/// `CUoccupancyB2DSize`: the dynamic shared memory of a block by its number of threads.
pub type BlockToShared = Option<unsafe extern "C" fn(c_int) -> usize>;
/// `cuDriverGetVersion`, which is called before any other function is looked up.
pub type DriverGetVersion = unsafe extern "C" fn(version: *mut c_int) -> ResultCode;
/// `cuGetProcAddress_v2`, which looks up all other functions.
pub type GetProcAddress = unsafe extern "C" fn(
    symbol: *const c_char,
    address: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> ResultCode;

/// Returns the version of the driver that the library belongs to.
pub(super) fn driver_version(library: &Library) -> Result<c_int, LoadError> {
    let address = exported(library, "cuDriverGetVersion").ok_or(LoadError::SymbolMissing {
        symbol: "cuDriverGetVersion",
        driver_version: None,
    })?;
    // SAFETY: the address is that of the function of this name, which never changed its parameters.
    let get_version = unsafe { std::mem::transmute::<*mut c_void, DriverGetVersion>(address) };
    let mut version = 0;
    // SAFETY: the result goes to a local; the function may be called before `cuInit`.
    let code = unsafe { get_version(&mut version) };
    super::library::check_init("cuDriverGetVersion", code)?;
    Ok(version)
}

/// A look-up of functions in one library.
struct Lookup {
    library: &'static Library,
    get_proc_address: GetProcAddress,
    driver_version: c_int,
}

impl Lookup {
    fn new(library: &'static Library, driver_version: c_int) -> Result<Self, LoadError> {
        let address = exported(library, "cuGetProcAddress_v2").ok_or(LoadError::SymbolMissing {
            symbol: "cuGetProcAddress_v2",
            driver_version: Some(driver_version),
        })?;
        Ok(Self {
            library,
            // SAFETY: the address is that of the function of this name, whose suffix fixes its
            // parameters.
            get_proc_address: unsafe {
                std::mem::transmute::<*mut c_void, GetProcAddress>(address)
            },
            driver_version,
        })
    }

    fn required(&self, name: &str, symbol: &'static str) -> Result<*mut c_void, LoadError> {
        self.find(name, symbol).ok_or(LoadError::SymbolMissing {
            symbol,
            driver_version: Some(self.driver_version),
        })
    }

    /// Returns the function `name` as it was in [`DECLARED_VERSION`], or, for a function that was
    /// added later, the function that the library exports as `symbol`.
    fn find(&self, name: &str, symbol: &str) -> Option<*mut c_void> {
        self.by_version(name)
            .or_else(|| exported(self.library, symbol))
    }

    fn by_version(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        let mut address = std::ptr::null_mut();
        let mut status = 0;
        // SAFETY: the name ends in a zero byte, and the results go to locals.
        let code = unsafe {
            (self.get_proc_address)(
                name.as_ptr(),
                &mut address,
                DECLARED_VERSION,
                GET_PROC_ADDRESS_LEGACY_STREAM,
                &mut status,
            )
        };
        (code == ResultCode::SUCCESS && !address.is_null()).then_some(address)
    }
}

fn exported(library: &Library, symbol: &str) -> Option<*mut c_void> {
    // SAFETY: only the address is read here; the caller gives it a type.
    let found = unsafe { library.get::<*mut c_void>(symbol) };
    found
        .ok()
        .map(|address| *address)
        .filter(|address| !address.is_null())
}
