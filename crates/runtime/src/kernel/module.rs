//! Loading PTX on a device, once, and checking that the declared kernels are what the PTX has.

#![allow(unsafe_code, reason = "loads and unloads modules")]

use std::{fmt, sync::Arc};

use millstream_driver::{FunctionHandle, ModuleHandle, ResultCode};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{Device, Error, Misuse, Problem, Result, device::DeviceState};

/// PTX and the kernels declared for it. Made by [`kernels!`](crate::kernels), as a `static`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Source {
    /// The module's name, for errors.
    pub module: &'static str,
    /// The PTX text.
    pub ptx: &'static str,
    /// The kernels, in the order of their functions.
    pub kernels: &'static [Signature],
}

/// One declared kernel.
#[doc(hidden)]
#[derive(Debug)]
pub struct Signature {
    /// The name of its entry in the PTX.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
}

/// One declared parameter.
#[doc(hidden)]
#[derive(Debug)]
pub struct Param {
    /// Its name, for errors.
    pub name: &'static str,
    /// What it is.
    pub kind: ParamKind,
}

/// What a declared parameter is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
    /// An array: its address is passed.
    Slice {
        /// Whether the kernel may write it.
        writable: bool,
    },
    /// A value.
    Scalar {
        /// Its size in bytes.
        size: usize,
        /// Its alignment in bytes.
        align: usize,
    },
}

impl ParamKind {
    /// Size and alignment of what is passed.
    fn layout(self) -> (usize, usize) {
        match self {
            Self::Slice { .. } => (size_of::<u64>(), align_of::<u64>()),
            Self::Scalar { size, align } => (size, align),
        }
    }
}

/// A kernel that is loaded on a device.
#[doc(hidden)]
#[derive(Clone)]
pub struct Function {
    pub(super) device: Arc<DeviceState>,
    pub(super) name: &'static str,
    /// How many parameters it has.
    pub(super) params: usize,
    pub(super) entry: Entry,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.device)
    }
}

/// What the driver knows of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) handle: FunctionHandle,
    /// The most threads that a block may have.
    pub(super) threads_max: u32,
}

/// The modules that are loaded on a device. They stay loaded: a running kernel needs its module, and drivers wait when
/// one is unloaded.
#[derive(Debug, Default)]
pub(crate) struct ModuleCache {
    loaded: Mutex<Vec<Loaded>>,
    /// Kernels that were generated, by their PTX.
    generated: Mutex<FxHashMap<Box<str>, Generated>>,
}

#[derive(Debug)]
struct Loaded {
    /// The address of the `static` that declares it.
    source: usize,
    module: ModuleHandle,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Generated {
    name: &'static str,
    params: usize,
    module: ModuleHandle,
    entry: Entry,
}

impl ModuleCache {
    /// Takes all modules out, to be unloaded when the device is idle.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = ModuleHandle> {
        let declared = std::mem::take(&mut *self.loaded.lock());
        let generated = std::mem::take(&mut *self.generated.lock());
        let declared = declared.into_iter().map(|loaded| loaded.module);
        declared.chain(generated.into_values().map(|kernel| kernel.module))
    }
}

/// Loads the PTX on the device, unless it is, and checks every declared kernel against it: number, size and alignment of
/// the parameters. The kernels' code is loaded with it, so that launches of what is loaded while the device is
/// idle do not wait for kernels that run (rule 53).
///
/// # Errors
///
/// If the PTX does not load on this device, or a declaration does not match it; the error names line, opcode or parameter.
#[doc(hidden)]
pub fn load(device: &Device, source: &'static Source) -> Result<Arc<[Function]>> {
    let device = device.state();
    device.check_alive()?;
    let address = std::ptr::from_ref(source).addr();
    let mut loaded = device.modules.loaded.lock();
    let known = loaded.iter().position(|known| known.source == address);
    let at = match known {
        Some(at) => at,
        None => {
            check_signatures(source)?;
            let names: Vec<_> = source.kernels.iter().map(|kernel| kernel.name).collect();
            let (module, entries) = load_module(device, source.module, source.ptx, &names)?;
            loaded.push(Loaded {
                source: address,
                module,
                entries,
            });
            loaded.len() - 1
        }
    };
    let functions = source
        .kernels
        .iter()
        .zip(&loaded[at].entries)
        .map(|(kernel, &entry)| Function {
            device: Arc::clone(device),
            name: kernel.name,
            params: kernel.params.len(),
            entry,
        });
    Ok(functions.collect())
}

