//! The modules that are loaded on a device.

use std::sync::Arc;

use millstream_driver::{FunctionHandle, ModuleHandle};
use millstream_ptx::VariableUse;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::{
    entry_point::EntryPoint, generated::GeneratedKernels, param_sizes::ParamSizes,
    variables::LoadedVariable,
};
use crate::context::{DeviceSlot, DeviceState, KernelLayer};

#[derive(Debug)]
pub(super) struct DeclaredModule {
    /// The address of the [`ModuleSource`] that declares the module.
    pub(super) source: usize,
    pub(super) module: ModuleHandle,
    pub(super) entry_points: Vec<EntryPoint>,
    /// The variables that each kernel uses, by their indices in `variables`.
    pub(super) uses: Vec<Vec<VariableUse>>,
    pub(super) variables: Vec<LoadedVariable>,
}

/// The modules loaded on a device. They stay loaded until it is closed: a running kernel needs its
/// module, and unloading a module may wait for the device.
#[derive(Debug, Default)]
pub(crate) struct ModuleCache {
    pub(super) declared: Mutex<Vec<DeclaredModule>>,
    /// Modules that were loaded or compiled at run time.
    run_time: Mutex<Vec<ModuleHandle>>,
    pub(super) generated: Mutex<GeneratedKernels>,
    /// Kernels that have opted in to more than the default limit of shared memory.
    pub(super) opted_in: Mutex<FxHashSet<FunctionHandle>>,
    pub(super) param_sizes: ParamSizes,
}

impl DeviceSlot for KernelLayer {
    type Value = ModuleCache;
}

impl ModuleCache {
    pub(super) fn of(device: &DeviceState) -> &Self {
        &device.kernel_slot
    }

    /// Keeps a module that was loaded at run time until the device is closed.
    pub(super) fn keep(device: &DeviceState, module: ModuleHandle) {
        Self::of(device).run_time.lock().push(module);
    }

    /// Removes all modules, to be unloaded when the device is idle.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = ModuleHandle> {
        let declared = std::mem::take(&mut *self.declared.lock());
        let generated = std::mem::take(&mut *self.generated.lock());
        let run_time = std::mem::take(&mut *self.run_time.lock());
        let declared = declared.into_iter().map(|declared| declared.module);
        declared.chain(generated.into_modules()).chain(run_time)
    }
    /// Returns the sizes of a kernel's parameters, if this library loaded it.
    pub(crate) fn param_sizes(
        device: &DeviceState,
        function: FunctionHandle,
    ) -> Option<Arc<[usize]>> {
        let cache = Self::of(device);
        let sizes = cache.param_sizes.0.lock().get(&function).map(Arc::clone);
        if sizes.is_some() {
            return sizes;
        }
        let sizes = cache.generated.lock().param_sizes(function)?;
        let mut known = cache.param_sizes.0.lock();
        Some(Arc::clone(known.entry(function).or_insert(sizes)))
    }
}
