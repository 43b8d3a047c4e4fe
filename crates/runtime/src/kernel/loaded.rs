//! `Module`: a module that was loaded or compiled at run time, and its kernels and variables.

#![allow(unsafe_code, reason = "declares a method for unchecked machine code")]

use std::{fmt, sync::Arc};

use bytemuck::Pod;
use millstream_driver::{ModuleHandle, ResultCode};
use millstream_ptx::{Interface, KernelInterface, PtxError, PtxErrorKind};

use super::{
    ElementLayout, Function, Kernel, KernelSignature, ModuleCache, ParamKind, Ptx, declare_arrays,
    entry_point::{Image, ModuleLabel, explain, find_entry_point, load_image, unload},
    matching::{Mismatch, Slices, compare},
    names::{interned, is_mangled, nearest},
    variables::{self, LoadedVariable},
};
use crate::{
    Device, Error, Global, Result, UsageError, UsageErrorKind, context::DeviceState,
    error::Diagnostic,
};

/// A module on a device: kernels and variables from PTX, CUDA C++ or machine code that a program
/// got at run time.
///
/// [`Device::compile`] and [`Device::module`] create modules. Kernels that are known when the
/// program is compiled are better declared with [`kernels!`](crate::kernels), which checks their
/// launches. Each call loads a module of its own, with variables of its own. The device keeps its
/// modules until it is closed, because unloading one would wait for running kernels.
///
/// ```standalone_crate
/// use millstream::{Device, Error, Ptx, UsageErrorKind, signature};
///
/// let device = Device::simulated()?;
/// let module = device.module(Ptx::text("vecadd.ptx", include_str!("../../kernels/vecadd.ptx")))?;
/// assert_eq!(module.kernels(), ["vecadd", "vecadd4"]);
///
/// // The signature is compared with the PTX.
/// type Wrong = signature!(&[f32], &[f32], &mut [f32], u32);
/// let error = module.function::<Wrong>("vecadd").unwrap_err();
/// assert!(error.to_string().contains("parameter 3 has 4 bytes in the signature"), "{error}");
/// let error = module.function::<signature!()>("vecad").unwrap_err();
/// assert!(error.to_string().contains("no kernel `vecad`; there are `vecadd`"), "{error}");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Module {
    state: Arc<ModuleState>,
}

struct ModuleState {
    device: Arc<DeviceState>,
    name: &'static str,
    handle: ModuleHandle,
    /// The kernels of the PTX; `None` for machine code alone, whose kernels are not known.
    kernels: Option<Vec<KernelInterface>>,
    variables: Vec<LoadedVariable>,
    /// The names in CUDA C++ for which the compiler was asked, each with the name in the PTX.
    lowered: Vec<(String, String)>,
    warnings: Vec<Diagnostic>,
    from_cache: bool,
}

pub(super) struct Parts {
    pub(super) name: String,
    /// The PTX, with which signatures are compared.
    pub(super) ptx: Option<String>,
    /// Machine code, which takes the place of the PTX on the device.
    pub(super) binary: Option<Vec<u8>>,
    pub(super) lowered: Vec<(String, String)>,
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) from_cache: bool,
}

impl Device {
    /// Loads a module of PTX.
    ///
    /// # Errors
    ///
    /// If the PTX is not valid ([`UsageErrorKind::Ptx`] names line, opcode or parameter) or of a
    /// newer version than the driver supports ([`UsageErrorKind::PtxVersion`]), or the device is
    /// lost.
    #[track_caller]
    pub fn module(&self, ptx: Ptx) -> Result<Module> {
        let Ptx { name, text } = ptx;
        let parts = Parts {
            name,
            ptx: Some(text),
            binary: None,
            lowered: Vec::new(),
            warnings: Vec::new(),
            from_cache: false,
        };
        Module::load(self.state(), parts)
    }

