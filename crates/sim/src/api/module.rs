//! Modules: parsed PTX, with variables in device memory.

use std::sync::Arc;

use millstream_driver::{
    ContextHandle, DevicePtr, FloatOperand, FunctionAttribute, FunctionHandle, ModuleHandle,
    ResultCode,
};
use millstream_ptx::Site;

use super::launch::{dynamic_shared_default, dynamic_shared_limit};
use crate::{
    ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        host_out_of_memory,
        module::{Function, LoadedModule},
        op::OpKind,
    },
    ids::name,
    memory::MemoryKind,
    ptx::{self, Kernel, PtxError, PtxErrorKind, Variable},
    race::{ElementMismatch, Input},
};

/// The maximum number of threads in a block.
pub(crate) const BLOCK_THREADS_MAX: u32 = 1024;

/// Returns the PTX text of an image, without trailing zero bytes.
fn text(image: &[u8]) -> CallResult<&str> {
    let end = image
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let invalid = |what: &str| Err(CallError::new(ResultCode::INVALID_IMAGE, what));
    match std::str::from_utf8(&image[..end]) {
        Ok("") => invalid("the image is empty; pass PTX text"),
        Ok(text) if text.contains('\0') => invalid(
            "the image is binary: the simulated device runs PTX text, and this has \
             embedded zero bytes",
        ),
        Ok(text) => Ok(text),
        Err(_) => invalid(
            "the image is binary: the simulated device runs PTX text, and this is not UTF-8",
        ),
    }
}

/// Returns the code of an error in a PTX text.
fn code_of(error: &PtxError) -> ResultCode {
    match error.kind {
        PtxErrorKind::UnsupportedVersion(_) => ResultCode::UNSUPPORTED_PTX_VERSION,
        _ => ResultCode::INVALID_PTX,
    }
}

