//! Module loading: loads PTX on a device once, and checks the declared kernels against it.

#![allow(unsafe_code, reason = "loads and unloads modules")]

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::{ContextHandle, Driver, FunctionAttribute, FunctionHandle, ModuleHandle};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::{
    Cuda,
    compile::compile_for,
    entry_point::{EntryPoint, Image, ModuleLabel, load_module},
    generated::GeneratedKernels,
    matching::{Mismatch, Slices, compare},
    param_shapes::ParamShapes,
};
use crate::{
    Device, Result, UsageError, UsageErrorKind,
    context::{DeviceSlot, DeviceState, KernelLayer},
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
    /// The PTX text; empty if the module is compiled when it is loaded.
    pub ptx: &'static str,
    /// The CUDA C++ to compile when the module is loaded.
    pub cuda: Option<&'static str>,
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
    /// The length of the slice before it, as a kernel in Rust takes it.
    Len,
    /// A scalar, which is passed by value.
    Scalar {
        /// The scalar's size in bytes.
        size: usize,
        /// The scalar's alignment in bytes.
        align: usize,
    },
}

impl ParamKind {
    /// Returns whether the parameter belongs to the argument before it.
    pub(super) fn is_len(self) -> bool {
        matches!(self, Self::Len)
    }

    /// Returns the size and the alignment of the passed value.
    pub(super) fn layout(self) -> (usize, usize) {
        match self {
            Self::Slice { .. } | Self::Len => (size_of::<u64>(), align_of::<u64>()),
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
    /// The number of arguments of a launch: of the parameters without lengths.
    pub(super) argument_count: usize,
    pub(super) entry_point: EntryPoint,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.device)
    }
}

impl Function {
    /// Returns the driver's handle.
    pub(crate) fn handle(&self) -> FunctionHandle {
        self.entry_point.handle
    }

    /// Adds the names of the kernel's parameters to an error.
    #[cold]
    pub(super) fn naming_operands(&self, usage_error: UsageError) -> UsageError {
        let operands = self.params.iter().filter(|param| !param.kind.is_len());
        let names: Vec<_> = operands.map(|param| param.name).collect();
        usage_error.naming(|operand| names.get(operand).copied())
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

/// The modules loaded on a device. They stay loaded until it is closed: a running kernel needs its
/// module, and unloading a module may wait for the device.
#[derive(Debug, Default)]
pub(crate) struct ModuleCache {
    loaded: Mutex<Vec<LoadedModule>>,
    /// Modules that were loaded or compiled at run time.
    given: Mutex<Vec<ModuleHandle>>,
    pub(super) generated: Mutex<GeneratedKernels>,
    /// Kernels that have opted in to more than the default limit of shared memory.
    opted_in: Mutex<FxHashSet<FunctionHandle>>,
    pub(super) param_shapes: ParamShapes,
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

    /// Keeps a module that was loaded at run time until the device is closed.
    pub(super) fn keep(device: &DeviceState, module: ModuleHandle) {
        Self::of(device).given.lock().push(module);
    }

    /// Removes all modules, to be unloaded when the device is idle.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = ModuleHandle> {
        let declared = std::mem::take(&mut *self.loaded.lock());
        let generated = std::mem::take(&mut *self.generated.lock());
        let given = std::mem::take(&mut *self.given.lock());
        let declared = declared.into_iter().map(|loaded| loaded.module);
        declared.chain(generated.into_modules()).chain(given)
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
            let (module, entry_points) = load_declared(device, source)?;
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
                argument_count: kernel
                    .params
                    .iter()
                    .filter(|param| !param.kind.is_len())
                    .count(),
                entry_point,
            });
    Ok(functions.collect())
}

/// Loads the module of a declaration, which is compiled first if it has no PTX.
#[track_caller]
fn load_declared(
    device: &DeviceState,
    source: &'static ModuleSource,
) -> Result<(ModuleHandle, Vec<EntryPoint>)> {
    let label = ModuleLabel::Declared(source);
    let names: Vec<_> = source.kernels.iter().map(|kernel| kernel.name).collect();
    let compiled = match source.cuda {
        Some(text) => Some(compile_for(device, &Cuda::source(source.module, text))?.0),
        None => None,
    };
    let ptx = compiled
        .as_ref()
        .map_or(source.ptx, |compiled| &compiled.ptx);
    let slices = check_signatures(source, ptx)?;
    let cubin = compiled
        .as_ref()
        .and_then(|compiled| compiled.cubin.as_deref());
    let image = cubin.map_or(Image::Ptx(ptx), Image::Binary);
    let (module, mut entry_points) = load_module(device, label, image, &names)?;
    let declared = source.kernels.iter().zip(slices);
    for (entry_point, (kernel, slices)) in entry_points.iter_mut().zip(declared) {
        entry_point.slices = slices;
        let kinds: Vec<_> = kernel.params.iter().map(|param| param.kind).collect();
        let shapes = &ModuleCache::of(device).param_shapes;
        shapes.note(entry_point.handle, &kinds, slices);
    }
    Ok((module, entry_points))
}

/// Compares the declared kernels with those of the PTX. Returns how each takes its slices.
fn check_signatures(source: &'static ModuleSource, ptx: &str) -> Result<Vec<Slices>, UsageError> {
    let module = ModuleLabel::Declared(source);
    let entry_points = millstream_ptx::signatures(ptx).map_err(|error| {
        let detail = format!("{error} ({module})");
        UsageError::new(source.module, UsageErrorKind::Ptx { detail })
    })?;
    let check = |kernel: &'static Signature| {
        let found = entry_points.iter().find(|found| found.name == kernel.name);
        let problem = match found {
            None => {
                let names: Vec<_> = entry_points
                    .iter()
                    .map(|entry_point| entry_point.name.as_str())
                    .collect();
                format!("the PTX has no such entry; there are {}", names.join(", "))
            }
            Some(found) => {
                let kinds: Vec<_> = kernel.params.iter().map(|param| param.kind).collect();
                match compare(&kinds, &found.params) {
                    Ok(slices) => return Ok(slices),
                    Err(mismatch) => describe(kernel, mismatch),
                }
            }
        };
        let detail = format!("{problem} (kernel `{}` of {module})", kernel.name);
        let problem = UsageErrorKind::Signature { detail };
        Err(UsageError::new(kernel.name, problem))
    };
    source.kernels.iter().map(check).collect()
}

/// Says how a declaration differs from the PTX.
fn describe(kernel: &Signature, mismatch: Mismatch<'_>) -> String {
    match mismatch {
        Mismatch::Count { declared, there } => {
            format!("{declared} parameters are declared, but the entry has {there}")
        }
        Mismatch::Layout {
            index,
            declared: (size, align),
            there,
        } => format!(
            "parameter `{}` is declared with {size} bytes aligned to {align}, but `{}` has {} \
             aligned to {}",
            kernel.params[index].name, there.name, there.size, there.align
        ),
    }
}
