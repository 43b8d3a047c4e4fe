//! Declarations of modules, the functions of loaded kernels, and the modules of a device.

#![allow(unsafe_code, reason = "sets attributes of loaded kernels")]

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::{ContextHandle, Driver, FunctionAttribute, FunctionHandle, ModuleHandle};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::{
    declared::DeclaredModule,
    entry_point::EntryPoint,
    generated::GeneratedKernels,
    param_sizes::ParamSizes,
    variables::{ElementLayout, UsedVariable},
};
use crate::{
    Result, UsageError, UsageErrorKind,
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
    /// The variables, in the order of their methods.
    pub variables: &'static [Variable],
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

/// A declared variable of the module.
#[doc(hidden)]
#[derive(Debug)]
pub struct Variable {
    /// The variable's name in the PTX.
    pub name: &'static str,
    /// The type of its elements.
    pub element: ElementLayout,
    /// True if it is declared as one element, not as an array.
    pub is_single: bool,
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
    /// The variables of the module that the kernel uses; set by
    /// [`using`](Self::using), which also turns its launches from the fast path.
    variables: Option<Arc<[UsedVariable]>>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.device)
    }
}

impl Function {
    /// Creates a function for a kernel that uses no variables.
    #[inline]
    pub(super) fn new(
        device: &Arc<DeviceState>,
        name: &'static str,
        params: &'static [Param],
        argument_count: usize,
        entry_point: EntryPoint,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            name,
            params,
            argument_count,
            entry_point,
            variables: None,
        }
    }

    /// Adds the variables of the module that the kernel uses.
    pub(super) fn using(mut self, variables: Option<Arc<[UsedVariable]>>) -> Self {
        if variables.is_some() {
            self.entry_point.fast_threads_max = 0;
        }
        self.variables = variables;
        self
    }

    /// Returns the variables of the module that the kernel uses.
    pub(super) fn variables(&self) -> &[UsedVariable] {
        self.variables.as_deref().unwrap_or_default()
    }

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
    pub(super) declared: Mutex<Vec<DeclaredModule>>,
    /// Modules that were loaded or compiled at run time.
    given: Mutex<Vec<ModuleHandle>>,
    pub(super) generated: Mutex<GeneratedKernels>,
    /// Kernels that have opted in to more than the default limit of shared memory.
    opted_in: Mutex<FxHashSet<FunctionHandle>>,
    pub(super) param_sizes: ParamSizes,
}

impl DeviceSlot for KernelLayer {
    type Value = ModuleCache;

    fn open(_: &Arc<dyn Driver>, _: ContextHandle) -> ModuleCache {
        ModuleCache::default()
    }
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
        let declared = std::mem::take(&mut *self.declared.lock());
        let generated = std::mem::take(&mut *self.generated.lock());
        let given = std::mem::take(&mut *self.given.lock());
        let declared = declared.into_iter().map(|declared| declared.module);
        declared.chain(generated.into_modules()).chain(given)
    }
}
