//! Module loading: loads PTX on a device once, and checks the declared kernels against it.

#![allow(unsafe_code, reason = "loads and unloads modules")]

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::{
    ContextHandle, Driver, FunctionAttribute, FunctionHandle, ModuleHandle, ResultCode,
};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::generated::GeneratedKernels;

use crate::{
    Device, Error, Result, UsageError, UsageErrorKind,
    context::{DeviceSlot, DeviceState, KernelLayer},
    disposal::log,
};

/// A PTX module and the kernels declared for it. Created by [`kernels!`](crate::kernels), as a
/// `static`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ModuleSource {
    /// The module's name, for errors.
    pub module: &'static str,
    /// The expression that the PTX comes from, for errors: it names the file.
    pub origin: &'static str,
    /// File and line of the declaration, for errors.
    pub declared: &'static str,
    /// The PTX text.
    pub ptx: &'static str,
    /// The kernels, in the order of their functions.
    pub kernels: &'static [Signature],
}

/// A declared kernel.
#[doc(hidden)]
#[derive(Debug)]
pub struct Signature {
    /// The name of the kernel's entry in the PTX.
    pub name: &'static str,
    /// The kernel's parameters.
    pub params: &'static [Param],
}

/// A declared parameter.
#[doc(hidden)]
#[derive(Debug)]
pub struct Param {
    /// The parameter's name, for errors.
    pub name: &'static str,
    /// The parameter's kind.
    pub kind: ParamKind,
}

/// The kind of a declared parameter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
    /// An array, which is passed as its address.
    Slice {
        /// True if the kernel may write the array.
        writable: bool,
    },
    /// A scalar, which is passed by value.
    Scalar {
        /// The scalar's size in bytes.
        size: usize,
        /// The scalar's alignment in bytes.
        align: usize,
    },
}

impl ParamKind {
    /// Returns the size and the alignment of the passed value.
    fn layout(self) -> (usize, usize) {
        match self {
            Self::Slice { .. } => (size_of::<u64>(), align_of::<u64>()),
            Self::Scalar { size, align } => (size, align),
        }
    }
}

/// A kernel loaded on a device.
#[doc(hidden)]
#[derive(Clone)]
pub struct Function {
    pub(super) device: Arc<DeviceState>,
    pub(super) name: &'static str,
    /// The declared parameters; empty for a generated kernel.
    pub(super) params: &'static [Param],
    /// The number of parameters.
    pub(super) param_count: usize,
    pub(super) entry_point: EntryPoint,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.device)
    }
}

impl Function {
    /// Adds the names of the kernel's parameters to an error.
    #[cold]
    pub(super) fn naming_operands(&self, usage_error: UsageError) -> UsageError {
        usage_error.naming(|operand| self.params.get(operand).map(|param| param.name))
    }

    /// Allows launches with `bytes` bytes of dynamic shared memory, which exceed the default limit:
    /// opts the kernel in to the maximum, once.
    #[cold]
    #[inline(never)]
    pub(super) fn opt_in(&self, bytes: u32, location: &'static Location<'static>) -> Result<()> {
        let entry_point = &self.entry_point;
        let most = entry_point.dynamic_shared_bytes_max;
        if bytes > most {
            let detail = match entry_point.own_shared_bytes {
                0 => format!(
                    "{bytes} bytes of dynamic shared memory per block exceed this device's limit \
                     of {most} bytes"
                ),
                own => format!(
                    "{bytes} bytes of dynamic shared memory per block exceed this device's limit \
                     of {most} bytes, besides the kernel's own {own} bytes"
                ),
            };
            let usage_error = UsageError::new(self.name, UsageErrorKind::LaunchConfig { detail });
            return Err(usage_error.at(location).into());
        }
        let device = &self.device;
        // Two threads may both continue from here, and then make the same call.
        let opted_in = ModuleCache::of(device)
            .opted_in
            .lock()
            .contains(&entry_point.handle);
        if opted_in {
            return Ok(());
        }
        let attribute = FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES;
        let value = i32::try_from(most).unwrap_or(i32::MAX);
        // SAFETY: the context is alive while the device is open, and the function's module stays
        // loaded.
        device.checked(unsafe {
            device.driver.function_set_attribute(
                device.context,
                entry_point.handle,
                attribute,
                value,
            )
        })?;
        ModuleCache::of(device)
            .opted_in
            .lock()
            .insert(entry_point.handle);
        Ok(())
    }
}

