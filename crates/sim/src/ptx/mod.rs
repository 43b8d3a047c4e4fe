//! PTX: from text to signatures and executable kernels.
//!
//! [`signatures`] reads the headers only. [`parse`] reads everything and lowers each kernel to the
//! compact operations that [`crate::exec`] runs. An instruction that the simulator cannot execute
//! is therefore rejected when the module is loaded, by name and line, and never found at a launch.
//!
//! # Executed PTX
//! The code that NVRTC 12.0 to 13 emits for ordinary kernels, and most of the PTX that may be
//! written by hand besides. The instructions are those of targets up to `sm_90a`. A newer target is
//! accepted, with a [note](Module::notes), but its additional instructions are not.
//!
//! - **integers**: `add sub mul mad div rem min max sad neg abs` of 16 to 64 bits, with carry in
//!   any mixture (`addc subc madc`), saturated, of 24 bits, packed in pairs of 16 bits
//!   (`add.u16x2`), `.relu`; `mul24 mad24 dp4a dp2a`; the video instructions, on one part of each
//!   register (`vadd vsub vabsdiff vmin vmax vshl vshr vmad vset`) and on two or four side by side
//!   (`vadd4 vavrg2 vset4`), with selected parts
//! - **bits**: `and or xor not cnot shl shr shf lop3 prmt bfe bfi bfind brev clz popc fns bmsk
//!   szext`
//! - **floats**: `add sub mul div fma mad min max neg abs rcp sqrt` in every rounding, `.ftz`,
//!   `.sat`, `.NaN`, `.xorsign.abs`; the approximate functions; `copysign testp`; `f16`, `f16x2`,
//!   `bf16`, `bf16x2` with `.ftz`, `.relu`, `.sat` and `.xorsign.abs`
//! - **comparisons and moves**: `setp set selp slct mov cvt cvta isspacep`; `cvt` to and from
//!   `tf32`, `e4m3x2` and `e5m2x2`, between `f16` and `bf16`, with `.satfinite`; `cvt.pack`
//! - **memory**: `ld ldu st` of every width and vector, with any order, scope and hint; `atom red`
//!   of every operation, of 16-bit values and vectors of floats, `atom.cas` and `atom.exch` of 128
//!   bits; constant, shared, local and parameter memory; variables with addresses in their initial
//!   values; `cp.async`; `alloca stacksave stackrestore`
//! - **registers**: scalars, vectors (`.v4 .u16`, with their elements `v.x`), `.b128`
//! - **threads**: `bar barrier` with numbers, counts and reductions;
//!   `bar.warp shfl vote match redux activemask elect`; `mbarrier` and `cp.async.mbarrier.arrive`;
//!   `membar fence nanosleep`
//! - **control**: `bra brx call ret exit trap brkpt`, every instruction guarded, recursive
//!   functions, calls through pointers; `printf`, `assert`
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
//! A barrier object (`mbarrier`) occupies eight bytes of shared memory, in a format of the
//! simulated device. An operation that the object's state does not allow, such as more arrivals
//! than its phase waits for, is a [fault](crate::exec::KernelFaultKind::InvalidBarrierObject).
//! Arrivals that follow `cp.async` take place when a thread tests the object.
//!
//! # Rejected PTX
//!
//! When a module is loaded, instructions that the simulated device does not have are rejected by
//! opcode and line ([`PtxErrorKind::RefusedOpcode`]): tensor cores (`mma wmma wgmma ldmatrix` and
//! similar), copies of tensors and bulk data and the proxy that they use (`fence.proxy.async`),
//! clusters of blocks, textures and surfaces. A kernel that allocates from the device heap
//! (`malloc`) is rejected. `free` is accepted, because virtual destructors contain it, but freeing
//! a non-null pointer is a fault. Managed variables are not supported.
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
pub use millstream_ptx::{Param, ParamType, PtxError, PtxErrorKind, Signature, signatures};
pub use module::{Kernel, Module, Variable, parse};
