//! Modules that `kernels!` declares: loaded on a device once, with their kernels and variables
//! checked against the PTX.

use std::sync::Arc;

use bytemuck::Pod;
use millstream_driver::ModuleHandle;
use millstream_ptx::{Interface, KernelInterface};
use parking_lot::MappedMutexGuard;

use super::{
    Cuda, Function, ModuleSource, Signature, Variable,
    compile::compile_for,
    entry_point::{Image, ModuleLabel, load_module, unload},
    matching::{Mismatch, Slices, compare},
    module_cache::{DeclaredModule, ModuleCache},
    variables::{self, LoadedVariable, VariableMemory},
};
use crate::{Device, Global, Result, UsageError, UsageErrorKind, context::DeviceState};

/// The declared variables of a loaded module, in their order.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Variables {
    device: Arc<DeviceState>,
    memory: Arc<[VariableMemory]>,
}

impl Variables {
    /// Returns a variable as an array of the declared type.
    #[must_use]
    pub fn array<T: Pod>(&self, index: usize) -> Global<T> {
        self.memory[index].array(&self.device)
    }
}

/// Loads a module on the device, unless it is already loaded, and checks the number, size and
/// alignment of the parameters of every declared kernel, and the size and alignment of every
/// declared variable. The kernels' code is loaded eagerly, so that launches of kernels that were
/// loaded while the device was idle do not wait for running kernels (rule 53: kernels are loaded on
/// first use, which may wait for running kernels).
///
/// # Errors
///
/// If the PTX cannot be loaded on this device, or a declaration does not match it; the error names
/// the line, opcode, parameter or variable.
#[doc(hidden)]
#[track_caller]
pub fn load(device: &Device, source: &'static ModuleSource) -> Result<Arc<[Function]>> {
    let device = device.state();
    let module = find_or_load(device, source)?;
    let each = source.kernels.iter().enumerate();
    let functions = each.map(|(at, kernel)| {
        let params = kernel.params.iter();
        let arguments = params.filter(|param| !param.kind.is_len()).count();
        let entry_point = module.entry_points[at];
        let function = Function::new(device, kernel.name, kernel.params, arguments, entry_point);
        function.using(variables::variables_of(
            device,
            &module.variables,
            &module.uses[at],
        ))
    });
    Ok(functions.collect())
}

/// Returns the declared variables of a module, which is loaded as by [`load`].
///
/// # Errors
///
/// As [`load`].
#[doc(hidden)]
#[track_caller]
pub fn load_variables(device: &Device, source: &'static ModuleSource) -> Result<Variables> {
    let device = device.state();
    let module = find_or_load(device, source)?;
    let variables = source.variables.iter();
    let memory = variables.map(|declared| find_variable(source, declared, &module.variables));
    Ok(Variables {
        device: Arc::clone(device),
        memory: memory.collect::<Result<_, _>>()?,
    })
}

#[track_caller]
fn find_or_load<'a>(
    device: &'a DeviceState,
    source: &'static ModuleSource,
) -> Result<MappedMutexGuard<'a, DeclaredModule>> {
    device.check_alive()?;
    let address = std::ptr::from_ref(source).addr();
    let mut modules = ModuleCache::of(device).declared.lock();
    let position = modules.iter().position(|module| module.source == address);
    let at = match position {
        Some(at) => at,
        None => {
            modules.push(load_declared(device, source)?);
            modules.len() - 1
        }
    };
    Ok(parking_lot::MutexGuard::map(modules, |modules| {
        &mut modules[at]
    }))
}