/// The driver's handle and attributes of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPoint {
    pub(super) handle: FunctionHandle,
    /// The maximum number of threads per block.
    pub(super) threads_max: u32,
    /// The maximum dynamic shared memory of a launch without opting in, in bytes.
    pub(super) dynamic_shared_bytes: u32,
    /// The maximum dynamic shared memory of a launch once the kernel has opted in, in bytes.
    dynamic_shared_bytes_max: u32,
    /// The static shared memory of the kernel, in bytes.
    own_shared_bytes: u32,
}

/// The modules loaded on a device. They stay loaded until it is closed: a running kernel needs its
/// module, and unloading a module may wait for the device.
#[derive(Debug, Default)]
pub(crate) struct ModuleCache {
    loaded: Mutex<Vec<LoadedModule>>,
    pub(super) generated: Mutex<GeneratedKernels>,
    /// Kernels that have opted in to more than the default limit of shared memory.
    opted_in: Mutex<FxHashSet<FunctionHandle>>,
}

impl DeviceSlot for KernelLayer {
    type Value = ModuleCache;

    fn open(_: &dyn Driver, _: ContextHandle) -> ModuleCache {
        ModuleCache::default()
    }
}

#[derive(Debug)]
struct LoadedModule {
    /// The address of the [`ModuleSource`] that declares the module.
    source: usize,
    module: ModuleHandle,
    entry_points: Vec<EntryPoint>,
}

impl ModuleCache {
    /// Returns the module cache of a device.
    pub(super) fn of(device: &DeviceState) -> &Self {
        &device.kernel_slot
    }

    /// Removes all modules, to be unloaded when the device is idle.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = ModuleHandle> {
        let declared = std::mem::take(&mut *self.loaded.lock());
        let generated = std::mem::take(&mut *self.generated.lock());
        let declared = declared.into_iter().map(|loaded| loaded.module);
        declared.chain(generated.into_modules())
    }
}

/// Loads a module on the device, unless it is already loaded, and checks the number, size and
/// alignment of the parameters of every declared kernel. The kernels' code is loaded eagerly, so
/// that launches of kernels that were loaded while the device was idle do not wait for running
/// kernels (rule 53: kernels are loaded on first use, which may wait for running kernels).
///
/// # Errors
///
/// If the PTX cannot be loaded on this device, or a declaration does not match it; the error names
/// the line, opcode or parameter.
#[doc(hidden)]
#[track_caller]
pub fn load(device: &Device, source: &'static ModuleSource) -> Result<Arc<[Function]>> {
    let device = device.state();
    device.check_alive()?;
    let address = std::ptr::from_ref(source).addr();
    let mut loaded = ModuleCache::of(device).loaded.lock();
    let known = loaded.iter().position(|known| known.source == address);
    let at = match known {
        Some(at) => at,
        None => {
            check_signatures(source)?;
            let names: Vec<_> = source.kernels.iter().map(|kernel| kernel.name).collect();
            let (module, entry_points) =
                load_module(device, Module::Declared(source), source.ptx, &names)?;
            loaded.push(LoadedModule {
                source: address,
                module,
                entry_points,
            });
            loaded.len() - 1
        }
    };
    let functions =
        source
            .kernels
            .iter()
            .zip(&loaded[at].entry_points)
            .map(|(kernel, &entry_point)| Function {
                device: Arc::clone(device),
                name: kernel.name,
                params: kernel.params,
                param_count: kernel.params.len(),
                entry_point,
            });
    Ok(functions.collect())
}

/// The identification of a module in errors.
#[derive(Clone, Copy)]
pub(super) enum Module {
    Declared(&'static ModuleSource),
    /// A generated module with one kernel of this name.
    Generated(&'static str),
}

impl Module {
    fn name(self) -> &'static str {
        match self {
            Self::Declared(source) => source.module,
            Self::Generated(name) => name,
        }
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared(source) => write!(
                f,
                "module `{}` from {}, declared at {}",
                source.module, source.origin, source.declared
            ),
            Self::Generated(name) => write!(f, "the module that was generated for `{name}`"),
        }
    }
}

