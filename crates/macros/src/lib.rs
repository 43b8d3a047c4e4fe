//! Procedural macros of Millstream: typed kernels with [`kernels!`], used through `millstream`;
//! and, used through `millstream-region`, functions that run on a device with [`macro@region`] and
//! structs of arrays with [`macro@OnDevice`].

mod clause;
mod expand;
mod kernel;
mod module;
mod on_device;
mod region;
mod shared_library;
mod text;
mod variable;

use proc_macro::TokenStream;

/// Declares the kernels of a PTX module, with the types of their parameters.
///
/// ```ignore
/// millstream::kernels! {
///     /// The photograph's kernels.
///     // SAFETY: each signature is that of the kernel of the same name in photo.cu, and the
///     // clauses bound every access.
///     pub unsafe mod photo from include_str!("../kernels/photo.ptx") {
///         /// Brightness of `n` pixels.
///         pub safe fn luminance(
///             /// Three bytes per pixel.
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
/// `&'static str`, such as `include_str!("…")`. With the word `unsafe` the author guarantees that
/// each declared signature matches the kernel: the kernel only reads a `&[T]`, and its elements
/// have the type `T`. For a `safe` kernel the author also guarantees that, whenever its clauses
/// hold, it stays within its slices and its threads do not race on any byte. The block of
/// declarations is unsafe in the same sense as Rust's `unsafe extern` block.
///
/// Inside, a kernel is declared by either of
///
/// * `unsafe fn NAME(…);` — the caller guarantees that the launch is valid;
/// * `safe fn NAME(…) requires CLAUSE, …;` — the host checks the clauses before each launch. A safe
///   kernel without clauses must be valid for all arguments.
///
/// An `unsafe fn` may have clauses too. Documentation and visibility carry over; a parameter's
/// documentation appears on the method's page. `#[kernel(name = "_Z5saxpyifPKfPf")]` gives the
/// kernel's name in the PTX if it differs.
///
/// # Parameters
///
/// | declared | in CUDA C++ | the method takes |
/// |---|---|---|
/// | `&[T]` | `const T*` | `impl ReadOperand<T>`: `&Buffer<T>`, a view, … |
/// | `&mut [T]` | `T*` | `impl WriteOperand<T>`: `&mut Buffer<T>`, a mutable view, … |
/// | `&Texture<T>` | `cudaTextureObject_t` | `&Texture<T>` |
/// | `&mut Surface<T>` | `cudaSurfaceObject_t` | `texture.surface()` |
/// | `T`, named by a path | `T` | `T`, which is plain old data (`bytemuck::Pod`) |
///
/// Loading compares the number of parameters and the size and alignment of each with the PTX. The
/// elements of slices must have an alignment of at most 256 bytes, the alignment of device memory;
/// others do not compile.
///
/// # Variables
///
/// `static NAME: [T];` among the kernels declares a `__device__` or `__constant__` variable of the
/// module. A method of that name returns it as a `Global<T>`, an array. `static NAME: T;` declares
/// one with a single element. Loading compares the size and the alignment with the PTX. Launches of
/// kernels that use a variable are ordered with each other and with operations on its array,
/// whether it is declared or not.
///
/// # Occupancy
///
/// Beside the method `NAME` of each kernel there is `NAME_occupancy`, which returns the kernel's
/// `Occupancy`: how many of its blocks run at once, and a suggested block size.
///
/// # Clauses
///
/// A clause is a Rust expression of type `bool`. In a clause
///
/// * the parameters are in scope, besides everything that is in scope around the macro: constants,
///   functions, types. A slice has `.len()`, in elements, and `.is_empty()`.
/// * `grid` is the launch configuration: `grid.blocks.x` (CUDA's `gridDim.x`), `grid.block.x`
///   (`blockDim.x`), their `y` and `z`, and `grid.shared_bytes`.
/// * integers are checked and 128 bits wide. Every operand of an operator (a parameter, a field, an
///   element, a constant, the result of a call) becomes a checked integer if it is an integer of
///   any type. So all integer types mix without casts: `rgb.len() >= 3 * n`,
///   `out.len() >= size.w * size.h`.
///
/// Clauses are checked in order. The first that fails becomes the error, with the values of its
/// operands, and nothing is enqueued. A clause whose arithmetic overflows or divides by zero fails:
/// it neither panics nor wraps around.
///
/// Checked integers have the operators `+ - * / % & | ^ << >>`, comparison, and the methods `abs`,
/// `abs_diff`, `clamp`, `div_ceil`, `div_euclid`, `is_multiple_of`, `is_power_of_two`, `max`,
/// `min`, `next_multiple_of`, `next_power_of_two`, `pow` and `rem_euclid`. They index arrays,
/// slices and vectors, as in `TABLE[mode + 1]`; an index out of range makes the clause fail.
///
/// Rejected, because they may overflow unchecked, are casts with `as`, compound assignment, macros
/// other than `matches!` and `cfg!`, and arithmetic by the name of a function (`Mul::mul`,
/// `u32::pow`, `sum`). The author of `unsafe mod` is responsible for functions of their own, and
/// for functions whose name says how they overflow (`wrapping_mul`).
///
/// # Expansion
///
/// The declaration above becomes
///
/// ```text
/// /// The photograph's kernels.
/// pub mod photo {
///     pub struct Kernels { /* one function for each kernel */ }
///     /// Loads the kernels on `device`, or returns them if they are loaded already.
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
///         // for each clause, with the names above in scope and each operand a checked integer:
///         if !clause::holds(|| rgb.len() >= 3 * n) {
///             let values = …; // "rgb.len() = 8, n = 3"
///             return Err(millstream::Error::requires(
///                 "photo::luminance",
///                 "rgb.len() >= 3 * n",
///                 values,
///             ));
///         }
///         // SAFETY: the declaration's author guarantees the signature, and the clauses hold.
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
/// The methods are in an `impl` block beside the module, so types and constants are in scope as
/// they are around the macro.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    expand::expand(input.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Turns a function over arrays into one that runs on a device.
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
/// The function receives one more parameter, the first: the target that it runs on. Called with
/// `&Device`, it is a region of its own: it enqueues all work and returns `Result<Pending<…>>`.
/// Called with `&Region` inside another region, it becomes part of that region and returns the
/// body's result.
///
/// # Parameters
///
/// | declared | type in the body | callers pass |
/// |---|---|---|
/// | `x: &Array1<f32>` | `&` of a device array | `&x`, `x`, a view, or a device array |
/// | `x: Array1<f32>`, `mut x: …` | a device array | the same |
/// | `x: &ArrayView2<f32>`, `x: ArrayView2<f32>` | as for `Array2<f32>` | the same |
/// | `x: &mut Array1<f32>`, `&mut ArrayViewMut1<f32>` | `&mut` of a device array | see below |
/// | `x: f32`, and other plain values | the same | the same |
/// | `x: &Layer`, which derives `OnDevice` | `&LayerOnDevice` | `&layer`, or a device struct |
/// | `g: &Region`, as the first parameter | the region, to create arrays in | nothing |
///
/// Arrays of the host are copied to the device during the call; device arrays are not copied. For a
/// `&mut` parameter callers pass `&mut x`, a mutable view of it, or `&mut` of a device array. That
/// argument stays borrowed until the result has been waited for, and is replaced then; after an
/// error it is unchanged.
///
/// # Types in the body
///
/// The signature's types become those of the device: in the body, a parameter declared as
/// `&Array1<f32>` has the type `&millstream_region::Array<f32, Ix1>`. A `let` in the body with a
/// type of `ndarray` does not match it: omit the type, or name the device's.
///
/// The constructors `zeros`, `ones`, `from_elem`, `eye`, `linspace` and `range`, called on an
/// imported type of `ndarray` (`Array1::zeros(n)`, `Array2::<f32>::eye(3)`), create an array of the
/// region. Called by its full path (`ndarray::Array1::zeros(n)`), or with any other constructor,
/// the type creates an array of the host, which `g.array(&host)` copies to the device.
///
/// `mapv` calls its closure once, with the whole array. If a call on a parameter passes a function
/// that can only work on single elements (`f32::exp`, `if v > 0.0`, `v as f64`, `v.max(0.0)`), the
/// macro rejects it and suggests the replacement.
///
/// # Result
///
/// Arrays, vectors and single elements of the host are downloaded; the body returns device arrays
/// for them, and for a single element one without axes. Device arrays stay on the device. A body
/// that can fail returns `millstream_region::Result`; the call returns its error.
///
/// # Regions of a mesh
///
/// Under `#[region(mesh)]`, which needs the feature `mesh` of `millstream-region`, the body runs
/// once for each device of a mesh, and devices exchange elements by collectives:
///
/// ```ignore
/// #[region(mesh)]
/// fn step(w: &Replicated<Array2<f32>>, x: &Sharded<Array2<f32>, 0>) -> Replicated<Array2<f32>> {
///     x.t().dot(x).all_reduce("data") * w
/// }
///
/// let product: Replicated<Array2<f32>> = step(&mesh, &w, &x)?;
/// ```
///
/// The first parameter that it receives is `&Mesh`. Parameters are `&Replicated<…>`,
/// `&Sharded<…, AXIS>`, of which the body gets the device's array, plain values, and `g:
/// &MeshRegion` as the first. Results are `Replicated<…>`, `Sharded<…, AXIS>`, `Partial<…>`, tuples
/// of those, or a `millstream_region::Result`; they stay on the devices.
///
/// # Limitations
///
/// Rejected are `async`, `const`, `unsafe` and `extern` functions, `self`, `impl Trait` in the
/// signature, and an `ArrayViewMut` without `&mut`. Generic parameters are allowed; the target's
/// type is added as the last one.
#[proc_macro_attribute]
pub fn region(arguments: TokenStream, item: TokenStream) -> TokenStream {
    region::expand(&arguments.into(), item.into(), cfg!(feature = "mesh"))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Derives a device struct from a struct of arrays.
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
/// derives a `struct LayerOnDevice` with the same fields, in which device arrays replace arrays and
/// plain values stay. `Layer`, `&Layer` and `&mut Layer` can then be parameters of a region
/// function, for which callers pass either struct, and both structs can be its result. The trait of
/// the same name in `millstream-region` describes the conversions.
///
/// Named and unnamed fields and generic types are supported. Structs without fields, enums, unions
/// and lifetimes are rejected. `#[on_device(name = "…")]` gives a field another name in files of
/// tensors, and `#[on_device(skip)]` leaves it out of them.
#[proc_macro_derive(OnDevice, attributes(on_device))]
pub fn on_device(item: TokenStream) -> TokenStream {
    on_device::expand(item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The contents of the shared library of a dependency, whose name is the argument: an
/// `Option<&'static [u8]>`, `None` if nothing is linked. The command `millstream` carries its
/// driver in this way.
#[doc(hidden)]
#[proc_macro]
pub fn shared_library(dependency: TokenStream) -> TokenStream {
    let arguments = std::env::args_os().filter_map(|argument| argument.into_string().ok());
    let found = shared_library::beside_dependency(arguments, &dependency.to_string());
    let Some(path) = found.as_deref().and_then(std::path::Path::to_str) else {
        return quote::quote!(::core::option::Option::None).into();
    };
    quote::quote!(::core::option::Option::Some(::core::include_bytes!(#path))).into()
}
