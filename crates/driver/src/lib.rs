//! The seam between Millstream and a GPU.
//!
//! [`Driver`] has one method per driver function that the runtime needs. It is object-safe and
//! thin: handles are plain numbers, nothing is tracked, and a method that trusts its caller is
//! `unsafe` and says what it trusts. Two crates stand behind it: [`cuda`] loads the real `libcuda`
//! at run time, and `millstream-sim` is a GPU in software. The runtime above proves that what it
//! asks for is right; the simulated driver below checks it.
//!
//! Rule numbers in these pages are those of `docs/semantics.md`.

mod copy_2d;
pub mod cuda;
mod current;
mod driver;
mod error;
mod handles;
mod host_access;
pub mod libraries;
mod managed;
mod methods;
mod per_process;

pub use copy_2d::{Copy2d, Memory2d, Side2d};
pub use current::CurrentContext;
pub use driver::{
    ALLOCATION_ALIGNMENT, Completion, Driver, EventKind, FillPattern, HostFunction, LaunchDims,
    PoolUsage, PriorityRange,
};
pub use error::{DriverError, ResultCode};
pub use handles::{
    ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr, EventHandle, FunctionAttribute,
    FunctionHandle, ModuleHandle, PoolHandle, StreamHandle,
};
pub use host_access::{FloatOperand, HostAccess, MemoryReuse};
pub use managed::{ManagedAdvice, ManagedLocation};
#[doc(hidden)]
pub use per_process::PerProcess;