/// Loads a module of one kernel that was generated, unless it is loaded, and gives that kernel. Kernels of the same PTX are
/// one, with the name that came first.
///
/// # Errors
///
/// If the PTX does not load on this device, or has no entry of that name.
#[doc(hidden)]
pub fn load_generated(
    device: &Device,
    ptx: &str,
    entry: &'static str,
    name: impl FnOnce() -> &'static str,
    params: usize,
) -> Result<Function> {
    let device = device.state();
    device.check_alive()?;
    let mut generated = device.modules.generated.lock();
    let kernel = match generated.get(ptx) {
        Some(known) => *known,
        None => {
            let name = name();
            let (module, entries) = load_module(device, name, ptx, &[entry])?;
            let kernel = Generated {
                name,
                params,
                module,
                entry: entries[0],
            };
            generated.insert(ptx.into(), kernel);
            kernel
        }
    };
    Ok(Function {
        device: Arc::clone(device),
        name: kernel.name,
        params: kernel.params,
        entry: kernel.entry,
    })
}

/// Loads a module and finds these entries of it; `name` is what errors call it.
fn load_module(
    device: &DeviceState,
    name: &'static str,
    ptx: &str,
    entries: &[&str],
) -> Result<(ModuleHandle, Vec<Entry>)> {
    let (driver, context) = (&*device.driver, device.context);
    // SAFETY: the context is alive. The image is text, which the driver compiles and does not trust.
    let module = device
        .checked(unsafe { driver.module_load(context, ptx.as_bytes()) })
        .map_err(|error| explain(name, error))?;
    match find_entries(device, entries, module) {
        Ok(entries) => Ok((module, entries)),
        Err(error) => {
            // SAFETY: the module was just loaded, and no kernel of it has run.
            if let Err(error) = device.checked(unsafe { driver.module_unload(context, module) }) {
                tracing::debug!(%error, "a module could not be unloaded");
            }
            Err(error)
        }
    }
}

fn find_entries(device: &DeviceState, names: &[&str], module: ModuleHandle) -> Result<Vec<Entry>> {
    let (driver, context) = (&*device.driver, device.context);
    let find = |name: &&str| {
        // SAFETY: the module is loaded.
        let handle = device.checked(unsafe { driver.module_function(context, module, name) })?;
        // SAFETY: the function is of that module.
        let threads_max = device.checked(unsafe { driver.function_max_threads(context, handle) })?;
        let threads_max = device.limits.threads_per_block(threads_max);
        // SAFETY: the function is of that module.
        match unsafe { driver.function_load(context, handle) } {
            // Then the driver loads it when it is first launched.
            Err(error) if error.code() == ResultCode::NOT_SUPPORTED => {}
            loaded => device.checked(loaded)?,
        }
        Ok(Entry { handle, threads_max })
    };
    names.iter().map(find).collect()
}

/// A driver's refusal of the text is the caller's mistake, not the device's.
fn explain(name: &'static str, error: Error) -> Error {
    let Error::Driver(driver) = &error else {
        return error;
    };
    let refused = [
        ResultCode::INVALID_PTX,
        ResultCode::INVALID_IMAGE,
        ResultCode::UNSUPPORTED_PTX_VERSION,
        ResultCode::NO_BINARY_FOR_GPU,
    ];
    if refused.contains(&driver.code()) {
        return Misuse::new(
            name,
            Problem::Ptx {
                detail: driver.to_string(),
            },
        )
        .into();
    }
    error
}

fn check_signatures(source: &Source) -> Result<(), Misuse> {
    let refuse = |name: &'static str, detail: String| Err(Misuse::new(name, Problem::Signature { detail }));
    let entries = millstream_sim::ptx::signatures(source.ptx).map_err(|error| {
        Misuse::new(
            source.module,
            Problem::Ptx {
                detail: error.to_string(),
            },
        )
    })?;
    for kernel in source.kernels {
        let Some(entry) = entries.iter().find(|entry| entry.name == kernel.name) else {
            let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
            return refuse(
                kernel.name,
                format!("no such entry; there are {}", names.join(", ")),
            );
        };
        if entry.params.len() != kernel.params.len() {
            let (declared, there) = (kernel.params.len(), entry.params.len());
            return refuse(
                kernel.name,
                format!("{declared} parameters are declared, the entry has {there}"),
            );
        }
        for (declared, there) in kernel.params.iter().zip(&entry.params) {
            let (size, align) = declared.kind.layout();
            if size != there.size || align < there.align {
                let detail = format!(
                    "parameter `{}` is declared with {size} bytes aligned to {align}, `{}` has {} aligned to {}",
                    declared.name, there.name, there.size, there.align
                );
                return refuse(kernel.name, detail);
            }
        }
    }
    Ok(())
}
