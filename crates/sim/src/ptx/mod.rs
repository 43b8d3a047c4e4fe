//! PTX: from text to signatures and executable kernels.
//!
//! [`signatures`] reads the headers only. [`parse`] reads everything and lowers each kernel to the compact operations that
//! [`crate::exec`] runs, so an instruction that cannot be executed is refused here, by name and line, and never found at a launch.
//!
//! # What is executed
//! What NVRTC 12.0 to 13 emits for ordinary kernels, for targets up to `sm_90a`, and most of what may be written by hand besides:
//!
//! | | |
//! |---|---|
//! | integers | `add sub mul mad div rem min max sad neg abs` of 16 to 64 bits, with carry (`addc subc madc`), saturated, of 24 bits, two of 16 bits in a register (`add.u16x2`), `.relu`; `mul24 mad24 dp4a dp2a`; the video instructions on parts of registers (`vadd4`, `vabsdiff2.add`, `vset4`) |
//! | bits | `and or xor not cnot shl shr shf lop3 prmt bfe bfi bfind brev clz popc fns bmsk szext` |
//! | floats | `add sub mul div fma mad min max neg abs rcp sqrt` in every rounding, `.ftz`, `.sat`, `.NaN`, `.xorsign.abs`; the approximate functions; `copysign testp`; `f16`, `f16x2`, `bf16`, `bf16x2` with `.relu` and `.sat` |
//! | comparisons and moves | `setp set selp slct mov cvt cvta isspacep`; `cvt` to and from `tf32`, `e4m3x2` and `e5m2x2` |
//! | memory | `ld ldu st` of every width and vector, with any order, scope and hint; `atom red` of every operation, of 16-bit values and vectors of floats; constant, shared, local and parameter memory; variables with addresses in their initial values; `cp.async`; `alloca stacksave stackrestore` |
//! | threads | `bar barrier` with numbers, counts and reductions; `bar.warp shfl vote match redux activemask elect`; `membar fence nanosleep` |
//! | control | `bra brx call ret exit trap brkpt`, every instruction guarded, functions that call themselves, calls through pointers; `printf`, `assert` |
//! | directives | debug information, pragmas, aliases, linkage, bounds of launches |
//!
//! Hints (`prefetch`, `applypriority`, `discard`, `createpolicy`, `pmevent`, `griddepcontrol`) do nothing.
//!
//! A copy of `cp.async` reads where it stands and writes where it is waited for, so that who does not wait never sees it. `printf`
//! writes to the standard output, and [`Gpu::printed`](crate::Gpu::printed) keeps it; kernels that print run their blocks in order. A
//! failed `assert` is a fault with its text, file and line.
//!
//! # What is refused
//! When a module is loaded, by opcode and line ([`PtxErrorKind::RefusedOpcode`]), because the simulated device does not have it: tensor cores
//! (`mma wmma wgmma ldmatrix` and their like), copies of tensors and bulk data, barrier objects in shared memory (`mbarrier`), clusters
//! of blocks, textures and surfaces, the scalar video instructions. A kernel that allocates from a heap of its own (`malloc`) is refused, too;
//! `free` is not, as virtual destructors bring it along: of anything but nothing it is a fault. Of 128-bit registers, managed
//! variables and selected parts of the video instructions' operands nothing is known.
//!
//! # Limits
//! A thread has 16 KiB of stack for calls that are made at run time, which nest up to 1024 deep. The check for races between the
//! threads of a kernel does not see what `cp.async` writes to shared memory.

mod access;
mod ast;
mod calls;
pub(crate) mod code;
mod declaration;
mod error;
mod extra;
mod lexer;
mod lower;
mod module;
mod number;
mod operands;
mod operation;
mod parser;
mod signature;
pub(crate) mod types;

pub use error::{PtxError, PtxErrorKind};
pub use module::{Kernel, Module, Variable, parse};
pub use signature::{Param, Signature, signatures};
pub use types::ParamType;
