//! Procedural macros of Millstream, used through the crates `millstream`: typed kernels with
//! [`kernels!`], and `millstream-region`: functions that run on a device with [`macro@region`], and
//! structs of arrays with [`macro@OnDevice`].

mod clause;
mod expand;
mod kernel;
mod module;
mod on_device;
mod region;
mod text;

use proc_macro::TokenStream;

/// Declares the kernels of a PTX module, with the types of their parameters.
///
/// ```ignore
/// millstream::kernels! {
///     /// The photograph's kernels.
///     // SAFETY: each signature is that of the kernel of the same name in photo.cu, and the clauses bound every access.
///     pub unsafe mod photo from include_str!("../kernels/photo.ptx") {
///         /// Brightness of `n` pixels.
///         pub safe fn luminance(
///             /// Three bytes a pixel.
///             rgb: &[u8],
///             luma: &mut [u8],
///             n: i32,
///         ) requires n >= 0, rgb.len() >= 3 * n, luma.len() >= n;
///
///         pub unsafe fn saxpy(n: i32, a: f32, x: &[f32], y: &mut [f32]);
///     }
/// }
///
/// let kernels = photo::load(&device)?;
/// kernels.luminance(&stream, n, &rgb, &mut luma, n)?;
/// ```
///
/// # The module
///
/// `unsafe mod NAME from PTX { … }` declares a module. `PTX` is any constant expression of type
/// `&'static str`, such as `include_str!("…")`. The word `unsafe` is the author's promise that each
/// declared signature says what the kernel does with its parameters: that a `&[T]` is only read,
/// that elements have the type `T`, and for a `safe` kernel that it stays within its slices, and
/// shares no bytes between its threads without order, whenever its clauses hold. It is the same
/// promise as that of Rust's `unsafe extern` block.
///
/// Inside, each kernel is declared by
///
/// * `unsafe fn NAME(…);` — the caller promises what the kernel needs; or
/// * `safe fn NAME(…) requires CLAUSE, …;` — the clauses are checked on the host before each
///   launch. A safe kernel without any is one that is right for whatever arguments.
///
/// An `unsafe fn` may have clauses too. Documentation and visibility carry over; a parameter's
/// documentation is listed on the method's page. `#[kernel(name = "_Z5saxpyifPKfPf")]` declares a
/// kernel that has another name in the PTX.
///
/// # Parameters
///
/// | declared | in CUDA C++ | the method takes |
/// |---|---|---|
/// | `&[T]` | `const T*` | `impl ReadOperand<T>`: `&Buffer<T>`, a view, … |
/// | `&mut [T]` | `T*` | `impl WriteOperand<T>`: `&mut Buffer<T>`, a mutable view, … |
/// | `T`, named by a path | `T` | `T`, which is plain old data (`bytemuck::Pod`) |
///
/// Loading compares the number of parameters and the size and alignment of each with the PTX.
/// Elements of slices must not need an alignment of more than 256 bytes, which is what device
/// memory has; others do not compile.
///
/// # Clauses
///
/// A clause is a Rust expression of type `bool`. In it
///
/// * the names are those of the parameters, and of whatever else there is where the macro stands:
///   constants, functions, types. A slice has `.len()`, in elements, and `.is_empty()`.
/// * `grid` is the launch: `grid.blocks.x` (CUDA's `gridDim.x`), `grid.block.x` (`blockDim.x`),
///   their `y` and `z`, and `grid.shared_bytes`.
/// * integers are checked and 128 bits wide. Whatever stands beside an operator, a parameter, a
///   field, an element, a constant, the result of a call, becomes such an integer if it is an
///   integer of any type. So all of them mix, and no cast is needed: `rgb.len() >= 3 * n`,
///   `out.len() >= size.w * size.h`.
///
/// Clauses are checked in order; the first that does not hold is the error's text, with the values
/// of its operands, and nothing is enqueued. Arithmetic that overflows, or divides by zero, makes
/// its clause not hold: it neither panics nor wraps around.
///
/// The checked integers have the operators `+ - * / % & | ^ << >>`, comparison, and the methods
/// `abs`, `abs_diff`, `clamp`, `div_ceil`, `div_euclid`, `is_multiple_of`, `is_power_of_two`,
/// `max`, `min`, `next_multiple_of`, `next_power_of_two`, `pow` and `rem_euclid`. They index
/// arrays, slices and vectors: `TABLE[mode + 1]`, which makes the clause not hold if there is no
/// such element.
///
/// Refused, because it might overflow unseen: casts with `as`, compound assignment, macros but
/// `matches!` and `cfg!`, and arithmetic by the name of a function (`Mul::mul`, `u32::pow`, `sum`).
/// What a function of one's own does, or one whose name says how it overflows (`wrapping_mul`), is
/// part of what the author of `unsafe mod` promises.
///
/// # Expansion
///
/// The declaration above becomes
///
/// ```text
/// /// The photograph's kernels.
/// pub mod photo {
///     pub struct Kernels { /* one function for each kernel */ }
///     /// Loads the kernels on `device`, or finds them loaded.
///     pub fn load(device: &millstream::Device) -> millstream::Result<Kernels> { … }
/// }
///
/// impl photo::Kernels {
///     pub fn luminance(
///         &self,
///         stream: &millstream::Stream,
///         grid: impl Into<millstream::LaunchConfig>,
///         rgb: impl millstream::kernel::ReadOperand<u8>,
///         mut luma: impl millstream::kernel::WriteOperand<u8>,
///         n: i32,
///     ) -> millstream::Result<()> {
///         // for each clause, with the names above in scope, and each operand a checked integer:
///         if !clause::holds(|| rgb.len() >= 3 * n) {
///             let values = …; // "rgb.len() = 8, n = 3"
///             return Err(millstream::Error::requires("photo::luminance", "rgb.len() >= 3 * n", values));
///         }
///         // SAFETY: the declaration's author vouches for the signature, and the clauses hold.
///         unsafe {
///             millstream::kernel::launch(
///                 &self.functions[0],
///                 stream,
///                 grid,
///                 &mut [Argument::read(&rgb), Argument::write(&mut luma), Argument::scalar(&n)],
///             )
///         }
///     }
///
///     pub unsafe fn saxpy(/* likewise */) -> millstream::Result<()> { … }
/// }
/// ```
///
/// The methods stand beside the module, so types and constants are named as they are around the
/// macro.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    expand::expand(input.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a function over arrays one that runs on a device.
///
/// ```ignore
/// #[region]
/// fn predict(w: &Array2<f32>, x: &Array1<f32>, b: &Array1<f32>) -> Array1<f32> {
///     (w.dot(x) + b).relu()
/// }
///
/// let y: Array1<f32> = predict(&device, &w, &x, &b)?.wait()?; // or .await
/// ```
///
/// The function gets one parameter more, in front: where it runs. With `&Device` a call is a region
/// of its own: it enqueues all work and gives `Result<Pending<…>>`. With `&Region`, within another
/// region, it is a part of that, and gives what the body gives.
///
/// # Parameters
///
/// | declared | the body has | callers pass |
/// |---|---|---|
/// | `x: &Array1<f32>` | `&` of an array on the device | `&x`, `x`, a view, or an array on the device, which is not copied |
/// | `x: Array1<f32>`, `mut x: …` | such an array | the same |
/// | `x: &ArrayView2<f32>`, `x: ArrayView2<f32>` | as if it were declared as `Array2<f32>` | the same |
/// | `x: &mut Array1<f32>`, `&mut ArrayViewMut1<f32>` | `&mut` of such an array | `&mut x`, a view of it to write, or `&mut` of an array on the device |
/// | `x: f32`, and other plain values | the same | the same |
/// | `x: &Layer`, a struct that derives `OnDevice` | `&LayerOnDevice` | `&layer`, or one on the device |
/// | `g: &Region`, in the first place | the region, to make arrays in | nothing |
///
/// Arrays of the host are copied to the device during the call. What was passed as `&mut` is
/// borrowed until the result has been waited for, and is replaced then; whatever fails, it stays as
/// it is.
///
/// # Types in the body
///
/// The signature's types become those of the device: in the body, what `&Array1<f32>` declares is a
/// `&millstream_region::Array<f32, Ix1>`. A `let` in the body whose type is written as one of
/// `ndarray`'s does not match it; leave the type away, or name the device's.
///
/// The constructors `zeros`, `ones`, `from_elem`, `eye`, `linspace` and `range`, called on an
/// imported type of `ndarray` (`Array1::zeros(n)`, `Array2::<f32>::eye(3)`), make an array of the
/// region. By its full name (`ndarray::Array1::zeros(n)`), and by any other constructor, the type
/// makes an array of the host, which `g.array(&host)` copies to the device.
///
/// `mapv` calls its closure once, with the whole array. Where it is called on a parameter with what
/// can only work for single elements (`f32::exp`, `if v > 0.0`, `v as f64`, `v.max(0.0)`), the
/// macro refuses it and says what to write instead.
///
/// # Result
///
/// Arrays, vectors and single elements of the host are downloaded; the body gives arrays of the
/// device for them, for a single element one without axes. Arrays of the device stay there. A body
/// that can fail returns `millstream_region::Result`; its error is that of the call.
///
/// # Not possible
///
/// `async`, `const`, `unsafe` and `extern` functions, `self`, `impl Trait` in the signature, and an
/// `ArrayViewMut` that is not behind `&mut`. Generic parameters are possible; the place is one
/// more, behind them.
#[proc_macro_attribute]
pub fn region(arguments: TokenStream, item: TokenStream) -> TokenStream {
    region::expand(&arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a twin of a struct of arrays, with the arrays on a device.
///
/// ```ignore
/// #[derive(OnDevice)]
/// struct Layer {
///     weights: Array2<f32>,
///     bias: Array1<f32>,
///     rounds: usize,
/// }
/// ```
///
/// makes a `struct LayerOnDevice` with the same fields: arrays on the device, and plain values as
/// they are. With it, `Layer`, `&Layer` and `&mut Layer` can be parameters of a region function,
/// for which callers pass either struct, and both structs can be its result. The trait of the same
/// name in `millstream-region` says more.
///
/// The fields may have names or not. Structs without fields, enums, unions and generic parameters
/// are refused.
#[proc_macro_derive(OnDevice)]
pub fn on_device(item: TokenStream) -> TokenStream {
    on_device::expand(item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
