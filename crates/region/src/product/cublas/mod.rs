//! Matrix products by cuBLAS, on GPUs where it is installed.
//!
//! A context has one cuBLAS handle, created with its first product and never destroyed. Creating it
//! waits until the device is idle (seen on an H200 with cuBLAS 13.1, where it takes some 60 ms
//! besides). Destroying it waits as well, according to its documentation, and `Drop` must not wait.
//! The first product of an element type loads kernels, which may wait for running kernels, as
//! loading any kernel may.
//!
//! The handle is locked while a product is enqueued, under the lock of the stream's submit queue;
//! no other lock is taken under it. Each product gets a workspace array, which the tracker orders
//! like any other array, so that cuBLAS allocates no memory itself.

#![allow(unsafe_code, reason = "enqueues calls of cuBLAS on checked operands")]

mod gemm;
mod library;

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_longlong},
    panic::Location,
    sync::Arc,
};

use millstream::{
    __log as log, Buffer, Device, Result, Stream,
    driver::{ContextHandle, CurrentContext, DevicePtr, DriverError},
    kernel::{self, Argument, DriverStream},
};
use parking_lot::Mutex;

use crate::{
    element::DType,
    product::{
        ProductPrecision,
        layout::{BATCH_DIMS, FactorLayout, ProductLayout},
        operand::{CheckedProduct, FactorMemory},
    },
};
use gemm::{Gemm, GemmFactor, GemmFunction, Transpose};
use library::{CublasApi, RawHandle};

/// The workspace size that cuBLAS's documentation recommends for GPUs of compute capability 9 and
/// later; the next constant is for earlier ones.
const WORKSPACE_BYTES: usize = 32 << 20;
const WORKSPACE_BYTES_BEFORE_9: usize = 4 << 20;

/// cuBLAS in one context.
struct Cublas {
    library: &'static CublasApi,
    handle: Mutex<RawHandle>,
    workspace_bytes: usize,
    /// The version and the path: `cuBLAS 13.0.0, /…/libcublas.so.13`.
    description: String,
}

/// Returns the version and the path of the device's cuBLAS.
pub(super) fn description(device: &Device) -> Option<String> {
    Cublas::of(device).map(|cublas| cublas.description.clone())
}

/// Enqueues the product, or returns `None` if cuBLAS is unavailable or cannot express it.
pub(super) fn enqueue(
    stream: &Stream,
    (dtype, precision): (DType, ProductPrecision),
    operands: &CheckedProduct<'_>,
    out: &mut Buffer<u8>,
    location: &'static Location<'static>,
) -> Option<Result<()>> {
    let gemm = gemm_of(operands, out.as_raw())?;
    let (cublas, function) = function_of(stream, (dtype, precision))?;
    debug_assert_eq!(out.len(), operands.layout.elements() * dtype.bytes());
    // SAFETY: only cuBLAS reads the workspace, and it does not expect a content.
    let mut workspace = match unsafe { stream.uninit::<u8>(cublas.workspace_bytes) } {
        Ok(workspace) => workspace,
        Err(error) => return Some(Err(error)),
    };
    let (address, bytes) = (workspace.as_raw(), workspace.len());
    let call =
        |driver_stream: DriverStream<'_>, displacements: &[u64]| -> Result<(), DriverError> {
            let moved = |address: DevicePtr, operand: usize| address.offset(displacements[operand]);
            // The order of the arguments below.
            let [first, second, product, work] = [0, 1, 2, 3];
            let mut gemm = gemm;
            gemm.a.address = moved(gemm.a.address, second);
            gemm.b.address = moved(gemm.b.address, first);
            gemm.c = moved(gemm.c, product);
            let handle = cublas.handle.lock();
            // SAFETY: the device keeps its context alive.
            let _entered =
                unsafe { CurrentContext::enter(driver_stream.driver, driver_stream.context) }?;
            // SAFETY: the stream is the device's, and the handle is locked.
            unsafe {
                cublas.library.set_stream_and_workspace(
                    *handle,
                    driver_stream.stream,
                    moved(address, work),
                    bytes,
                )
            }?;
            // SAFETY: the context is current and the handle locked; the operands were checked to
            // lie in their arrays.
            unsafe { function.call(cublas.library, *handle, &gemm) }
        };
    let (mut whole, mut work) = (out.slice_mut(..), workspace.slice_mut(..));
    let arguments = [
        Argument::read(&operands.a.view),
        Argument::read(&operands.b.view),
        Argument::write(&mut whole),
        Argument::write(&mut work),
    ];
    // SAFETY: the product is enqueued on the queue's stream; it reads the factors, and writes `out`
    // and the workspace, at the addresses given. cuBLAS passes these to its kernels as they are.
    Some(unsafe {
        kernel::enqueue_relocatable(function.name(), stream, &arguments, location, call)
    })
}

/// Returns whether [`enqueue`] computes the product.
pub(super) fn serves(
    stream: &Stream,
    arithmetic: (DType, ProductPrecision),
    operands: &CheckedProduct<'_>,
) -> bool {
    // Only the address of the product is not known yet.
    gemm_of(operands, DevicePtr::from_raw(0)).is_some() && function_of(stream, arithmetic).is_some()
}