    /// Loads a module of machine code: a cubin or a fat binary. Signatures of its kernels are not
    /// checked. The simulated device runs PTX only.
    ///
    /// # Errors
    ///
    /// [`UsageErrorKind::Unsupported`] on a simulated device, [`UsageErrorKind::Ptx`] if the image
    /// is no binary or has no code for the device.
    ///
    /// # Safety
    ///
    /// The image is a complete, intact output of NVIDIA's tools: nothing checks the code in it.
    #[track_caller]
    pub unsafe fn module_from_binary(&self, name: &str, image: &[u8]) -> Result<Module> {
        let parts = Parts {
            name: name.to_owned(),
            ptx: None,
            binary: Some(image.to_vec()),
            lowered: Vec::new(),
            warnings: Vec::new(),
            from_cache: false,
        };
        Module::load(self.state(), parts)
    }
}

impl Module {
    /// Loads a module and looks up its variables.
    #[track_caller]
    pub(super) fn load(device: &Arc<DeviceState>, parts: Parts) -> Result<Self> {
        device.check_alive()?;
        let Parts {
            name,
            ptx,
            binary,
            lowered,
            warnings,
            from_cache,
        } = parts;
        let name = interned(&name);
        let label = ModuleLabel::RunTime(name);
        if binary.is_some() && device.is_simulated {
            let detail = format!(
                "the simulated device runs PTX, and `{name}` is machine code: load the PTX from \
                 which it was made"
            );
            return Err(UsageError::new(name, UsageErrorKind::Unsupported { detail }).into());
        }
        let interface = match &ptx {
            Some(ptx) => {
                let interface = millstream_ptx::interface(ptx);
                Some(interface.map_err(|error| refused(name, label, &error))?)
            }
            None => None,
        };
        let image = match (&binary, &ptx) {
            (Some(binary), _) => Image::Binary(binary),
            (None, ptx) => Image::Ptx(ptx.as_deref().unwrap_or_default()),
        };
        let handle = load_image(device, label, image)?;
        let Interface { kernels, variables } = interface.unwrap_or_default();
        let variables = match variables::look_up(device, handle, variables, |_| true) {
            Ok(variables) => variables,
            Err(error) => {
                unload(device, handle);
                return Err(error);
            }
        };
        ModuleCache::keep(device, handle);
        Ok(Self {
            state: Arc::new(ModuleState {
                device: Arc::clone(device),
                name,
                handle,
                kernels: ptx.is_some().then_some(kernels),
                variables,
                lowered,
                warnings,
                from_cache,
            }),
        })
    }

