//! Loading PTX, launching its kernels, and the errors for invalid images.

#![allow(unsafe_code, reason = "knows the signature of its kernel")]

use std::ffi::c_void;

use millstream_driver::{
    FunctionAttribute,
    cuda::{Cuda, LoadError, ParamLayout},
};

use crate::{conformance::prelude::*, gpu::Outcome, harness::dims};

/// A module with the kernel `scale(float *data, float factor, unsigned n)`, which multiplies each
/// of `n` elements, and a variable of 8 bytes.
const SCALE_PTX: &str = include_str!("scale.ptx");

pub(crate) fn ptx_loads_and_launches(dev: &DeviceHarness) -> Outcome {
    const COUNT: u32 = 1000;
    let bytes = COUNT as usize * 4;
    let (stream, data, input) = (dev.stream()?, dev.memory(bytes)?, dev.pinned(bytes, 0)?);
    let module = dev.module_load(SCALE_PTX.as_bytes())?;
    let function = dev.module_function(module, "scale")?;
    let threads = dev.function_attribute(function, FunctionAttribute::MAX_THREADS_PER_BLOCK)?;
    check(threads >= 128, "blocks of 128 are possible")?;
    let cuda = Cuda::load().map_err(|error: LoadError| error.to_string())?;
    // SAFETY: the function is of a loaded module of this context.
    if let Some(params) = unsafe { cuda.function_params(dev.context, function) }? {
        let published =
            [(0, 8), (8, 4), (12, 4)].map(|(offset, size)| ParamLayout { offset, size });
        check(
            params == published,
            "the driver sees the parameters where they are",
        )?;
    }

    let floats = |values: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
        values.flat_map(f32::to_le_bytes).collect()
    };
    input.write(&floats(&mut (0..COUNT).map(|index| index as f32)));
    dev.upload(data, input, stream)?;
    let (factor, count) = (0.5_f32, COUNT - 1);
    let params: [*const c_void; 3] = [
        (&raw const data).cast(),
        (&raw const factor).cast(),
        (&raw const count).cast(),
    ];
    let dims = dims([COUNT.div_ceil(128), 1, 1], [128, 1, 1]);
    // SAFETY: the arguments have the kernel's types, and the allocation has enough elements.
    unsafe { dev.launch_kernel(function, &dims, stream, &params) }?;
    let scaled = (0..count).map(|index| index as f32 * factor);
    check(
        dev.read(data, bytes, stream)? == floats(&mut scaled.chain([count as f32])),
        "every element is scaled, and the one past the count is as it was",
    )?;

    let (marker, bytes) = dev.module_global(module, "marker")?;
    check(
        bytes == 8 && dev.read(marker, 8, stream)? == 42_u64.to_le_bytes(),
        "the variable and its first value",
    )?;
    let absent = dev.module_function(module, "absent");
    check(
        absent.is_err_and(|e| {
            e.code() == ResultCode::NOT_FOUND && e.to_string().contains("`absent`")
        }),
        "the error names the absent kernel",
    )?;
    Ok(dev.module_unload(module)?)
}

pub(crate) fn invalid_ptx_returns_the_compilers_log(dev: &DeviceHarness) -> Outcome {
    let broken = SCALE_PTX.replace("mul.wide.u32", "mul.narrow.u32");
    let Err(error) = dev.module_load(broken.as_bytes()) else {
        return Err("PTX with an unknown opcode was loaded".into());
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

pub(crate) fn images_other_than_ptx_are_rejected(dev: &DeviceHarness) -> Outcome {
    for image in [
        &b"\x7fELF\x02\x01\x01 valid UTF-8"[..],
        b"\x50\xed\x55\xba",
        b"",
        b".version 8.0\0.target",
    ] {
        let code = dev.refusal(dev.module_load(image))?;
        check(code == ResultCode::INVALID_PTX, &format!("{code}"))?;
    }
    Ok(())
}
