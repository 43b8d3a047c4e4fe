//! Generated kernels: loaded once for each text.

use std::sync::Arc;

use millstream_driver::{FunctionHandle, ModuleHandle};
use rustc_hash::FxHashMap;

use super::{
    entry_point::{EntryPoint, Image, ModuleLabel, load_module},
    function::Function,
    module_cache::ModuleCache,
};
use crate::{Device, Result, context::DeviceState};

#[derive(Debug, Default)]
pub(super) struct GeneratedKernels {
    /// The kernels by their PTX.
    by_text: FxHashMap<Box<str>, GeneratedKernel>,
    /// Some of the kernels by the address of their PTX, because hashing a text takes longer than a
    /// launch. The text is kept, so that no other text gets its address.
    by_address: FxHashMap<usize, (Arc<str>, GeneratedKernel)>,
}

/// The maximum number of kernels that are found by the addresses of their PTX.
const ADDRESSES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct GeneratedKernel {
    name: &'static str,
    argument_count: usize,
    module: ModuleHandle,
    entry_point: EntryPoint,
}

/// Loads the module of a generated kernel, unless it is already loaded, and returns the kernel.
/// Kernels with equal PTX share one module and the name that came first.
///
/// # Errors
///
/// If the PTX cannot be loaded on this device, or has no entry of that name.
#[doc(hidden)]
#[track_caller]
pub fn load_generated(
    device: &Device,
    ptx: &str,
    entry_point: &'static str,
    name: impl FnOnce() -> &'static str,
    params: usize,
) -> Result<Function> {
    let device = device.state();
    device.check_alive()?;
    let mut generated = ModuleCache::of(device).generated.lock();
    let kernel = generated.load(device, ptx, entry_point, name, params)?;
    Ok(kernel.function(device))
}

/// Does the same as [`load_generated`], and finds a kernel whose text was passed before by its
/// address.
#[doc(hidden)]
pub fn load_generated_again(
    device: &Device,
    ptx: &Arc<str>,
    entry_point: &'static str,
    name: impl FnOnce() -> &'static str,
    params: usize,
) -> Result<Function> {
    let device = device.state();
    device.check_alive()?;
    let mut generated = ModuleCache::of(device).generated.lock();
    let address = ptx.as_ptr().addr();
    if let Some((_, known)) = generated.by_address.get(&address) {
        return Ok(known.function(device));
    }
    let kernel = generated.load(device, ptx, entry_point, name, params)?;
    if generated.by_address.len() >= ADDRESSES_MAX {
        generated.by_address.clear();
    }
    let entry = (Arc::clone(ptx), kernel);
    generated.by_address.insert(address, entry);
    Ok(kernel.function(device))
}

impl GeneratedKernels {
    pub(super) fn into_modules(self) -> impl Iterator<Item = ModuleHandle> {
        self.by_text.into_values().map(|kernel| kernel.module)
    }

    pub(super) fn param_sizes(&self, function: FunctionHandle) -> Option<Arc<[usize]>> {
        let mut kernels = self.by_text.iter();
        let (ptx, _) = kernels.find(|(_, kernel)| kernel.entry_point.handle == function)?;
        // A generated module has one kernel.
        let signatures = millstream_ptx::signatures(ptx).ok()?;
        let params = signatures.first()?.params.iter();
        Some(params.map(|param| param.size).collect())
    }

    /// Returns the kernel with this text, loading it if it is not loaded yet.
    fn load(
        &mut self,
        device: &DeviceState,
        ptx: &str,
        entry_point: &'static str,
        name: impl FnOnce() -> &'static str,
        params: usize,
    ) -> Result<GeneratedKernel> {
        if let Some(kernel) = self.by_text.get(ptx) {
            return Ok(*kernel);
        }
        let name = name();
        let (module, entry_points) = load_module(
            device,
            ModuleLabel::Generated(name),
            Image::Ptx(ptx),
            &[entry_point],
        )?;
        let kernel = GeneratedKernel {
            name,
            argument_count: params,
            module,
            entry_point: entry_points[0],
        };
        self.by_text.insert(ptx.into(), kernel);
        Ok(kernel)
    }
}

impl GeneratedKernel {
    fn function(self, device: &Arc<DeviceState>) -> Function {
        Function::new(
            device,
            self.name,
            &[],
            self.argument_count,
            self.entry_point,
        )
    }
}
