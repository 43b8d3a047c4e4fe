//! PTX: from text to signatures and executable kernels.
//!
//! [`signatures`] reads the headers only. [`parse`] reads everything and lowers each kernel to the
//! compact operations that [`crate::exec`] runs. An instruction that the simulator cannot execute
//! is therefore found when the module is loaded, by name and line, also if no thread reaches it.
//!
//! # Executed PTX
//! The code that NVRTC 12.0 to 13 emits for ordinary kernels, and most of the PTX that may be
//! written by hand besides. The instructions are those of targets up to `sm_90a`. A newer target is
//! accepted, with a [note](Module::notes), but its additional instructions are not.
//!
//! - **all instructions of these chapters of the PTX ISA**: integer and extended-precision integer
//!   arithmetic, floating point, half precision, comparison and selection, logic and shift, control
//!   flow, stack manipulation, video (except three forms for which GPUs compute other results than
//!   the ISA defines), with every rounding and modifier
//! - **of the other chapters**, all that is not [rejected](#rejected-ptx): data movement and
//!   conversion, parallel synchronisation and communication, miscellaneous instructions
//! - **conversions** also to and from `tf32`, `e4m3x2` and `e5m2x2`, and between `f16` and `bf16`
//! - **memory**: loads and stores of every width and vector, with any order, scope and hint; atomic
//!   operations of 16 to 128 bits and on vectors of floats; constant, shared, local and parameter
//!   memory; variables with addresses in their initial values; `cp.async`
//! - **registers**: scalars, vectors (`.v4 .u16`, with their elements `v.x`), `.b128`
//! - **matrices**: `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix` of the shapes and types
//!   that `sm_90` has for elements of 8 bits and more
//! - **threads**: barriers with numbers, counts and reductions; barrier objects (`mbarrier`)
//! - **control**: every instruction guarded, recursive functions, calls through pointers; `printf`,
//!   `assert`, `malloc`, `free`
//! - **directives**: debug information, pragmas, aliases, linkage, bounds of launches, variables in
//!   functions
//! - **constants**: expressions, as in `[%rd1+4*3]`
//!
//! Hints (`prefetch`, `applypriority`, `discard`, `createpolicy`, `pmevent`, `griddepcontrol`) have
//! no effect. A cluster has one block: the special registers of clusters, the scope `.cluster` and
//! the arrivals of barrier objects in `.shared::cluster` are supported.
//!
//! A copy of `cp.async` reads its source when it is issued and writes its target when it is waited
//! for, so a thread that does not wait never observes the copy. `printf` writes to the standard
//! output, and [`Gpu::printf_output`](crate::Gpu::printf_output) keeps the text; kernels that print
//! run their blocks in order. A failed `assert` is a fault with its text, file and line.
//!
//! Each block that a kernel allocates (`malloc`, `new`) is an allocation of its own, which lives
//! until a kernel frees it or the context ends, and only kernels access it. Its address is never
//! used again, so that a use after the free or beyond the end is a fault. Kernels that allocate or
//! free run their blocks in order. If the [heap](crate::Gpu::context_set_heap) is exhausted, the
//! result is null. Managed variables lie in memory of the host.
//!
//! A barrier object (`mbarrier`) occupies eight bytes of shared memory, in a format of the
//! simulated device. An operation that the object's state does not allow, such as more arrivals
//! than its phase waits for, is a [fault](crate::exec::KernelFaultKind::InvalidBarrierObject).
//! Arrivals that follow `cp.async` take place when a thread tests the object.
//!
//! Textures and surfaces are handles, which the program creates for arrays and linear memory. A
//! fetch outside of a texture returns what its [descriptor](millstream_driver::TextureDescriptor)
//! says; an access outside of a surface returns zeros, is moved to its edge, or is a
//! [fault](crate::exec::KernelFaultKind::OutsideSurface), as the instruction says. Linear filters
//! have weights of 8 fractional bits.
//!
//! Instructions on matrices need all 32 threads of a warp: threads that ended, or that the block
//! does not have, are [reported](crate::exec::KernelErrorKind::IncompleteWarp). They order no
//! accesses of different threads. Rows in shared memory are accessed by the threads that give their
//! addresses, elements of `wmma` by the threads that hold them, which are those of GPUs from
//! `sm_80` on. Sums of integers are exact, and those of double precision are rounded after each
//! product, in the order of the elements. Sums of other types follow Hopper's rule on every kind of
//! device: the products of up to 16 elements and the sum so far are aligned to the largest
//! exponent, truncated and added exactly, and the result is rounded towards zero, or to the nearest
//! number of half precision.
//!
//! # Rejected PTX
//!
//! A kernel that reaches an instruction that the simulated device does not have, also in a function
//! that it calls, is [refused](Kernel::refusal) by opcode and line
//! ([`PtxErrorKind::RefusedOpcode`]): matrices of warpgroups (`wgmma`, `tcgen05`), sparse matrices,
//! those of elements of 1 or 4 bits and of scaled blocks, copies of tensors and bulk data and the
//! proxy that they use (`fence.proxy.async`), clusters of blocks, cube maps and mipmaps. The other
//! kernels of the module run.
//!
//! A kernel with more bytes of parameters than its module's version and target allow is rejected
//! ([`PtxErrorKind::ParameterSpace`]). The limit is 4,352, and 32,764 from PTX ISA 8.1 on for
//! `sm_70` and newer.
//!
//! # Limits
//! A thread has 16 KiB of stack for calls that are made at run time, which nest up to 1024 deep.
//! The check for races between the threads of a kernel does not see the writes of `cp.async` to
//! shared memory.

pub(crate) mod ir;

mod float_access;
mod lower;
mod module;

pub use float_access::FloatAccess;
pub(crate) use lower::{each_result, other_results, sources};
pub use millstream_ptx::{Param, ParamType, PtxError, PtxErrorKind, Signature, signatures};
pub use module::{Kernel, Module, Variable, parse};