/// Loads a module and looks up its entries.
#[track_caller]
pub(super) fn load_module(
    device: &DeviceState,
    module: Module,
    ptx: &str,
    entry_points: &[&'static str],
) -> Result<(ModuleHandle, Vec<EntryPoint>)> {
    let (driver, context) = (&*device.driver, device.context);
    let _name = device.named(module.name(), Location::caller());
    // SAFETY: the context is alive. The driver rejects text that is not PTX, and does not rely on
    // its validity.
    let handle = device
        .checked(unsafe { driver.module_load(context, ptx.as_bytes()) })
        .map_err(|error| explain(module, None, error))?;
    match find_entry_points(device, module, entry_points, handle) {
        Ok(entry_points) => Ok((handle, entry_points)),
        Err(error) => {
            // SAFETY: the module was just loaded, and none of its kernels has run.
            if let Err(error) = device.checked(unsafe { driver.module_unload(context, handle) }) {
                log!(debug, %error, "cannot unload a module");
            }
            Err(error)
        }
    }
}

fn find_entry_points(
    device: &DeviceState,
    module: Module,
    names: &[&'static str],
    handle: ModuleHandle,
) -> Result<Vec<EntryPoint>> {
    let find = |name: &&'static str| {
        find_entry_point(device, name, handle).map_err(|error| explain(module, Some(name), error))
    };
    names.iter().map(find).collect()
}

fn find_entry_point(device: &DeviceState, name: &str, module: ModuleHandle) -> Result<EntryPoint> {
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
    Ok(EntryPoint {
        handle,
        threads_max: device.limits.threads_per_block(threads_max),
        dynamic_shared_bytes: usual,
        dynamic_shared_bytes_max: most,
        own_shared_bytes,
    })
}

/// Adds the module, its file and the kernel to a driver's error. An error about the PTX text or a
/// kernel's name becomes a usage error.
fn explain(module: Module, kernel: Option<&'static str>, error: Error) -> Error {
    let Error::Driver(driver) = error else {
        return error;
    };
    let wrong_text = [
        ResultCode::INVALID_PTX,
        ResultCode::INVALID_IMAGE,
        ResultCode::UNSUPPORTED_PTX_VERSION,
        ResultCode::NO_BINARY_FOR_GPU,
    ];
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

fn check_signatures(source: &'static ModuleSource) -> Result<(), UsageError> {
    let module = Module::Declared(source);
    let refuse = |name: &'static str, detail: String| {
        let detail = format!("{detail} (kernel `{name}` of {module})");
        Err(UsageError::new(name, UsageErrorKind::Signature { detail }))
    };
    let entry_points = millstream_ptx::signatures(source.ptx).map_err(|error| {
        let detail = format!("{error} ({module})");
        UsageError::new(source.module, UsageErrorKind::Ptx { detail })
    })?;
    for kernel in source.kernels {
        let Some(entry_point) = entry_points
            .iter()
            .find(|entry_point| entry_point.name == kernel.name)
        else {
            let names: Vec<_> = entry_points
                .iter()
                .map(|entry_point| entry_point.name.as_str())
                .collect();
            return refuse(
                kernel.name,
                format!("the PTX has no such entry; there are {}", names.join(", ")),
            );
        };
        if entry_point.params.len() != kernel.params.len() {
            let (declared, there) = (kernel.params.len(), entry_point.params.len());
            return refuse(
                kernel.name,
                format!("{declared} parameters are declared, but the entry has {there}"),
            );
        }
        for (declared, there) in kernel.params.iter().zip(&entry_point.params) {
            let (size, align) = declared.kind.layout();
            if size != there.size || align < there.align {
                let detail = format!(
                    "parameter `{}` is declared with {size} bytes aligned to {align}, but `{}` has \
                     {} aligned to {}",
                    declared.name, there.name, there.size, there.align
                );
                return refuse(kernel.name, detail);
            }
        }
    }
    Ok(())
}