/// Returns the device's cuBLAS and its function for elements of a type, if there are both.
fn function_of(
    stream: &Stream,
    (dtype, precision): (DType, ProductPrecision),
) -> Option<(Arc<Cublas>, GemmFunction)> {
    // Integers must not make the first call initialise cuBLAS.
    if !dtype.is_float() {
        return None;
    }
    let device = stream.device();
    let cublas = Cublas::of(&device)?;
    let capability = device.compute_capability();
    let function = GemmFunction::of(cublas.library, dtype, precision, capability)?;
    Some((cublas, function))
}

impl Cublas {
    /// Returns the device's cuBLAS, which the first call looks for, or `None` if there is none or
    /// the device is simulated.
    fn of(device: &Device) -> Option<Arc<Self>> {
        Option::clone(&device.slot(|| Self::find(device)))
    }

    /// Returns the handle of the device's context, creating it if needed. Handles outlive devices,
    /// because contexts live as long as the process.
    fn find(device: &Device) -> Option<Arc<Self>> {
        static HANDLES: Mutex<BTreeMap<ContextHandle, Arc<Cublas>>> = Mutex::new(BTreeMap::new());
        // Only libcuda can enter a context: cuBLAS knows nothing of the contexts of other drivers.
        let _entered = device.enter_context().ok()?;
        let library = CublasApi::get()?;
        let mut handles = HANDLES.lock();
        if let Some(handle) = handles.get(&device.as_raw()) {
            return Some(Arc::clone(handle));
        }
        let made = Self::new(device, library);
        let made = made.inspect_err(|error| {
            let error = error.clone();
            log!(warn, %error, "cuBLAS failed to initialise: matrix products use built-in kernels");
        });
        let made = Arc::new(made.ok()?);
        handles.insert(device.as_raw(), Arc::clone(&made));
        Some(made)
    }

    /// Creates the handle in the device's context, which must be current.
    fn new(device: &Device, library: &'static CublasApi) -> Result<Self, DriverError> {
        let handle = library.create()?;
        let version = library.version(handle)?;
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        let description = format!("cuBLAS {major}.{minor}.{patch}, {}", library.found.origin());
        let (text, name) = (description.clone(), device.to_string());
        log!(
            debug,
            description = text,
            device = name,
            "matrix products use cuBLAS"
        );
        Ok(Self {
            library,
            handle: Mutex::new(handle),
            workspace_bytes: if device.compute_capability().0 >= 9 {
                WORKSPACE_BYTES
            } else {
                WORKSPACE_BYTES_BEFORE_9
            },
            description,
        })
    }
}

/// Returns the arguments of the cuBLAS call, or `None` if cuBLAS cannot express the product. Its
/// matrices are column-major, so that it computes the transposed product: `outᵀ = bᵀ · aᵀ`.
fn gemm_of(operands: &CheckedProduct<'_>, out: DevicePtr) -> Option<Gemm> {
    let ProductLayout { m, k, n, a, b, .. } = operands.layout;
    let [rest @ .., batches] = operands.layout.batch;
    if rest != [1; BATCH_DIMS - 1] {
        return None;
    }
    Some(Gemm {
        m: c_int::try_from(n).ok()?,
        n: c_int::try_from(m).ok()?,
        k: c_int::try_from(k).ok()?,
        a: factor_of(&operands.b, &b, k, n)?,
        b: factor_of(&operands.a, &a, m, k)?,
        c: out,
        batches: c_int::try_from(batches).ok()?,
    })
}

/// Describes a factor of `rows` × `columns` to cuBLAS, or returns `None` unless one stride is 1 and
/// the other at least the length of its lines.
fn factor_of(
    memory: &FactorMemory<'_>,
    layout: &FactorLayout,
    rows: usize,
    columns: usize,
) -> Option<GemmFactor> {
    let (transpose, leading) = match leading(rows, layout.row, columns, layout.column) {
        Some(leading) => (Transpose::No, leading),
        None => {
            let leading = leading(columns, layout.column, rows, layout.row);
            (Transpose::Yes, leading?)
        }
    };
    let stride = c_longlong::try_from(layout.batch[BATCH_DIMS - 1]).ok()?;
    (stride >= 0).then_some(GemmFactor {
        transpose,
        address: memory.address,
        leading,
        stride,
    })
}

/// Returns the distance between `outer` contiguous lines of `inner` elements, or `None` if the
/// lines are not contiguous or overlap. The stride of a dimension of length 1 does not matter.
fn leading(outer: usize, outer_stride: isize, inner: usize, inner_stride: isize) -> Option<c_int> {
    if inner_stride != 1 && inner > 1 {
        return None;
    }
    let leading = match outer {
        ..=1 => inner,
        _ => usize::try_from(outer_stride).ok()?,
    };
    c_int::try_from(leading).ok().filter(|_| leading >= inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_contiguous_lines_that_do_not_overlap_have_a_leading_dimension() {
        assert_eq!(leading(3, 5, 5, 1), Some(5));
        assert_eq!(leading(3, 8, 5, 1), Some(8));
        assert_eq!(leading(3, 4, 5, 1), None, "they overlap");
        assert_eq!(leading(3, 0, 5, 1), None, "all are the same");
        assert_eq!(leading(3, -5, 5, 1), None, "backwards");
        assert_eq!(leading(3, 10, 5, 2), None, "with gaps");
        assert_eq!(leading(1, -7, 5, 1), Some(5), "only one line");
        assert_eq!(leading(3, 2, 1, 9), Some(2), "lines of one element");
        assert_eq!(leading(3, 1 << 40, 5, 1), None, "more than a C int");
    }
}
