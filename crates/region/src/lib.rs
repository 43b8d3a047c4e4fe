//! Lazily evaluated device arrays with kernel fusion, and `#[region]`, which runs a function on a
//! GPU.
//!
//! A *region* is a block of ordinary code over [`Array`]s. It is entered with a
//! [`Device`](millstream::Device), takes host arrays or device arrays, and returns results that are
//! downloaded or stay on the device:
//!
//! ```
//! use millstream_region::RegionExt;
//! use ndarray::array;
//! // A GPU, if there is one: Device::open(Select::Auto).
//! let device = millstream::Device::simulated()?;
//! let (w, x, b) = (array![[1.0_f32, 2.0], [3.0, -4.0]], array![5.0, 6.0], array![0.5, 0.5]);
//! // This returns as soon as the work is enqueued.
//! let y = device.region(|g| (g.array(&w).dot(&g.array(&x)) + g.array(&b)).relu())?;
//! assert_eq!(y.wait()?, array![17.5, 0.0]); // or .await
//! # Ok::<(), millstream_region::Error>(())
//! ```
//!
//! # Evaluation
//!
//! - Operations are recorded in an expression graph and evaluated when the block ends. Chains of
//!   element-wise operations, broadcasts, slices and joins of up to 16 arrays, with a reduction or
//!   a scan at their end, are one kernel, generated once and cached. So are reductions of
//!   contiguous rows of 2 to 8,192 elements, or of 128 and more longer rows, with what follows from
//!   them, for example a softmax. Equal operations on the same operands are computed once, unused
//!   results not at all, and independent parts of the graph concurrently.
//! - A join that is a result itself, or has more than 16 parts, is one kernel if its parts are at
//!   most 250 arrays in memory; otherwise it is one kernel for each part.
//! - Element-wise functions of a matrix product (bias, activation, scale, residual) are computed in
//!   the kernel of the product, or in one kernel after it where cuBLAS computes the product.
//! - [`Array::attention`] is one kernel, which stores no scores.
//! - Rows of at most 2,048 elements are sorted by one kernel, longer ones by a kernel for each byte
//!   of an element and one before.
//! - Results over the same inputs are computed by one kernel, which reads these once: the three
//!   results of an Adam step, or the minimum, the maximum and the sum of an array. So are rows with
//!   what is computed from them: a sum and its normalisation, or a normalisation and its means.
//! - A part of an array is updated in its memory if nothing else needs the old elements.
//! - Elements that a mask selects are [`Packed`]: their number stays on the device, and no call
//!   waits for it.
//! - Host arguments are uploaded before the call returns, once each, however often the body uses
//!   them; device arrays are not copied. Only results and `&mut` arguments are downloaded.
//! - [`Array::item`] and [`Array::to_host`] give the body a value: they enqueue the work that the
//!   value depends on and wait for it.
//! - Apart from that, only waiting for the [`Pending`] blocks. Two regions overlap unless one uses
//!   a result of the other.
//! - After an error, a panic or a dropped [`Pending`], all host data is unchanged.
//! - [`Region::explain`] tells which kernels results would take, and for each stored array why it
//!   is not computed in the kernel that uses it ([`StoreReason`]).
//!
//! # First calls
//!
//! The first call of a region plans its kernels, generates their texts and has the driver compile
//! them: at most 100 ms for a kernel, of which planning and generation take 1 ms at most. For a
//! softmax of ten functions, `cargo xtask bench --only T20` measured 41 to 62 ms and 0.3 to 0.5 ms
//! on two H200s. NVIDIA's driver keeps compiled kernels on disk, so that another process does not
//! wait for them again. A text contains no lengths, so other shapes need few others. How many texts
//! an expression takes for all shapes of a list of 51, between 1 x 1 and 9,001 x 1 or 1 x 17,000
//! elements, is tested:
//!
//! | expression | texts at most | which differ by |
//! |---|---|---|
//! | element-wise, of one shape | 2 | whether there is a single element |
//! | element-wise, with a row for all rows | 5 | axes of length 1, and whether vectors fit |
//! | transposed | 5 | the same, and whether tiles fit |
//! | sum of columns | 8 | how many threads and blocks share a column |
//! | sum of rows | 22 | how many threads share a row, and how many elements each has |
//! | sum of everything | 2 | whether several blocks share it |
//! | softmax of rows, and other row kernels | 33 | as sums of rows; up to 32 more for 8,193 to 32,768 elements |
//! | cumulative sum of rows, or of columns | 6 | how many threads and blocks share it |
//! | gather | 4 | axes of length 1 |
//! | join | 7 | axes of length 1, and whether vectors fit |
//! | matrix product with functions of its elements | 7 | the kernel, and axes of length 1 |
//!
//! Regions of element-wise operations, for arrays that broadcast to one shape, are planned once for
//! all lengths. Regions that do nothing with the first axis, such as a softmax or a product of a
//! batch, are planned once for all its lengths from 2 on, and their kernels of rows are generated
//! once. Others are planned for each shape, and their texts generated again.
//!
//! # Graphs
//!
//! The body of a region runs at each call. From the third call with the same operations, shapes and
//! results on, a region of three kernels or more is one launch of a CUDA graph, in which the
//! addresses of arrays and numbers are set. A matrix product with functions of its elements counts
//! as two kernels. Results have memory of their own at each call, and graphs hold no arrays. A
//! device keeps at most 64 kinds of regions, drops their graphs when memory is short, and launches
//! the kernels one by one where a graph is still running elsewhere, or cannot be made: with updates
//! in place, and in regions of a mesh. Matrix products by cuBLAS are part of a graph if they are
//! kernels that take addresses as arguments. [`set_region_graphs`](RegionExt::set_region_graphs)
//! switches graphs off. The body of a [prepared](RegionExt::prepare) region never runs again.
//!
//! # Several devices
//!
//! With the feature `mesh`, a [`Mesh`] spreads arrays over devices: [`Sharded`], [`Replicated`] and
//! [`Partial`]. The regions of a mesh, [`Mesh::region`] and functions under `#[region(mesh)]`, have
//! bodies that run once for each device, with its parts of the arrays; collectives such as
//! [`all_reduce`](Array::all_reduce) and [`halo`](Array::halo) exchange elements between devices.
//!
//! # Differences from `ndarray`
//!
//! Arrays have the method names and operators of [`ndarray`], so that the same source can run on
//! both (`examples/digits`, `examples/options`). The differences:
//!
//! - Methods for which `ndarray` returns an `Option` or a `Result` of an array (`mean_axis`,
//!   `broadcast`, `into_shape_with_order`) return an array here, and its [`unwrap`](Array::unwrap)
//!   returns itself: a wrong operation is reported as the region's error. [`concatenate`],
//!   [`stack`] and [`into_dimensionality`](Array::into_dimensionality) return a [`Result`].
//! - Reductions over all elements return an array without axes; [`item`](Array::item) gives its
//!   value.
//! - [`mapv`](Array::mapv) calls its closure once, with the whole array.
//! - A host array cannot be an operand: `g.array(&host)` copies it to the device, once and visibly.
//!
//! # Errors
//!
//! - Reading or writing a single element (`x[3]`) would be a round trip to the device, so it does
//!   not compile, and the message names the alternatives. Operations that a device has no
//!   instructions for do not compile either: nothing falls back to the CPU.
//! - Incompatible shapes, missing axes and the like make the region fail with both shapes and the
//!   operation's line in the [`Error`], before any host data is changed. Errors propagate to every
//!   operation that depends on them.
//! - An index out of bounds is detected on the device: no memory outside the operands is accessed,
//!   the [`Pending`] reports the error with the downloaded results, and arguments stay unchanged.
//!   Arrays that stay on the device, and everything computed from them, carry the error until an
//!   element is downloaded.
//!
//! # Accuracy
//!
//! Sums, differences, products, quotients and square roots are rounded to nearest, operation by
//! operation, as on the host: no multiplication is contracted with an addition, and subnormal
//! numbers are kept. Comparisons, casts and integer arithmetic give the host's results too;
//! integers wrap around, and an integer divided by 0 is 0. The maximum errors of all other
//! functions are in `docs/maths.md`: 1 to 4 units in the last place, as for CUDA's own.
//!
//! Reductions and scans:
//!
//! - Floats of 16 bits: each operation is rounded. `sum`, `product` and scans combine them as `f32`
//!   and round once; `mean`, `var` and `std` are those of `f32`, rounded once at the end.
//! - `sum`: of `f32`, added as `f64` and rounded once at the end, so that nothing overflows before;
//!   of `f64`, with the error of each addition added at the end, so that the result is off by
//!   little more than the last rounding. A sum of `f64` overflows if a partial sum does, which
//!   depends on the order of a kernel, also where the result would be finite. So does a sum of
//!   `bf16`, whose partial sums are `f32`.
//! - `mean`: of `f32`, added and divided as `f64` and rounded once at the end; of `f64`, the sum,
//!   and the quotient rounded.
//! - `product`: of `f32`, multiplied as `f64` and rounded once at the end; of `f64`, each
//!   multiplication is rounded, which makes at most `n`/2 units for `n` elements.
//! - `var`, `std` of contiguous rows of 2 to 8,192 elements, and of longer ones if there are at
//!   least 128: two passes over a row. The mean and the deviations from it are rounded to the type
//!   of the elements. Their squares are added and divided as `f64` (for `std`, the root is taken),
//!   less what they have too much because the mean was rounded, and rounded once at the end.
//! - `var`, `std` of other elements, such as columns or a long array: one pass as `f64`, rounded
//!   once at the end. The relative error before that is at most 2⁻⁴⁶, however many elements there
//!   are and however much larger than the deviations their mean is.
//! - `min`, `max`, `argmin`, `argmax`: exact; NaN if there is one; −0 is less than +0.
//! - `cumsum`, `cumprod`, `cummin`, `cummax`: as `sum`, `product`, `min` and `max` of the elements
//!   so far.
//! - `scatter_add`: each addition is rounded, in no fixed order, so that the last bits may differ
//!   from run to run. Many values for few elements of `f32`, and all floats of
//!   `scatter_add_in_f64`, are added as `f64` and rounded once at the end. A GPU takes a subnormal
//!   `f32` for 0 in additions as `f32`.
//!
//! Minima and maxima are also independent of the order of evaluation: −0 is less than +0, and NaN
//! takes precedence over every number. This holds for [`minimum`](Array::minimum),
//! [`maximum`](Array::maximum), [`clamp`](Array::clamp), [`relu`](Array::relu), `min`, `max`,
//! `cummin` and `cummax`; `argmin` and `argmax` give the position of the first element with the
//! bits that `min` or `max` gives. Comparisons such as [`less`](Array::less) and
//! [`equal`](Array::equal) treat both zeros as equal, as Rust's do.
//!
//! Sorts are stable: [`sort`](Array::sort_axis), [`argsort`](Array::argsort_axis),
//! [`topk`](Array::topk) and [`searchsorted`](Array::searchsorted). There −0 equals +0, all NaN are
//! equal and come last, and the bits of zeros and NaN are kept. [`quantile`](Array::quantile_axis)
//! and [`median`](Array::median_axis) are NaN if there is one.
//!
//! The order in which elements are combined follows from shape and type alone, so that every device
//! gives the same bits. The exceptions are `scatter_add`, and `all_reduce`, whose order follows
//! from the number of devices, too, and is NCCL's own for GPUs that NCCL connects. [`Array::dot`]
//! states the accuracy of matrix products, and [`Array::attention`] that of attention.

