//! PTX: from text to signatures and executable kernels.
//!
//! [`signatures`] reads the headers only. [`parse`] reads everything and lowers each kernel to the
//! compact operations that [`crate::exec`] runs, so an instruction that cannot be executed is
//! refused here, by name and line, and never found at a launch.
//!
//! # What is executed
//! What NVRTC 12.0 to 13 emits for ordinary kernels, and most of what may be written by hand
//! besides. Instructions are those of targets up to `sm_90a`; a newer target is accepted, with a
//! [note](Module::notes), and lacks only its own.
//!
//! | | |
//! |---|---|
//! | integers | `add sub mul mad div rem min max sad neg abs` of 16 to 64 bits, with carry in any mixture (`addc subc madc`), saturated, of 24 bits, two of 16 bits in a register (`add.u16x2`), `.relu`; `mul24 mad24 dp4a dp2a`; the video instructions, on one part of each register (`vadd vsub vabsdiff vmin vmax vshl vshr vmad vset`) and on two or four side by side (`vadd4 vavrg2 vset4`), with selected parts |
//! | bits | `and or xor not cnot shl shr shf lop3 prmt bfe bfi bfind brev clz popc fns bmsk szext` |
//! | floats | `add sub mul div fma mad min max neg abs rcp sqrt` in every rounding, `.ftz`, `.sat`, `.NaN`, `.xorsign.abs`; the approximate functions; `copysign testp`; `f16`, `f16x2`, `bf16`, `bf16x2` with `.ftz`, `.relu`, `.sat` and `.xorsign.abs` |
//! | comparisons and moves | `setp set selp slct mov cvt cvta isspacep`; `cvt` to and from `tf32`, `e4m3x2` and `e5m2x2`, between `f16` and `bf16`, with `.satfinite`; `cvt.pack` |
//! | memory | `ld ldu st` of every width and vector, with any order, scope and hint; `atom red` of every operation, of 16-bit values and vectors of floats, `atom.cas` and `atom.exch` of 128 bits; constant, shared, local and parameter memory; variables with addresses in their initial values; `cp.async`; `alloca stacksave stackrestore` |
//! | registers | scalars, vectors (`.v4 .u16`, with their elements `v.x`), `.b128` |
//! | threads | `bar barrier` with numbers, counts and reductions; `bar.warp shfl vote match redux activemask elect`; `mbarrier` and `cp.async.mbarrier.arrive`; `membar fence nanosleep` |
//! | control | `bra brx call ret exit trap brkpt`, every instruction guarded, functions that call themselves, calls through pointers; `printf`, `assert` |
//! | directives | debug information, pragmas, aliases, linkage, bounds of launches, variables inside of functions |
//! | constants | expressions, as in `[%rd1+4*3]` |
//!
//! Hints (`prefetch`, `applypriority`, `discard`, `createpolicy`, `pmevent`, `griddepcontrol`) do
//! nothing. A cluster is one block: the special registers of clusters, the scope `.cluster` and the
//! arrivals of barrier objects in `.shared::cluster` are known.
//!
//! A copy of `cp.async` reads where it stands and writes where it is waited for, so that who does
//! not wait never sees it. `printf` writes to the standard output, and
//! [`Gpu::printed`](crate::Gpu::printed) keeps it; kernels that print run their blocks in order. A
//! failed `assert` is a fault with its text, file and line.
//!
//! A barrier object (`mbarrier`) lies in eight bytes of shared memory, in a format of the simulated
//! device. An operation that its state does not allow, such as more arrivals than its phase waits
//! for, is a [fault](crate::exec::KernelFaultKind::InvalidBarrierObject). Arrivals that follow
//! `cp.async` take place when a thread asks the object.
//!
//! # What is refused
//! When a module is loaded, by opcode and line ([`PtxErrorKind::RefusedOpcode`]), because the
//! simulated device does not have it: tensor cores (`mma wmma wgmma ldmatrix` and their like),
//! copies of tensors and bulk data and the proxy that they go through (`fence.proxy.async`),
//! clusters of blocks, textures and surfaces. A kernel that allocates from a heap of its own
//! (`malloc`) is refused, too; `free` is not, as virtual destructors bring it along: of anything
//! but nothing it is a fault. Of managed variables nothing is known.
//!
//! A kernel with more bytes of parameters than its module's version and target allow is refused
//! ([`PtxErrorKind::ParameterSpace`]): 4,352, and 32,764 from PTX ISA 8.1 on for `sm_70` and newer.
//!
//! # Limits
//! A thread has 16 KiB of stack for calls that are made at run time, which nest up to 1024 deep.
//! The check for races between the threads of a kernel does not see what `cp.async` writes to
//! shared memory.

pub(crate) mod ir;

mod float_access;
mod lower;
mod module;

pub use float_access::FloatAccess;
pub use millstream_ptx::{Param, ParamType, PtxError, PtxErrorKind, Signature, signatures};
pub use module::{Kernel, Module, Variable, parse};
