//! "Run this block on the GPU": arrays on a device that are evaluated when they are needed, and
//! `#[region]`.
//!
//! A *region* is a block of ordinary code over [`Array`]s. It is entered with a
//! [`Device`](millstream::Device), takes arrays of the host or of the device, and gives results
//! that come back, or stay:
//!
//! ```
//! use millstream_region::RegionExt;
//! use ndarray::array;
//!
//! let device = millstream::Device::simulated()?; // or Device::open(Select::Auto): a GPU if there is one
//! let (w, x, b) = (array![[1.0_f32, 2.0], [3.0, -4.0]], array![5.0, 6.0], array![0.5, 0.5]);
//! let y = device.region(|g| (g.array(&w).dot(&g.array(&x)) + g.array(&b)).relu())?; // returns at once
//! assert_eq!(y.wait()?, array![17.5, 0.0]); // or .await
//! # Ok::<(), millstream_region::Error>(())
//! ```
//!
//! # What happens
//!
//! - Operations are noted down, not done. When the block ends they are put together: chains of
//!   operations, broadcasts, slices and a reduction at the end become one kernel, which is
//!   generated and kept; the same operation on the same operands is done once; what is not needed
//!   is not done. Parts that do not depend on each other run beside each other.
//! - What the caller passes is copied to the device before the call returns, once however often it
//!   is used; arrays of the device are not copied. Results and what was passed as `&mut` come back,
//!   and nothing else does.
//! - A body that has to know a value asks for it: [`Array::item`] and [`Array::to_host`] enqueue
//!   what the value needs, and wait for that.
//! - Nothing else is waited for but the result, by who waits for the [`Pending`]. Regions overlap,
//!   unless one uses what another makes.
//! - On an error, a panic, or when the [`Pending`] is dropped, nothing of the host has changed.
//!
//! # As with `ndarray`
//!
//! Arrays have the names and the operators of [`ndarray`], so that one text can serve both
//! (`examples/digits`, `examples/options`). What differs:
//!
//! - Where `ndarray` gives an `Option` or a `Result` of an array (`mean_axis`, `broadcast`,
//!   `into_shape_with_order`), there is an array, whose [`unwrap`](Array::unwrap) gives itself: a
//!   mistake is the region's error. [`concatenate`], [`stack`] and
//!   [`into_dimensionality`](Array::into_dimensionality) give a [`Result`].
//! - Whole sums, extrema and the like are arrays without axes, of which [`item`](Array::item) gives
//!   the value.
//! - [`mapv`](Array::mapv) calls its closure once, with the whole array.
//! - A host array cannot be an operand: `g.array(&host)` copies it to the device, once and visibly.
//!
//! # What is refused
//!
//! - A single element cannot be read or written (`x[3]`): that would be a round trip to the device.
//!   It does not compile, and the message says what to do instead. Nor does what a device has no
//!   instructions for: there is no silent way back to the CPU.
//! - Shapes that do not fit, axes that are not there and the like make the region fail, with both
//!   shapes and the operation's line in the [`Error`], before anything of it is seen on the host.
//!   An operation on such a mistake is the same mistake.
//! - An index that is none of its axis is found by the device, and is the error of the [`Pending`].
//!
//! # Accuracy
//!
//! Sums, differences, products, quotients and square roots are rounded to nearest, each by itself,
//! as on the host; nothing is contracted and subnormal numbers are kept. Comparisons, casts and
//! integers are those of the host, too; integers wrap around, and an integer divided by 0 is
//! 0. `docs/maths.md` tells of every other function how far off it is at most: 1 to 4 units in the
//!    last place, as CUDA's.
//!
//! | reduction | of `f32` | of `f64` |
//! |---|---|---|
//! | `sum` | added as `f64`, rounded once more | each addition's error is added at the end, so that it is off by little more than the last rounding |
//! | `mean` | added and divided as `f64`, rounded once more | the sum, and the quotient rounded |
//! | `product` | multiplied as `f64`, rounded once more | each multiplication is rounded: `n`/2 units at most for `n` elements |
//! | `var`, `std` | two passes: the mean as `f32`, then the squared deviations from it, which are added and divided (of `std`, the root is taken) as `f64` and rounded once more | two passes, each step rounded |
//! | `min`, `max`, `argmin`, `argmax` | exact; NaN if there is one; −0 is less than +0 | likewise |
//! | `cumsum`, `cumprod`, `cummin`, `cummax` | as `sum`, `product`, `min` and `max` of the elements so far | likewise |
//! | `scatter_add` | added as `f64`, in no order, rounded once more | each addition is rounded, in no order: the last bits may differ from run to run |
//!
//! Minima and maxima do not depend on the order either: −0 is less than +0, and NaN wins over every
//! number. This holds for [`minimum`](Array::minimum), [`maximum`](Array::maximum),
//! [`clamp`](Array::clamp), [`relu`](Array::relu), `min`, `max`, `cummin` and `cummax`; `argmin`
//! and `argmax` give the position of the first element with the bits that `min` or `max` gives.
//! Comparisons such as [`less`](Array::less) and [`equal`](Array::equal) take both zeros as equal,
//! as Rust's do.
//!
//! But for `scatter_add`, the order of additions follows from the shapes alone, so that every
//! device gives the same bits. [`Array::dot`] tells of matrix products.

mod array;
/// Numbers of axes, for the code that `#[region]` writes.
#[doc(hidden)]
pub mod axes {
    pub use ndarray::{Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn};
}
mod checks;
mod codegen;
mod element;
mod error;
mod evaluate;
mod fuse;
mod graph;
mod host;
mod launch;
#[doc(hidden)]
pub mod maths;
#[doc(hidden)]
pub mod product;
mod region;
mod shape;
mod streams;

pub use array::{
    Array, ArrayViewMut, BitwiseElement, Dot, ElementIndex, HostOperand, IndexElement, Indices,
    Integer, Operand, ScalarComparison, Selected, WhereOperand, concatenate, stack,
};
pub use element::{Element, Float, Number};
pub use error::{ArrayShape, Error, Result, UsageError, UsageErrorKind};
#[doc(hidden)]
pub use host::{
    ArrayDownload, ArraySource, OutputNode, PendingStruct, PendingValue, PlainValue, ResidentArray,
    ScalarDownload, VecDownload, WriteBack, WriteBacks,
};
pub use host::{
    DeviceValue, Input, InputMut, Keep, OnDevice, Output, Parameter, Pending, RegionExt,
    RegionTarget,
};
pub use millstream_macros::{OnDevice, region};
pub use region::Region;
