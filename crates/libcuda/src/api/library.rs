//! Libraries and their kernels: PTX without a context. Each context loads it as a module when the
//! program first needs it there.

use std::{ffi::c_char, sync::Arc};

use millstream_driver::{CaptureMode, ContextHandle, FunctionHandle, ModuleHandle, ResultCode};
use millstream_sim::ptx;

use crate::{
    abi::{Address, Device, Handle, Image, In, Out, Text},
    api::{
        function,
        module::{self, FILE_NOT_FOUND},
    },
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    image,
    jit::JitOptions,
    objects::{FunctionEntry, KernelEntry, LibraryEntry, Tag},
    process::{say, say_notes},
};

/// Checks an image, and enters it with the names of its kernels.
fn load(call: &Call, library: Out<Handle>, image: Vec<u8>, options: &JitOptions) -> Answer {
    library.check()?;
    let process = call.process()?;
    let image = image::ptx(call.name, image)?;
    let text = std::str::from_utf8(&image).map_err(|_| ResultCode::INVALID_IMAGE)?;
    let names: Vec<String> = match ptx::parse(text.trim_end_matches('\0')) {
        Ok(parsed) => {
            say_notes(parsed.notes());
            let kernels = parsed.kernels();
            kernels.map(|kernel| kernel.name().to_owned()).collect()
        }
        Err(error) => {
            let reason = error.to_string();
            say(&format!("{}: {reason}", call.name));
            options.write_log(&reason);
            return Err(module::code_of(&error));
        }
    };
    options.write_log("");
    let mut objects = process.objects.lock();
    let handle = objects.next_handle(Tag::Library);
    let mut entry = LibraryEntry {
        image: image.into(),
        ..LibraryEntry::default()
    };
    for name in names {
        let kernel = objects.next_handle(Tag::Kernel);
        let of_library = KernelEntry {
            library: handle,
            name: name.as_str().into(),
        };
        objects.kernels.insert(kernel, of_library);
        entry.kernels.push((name, kernel));
    }
    objects.libraries.insert(handle, entry);
    drop(objects);
    library.set(handle)
}

/// Reads the entry of a library.
fn with_library<R>(
    call: &Call,
    library: Handle,
    body: impl FnOnce(&LibraryEntry) -> R,
) -> Answer<R> {
    let objects = call.process()?.objects.lock();
    let found = objects.libraries.get(&library).map(body);
    drop(objects);
    found.ok_or_else(|| call.wrong_handle("library", library))
}

/// Returns the module of a library in a context, which loads it at the first use.
fn module_of(call: &Call, library: Handle, context: ContextHandle) -> Answer<ModuleHandle> {
    let (image, known) = with_library(call, library, |entry| {
        let known = entry.modules.get(&context).copied();
        (Arc::clone(&entry.image), known)
    })?;
    if let Some(module) = known {
        return Ok(module);
    }
    let process = call.process()?;
    // A capture forbids loading modules, but not the first use of a kernel that a library has.
    let mode = process.exchange_capture_mode(CaptureMode::Relaxed);
    let loaded = module::load(call, context, &image, None, true);
    process.exchange_capture_mode(mode);
    let module = loaded?;
    let mut objects = process.objects.lock();
    let entry = objects.libraries.get_mut(&library);
    let entry = entry.ok_or(ResultCode::INVALID_HANDLE)?;
    // Another thread may have been faster: the library keeps one module, and the other one stays
    // loaded until the context is destroyed.
    Ok(*entry.modules.entry(context).or_insert(module))
}

fn entry_of(call: &Call, kernel: Handle) -> Answer<KernelEntry> {
    let objects = call.process()?.objects.lock();
    let found = objects.kernels.get(&kernel).cloned();
    drop(objects);
    found.ok_or_else(|| call.wrong_handle("kernel", kernel))
}

pub(crate) fn function_in(
    call: &Call,
    kernel: Handle,
    context: ContextHandle,
) -> Answer<(FunctionHandle, FunctionEntry)> {
    let entry = entry_of(call, kernel)?;
    let module = module_of(call, entry.library, context)?;
    let function = module::function_by_name(call, (module, context), &entry.name)?;
    call.function_of_module(function.as_raw())
}

pub(crate) fn is_kernel(call: &Call, handle: Handle) -> Answer<bool> {
    Ok(call.process()?.objects.lock().kernels.contains_key(&handle))
}

/// Returns the current context if it is one of the device, else the device's primary context.
fn context_of_device(call: &Call, device: Device) -> Answer<ContextHandle> {
    call.device(device)?;
    if let Ok(context) = call.context()
        && call.context_entry(context)?.device == device
    {
        return Ok(context);
    }
    let objects = call.process()?.objects.lock();
    let primary = objects.primaries.get(&device);
    let context = primary.and_then(|entry| entry.context);
    context.ok_or(ResultCode::INVALID_CONTEXT)
}

/// Returns the parameters of a kernel as byte ranges.
fn params(call: &Call, kernel: Handle) -> Answer<Vec<std::ops::Range<usize>>> {
    let entry = entry_of(call, kernel)?;
    let image = with_library(call, entry.library, |library| Arc::clone(&library.image))?;
    let text = std::str::from_utf8(&image).map_err(|_| ResultCode::INVALID_IMAGE)?;
    let parsed = ptx::parse(text.trim_end_matches('\0')).map_err(|_| ResultCode::INVALID_PTX)?;
    let kernel = parsed.kernel(&entry.name).ok_or(ResultCode::NOT_FOUND)?;
    let params = kernel.signature().params.iter();
    Ok(params
        .map(|param| param.offset..param.offset + param.size)
        .collect())
}

