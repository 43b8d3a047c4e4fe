//! Modules: PTX that belongs to one context.

use std::sync::Arc;

use millstream_driver::{ContextHandle, FunctionHandle, ModuleHandle, ResultCode};
use millstream_sim::ptx::{PtxError, PtxErrorKind};

use crate::{
    abi::{Address, Handle, Image, In, Out, Text},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    image,
    jit::JitOptions,
    objects::{FunctionEntry, HINTS_DEFAULT, ModuleEntry},
    process::{say, say_notes},
};

/// `CUDA_ERROR_FILE_NOT_FOUND`
pub(crate) const FILE_NOT_FOUND: ResultCode = ResultCode::from_raw(301);

pub(crate) fn code_of(error: &PtxError) -> ResultCode {
    match error.kind {
        PtxErrorKind::UnsupportedVersion(_) => ResultCode::UNSUPPORTED_PTX_VERSION,
        _ => ResultCode::INVALID_PTX,
    }
}

fn load_program_image(
    call: &Call,
    module: Out<Handle>,
    image: Vec<u8>,
    options: Option<&JitOptions>,
) -> Answer {
    module.check()?;
    let context = call.context()?;
    let image = image::ptx(call.name, image)?;
    let loaded = load(call, context, &image, options, false)?;
    module.set(loaded.as_raw())
}

/// Loads PTX into a context. The reason of a failure goes to standard error, and to the log
/// buffer of the options.
pub(crate) fn load(
    call: &Call,
    context: ContextHandle,
    ptx: &[u8],
    options: Option<&JitOptions>,
    of_library: bool,
) -> Answer<ModuleHandle> {
    let process = call.process()?;
    match process.module_load(context, ptx) {
        Ok(module) => {
            say_notes(&process.gpu.notes());
            if let Some(options) = options {
                options.write_log("");
            }
            let entry = ModuleEntry {
                context,
                of_library,
            };
            process.objects.lock().modules.insert(module, entry);
            Ok(module)
        }
        Err(error) => {
            let reason = error.detail().unwrap_or_default();
            say(&format!("{}: {reason}", call.name));
            if let Some(options) = options {
                options.write_log(reason);
            }
            Err(error.code())
        }
    }
}

/// Unloads a module from its context. A module that a capture forbids to unload stays.
pub(super) fn unload_from(call: &Call, context: ContextHandle, module: ModuleHandle) -> Answer {
    let process = call.process()?;
    let unloaded = process.module_unload(context, module);
    if unloaded != Err(ResultCode::STREAM_CAPTURE_UNSUPPORTED) {
        process.objects.lock().remove_module(module);
    }
    unloaded
}

/// Returns a kernel of a module, and enters it among the live functions.
pub(crate) fn function_by_name(
    call: &Call,
    (module, context): (ModuleHandle, ContextHandle),
    name: &str,
) -> Answer<FunctionHandle> {
    let process = call.process()?;
    let function = process.module_function(context, module, name)?;
    if process.objects.lock().functions.contains_key(&function) {
        return Ok(function);
    }
    let details = process.gpu.function_details(function);
    let details = Arc::new(details.ok_or(ResultCode::INVALID_HANDLE)?);
    let entry = FunctionEntry {
        context,
        module,
        details,
        hints: HINTS_DEFAULT,
    };
    process.objects.lock().functions.insert(function, entry);
    Ok(function)
}

/// Returns the names of the module's kernels.
fn kernels(call: &Call, module: ModuleHandle) -> Answer<Vec<String>> {
    let names = call.process()?.gpu.module_kernels(module);
    names.ok_or(ResultCode::INVALID_HANDLE)
}

exports! {
    [cuModuleLoadData, cuModuleLoadFatBinary]
    fn load_data(call, module: Out<Handle>, image: Image) {
        load_program_image(call, module, image.get()?, None)
    }

    [cuModuleLoadDataEx]
    fn load_data_with_options(
        call, module: Out<Handle>, image: Image, count: u32, numbers: In<i32>, values: Out<usize>
    ) {
        let options = JitOptions { count, numbers, values };
        load_program_image(call, module, image.get()?, Some(&options))
    }

    [cuModuleLoad]
    fn load_file(call, module: Out<Handle>, path: Text) {
        let path = path.get()?;
        let image = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
        load_program_image(call, module, image, None)
    }

    [cuModuleUnload]
    fn unload(call, module: Handle) {
        let (handle, entry) = call.module(module)?;
        refuse_if(entry.of_library, ResultCode::NOT_PERMITTED)?;
        unload_from(call, entry.context, handle)
    }

    [cuModuleGetFunction]
    fn function(call, function: Out<Handle>, module: Handle, name: Text) {
        function.check()?;
        let (module, entry) = call.module(module)?;
        let found = function_by_name(call, (module, entry.context), &name.get()?)?;
        function.set(found.as_raw())
    }

    [cuModuleGetGlobal_v2]
    fn global(call, pointer: Out<Address>, bytes: Out<usize>, module: Handle, name: Text) {
        let (module, entry) = call.module(module)?;
        let name = name.get()?;
        let (base, size) = call
            .process()?
            .module_global(entry.context, module, &name)?;
        pointer.set_if_wanted(base.as_raw());
        bytes.set_if_wanted(size);
        Ok(())
    }

    [cuModuleGetFunctionCount]
    fn function_count(call, count: Out<u32>, module: Handle) {
        let (module, _) = call.module(module)?;
        count.set(kernels(call, module)?.len() as u32)
    }

    [cuModuleEnumerateFunctions]
    fn functions(call, functions: Out<Handle>, count: u32, module: Handle) {
        let (module, entry) = call.module(module)?;
        let names = kernels(call, module)?;
        let found = names.iter().take(count as usize).map(|name| {
            let function = function_by_name(call, (module, entry.context), name)?;
            Ok(function.as_raw())
        });
        functions.set_all(found.collect::<Answer<Vec<_>>>()?)
    }

    /// A module is loaded as a whole.
    [cuModuleGetLoadingMode]
    fn loading_mode(call, mode: Out<i32>) {
        const EAGER: i32 = 1;
        call.process()?;
        mode.set(EAGER)
    }
}
