//! Loading PTX, launching its kernels, and the errors for invalid images.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use std::ffi::c_void;

use millstream_driver::{
    DevicePtr, Driver, FunctionAttribute, FunctionHandle, ResultCode, cuda::ParamLayout,
};

use crate::gpu::harness::{Gpu, Outcome, check};
use crate::harness::dims;

/// A module with the kernel `scale(float *data, float factor, unsigned n)`, which multiplies each
/// of `n` elements, and a variable of 8 bytes.
pub(crate) const SCALE_PTX: &str = include_str!("scale.ptx");

/// Enqueues `scale` over `count` elements.
pub(crate) fn scale(
    gpu: &Gpu,
    function: FunctionHandle,
    data: DevicePtr,
    factor: f32,
    count: u32,
) -> Outcome {
    let dims = dims([count.div_ceil(128), 1, 1], [128, 1, 1]);
    let params: [*const c_void; 3] = [
        (&raw const data).cast(),
        (&raw const factor).cast(),
        (&raw const count).cast(),
    ];
    // SAFETY: the arguments have the kernel's types, and the tests pass an allocation of at least
    // `count` elements.
    Ok(unsafe {
        gpu.cuda
            .launch_kernel(gpu.context, function, &dims, gpu.stream, &params)
    }?)
}

pub(crate) fn ptx_loads_and_launches(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    const COUNT: u32 = 1000;
    let module = gpu.load(SCALE_PTX)?;
    // SAFETY: the module is loaded.
    let function = unsafe { cuda.module_function(*context, module, "scale") }?;
    // SAFETY: the function is of a loaded module.
    let threads = unsafe {
        cuda.function_attribute(*context, function, FunctionAttribute::MAX_THREADS_PER_BLOCK)
    }?;
    check(threads >= 128, "blocks of 128 are possible")?;
    // SAFETY: the function is of a loaded module of this context.
    if let Some(params) = unsafe { cuda.function_params(*context, function) }? {
        let published =
            [(0, 8), (8, 4), (12, 4)].map(|(offset, size)| ParamLayout { offset, size });
        check(
            params == published,
            "the driver sees the parameters where they are",
        )?;
    }

    let input: Vec<f32> = (0..COUNT).map(|index| index as f32).collect();
    let data = gpu.alloc(COUNT as usize * 4)?;
    gpu.write(data, &input)?;
    scale(gpu, function, data, 0.5, COUNT - 1)?;
    let output: Vec<f32> = gpu.read(data, COUNT as usize)?;
    let (last, scaled) = output.split_last().ok_or("not empty")?;
    check(
        *last == (COUNT - 1) as f32,
        "the element past the count is as it was",
    )?;
    check(
        scaled
            .iter()
            .zip(&input)
            .all(|(out, input)| *out == input * 0.5),
        "every element is scaled",
    )?;

    // SAFETY: the module is loaded.
    let (marker, bytes) = unsafe { cuda.module_global(*context, module, "marker") }?;
    check(
        bytes == 8 && gpu.read::<u64>(marker, 1)? == [42],
        "the variable and its first value",
    )?;
    // SAFETY: the module is loaded.
    let absent = unsafe { cuda.module_function(*context, module, "absent") };
    check(
        absent.is_err_and(|e| {
            e.code() == ResultCode::NOT_FOUND && e.to_string().contains("`absent`")
        }),
        "the error names the absent kernel",
    )?;
    gpu.free(data)?;
    gpu.synchronize()?;
    // SAFETY: nothing of the module runs any more.
    Ok(unsafe { cuda.module_unload(*context, module) }?)
}

pub(crate) fn kernels_load_before_their_first_launch(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    let module = gpu.load(SCALE_PTX)?;
    // SAFETY: the module is loaded.
    let function = unsafe { cuda.module_function(*context, module, "scale") }?;
    // SAFETY: the function is of a loaded module of this context.
    match unsafe { cuda.function_load(*context, function) } {
        Err(error)
            if error.code() == ResultCode::NOT_SUPPORTED && cuda.driver_version()? < 12_040 => {}
        outcome => outcome?,
    }
    let data = gpu.alloc(4)?;
    gpu.write(data, &[3.0_f32])?;
    scale(gpu, function, data, 2.0, 1)?;
    check(
        gpu.read::<f32>(data, 1)? == [6.0],
        "a loaded kernel launches",
    )?;
    gpu.free(data)?;
    gpu.synchronize()?;
    // SAFETY: nothing of the module runs any more.
    Ok(unsafe { cuda.module_unload(*context, module) }?)
}

pub(crate) fn invalid_ptx_returns_the_compilers_log(gpu: &Gpu) -> Outcome {
    let broken = SCALE_PTX.replace("mul.wide.u32", "mul.narrow.u32");
    // SAFETY: the context is retained.
    let error = match unsafe { gpu.cuda.module_load(gpu.context, broken.as_bytes()) } {
        Ok(_) => return Err("PTX with an unknown opcode was loaded".into()),
        Err(error) => error,
    };
    check(
        error.code() == ResultCode::INVALID_PTX,
        "the result blames the PTX",
    )?;
    let log = error.detail().ok_or("no log")?;
    check(
        log.contains("line") && log.contains("narrow"),
        &format!("the log names the line and the opcode: {log}"),
    )
}

pub(crate) fn images_other_than_ptx_are_rejected(gpu: &Gpu) -> Outcome {
    for image in [
        &b"\x7fELF\x02\x01\x01 valid UTF-8"[..],
        b"\x50\xed\x55\xba",
        b"",
        b".version 8.0\0.target",
    ] {
        // SAFETY: the context is retained.
        let error = match unsafe { gpu.cuda.module_load(gpu.context, image) } {
            Ok(_) => return Err("an image that is not PTX was loaded".into()),
            Err(error) => error,
        };
        check(error.code() == ResultCode::INVALID_PTX, &format!("{error}"))?;
    }
    Ok(())
}