impl StateGuard<'_> {
    /// Resolves a module handle, which must belong to `context`. Fails with the sticky error if the
    /// context is lost.
    fn module(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> CallResult<Arc<LoadedModule>> {
        self.context(context)?;
        self.module_even_lost(context, handle)
    }

    /// Resolves a module handle like [`module`](Self::module), but also in a lost context.
    fn module_even_lost(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> CallResult<Arc<LoadedModule>> {
        let (kind, text) = match self.modules.get(&handle) {
            Some(module) if module.context == context => return Ok(Arc::clone(module)),
            Some(module) => (
                ReportKind::WrongContext,
                format!(
                    "{} belongs to {}, not {}",
                    name(handle),
                    name(module.context),
                    name(context)
                ),
            ),
            None => self.handles.explain(handle),
        };
        Err(self.violation(kind, ResultCode::INVALID_HANDLE, text))
    }

    /// Parses an image, and allocates and initialises the module's variables.
    pub(crate) fn module_load(
        &mut self,
        context: ContextHandle,
        image: &[u8],
    ) -> CallResult<ModuleHandle> {
        let device = self.context(context)?;
        let source = text(image)?;
        let module = ptx::parse(source)
            .map_err(|error| CallError::new(code_of(&error), error.to_string()))?;
        for note in module.notes() {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        let mut variables = Vec::new();
        for variable in module.variables() {
            match self.allocate_variable(context, device, variable) {
                Ok(base) => {
                    // Bytes without an initialiser are zero in a variable, not poison.
                    self.memory.initialise(base, &vec![0; variable.size]);
                    variables.push(base);
                }
                Err(error) => {
                    self.end_variables(&variables);
                    return Err(error);
                }
            }
        }
        for (variable, base) in module.variables().iter().zip(&variables) {
            self.memory
                .initialise(*base, &variable.initial_at(&variables));
        }
        let handle = self.handles.next();
        let loaded = LoadedModule {
            context,
            ptx: module,
            text: self.config.kernel_race_check.then(|| source.into()),
            variables,
            site: Site::current(),
        };
        self.modules.insert(handle, Arc::new(loaded));
        Ok(handle)
    }

    fn allocate_variable(
        &mut self,
        context: ContextHandle,
        device: u32,
        variable: &Variable,
    ) -> CallResult<u64> {
        // A variable of size 0 still has an address.
        let bytes = variable.size.max(1);
        if variable.managed {
            let kind = MemoryKind::ManagedVariable;
            let start = self.memory.add_host(kind, context, device, bytes);
            let start = start.ok_or_else(|| host_out_of_memory(bytes))?;
            return Ok(start.as_ptr().expose_provenance() as u64);
        }
        let kind = if variable.constant {
            MemoryKind::Constant
        } else {
            MemoryKind::Variable
        };
        self.allocate_non_pool(kind, context, device, bytes)
    }

    /// Frees the memory of a module's variables.
    fn end_variables(&mut self, variables: &[u64]) {
        for base in variables {
            self.end_allocation(*base, None);
        }
    }

    /// Unloads a module, also in a lost context. Reports a pending launch of one of its kernels.
    pub(crate) fn module_unload(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        let module = self.module_even_lost(context, handle)?;
        self.race_checker.take(Input::Relied(None));
        let in_use = self.ops.iter().find_map(|(id, op)| match &op.kind {
            OpKind::Kernel(launch) if launch.module_handle == handle => {
                Some((*id, op.kind.summary()))
            }
            _ => None,
        });
        if let Some((id, word)) = in_use {
            let text = format!(
                "{} is unloaded while {word}, {id}, is pending",
                name(handle)
            );
            self.report(ReportKind::StillInUse, text);
        }
        self.end_variables(&module.variables);
        self.modules.remove(&handle);
        self.functions
            .retain(|_, function| function.module != handle);
        lost
    }

    /// Returns the handle of a kernel; repeated calls return the same handle.
    pub(crate) fn module_function(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
        kernel: &str,
    ) -> CallResult<FunctionHandle> {
        let module = self.module(context, handle)?;
        if module.ptx.kernel(kernel).is_none() {
            let names: Vec<_> = module.ptx.kernels().map(|kernel| kernel.name()).collect();
            return Err(CallError::new(
                ResultCode::NOT_FOUND,
                format!(
                    "no kernel `{kernel}` in the module; the kernels are: {}",
                    names.join(", ")
                ),
            ));
        }
        let known = self
            .functions
            .iter()
            .find(|(_, function)| function.module == handle && *function.name == *kernel);
        if let Some((known, _)) = known {
            return Ok(*known);
        }
        let function = self.handles.next();
        self.functions.insert(
            function,
            Function {
                context,
                module: handle,
                name: kernel.into(),
                mismatches: Arc::default(),
                dynamic_shared_bytes: None,
                launches: Arc::default(),
            },
        );
        Ok(function)
    }

    /// Returns the address and size of a module-scope variable.
    pub(crate) fn module_global(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
        variable: &str,
    ) -> CallResult<(DevicePtr, usize)> {
        let module = self.module(context, handle)?;
        let mut variables = module.ptx.variables().iter().zip(&module.variables);
        match variables.find(|(known, _)| known.name == variable && !known.in_function) {
            Some((known, base)) => Ok((DevicePtr::from_raw(*base), known.size)),
            None => Err(CallError::new(
                ResultCode::NOT_FOUND,
                format!("no variable `{variable}` in the module"),
            )),
        }
    }

    /// Fails if the simulated device cannot run the kernel.
    pub(super) fn function_load(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
    ) -> CallResult<()> {
        let (_, module, name) = self.function(context, function)?;
        let kernel = kernel_of(&module, &name);
        let (Some(error), Some(text)) = (kernel.refusal(), kernel.refused()) else {
            return Ok(());
        };
        Err(CallError::new(code_of(error), text))
    }

    pub(super) fn module_load_binary(
        &self,
        _: ContextHandle,
        image: &[u8],
    ) -> CallResult<ModuleHandle> {
        let text = format!(
            "the simulated device runs PTX text, and this is a binary image of {} bytes: pass the \
             PTX from which it was made",
            image.len()
        );
        Err(CallError::new(ResultCode::NOT_SUPPORTED, text))
    }

    /// Resolves a function handle, which must belong to `context`, to its module and kernel name.
    pub(crate) fn function(
        &mut self,
        context: ContextHandle,
        handle: FunctionHandle,
    ) -> CallResult<(ModuleHandle, Arc<LoadedModule>, Arc<str>)> {
        self.context(context)?;
        let (kind, text) = match self.functions.get(&handle) {
            Some(function) if function.context == context => {
                let (module, name) = (function.module, Arc::clone(&function.name));
                return Ok((module, Arc::clone(&self.modules[&module]), name));
            }
            Some(function) => (
                ReportKind::WrongContext,
                format!(
                    "{} belongs to {}, not {} (rule 20)",
                    name(handle),
                    name(function.context),
                    name(context)
                ),
            ),
            None => self.handles.explain(handle),
        };
        Err(self.violation(kind, ResultCode::INVALID_HANDLE, text))
    }

    /// Records the accesses of a kernel whose floating-point type differs in size from the declared
    /// elements of its arrays.
    pub(crate) fn note_float_operands(
        &mut self,
        handle: FunctionHandle,
        operands: &[FloatOperand],
    ) {
        let Some(function) = self.functions.get(&handle) else {
            return;
        };
        let module = &self.modules[&function.module];
        let accesses = module
            .ptx
            .kernel(&function.name)
            .map(Kernel::float_accesses);
        let mismatches = accesses
            .unwrap_or_default()
            .into_iter()
            .filter_map(|access| {
                let declared = operands
                    .iter()
                    .find(|operand| operand.param == access.param)?;
                let differ = declared.element_bytes != access.ty.bytes();
                differ.then_some(ElementMismatch {
                    pc: access.pc,
                    accessed: access.ty,
                    declared: *declared,
                })
            });
        let mismatches = mismatches.collect();
        if let Some(function) = self.functions.get_mut(&handle) {
            function.mismatches = mismatches;
        }
    }

    /// Returns an attribute of a kernel.
    pub(crate) fn function_attribute(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> CallResult<i32> {
        let (_, module, name) = self.function(context, function)?;
        let kernel = kernel_of(&module, &name);
        let value = match attribute {
            FunctionAttribute::MAX_THREADS_PER_BLOCK => kernel
                .max_threads()
                .map_or(BLOCK_THREADS_MAX, |limit| limit.min(BLOCK_THREADS_MAX)),
            FunctionAttribute::SHARED_BYTES => kernel.static_shared_bytes(),
            FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES => {
                let opted_in = self.functions[&function].dynamic_shared_bytes;
                opted_in.unwrap_or_else(|| dynamic_shared_default(kernel))
            }
            other => return Err(no_attribute(other)),
        };
        Ok(value as i32)
    }

    /// Sets the limit of a kernel's dynamic shared memory, the only attribute that can be set.
    pub(crate) fn function_set_attribute(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> CallResult<()> {
        let (_, module, name) = self.function(context, function)?;
        if attribute != FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES {
            return Err(no_attribute(attribute));
        }
        let limit = dynamic_shared_limit(kernel_of(&module, &name));
        let within = u32::try_from(value).ok().filter(|&bytes| bytes <= limit);
        let Some(bytes) = within else {
            let text = format!(
                "kernel `{name}`: {value} bytes of dynamic shared memory; use 0 to {limit}"
            );
            return Err(self.violation(ReportKind::BadLaunch, ResultCode::INVALID_VALUE, text));
        };
        let known = self
            .functions
            .get_mut(&function)
            .expect("the function was resolved above");
        known.dynamic_shared_bytes = Some(bytes);
        Ok(())
    }
}

/// Returns the kernel of a function handle.
pub(crate) fn kernel_of<'a>(module: &'a LoadedModule, name: &str) -> &'a ptx::Kernel {
    let kernel = module.ptx.kernel(name);
    kernel.expect("the module of a function handle contains its kernel")
}

/// Creates the call error for an attribute that does not exist or cannot be set.
fn no_attribute(attribute: FunctionAttribute) -> CallError {
    let text = format!(
        "the simulated device does not support attribute {} of a kernel, or cannot set it",
        attribute.as_raw()
    );
    CallError::new(ResultCode::INVALID_VALUE, text)
}