/// Loads the module of a declaration, which is compiled first if it has no PTX.
#[track_caller]
fn load_declared(device: &DeviceState, source: &'static ModuleSource) -> Result<DeclaredModule> {
    let label = ModuleLabel::Declared(source);
    let names: Vec<_> = source.kernels.iter().map(|kernel| kernel.name).collect();
    let compiled = match source.cuda {
        Some(text) => Some(compile_for(device, &Cuda::source(source.module, text))?.0),
        None => None,
    };
    let ptx = compiled
        .as_ref()
        .map_or(source.ptx, |compiled| &compiled.ptx);
    let interface = millstream_ptx::interface(ptx).map_err(|error| {
        let detail = format!("{error} ({label})");
        UsageError::new(source.module, UsageErrorKind::Ptx { detail })
    })?;
    let slices = check_signatures(source, &interface)?;
    let cubin = compiled
        .as_ref()
        .and_then(|compiled| compiled.cubin.as_deref());
    let image = cubin.map_or(Image::Ptx(ptx), Image::Binary);
    let (module, mut entry_points) = load_module(device, label, image, &names)?;
    let variables = match load_used_variables(device, source, module, &interface) {
        Ok(variables) => variables,
        Err(error) => {
            unload(device, module);
            return Err(error);
        }
    };
    let declared = source.kernels.iter().zip(slices);
    for (entry_point, (kernel, slices)) in entry_points.iter_mut().zip(declared) {
        entry_point.slices = slices;
        let kinds: Vec<_> = kernel.params.iter().map(|param| param.kind).collect();
        let sizes = &ModuleCache::of(device).param_sizes;
        sizes.note(entry_point.handle, &kinds, slices);
    }
    let uses = source.kernels.iter().map(|kernel| {
        let kernel_interface = find_kernel(&interface, kernel);
        kernel_interface.map_or_else(Vec::new, |interface| interface.uses.clone())
    });
    Ok(DeclaredModule {
        source: std::ptr::from_ref(source).addr(),
        module,
        entry_points,
        uses: uses.collect(),
        variables,
    })
}

/// Looks up the variables that declared kernels use, and all if some are declared: an error lists
/// them.
fn load_used_variables(
    device: &DeviceState,
    source: &'static ModuleSource,
    module: ModuleHandle,
    interface: &Interface,
) -> Result<Vec<LoadedVariable>> {
    let kernels = source.kernels.iter();
    let uses: Vec<_> = kernels
        .filter_map(|kernel| find_kernel(interface, kernel))
        .flat_map(|kernel| kernel.uses.iter().map(|found| found.variable))
        .collect();
    let declared = interface.variables.clone();
    let is_wanted = |index| !source.variables.is_empty() || uses.contains(&index);
    let variables = variables::look_up(device, module, declared, is_wanted)?;
    for declared in source.variables {
        find_variable(source, declared, &variables)?;
    }
    Ok(variables)
}

fn find_kernel<'a>(interface: &'a Interface, kernel: &Signature) -> Option<&'a KernelInterface> {
    let mut kernels = interface.kernels.iter();
    kernels.find(|found| found.signature.name == kernel.name)
}

/// Returns the variable of a declaration, or an error if it does not match the declaration.
fn find_variable(
    source: &'static ModuleSource,
    declared: &Variable,
    variables: &[LoadedVariable],
) -> Result<VariableMemory, UsageError> {
    let Variable {
        name,
        element,
        is_single,
    } = *declared;
    let memory = variables::find_array(variables, name, element);
    let memory = memory.map_err(|problem| UsageError::new(source.module, problem))?;
    if is_single && memory.bytes != element.bytes {
        let detail = format!(
            "the variable `{name}` is declared as one element of {} bytes, and has {}: declare an \
             array (variable of {})",
            element.bytes,
            memory.bytes,
            ModuleLabel::Declared(source)
        );
        let problem = UsageErrorKind::Signature { detail };
        return Err(UsageError::new(source.module, problem));
    }
    Ok(memory)
}

/// Compares the declared kernels with those of the PTX. Returns how each takes its slices.
fn check_signatures(
    source: &'static ModuleSource,
    interface: &Interface,
) -> Result<Vec<Slices>, UsageError> {
    let module = ModuleLabel::Declared(source);
    let check = |kernel: &'static Signature| {
        let problem = match find_kernel(interface, kernel) {
            None => {
                let kernels = interface.kernels.iter();
                let names: Vec<_> = kernels
                    .map(|kernel| kernel.signature.name.as_str())
                    .collect();
                format!("the PTX has no such entry; there are {}", names.join(", "))
            }
            Some(found) => {
                let kinds: Vec<_> = kernel.params.iter().map(|param| param.kind).collect();
                match compare(&kinds, &found.signature.params) {
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
