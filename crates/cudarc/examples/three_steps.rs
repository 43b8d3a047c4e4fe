//! A program of cudarc, with a kernel that NVRTC compiles and a product of cuBLAS, moves to
//! Millstream in three steps. Each version gives the same result: `relu(x · w) + bias`.
//!
//! It needs a GPU, NVRTC and cuBLAS: `cargo run --release -p millstream-cudarc --example
//! three_steps`.

#![allow(
    unsafe_code,
    reason = "launches kernels through cudarc and calls cuBLAS"
)]

use std::{error::Error, sync::Arc};

use cudarc::{
    cublas::{self, CudaBlas, Gemm as _, GemmConfig, sys::cublasOperation_t::CUBLAS_OP_N},
    driver::{
        CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, LaunchConfig,
        PushKernelArg as _,
    },
    nvrtc,
};
use millstream::{
    Buffer, Cuda, Device, Kernel,
    interop::{ForeignCall, read, write},
    signature,
};
use millstream_cudarc::{
    SharedStream, adopt_slice, device_of, foreign, lend, lend_mut, return_slice,
};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The number of rows and columns.
const N: usize = 256;

const SOURCE: &str = r#"
extern "C" __global__ void relu_bias(float *values, const float *bias, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n * n) values[i] = fmaxf(values[i], 0.0f) + bias[i % n];
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

fn gemm_config() -> GemmConfig<f32> {
    let n = N as i32;
    GemmConfig {
        transa: CUBLAS_OP_N,
        transb: CUBLAS_OP_N,
        m: n,
        n,
        k: n,
        alpha: 1.0,
        lda: n,
        ldb: n,
        beta: 0.0,
        ldc: n,
    }
}

/// The inputs, and cudarc's side of the program.
struct Before {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    kernel: CudaFunction,
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
}

impl Before {
    fn new() -> Result<Self> {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let module = context.load_module(nvrtc::compile_ptx(SOURCE)?)?;
        let value = |i: usize| (i % 13) as f32 - 6.0;
        Ok(Self {
            blas: CudaBlas::new(Arc::clone(&stream))?,
            kernel: module.load_function("relu_bias")?,
            x: (0..N * N).map(value).collect(),
            w: (0..N * N).map(|i| value(i * 7)).collect(),
            bias: (0..N).map(value).collect(),
            stream,
            context,
        })
    }

    /// The product by cuBLAS.
    fn product(&self) -> Result<CudaSlice<f32>> {
        let (x, w) = (
            self.stream.clone_htod(&self.x)?,
            self.stream.clone_htod(&self.w)?,
        );
        let mut product = self.stream.alloc_zeros::<f32>(N * N)?;
        // SAFETY: the matrices have these shapes.
        unsafe { self.blas.gemm(gemm_config(), &x, &w, &mut product) }?;
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

/// The kernel of Millstream: compiled by NVRTC too, with a signature that is compared with it.
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
    // SAFETY: the matrices have these shapes.
    unsafe {
        before
            .blas
            .gemm(gemm_config(), &x.view(), &w.view(), &mut lent.view_mut())
    }?;
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
    // Not in the call: making and dropping a handle waits for the device.
    let blas = CudaBlas::new(Arc::clone(&before.stream))?;
    let product = |stream: &Arc<CudaStream>, call: ForeignCall<'_>| {
        let [x, w, values] = [0, 1, 2].map(|operand| call.address(operand).as_raw());
        let (n, one, zero) = (N as i32, 1.0, 0.0);
        let (x, w, values) = (x as *const f32, w as *const f32, values as *mut f32);
        let (alpha, beta) = (&raw const one, &raw const zero);
        let (handle, no) = (*blas.handle(), CUBLAS_OP_N);
        // SAFETY: the stream is alive during the call, and no other call uses the handle.
        unsafe { cublas::result::set_stream(handle, stream.cu_stream().cast()) }?;
        // SAFETY: the operands are matrices of this shape.
        unsafe {
            cublas::result::sgemm(handle, no, no, n, n, n, alpha, x, n, w, n, beta, values, n)
        }
    };
    let operands = [read(&x), read(&w), write(&mut values)];
    // SAFETY: cuBLAS enqueues on the given stream, and accesses the operands and its own memory.
    unsafe { foreign("gemm", (&ours, &before.context), operands, product) }?;
    launch_relu_bias(&ours, kernel, &mut values, &bias)?;
    Ok(ours.download(&values)?.wait()?)
}

fn main() -> Result {
    let before = Before::new()?;
    let expected = before.cudarc_alone()?;
    let device = device_of(&before.context)?;
    let kernel: ReluBias = device
        .compile(Cuda::source("relu_bias.cu", SOURCE))?
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
