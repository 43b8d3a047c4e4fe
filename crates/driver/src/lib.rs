//! The driver interface: the trait [`Driver`], and libcuda as one of its two implementations.
//!
//! The runtime must run unchanged on a GPU and on a simulated one, so it reaches either only
//! through [`Driver`], an object-safe trait with one method per driver function that the runtime
//! needs. The trait adds no policy: handles are plain numbers, nothing is tracked, and a method
//! whose caller must keep a contract is `unsafe` and states that contract. [`cuda`] loads the real
//! `libcuda` at run time; the crate `millstream-sim` implements the trait in software. The runtime
//! guarantees the contracts, and the simulated driver checks them.
//!
//! Rule numbers in these pages are those of [the guide's list of CUDA's rules][rules].
//!
//! [rules]: https://docs.rs/millstream/latest/millstream/guide/semantics/index.html

mod annotations;
mod copy_2d;
mod copy_3d;
pub mod cuda;
mod current;
mod driver;
mod error;
mod fill_pattern;
mod graph;
mod handles;
mod launch_attributes;
mod launch_dims;
pub mod libraries;
mod managed;
mod methods;
pub mod nvml;
pub mod nvrtc;
pub mod nvtx;
mod peer;
mod per_process;
mod pointer;
mod printable;
mod result_codes;

pub use annotations::{FloatOperand, HostAccess, MemoryReuse};
pub use copy_2d::{Copy2d, Memory2d, Side2d};
pub use copy_3d::{Copy3d, Memory3d, Side3d};
pub use cuda::api::{ArrayDescriptor, ResourceDescriptor, TextureDescriptor};
pub use current::CurrentContext;
pub use driver::{
    ALLOCATION_ALIGNMENT, Completion, Driver, EventKind, HostFunction, PoolUsage, PriorityRange,
};
pub use error::{DriverError, ResultCode};
pub use fill_pattern::FillPattern;
pub use graph::{
    ActiveCapture, CaptureInfo, CaptureMode, CaptureStatus, ConditionalKind, ConditionalNode,
    GraphKernel, GraphNode, KernelNode,
};
pub use handles::{
    ArrayHandle, ConditionHandle, ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr,
    EventHandle, FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle, GraphNodeHandle,
    ModuleHandle, P2pAttribute, PoolHandle, StreamHandle, SurfaceHandle, TextureHandle,
};
pub use launch_attributes::{BlockSize, LaunchAttributes};
pub use launch_dims::LaunchDims;
pub use managed::{ManagedAdvice, ManagedLocation};
pub use peer::{PeerCopy, PeerCopy2d};
#[doc(hidden)]
pub use per_process::PerProcess;
pub use pointer::PointerInfo;
pub use printable::printable;
