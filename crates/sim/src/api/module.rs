//! Modules: PTX text made executable, with its variables in device memory.

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
        gpu::StateGuard,
        module::{Function, LoadedModule},
        op::OpKind,
        state::{CallError, CallResult},
    },
    ids::name,
    memory::MemoryKind,
    ptx::{self, Kernel, PtxError, PtxErrorKind},
    race::ElementMismatch,
};

/// Threads of a block, at most.
pub(crate) const BLOCK_THREADS_MAX: u32 = 1024;

/// The PTX text of an image.
fn text(image: &[u8]) -> CallResult<&str> {
    let end = image
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let invalid = |what: &str| Err(CallError::new(ResultCode::INVALID_IMAGE, what));
    match std::str::from_utf8(&image[..end]) {
        Ok("") => invalid("the image is empty"),
        Ok(text) if text.contains('\0') => invalid(
            "the image is binary: the simulated device runs PTX text, and this has zero bytes inside",
        ),
        Ok(text) => Ok(text),
        Err(_) => invalid(
            "the image is binary: the simulated device runs PTX text, and this is not UTF-8",
        ),
    }
}

fn refused(error: &PtxError) -> CallError {
    let code = match error.kind {
        PtxErrorKind::UnsupportedVersion(_) => ResultCode::UNSUPPORTED_PTX_VERSION,
        _ => ResultCode::INVALID_PTX,
    };
    CallError::new(code, error.to_string())
}

impl StateGuard<'_> {
    fn module(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> CallResult<Arc<LoadedModule>> {
        self.context(context)?;
        self.module_even_lost(context, handle)
    }

    fn module_even_lost(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> CallResult<Arc<LoadedModule>> {
        let (kind, text) = match self.modules.get(&handle) {
            Some(module) if module.context == context => return Ok(Arc::clone(module)),
            Some(module) => (
                ReportKind::WrongContext,
                format!("{} belongs to {}", name(handle), name(module.context)),
            ),
            None => self.handles.explain(handle),
        };
        Err(self.violation(kind, ResultCode::INVALID_HANDLE, text))
    }

    pub(crate) fn module_load(
        &mut self,
        context: ContextHandle,
        image: &[u8],
    ) -> CallResult<ModuleHandle> {
        let device = self.context(context)?;
        let module = ptx::parse(text(image)?).map_err(|error| refused(&error))?;
        for note in module.notes() {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        let mut variables = Vec::new();
        for variable in module.variables() {
            let kind = if variable.constant {
                MemoryKind::Constant
            } else {
                MemoryKind::Variable
            };
            // A variable without a size (`.extern .inner` apart) still has an address.
            match self.allocate_non_pool(kind, context, device, variable.size.max(1)) {
                Ok(base) => {
                    // Unlike other memory, what a variable does not initialise is zero.
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
            variables,
            site: Site::current(),
        };
        self.modules.insert(handle, Arc::new(loaded));
        Ok(handle)
    }

    fn end_variables(&mut self, variables: &[u64]) {
        for base in variables {
            self.end_allocation(*base, None);
        }
    }

    pub(crate) fn module_unload(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        let module = self.module_even_lost(context, handle)?;
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
                    "no kernel `{kernel}` in the module; there are: {}",
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
            },
        );
        Ok(function)
    }

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

    /// The module and name of a kernel, which must belong to `context`.
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
                    "{} belongs to {} (rule 20)",
                    name(handle),
                    name(function.context)
                ),
            ),
            None => self.handles.explain(handle),
        };
        Err(self.violation(kind, ResultCode::INVALID_HANDLE, text))
    }

    /// Compares a kernel's accesses with the declared element types of its arrays.
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
            let text =
                format!("kernel `{name}`: {value} bytes of dynamic shared memory, of 0 to {limit}");
            return Err(self.violation(ReportKind::BadLaunch, ResultCode::INVALID_VALUE, text));
        };
        let known = self
            .functions
            .get_mut(&function)
            .expect("it was just looked at");
        known.dynamic_shared_bytes = Some(bytes);
        Ok(())
    }
}

/// The kernel that a function handle stands for.
fn kernel_of<'a>(module: &'a LoadedModule, name: &str) -> &'a ptx::Kernel {
    let kernel = module.ptx.kernel(name);
    kernel.expect("a function handle is only made for a kernel of its module")
}

fn no_attribute(attribute: FunctionAttribute) -> CallError {
    let text = format!(
        "attribute {} of a kernel is none that the simulated device has, or can set",
        attribute.as_raw()
    );
    CallError::new(ResultCode::INVALID_VALUE, text)
}
