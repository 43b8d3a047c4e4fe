//! K1: compilation, launches and signatures.

#![allow(unsafe_code, reason = "launches kernels")]

use millstream::{
    Cuda, Device, Module, Ptx, Result, UsageErrorKind, driver::nvrtc, kernel, signature,
};

use crate::{
    compiled::{Outcome, device},
    scenarios::prelude::problem,
};

/// A kernel that multiplies `n` numbers by the macro `FACTOR`.
pub(crate) const SCALE: &str = r#"
extern "C" __global__ void scale(float* x, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}
"#;

/// Returns 1, 2 and 3 as the module's kernel scales them.
pub(crate) fn scaled(device: &Device, module: &Module) -> Result<Vec<f32>> {
    let scale = module.function::<signature!(&mut [f32], u64)>("scale")?;
    let stream = device.stream()?;
    let mut x = stream.upload(&[1.0_f32, 2.0, 3.0])?;
    // SAFETY: the kernel reads and writes its first 3 elements.
    unsafe { scale.launch(&stream, 3, (&mut x, 3)) }?;
    stream.download(&x)?.wait()
}

fn compile(device: &Device, source: Cuda) -> Result<Module> {
    device.compile(source.without_cache())
}

#[test]
#[ignore = "needs NVRTC"]
fn k01_cuda_source_is_compiled_loaded_and_launched() -> Outcome {
    let device = &device();
    let before = nvrtc::compilations();
    let module = compile(device, Cuda::source("scale.cu", SCALE).define("FACTOR", 2))?;
    assert_eq!(scaled(device, &module)?, [2.0, 4.0, 6.0]);
    assert_eq!(module.kernels(), ["scale"]);
    assert_eq!(module.name(), "scale.cu");
    assert!(!module.is_from_cache() && module.warnings().is_empty());
    assert!(nvrtc::compilations() > before);
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k01_templates_macros_and_headers_are_for_the_asking() -> Outcome {
    let device = &device();
    let source = Cuda::source(
        "templates.cu",
        r#"
        #include "twice.h"
        namespace images {
            template <typename T> __global__ void fill(T* out, T value, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) out[i] = twice(value) + OFFSET;
            }
        }
        __global__ void plain(int* out) { out[0] = 7; }
        "#,
    )
    .header(
        "twice.h",
        "template <typename T> __device__ T twice(T x) { return x + x; }",
    )
    .define("OFFSET", 1)
    .instantiate("images::fill<double>")
    .instantiate("images::fill<int>");
    let module = compile(device, source)?;
    let stream = device.stream()?;

    let fill = module.function::<signature!(&mut [f64], f64, i32)>("images::fill<double>")?;
    let mut out = stream.zeros::<f64>(2)?;
    // SAFETY: the kernel writes the first 2 elements.
    unsafe { fill.launch(&stream, 2, (&mut out, 1.5, 2)) }?;
    assert_eq!(stream.download(&out)?.wait()?, [4.0, 4.0]);

    let fill = module.function::<signature!(&mut [i32], i32, i32)>("images::fill<int>")?;
    let mut out = stream.zeros::<i32>(2)?;
    // SAFETY: the kernel writes the first 2 elements.
    unsafe { fill.launch(&stream, 2, (out.slice_mut(..), 20, 2)) }?;
    assert_eq!(stream.download(&out)?.wait()?, [41, 41]);

    // The only kernel of this name is found without its mangled name.
    let plain = module.function::<signature!(&mut [i32])>("plain")?;
    // SAFETY: the kernel writes the first element.
    unsafe { plain.launch(&stream, (1, 1), (&mut out,)) }?;
    assert_eq!(stream.download(&out)?.wait()?, [7, 41]);
    Ok(())
}