exports! {
    /// The options of libraries concern lazy loading and have no effect.
    [cuLibraryLoadData]
    fn load_data(
        call, library: Out<Handle>, image: Image, numbers: In<i32>, values: Out<usize>, count: u32,
        _library_numbers: In<i32>, _library_values: In<usize>, _library_count: u32
    ) {
        load(call, library, image.get()?, &JitOptions { count, numbers, values })
    }

    [cuLibraryLoadFromFile]
    fn load_file(
        call, library: Out<Handle>, path: Text, numbers: In<i32>, values: Out<usize>, count: u32,
        _library_numbers: In<i32>, _library_values: In<usize>, _library_count: u32
    ) {
        let image = std::fs::read(path.get()?).map_err(|_| FILE_NOT_FOUND)?;
        load(call, library, image, &JitOptions { count, numbers, values })
    }

    [cuLibraryUnload]
    fn unload(call, library: Handle) {
        let modules = with_library(call, library, |entry| entry.modules.clone())?;
        let mut outcome = Ok(());
        for (context, module) in modules {
            match module::unload_from(call, context, module) {
                // A capture forbids the call, and the library stays with this module.
                Err(ResultCode::STREAM_CAPTURE_UNSUPPORTED) => {
                    return Err(ResultCode::STREAM_CAPTURE_UNSUPPORTED);
                }
                unloaded => outcome = outcome.and(unloaded),
            }
            if let Some(entry) = call.process()?.objects.lock().libraries.get_mut(&library) {
                entry.modules.remove(&context);
            }
        }
        let mut objects = call.process()?.objects.lock();
        objects.libraries.remove(&library);
        objects
            .kernels
            .retain(|_, kernel| kernel.library != library);
        outcome
    }

    [cuLibraryGetModule]
    fn get_module(call, module: Out<Handle>, library: Handle) {
        module.check()?;
        let context = call.context()?;
        module.set(module_of(call, library, context)?.as_raw())
    }

    [cuLibraryGetKernel]
    fn kernel(call, kernel: Out<Handle>, library: Handle, name: Text) {
        kernel.check()?;
        let name = name.get()?;
        let found = with_library(call, library, |entry| {
            let known = entry.kernels.iter().find(|(known, _)| *known == name);
            known.map(|(_, kernel)| *kernel)
        })?;
        kernel.set(found.ok_or(ResultCode::NOT_FOUND)?)
    }

    [cuLibraryGetKernelCount]
    fn kernel_count(call, count: Out<u32>, library: Handle) {
        let kernels = with_library(call, library, |entry| entry.kernels.len())?;
        count.set(kernels as u32)
    }

    [cuLibraryEnumerateKernels]
    fn kernels(call, kernels: Out<Handle>, count: u32, library: Handle) {
        let all = with_library(call, library, |entry| entry.kernels.clone())?;
        let some = all.into_iter().take(count as usize);
        kernels.set_all(some.map(|(_, kernel)| kernel))
    }

    [cuLibraryGetGlobal]
    fn global(call, pointer: Out<Address>, bytes: Out<usize>, library: Handle, name: Text) {
        let context = call.context()?;
        let module = module_of(call, library, context)?;
        let name = name.get()?;
        let (base, size) = call.process()?.module_global(context, module, &name)?;
        pointer.set_if_wanted(base.as_raw());
        bytes.set_if_wanted(size);
        Ok(())
    }

    [cuKernelGetFunction]
    fn kernel_function(call, function: Out<Handle>, kernel: Handle) {
        function.check()?;
        let context = call.context()?;
        function.set(function_in(call, kernel, context)?.0.as_raw())
    }

    [cuKernelGetLibrary]
    fn kernel_library(call, library: Out<Handle>, kernel: Handle) {
        library.set(entry_of(call, kernel)?.library)
    }

    [cuKernelGetName]
    fn kernel_name(call, name: Out<*const c_char>, kernel: Handle) {
        let entry = entry_of(call, kernel)?;
        name.set(call.process()?.objects.lock().name(&entry.name))
    }

    [cuKernelGetAttribute]
    fn kernel_attribute(call, value: Out<i32>, attribute: i32, kernel: Handle, device: Device) {
        value.check()?;
        let context = context_of_device(call, device)?;
        let (handle, entry) = function_in(call, kernel, context)?;
        value.set(function::value_of(call, handle, &entry, attribute)?)
    }

    [cuKernelSetAttribute]
    fn kernel_set_attribute(call, attribute: i32, value: i32, kernel: Handle, device: Device) {
        let context = context_of_device(call, device)?;
        let (handle, entry) = function_in(call, kernel, context)?;
        function::set_value(call, handle, &entry, attribute, value)
    }

    /// A hint without effect.
    [cuKernelSetCacheConfig]
    fn kernel_set_cache_config(call, kernel: Handle, config: i32, device: Device) {
        entry_of(call, kernel)?;
        call.device(device)?;
        refuse_if(!(0..=3).contains(&config), ResultCode::INVALID_VALUE)
    }

    [cuKernelGetParamInfo]
    fn kernel_param_info(
        call, kernel: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>
    ) {
        function::write_param(&params(call, kernel)?, index, offset, bytes)
    }
}