#![cfg_attr(
    not(all(feature = "dlpack", feature = "mesh", feature = "safetensors")),
    allow(dead_code, unused_imports, reason = "DLPack, meshes and files use it")
)]

mod array;
/// Dimension types, for the code that `#[region]` generates.
#[doc(hidden)]
pub mod axes {
    pub use ndarray::{Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn};
}
mod checks;
mod counters;
mod element;
mod emit;
mod error;
mod expr;
mod host;
#[cfg(feature = "dlpack")]
mod interop;
#[doc(hidden)]
pub mod maths;
#[cfg(feature = "mesh")]
mod mesh;
mod plan;
#[doc(hidden)]
pub mod product;
mod recent;
mod region;
mod run;
mod schedule;
mod shape;
mod streams;

pub use array::{
    Array, ArrayViewMut, AttentionMask, BitwiseElement, Dot, ElementIndex, HostOperand,
    IndexElement, Indices, Integer, Operand, Packed, PackedOperand, PadMode, ScalarComparison,
    Selected, Side, WhereOperand, concatenate, einsum, stack,
};
#[doc(hidden)]
pub use array::{ElementIteration, ElementTypes, IntegerBesideFloats, SameElement};
#[doc(hidden)]
pub use element::{CompositeKind, ListItem};
pub use element::{Element, Float, Number};
pub use error::{
    ArrayShape, Error, MeshErrorKind, Result, TensorFileError, TensorFileProblem, UsageError,
    UsageErrorKind,
};
#[cfg(feature = "safetensors")]
pub use host::SafeTensors;
#[doc(hidden)]
pub use host::{
    ArrayDownload, ArraySource, OutputNode, PendingStruct, PendingValue, PlainValue, WriteBack,
    WriteBacks,
};
pub use host::{
    Arrays, DeviceValue, Input, InputMut, Keep, OnDevice, Output, Parameter, Pending, Prepared,
    RegionExt, RegionTarget, Resident, Unpacked,
};
#[doc(hidden)]
pub use host::{TensorReader, TensorWriter, part_name};
#[cfg(feature = "dlpack")]
pub use interop::DlpackElement;
#[cfg(feature = "dlpack")]
#[doc(hidden)]
pub use interop::Truth;
#[cfg(feature = "mesh")]
pub use mesh::{
    Border, Mesh, MeshArray, MeshOutput, MeshParameter, MeshRegion, Partial, Replicated, Sharded,
    Split,
};
pub use millstream_macros::{OnDevice, region};
pub use plan::{ExplainedKernel, Explanation, StoreReason, StoredArray};
pub use product::ProductPrecision;
pub use region::Region;
