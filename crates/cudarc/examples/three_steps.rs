//! A program of cudarc, with a kernel that NVRTC compiles and a product of cuBLAS, moves to
//! Millstream in three steps. Each version gives the same result: `relu(x · w) + bias`.
//!
//! It needs a GPU, NVRTC and cuBLAS: `cargo run --release -p millstream-cudarc --example
//! three_steps`. Without cuBLAS a kernel takes its place, so that the program also runs on a
//! simulated device (`millstream run`), for which there is none.

#![allow(unsafe_code, reason = "launches kernels with cudarc, calls cuBLAS")]

use std::{error::Error, sync::Arc};

use cudarc::{
    cublas::{self, CudaBlas, result::CublasError, sys::cublasOperation_t::CUBLAS_OP_N},
    driver::{
        CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DevicePtrMut,
        DriverError, LaunchConfig, PushKernelArg as _,
    },
    nvrtc,
};
use millstream::{
    Buffer, Device, Kernel, Ptx,
    interop::{ForeignCall, read, write},
    signature,
};
use millstream_cudarc::{
    SharedStream, adopt_slice, device_of, foreign, lend, lend_mut, return_slice,
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// The number of rows and columns.
const N: usize = 128;

const SOURCE: &str = r#"
extern "C" __global__ void relu_bias(float *values, const float *bias, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n * n) values[i] = fmaxf(values[i], 0.0f) + bias[i % n];
}

// The product of matrices whose columns are contiguous, as cuBLAS has them.
extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i >= n * n) return;
    float sum = 0.0f;
    for (unsigned long long k = 0; k < n; k++) sum += a[k * n + i % n] * b[i / n * n + k];
    c[i] = sum;
}
"#;

/// The kernel, launched by cudarc.
fn relu_bias(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    values: &mut impl DevicePtrMut<f32>,
    bias: &impl DevicePtr<f32>,
) -> Result {
    let n = N as u64;
    let (values, _wrote) = values.device_ptr_mut(stream);
    let (bias, _read) = bias.device_ptr(stream);
    let mut launch = stream.launch_builder(kernel);
    launch.arg(&values).arg(&bias).arg(&n);
    // SAFETY: the kernel has these parameters and stays within the arrays.
    unsafe { launch.launch(LaunchConfig::for_num_elems((N * N) as u32)) }?;
    Ok(())
}

enum Product {
    Blas(CudaBlas),
    /// Used if there is no cuBLAS.
    Kernel(CudaFunction),
}