millstream::kernels! {
    // SAFETY: the signature is that of the kernel, which writes its first element.
    unsafe mod later from cuda "extern \"C\" __global__ void seven(int* out) { *out = 7; }" {
        safe fn seven(out: &mut [i32]) requires !out.is_empty(), grid.blocks.x * grid.block.x == 1;
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn k01_a_declared_source_is_compiled_when_it_is_loaded() -> Outcome {
    let device = &device();
    let kernels = later::load(device)?;
    let again = later::load(device)?;
    let stream = device.stream()?;
    for kernels in [kernels, again] {
        let mut out = stream.zeros::<i32>(2)?;
        kernels.seven(&stream, (1, 1), &mut out)?;
        assert_eq!(stream.download(&out)?.wait()?, [7, 0]);
    }
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k01_checked_in_ptx_has_the_hash_of_its_source() -> Outcome {
    let source = "extern \"C\" __global__ void seven(int* out) { *out = 7; }";
    let options = ["--gpu-architecture=compute_75".to_owned()];
    let (ptx, warnings) = Cuda::source("seven.cu", source)
        .option(&options[0])
        .to_ptx()?;
    assert!(warnings.is_empty() && ptx.contains(".target sm_75"));
    let checked_in = kernel::header(source, &options, "NVRTC") + &ptx;
    assert!(kernel::compiled_from(&checked_in, source));
    assert!(!kernel::compiled_from(
        &checked_in,
        &source.replace('7', "8")
    ));
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k01_a_signature_that_is_not_the_kernels_names_the_parameter_and_the_line() -> Outcome {
    let device = &device();
    let module = compile(device, Cuda::source("scale.cu", SCALE).define("FACTOR", 2))?;
    let found = module.function::<signature!(&mut [f32], u32)>("scale");
    let UsageErrorKind::Signature { detail } = problem(found) else {
        return Err("another problem".into());
    };
    let expected = "parameter 1 has 4 bytes in the signature, aligned to 4, and `scale_param_1` in \
                    the kernel has 8, aligned to 8; it is declared at ";
    assert!(detail.starts_with(expected), "{detail}");
    assert!(
        detail.contains("scale.cu:2 (kernel `scale` of the module `scale.cu`)"),
        "{detail}"
    );
    let UsageErrorKind::Signature { detail } =
        problem(module.function::<signature!(&[f32])>("scale"))
    else {
        return Err("another problem".into());
    };
    let expected = "the signature has 1 parameters, and the kernel has 2";
    assert!(detail.starts_with(expected), "{detail}");
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k01_an_unknown_kernel_lists_those_there_are() -> Outcome {
    let device = &device();
    let source = "extern \"C\" __global__ void blur() {}\nextern \"C\" __global__ void scale() {}";
    let module = compile(device, Cuda::source("two.cu", source))?;
    let UsageErrorKind::NoKernel { kernel, kernels } =
        problem(module.function::<signature!()>("scal"))
    else {
        return Err("another problem".into());
    };
    assert_eq!(
        (kernel.as_str(), &kernels[..]),
        ("scal", &["scale".into(), "blur".into()][..])
    );
    Ok(())
}

#[test]
#[ignore = "needs a GPU and NVRTC"]
fn k05_machine_code_is_loaded_and_launched() -> Outcome {
    let device = &device();
    let image = crate::compiled::times::machine_code(device, SCALE)?;
    // SAFETY: NVRTC has made the image for this device.
    let module = unsafe { device.module_from_binary("scale.cubin", &image) }?;
    assert_eq!(scaled(device, &module)?, [2.0, 4.0, 6.0]);
    assert!(module.kernels().is_empty(), "the names are not known");
    let UsageErrorKind::NoKernel { kernel, .. } = problem(module.function::<signature!()>("scal"))
    else {
        return Err("another problem".into());
    };
    assert_eq!(kernel, "scal");
    Ok(())
}

#[test]
#[ignore = "needs an NVRTC newer than the driver"]
fn k02_an_nvrtc_newer_than_the_driver_compiles_for_it() -> Outcome {
    let device = &device();
    let source = || Cuda::source("scale.cu", SCALE).define("FACTOR", 5);
    let module = compile(device, source())?;
    assert_eq!(scaled(device, &module)?, [5.0, 10.0, 15.0]);
    let (ptx, _) = source().option("--gpu-architecture=compute_90").to_ptx()?;
    let given = device.module(Ptx::text("scale.ptx", ptx));
    if crate::compiled::on_gpu() {
        let UsageErrorKind::PtxVersion { detail } = problem(given) else {
            return Err("another problem".into());
        };
        assert!(detail.contains("`Device::compile`"), "{detail}");
    } else {
        // The simulated device has no driver that is older: it runs every version before 10.
        assert_eq!(scaled(device, &given?)?, [5.0, 10.0, 15.0]);
    }
    Ok(())
}