    /// Returns the name of the module's source.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.state.name
    }

    /// Returns the names of the kernels in the PTX, in its order. Empty for machine code.
    #[must_use]
    pub fn kernels(&self) -> Vec<&str> {
        let kernels = self.state.kernels.iter().flatten();
        kernels
            .map(|kernel| kernel.signature.name.as_str())
            .collect()
    }

    /// Returns the names of the variables that [`global`](Self::global) finds.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        variables::names(&self.state.variables).collect()
    }

    /// Returns the warnings of the compiler. Empty for modules that were not compiled.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.state.warnings
    }

    /// Returns whether the module was compiled earlier and read from the cache on disk.
    #[must_use]
    pub fn is_from_cache(&self) -> bool {
        self.state.from_cache
    }

    /// Returns the kernel of this name, with its signature: see [`Kernel`].
    ///
    /// The name is that of an `extern "C"` kernel, a name for which
    /// [`Cuda::instantiate`](crate::Cuda::instantiate) asked, or the plain name of the only kernel
    /// that has it.
    ///
    /// # Errors
    ///
    /// [`UsageErrorKind::NoKernel`] with the names that there are, [`UsageErrorKind::Signature`] if
    /// the PTX has another number of parameters or one of another size.
    #[doc(alias("cuModuleGetFunction", "load_function", "get_func"))]
    pub fn function<S: KernelSignature>(&self, name: &str) -> Result<Kernel<S>> {
        let state = &*self.state;
        let label = ModuleLabel::RunTime(state.name);
        let declared = S::declared();
        let kernel = match &state.kernels {
            Some(kernels) => {
                let kernel = self.find(kernels, name)?;
                let slices = check_signature(name, label, &declared.kinds, kernel)?;
                Some((kernel, slices))
            }
            None => None,
        };
        let entry = kernel.map_or(name, |(kernel, _)| kernel.signature.name.as_str());
        let mut entry_point = match find_entry_point(&state.device, entry, state.handle) {
            Ok(entry_point) => entry_point,
            Err(Error::Driver(error)) if error.code() == ResultCode::NOT_FOUND => {
                return Err(self.no_kernel(name));
            }
            Err(error) => return Err(explain(label, Some(interned(name)), error)),
        };
        entry_point.slices = kernel.map_or(Slices::Apart, |(_, slices)| slices);
        let sizes = &ModuleCache::of(&state.device).param_sizes;
        sizes.note(entry_point.handle, &declared.kinds, entry_point.slices);
        let arguments = declared.kinds.iter().filter(|kind| !kind.is_len()).count();
        let function = Function::new(&state.device, interned(name), &[], arguments, entry_point);
        declare_arrays(std::slice::from_ref(&function), &[&declared.arrays]);
        let uses = kernel.map_or(&[][..], |(kernel, _)| &kernel.uses);
        let used = variables::variables_of(&state.device, &state.variables, uses);
        Ok(Kernel::new(function.using(used)))
    }

    /// Returns a variable in global or constant memory, as an array of `T`.
    ///
    /// # Errors
    ///
    /// [`UsageErrorKind::NoVariable`] with the names that there are, [`UsageErrorKind::Variable`]
    /// if its size is not a multiple of the element's, or its alignment is smaller.
    pub fn global<T: Pod>(&self, name: &str) -> Result<Global<T>> {
        let state = &*self.state;
        let memory = variables::find_array(&state.variables, name, ElementLayout::of::<T>());
        let memory = memory.map_err(|problem| UsageError::new("global", problem))?;
        Ok(memory.array(&state.device))
    }

    /// Finds a kernel by its name in the PTX, by the name for which the compiler was asked, or by
    /// its name in C++ if only one kernel has it.
    fn find<'a>(&self, kernels: &'a [KernelInterface], name: &str) -> Result<&'a KernelInterface> {
        let lowered = self.state.lowered.iter().find(|(asked, _)| asked == name);
        let entry = lowered.map_or(name, |(_, lowered)| lowered);
        let by_name = kernels.iter().find(|kernel| kernel.signature.name == entry);
        if let Some(kernel) = by_name {
            return Ok(kernel);
        }
        let mut mangled = kernels
            .iter()
            .filter(|kernel| is_mangled(&kernel.signature.name, name));
        match (mangled.next(), mangled.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(self.no_kernel(name)),
        }
    }

    fn no_kernel(&self, name: &str) -> Error {
        let asked = self.state.lowered.iter().map(|(asked, _)| asked.as_str());
        let problem = UsageErrorKind::NoKernel {
            kernel: name.to_owned(),
            kernels: nearest(name, self.kernels().into_iter().chain(asked)),
        };
        UsageError::new(self.state.name, problem).into()
    }
}

fn refused(name: &'static str, label: ModuleLabel, error: &PtxError) -> Error {
    let detail = format!("{error} ({label})");
    let problem = match error.kind {
        PtxErrorKind::UnsupportedVersion(_) => UsageErrorKind::PtxVersion { detail },
        _ => UsageErrorKind::Ptx { detail },
    };
    UsageError::new(name, problem).into()
}

/// Compares a signature with that of the PTX. Returns how the kernel takes its slices.
fn check_signature(
    name: &str,
    label: ModuleLabel,
    declared: &[ParamKind],
    kernel: &KernelInterface,
) -> Result<Slices> {
    let problem = match compare(declared, &kernel.signature.params) {
        Ok(slices) => return Ok(slices),
        Err(Mismatch::Count { declared, there }) => {
            format!("the signature has {declared} parameters, and the kernel has {there}")
        }
        Err(Mismatch::Layout {
            index,
            declared: (size, align),
            there,
        }) => format!(
            "parameter {index} has {size} bytes in the signature, aligned to {align}, and `{}` in \
             the kernel has {}, aligned to {}",
            there.name, there.size, there.align
        ),
    };
    let source = kernel.source.as_ref();
    let place = source.map_or_else(String::new, |(file, line)| {
        format!("; it is declared at {file}:{line}")
    });
    let detail = format!("{problem}{place} (kernel `{name}` of {label})");
    Err(UsageError::new(interned(name), UsageErrorKind::Signature { detail }).into())
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module {} on {}", self.state.name, self.state.device)
    }
}