#[derive(Debug, thiserror::Error)]
enum ProductError {
    #[error("cuBLAS: {0:?}")]
    Blas(#[from] CublasError),
    #[error("the kernel: {0:?}")]
    Kernel(#[from] DriverError),
}

impl Product {
    fn new(stream: &Arc<CudaStream>, module: &Arc<CudaModule>) -> Result<Self> {
        // SAFETY: this looks for the library, and does not call it.
        if unsafe { cublas::sys::is_culib_present() } {
            return Ok(Self::Blas(CudaBlas::new(Arc::clone(stream))?));
        }
        println!("cuBLAS is not there: a kernel multiplies");
        Ok(Self::Kernel(module.load_function("product")?))
    }

    /// Multiplies slices of cudarc.
    fn multiply(
        &self,
        stream: &Arc<CudaStream>,
        a: &impl DevicePtr<f32>,
        b: &impl DevicePtr<f32>,
        c: &mut impl DevicePtrMut<f32>,
    ) -> Result {
        let (a, _read) = a.device_ptr(stream);
        let (b, _read) = b.device_ptr(stream);
        let (c, _wrote) = c.device_ptr_mut(stream);
        // SAFETY: the matrices have this shape.
        Ok(unsafe { self.enqueue(stream, [a, b, c]) }?)
    }

    /// Multiplies on this stream.
    ///
    /// # Safety
    ///
    /// The addresses are those of three matrices, of which the last is written.
    unsafe fn enqueue(
        &self,
        stream: &Arc<CudaStream>,
        [a, b, c]: [u64; 3],
    ) -> Result<(), ProductError> {
        match self {
            Self::Blas(blas) => {
                let n = N as i32;
                let (a, b, c) = (a as *const f32, b as *const f32, c as *mut f32);
                let (one, zero) = (1.0, 0.0);
                let (alpha, beta) = (&raw const one, &raw const zero);
                let (handle, no) = (*blas.handle(), CUBLAS_OP_N);
                // SAFETY: the stream is alive during the call, and no other call uses the handle.
                unsafe { cublas::result::set_stream(handle, stream.cu_stream().cast()) }?;
                // SAFETY: this function's contract.
                unsafe {
                    cublas::result::sgemm(handle, no, no, n, n, n, alpha, a, n, b, n, beta, c, n)
                }?;
            }
            Self::Kernel(product) => {
                let n = N as u64;
                let mut launch = stream.launch_builder(product);
                launch.arg(&a).arg(&b).arg(&c).arg(&n);
                // SAFETY: the kernel has these parameters; the rest is this function's contract.
                unsafe { launch.launch(LaunchConfig::for_num_elems((N * N) as u32)) }?;
            }
        }
        Ok(())
    }
}

/// The inputs, and cudarc's side of the program.
struct Before {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// The kernels as NVRTC compiled them, for both libraries.
    ptx: String,
    module: Arc<CudaModule>,
    product: Product,
    kernel: CudaFunction,
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
}

impl Before {
    fn new() -> Result<Self> {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let ptx = nvrtc::compile_ptx(SOURCE)?;
        let (ptx, module) = (ptx.to_src(), context.load_module(ptx)?);
        let value = |i: usize| (i % 13) as f32 - 6.0;
        Ok(Self {
            product: Product::new(&stream, &module)?,
            kernel: module.load_function("relu_bias")?,
            x: (0..N * N).map(value).collect(),
            w: (0..N * N).map(|i| value(i * 7)).collect(),
            bias: (0..N).map(value).collect(),
            stream,
            ptx,
            module,
            context,
        })
    }

    /// The product of both inputs.
    fn product(&self) -> Result<CudaSlice<f32>> {
        let (x, w) = (
            self.stream.clone_htod(&self.x)?,
            self.stream.clone_htod(&self.w)?,
        );
        let mut product = self.stream.alloc_zeros::<f32>(N * N)?;
        self.product.multiply(&self.stream, &x, &w, &mut product)?;
        Ok(product)
    }

    /// The whole program with cudarc alone.
    fn cudarc_alone(&self) -> Result<Vec<f32>> {
        let mut values = self.product()?;
        let bias = self.stream.clone_htod(&self.bias)?;
        relu_bias(&self.stream, &self.kernel, &mut values, &bias)?;
        Ok(self.stream.clone_dtoh(&values)?)
    }
}

/// The kernel in Millstream, with a signature that is compared with the PTX.
type ReluBias = Kernel<signature!(&mut [f32], &[f32], u64)>;

fn launch_relu_bias(
    stream: &millstream::Stream,
    kernel: &ReluBias,
    values: &mut Buffer<f32>,
    bias: &Buffer<f32>,
) -> millstream::Result<()> {
    // SAFETY: the arrays have n * n and n elements.
    unsafe { kernel.launch(stream, N * N, (values, bias, N as u64)) }
}

/// First step: one function is Millstream's. It takes a slice of cudarc and returns it.
fn one_function(before: &Before, device: &Device, kernel: &ReluBias) -> Result<Vec<f32>> {
    let ours = device.stream()?;
    let mut values = adopt_slice(device, before.product()?)?;
    let bias = ours.upload(&before.bias)?;
    launch_relu_bias(&ours, kernel, &mut values, &bias)?;
    let values = return_slice(device, values)?;
    Ok(before.stream.clone_dtoh(&values)?)
}

/// Second step: the arrays are Millstream's, and cudarc borrows them for cuBLAS and a kernel.
fn arrays(before: &Before, device: &Device) -> Result<Vec<f32>> {
    let ours = device.stream()?;
    let theirs = SharedStream::new(device, &before.stream)?;
    let (x, w) = (ours.upload(&before.x)?, ours.upload(&before.w)?);
    let bias = ours.upload(&before.bias)?;
    let mut values = ours.zeros::<f32>(N * N)?;
    let (x, w, bias) = (
        lend(&x, &theirs)?,
        lend(&w, &theirs)?,
        lend(&bias, &theirs)?,
    );
    let mut lent = lend_mut(&mut values, &theirs)?;
    let product = &before.product;
    product.multiply(theirs.cudarc(), &x.view(), &w.view(), &mut lent.view_mut())?;
    relu_bias(
        theirs.cudarc(),
        &before.kernel,
        &mut lent.view_mut(),
        &bias.view(),
    )?;
    drop(lent);
    Ok(ours.download(&values)?.wait()?)
}

/// Third step: only the product is left to cuBLAS, as a foreign call on a stream of Millstream.
fn foreign_call(before: &Before, device: &Device, kernel: &ReluBias) -> Result<Vec<f32>> {
    let ours = device.stream()?;
    let (x, w) = (ours.upload(&before.x)?, ours.upload(&before.w)?);
    let bias = ours.upload(&before.bias)?;
    let mut values = ours.zeros::<f32>(N * N)?;
    // Not in the call: making and dropping a handle of cuBLAS waits for the device.
    let product = Product::new(&before.stream, &before.module)?;
    let call = |stream: &Arc<CudaStream>, call: ForeignCall<'_>| {
        let matrices = [0, 1, 2].map(|operand| call.address(operand).as_raw());
        // SAFETY: the operands are matrices of this shape.
        unsafe { product.enqueue(stream, matrices) }
    };
    let operands = [read(&x), read(&w), write(&mut values)];
    // SAFETY: the product is enqueued on the given stream, and accesses the operands and memory of
    // cuBLAS.
    unsafe { foreign("gemm", (&ours, &before.context), operands, call) }?;
    launch_relu_bias(&ours, kernel, &mut values, &bias)?;
    Ok(ours.download(&values)?.wait()?)
}

fn main() -> Result {
    let before = Before::new()?;
    let expected = before.cudarc_alone()?;
    let device = device_of(&before.context)?;
    let kernel: ReluBias = device
        .module(Ptx::text("relu_bias", before.ptx.as_str()))?
        .function("relu_bias")?;
    let steps = [
        ("one function", one_function(&before, &device, &kernel)?),
        ("arrays", arrays(&before, &device)?),
        ("a foreign call", foreign_call(&before, &device, &kernel)?),
    ];
    for (step, found) in steps {
        assert_eq!(found, expected, "{step}");
        println!(
            "{step}: the same {} values as with cudarc alone",
            found.len()
        );
    }
    Ok(())
}
