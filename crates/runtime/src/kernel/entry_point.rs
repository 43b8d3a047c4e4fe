//! Loading of modules, and look-up of their kernels.

#![allow(unsafe_code, reason = "loads and unloads modules")]

use std::{fmt, panic::Location};

use millstream_driver::{FunctionAttribute, FunctionHandle, ModuleHandle, ResultCode};

use super::{ModuleSource, matching::Slices};
use crate::{Error, Result, UsageError, UsageErrorKind, context::DeviceState, disposal::log};

/// The driver's handle and attributes of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPoint {
    pub(super) handle: FunctionHandle,
    pub(super) threads_max: u32,
    /// The maximum number of threads per block of a launch on the fast path. It is 0 for a kernel
    /// that uses variables: the check for them costs other kernels nothing.
    pub(super) fast_threads_max: u32,
    /// The maximum dynamic shared memory of a launch without opting in, in bytes.
    pub(super) dynamic_shared_bytes: u32,
    /// The maximum dynamic shared memory of a launch once the kernel has opted in, in bytes.
    pub(super) dynamic_shared_bytes_max: u32,
    /// The static shared memory of the kernel, in bytes.
    pub(super) own_shared_bytes: u32,
    pub(super) slices: Slices,
}

/// The identification of a module in errors.
#[derive(Clone, Copy)]
pub(super) enum ModuleLabel {
    Declared(&'static ModuleSource),
    /// A generated module with one kernel of this name.
    Generated(&'static str),
    /// A module that was loaded or compiled at run time, by the name of its source.
    RunTime(&'static str),
}

impl ModuleLabel {
    fn name(self) -> &'static str {
        match self {
            Self::Declared(source) => source.module,
            Self::Generated(name) | Self::RunTime(name) => name,
        }
    }
}

impl fmt::Display for ModuleLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared(source) => write!(
                f,
                "module `{}` from {}, declared at {}",
                source.module, source.origin, source.declared
            ),
            Self::Generated(name) => write!(f, "the module that was generated for `{name}`"),
            Self::RunTime(name) => write!(f, "the module `{name}`"),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Image<'a> {
    Ptx(&'a str),
    /// A cubin or a fat binary, which its source vouches for.
    Binary(&'a [u8]),
}

#[track_caller]
pub(super) fn load_image(
    device: &DeviceState,
    module: ModuleLabel,
    image: Image<'_>,
) -> Result<ModuleHandle> {
    let (driver, context) = (&*device.driver, device.context);
    let _name = device.named(module.name(), Location::caller());
    let result = match image {
        // SAFETY: the context is alive. The driver rejects text that is not PTX, and does not rely
        // on its validity.
        Image::Ptx(ptx) => unsafe { driver.module_load(context, ptx.as_bytes()) },
        // SAFETY: the context is alive. The image comes from NVRTC, or from the caller of an unsafe
        // method, who vouches for it.
        Image::Binary(image) => unsafe { driver.module_load_binary(context, image) },
    };
    device
        .checked(result)
        .map_err(|error| explain(module, None, error))
}

/// Unloads a module that was just loaded and of which no kernel has run.
pub(super) fn unload(device: &DeviceState, handle: ModuleHandle) {
    let (driver, context) = (&*device.driver, device.context);
    // SAFETY: the module is loaded, and by the caller's promise nothing uses it.
    if let Err(error) = device.checked(unsafe { driver.module_unload(context, handle) }) {
        log!(debug, %error, "cannot unload a module");
    }
}

/// Loads a module and looks up its entries.
#[track_caller]
pub(super) fn load_module(
    device: &DeviceState,
    module: ModuleLabel,
    image: Image<'_>,
    entry_points: &[&'static str],
) -> Result<(ModuleHandle, Vec<EntryPoint>)> {
    let handle = load_image(device, module, image)?;
    match find_entry_points(device, module, entry_points, handle) {
        Ok(entry_points) => Ok((handle, entry_points)),
        Err(error) => {
            unload(device, handle);
            Err(error)
        }
    }
}

fn find_entry_points(
    device: &DeviceState,
    module: ModuleLabel,
    names: &[&'static str],
    handle: ModuleHandle,
) -> Result<Vec<EntryPoint>> {
    let find = |name: &&'static str| {
        find_entry_point(device, name, handle).map_err(|error| explain(module, Some(name), error))
    };
    names.iter().map(find).collect()
}

/// Looks up a kernel, reads its attributes and loads its code.
pub(super) fn find_entry_point(
    device: &DeviceState,
    name: &str,
    module: ModuleHandle,
) -> Result<EntryPoint> {
    let (driver, context) = (&*device.driver, device.context);
    // SAFETY: the module is loaded.
    let handle = device.checked(unsafe { driver.module_function(context, module, name) })?;
    let attribute = |attribute| {
        // SAFETY: the function belongs to that module.
        device.checked(unsafe { driver.function_attribute(context, handle, attribute) })
    };
    let threads_max = attribute(FunctionAttribute::MAX_THREADS_PER_BLOCK)?;
    let own_shared_bytes = attribute(FunctionAttribute::SHARED_BYTES)?.unsigned_abs();
    let (usual, most) = device.limits.dynamic_shared_bytes(own_shared_bytes);
    // SAFETY: the function belongs to that module.
    match unsafe { driver.function_load(context, handle) } {
        // In this case the driver loads the function at its first launch.
        Err(error) if error.code() == ResultCode::NOT_SUPPORTED => {}
        loaded => device.checked(loaded)?,
    }
    let threads_max = device.limits.threads_per_block(threads_max);
    Ok(EntryPoint {
        handle,
        threads_max,
        fast_threads_max: threads_max,
        dynamic_shared_bytes: usual,
        dynamic_shared_bytes_max: most,
        own_shared_bytes,
        slices: Slices::default(),
    })
}

/// Adds the module, its file and the kernel to a driver's error. An error about the PTX text or a
/// kernel's name becomes a usage error.
pub(super) fn explain(module: ModuleLabel, kernel: Option<&'static str>, error: Error) -> Error {
    let Error::Driver(driver) = error else {
        return error;
    };
    let wrong_text = [
        ResultCode::INVALID_PTX,
        ResultCode::INVALID_IMAGE,
        ResultCode::NO_BINARY_FOR_GPU,
    ];
    if driver.code() == ResultCode::UNSUPPORTED_PTX_VERSION {
        let detail = format!(
            "{driver} ({module}). Compile with an NVRTC or nvcc no newer than the driver, or let \
             `Device::compile` make machine code, which needs no newer driver; or update the driver"
        );
        return UsageError::new(module.name(), UsageErrorKind::PtxVersion { detail }).into();
    }
    if wrong_text.contains(&driver.code()) {
        let detail = format!("{driver} ({module})");
        return UsageError::new(module.name(), UsageErrorKind::Ptx { detail }).into();
    }
    match kernel {
        Some(kernel) if driver.code() == ResultCode::NOT_FOUND => {
            let detail = format!("{driver} (kernel `{kernel}` of {module})");
            UsageError::new(kernel, UsageErrorKind::Signature { detail }).into()
        }
        _ => {
            let while_loading = match kernel {
                Some(kernel) => format!("while loading kernel `{kernel}` of {module}"),
                None => format!("while loading {module}"),
            };
            let detail = match driver.detail() {
                Some(detail) => format!("{detail}; {while_loading}"),
                None => while_loading,
            };
            driver.with_detail(detail).into()
        }
    }
}
