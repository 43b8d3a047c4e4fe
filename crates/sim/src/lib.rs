//! A simulated GPU behind Millstream's driver interface.
//!
//! [`Gpu`] implements [`Driver`](millstream_driver::Driver): it follows [CUDA's stream
//! rules][rules], executes PTX, and checks its caller's obligations where a real driver
//! trusts them. No CUDA installation is needed. The whole state is one `SimState` under one lock. A
//! [`Schedule`] decides when eligible operations run, and so what the host can observe. Time is
//! virtual, computed from a [`CostModel`], and equal on every run.
//!
//! [rules]: https://docs.rs/millstream/latest/millstream/guide/semantics/index.html
//!
//! ```
//! use millstream_driver::{DeviceOrdinal, Driver};
//! use millstream_sim::{Gpu, Schedule, SimConfig};
//!
//! let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Lazy));
//! let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
//! // SAFETY: the context and the stream are alive, the allocation is used between its allocation
//! // and its free in stream order, and `bytes` lives until the copy is complete.
//! unsafe {
//!     let stream = gpu.stream_create(context, true, 0).unwrap();
//!     let memory = gpu.mem_alloc_async(context, 4, stream).unwrap();
//! let sevens = millstream_driver::FillPattern::U8(7);
//! gpu.memset_async(context, memory, sevens, 4, stream).unwrap();
//!     let mut bytes = [0; 4];
//!     gpu.copy_device_to_host_async(context, bytes.as_mut_ptr(), memory, 4, stream).unwrap();
//!     gpu.mem_free_async(context, memory, stream).unwrap();
//!     gpu.stream_synchronize(context, stream).unwrap();
//!     assert_eq!(bytes, [7; 4]);
//! }
//! assert!(gpu.reports().is_empty());
//! ```

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "only machine code uses it")
)]

pub mod exec;
pub mod ptx;
pub mod race;

mod api;
mod config;
mod core;
mod ids;
mod memory;
mod report;
mod testing;

pub use api::{
    graph_programs::{BranchKind, ProgramNode},
    graph_questions::{NodeDetails, NodeEntry},
    pools::PoolSettings,
    programs::{AllocationDetails, AllocationKind, FunctionDetails},
    virtual_memory::VirtualMemoryCall,
};
pub use config::{
    ConfigParseError, CostModel, Fault, Link, Links, PeerPool, Reading, ReplayToken,
    ReplayTokenError, Rules, Schedule, SimConfig,
};
pub use core::{
    gpu::Gpu,
    objects::host_functions::RepeatedFunction,
    op::{Span, WorkDone},
    profile::{Profile, TimeSpent},
    schedule::ReplayStatus,
};
pub use memory::{POISON, shared_bytes};
pub use report::{Report, ReportKind, Severity};
pub use testing::{Hold, LiveKind, LiveObject, LiveObjectCounts, RunningKernel, Search};
