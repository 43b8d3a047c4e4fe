//! Modules: PTX text made executable, with its variables in device memory.

use std::sync::Arc;

use millstream_driver::{ContextHandle, DevicePtr, FunctionHandle, ModuleHandle, ResultCode};

use crate::{
    ReportKind,
    gpu::Session,
    ids::name,
    memory::Kind,
    op::OpKind,
    ptx::{self, PtxError, PtxErrorKind},
    world::{Answer, Refusal},
};

/// Threads of a block, at most.
pub(crate) const BLOCK_THREADS_MAX: u32 = 1024;

/// A loaded module.
pub(crate) struct LoadedModule {
    pub(crate) context: ContextHandle,
    pub(crate) ptx: ptx::Module,
    /// The address of each of the module's variables.
    pub(crate) variables: Vec<u64>,
}

/// A kernel of a loaded module.
pub(crate) struct Function {
    pub(crate) context: ContextHandle,
    pub(crate) module: ModuleHandle,
    pub(crate) name: Arc<str>,
}

/// The PTX text of an image.
fn text(image: &[u8]) -> Answer<&str> {
    let end = image
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let invalid = |what: &str| Err(Refusal::new(ResultCode::INVALID_IMAGE, what));
    match std::str::from_utf8(&image[..end]) {
        Ok("") => invalid("the image is empty"),
        Ok(text) if text.contains('\0') => {
            invalid("the image is binary: the simulated device runs PTX text, and this has zero bytes inside")
        }
        Ok(text) => Ok(text),
        Err(_) => invalid("the image is binary: the simulated device runs PTX text, and this is not UTF-8"),
    }
}

fn refused(error: &PtxError) -> Refusal {
    let code = match error.kind {
        PtxErrorKind::UnsupportedVersion(_) => ResultCode::UNSUPPORTED_PTX_VERSION,
        _ => ResultCode::INVALID_PTX,
    };
    Refusal::new(code, error.to_string())
}

impl Session<'_> {
    fn module(&mut self, context: ContextHandle, handle: ModuleHandle) -> Answer<Arc<LoadedModule>> {
        self.context(context)?;
        self.module_even_lost(context, handle)
    }

    fn module_even_lost(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
    ) -> Answer<Arc<LoadedModule>> {
        let (kind, text) = match self.modules.get(&handle) {
            Some(module) if module.context == context => return Ok(Arc::clone(module)),
            Some(module) => (
                ReportKind::WrongContext,
                format!("{} belongs to {}", name(handle), name(module.context)),
            ),
            None => self.mint.explain(handle),
        };
        Err(self.breach(kind, ResultCode::INVALID_HANDLE, text))
    }

    pub(crate) fn module_load(&mut self, context: ContextHandle, image: &[u8]) -> Answer<ModuleHandle> {
        let device = self.context(context)?;
        let module = ptx::parse(text(image)?).map_err(|error| refused(&error))?;
        let mut variables = Vec::new();
        for variable in module.variables() {
            let kind = if variable.constant {
                Kind::Constant
            } else {
                Kind::Variable
            };
            // A variable without a size (`.extern .shared` apart) still has an address.
            match self.allocate_plain(kind, context, device, variable.size.max(1)) {
                Ok(base) => {
                    // Unlike other memory, what a variable does not initialise is zero.
                    self.memory.initialise(base, &vec![0; variable.size]);
                    variables.push(base);
                }
                Err(refusal) => {
                    self.end_variables(&variables);
                    return Err(refusal);
                }
            }
        }
        for (variable, base) in module.variables().iter().zip(&variables) {
            self.memory.initialise(*base, &variable.initial_at(&variables));
        }
        let handle = self.mint.next();
        let loaded = LoadedModule {
            context,
            ptx: module,
            variables,
        };
        self.modules.insert(handle, Arc::new(loaded));
        Ok(handle)
    }

    fn end_variables(&mut self, variables: &[u64]) {
        for base in variables {
            self.end_allocation(*base, None);
        }
    }

    pub(crate) fn module_unload(&mut self, context: ContextHandle, handle: ModuleHandle) -> Answer<()> {
        let lost = self.context_even_lost(context)?;
        let module = self.module_even_lost(context, handle)?;
        let in_use = self.ops.iter().find_map(|(id, op)| match &op.kind {
            OpKind::Kernel(launch) if launch.module_handle == handle => Some((*id, op.kind.word())),
            _ => None,
        });
        if let Some((id, word)) = in_use {
            let text = format!("{} is unloaded while {word}, {id}, is pending", name(handle));
            self.report(ReportKind::StillInUse, text);
        }
        self.end_variables(&module.variables);
        self.modules.remove(&handle);
        self.functions.retain(|_, function| function.module != handle);
        lost
    }

    pub(crate) fn module_function(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
        kernel: &str,
    ) -> Answer<FunctionHandle> {
        let module = self.module(context, handle)?;
        if module.ptx.kernel(kernel).is_none() {
            let names: Vec<_> = module.ptx.kernels().map(|kernel| kernel.name()).collect();
            return Err(Refusal::new(
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
        let function = self.mint.next();
        self.functions.insert(
            function,
            Function {
                context,
                module: handle,
                name: kernel.into(),
            },
        );
        Ok(function)
    }

    pub(crate) fn module_global(
        &mut self,
        context: ContextHandle,
        handle: ModuleHandle,
        variable: &str,
    ) -> Answer<(DevicePtr, usize)> {
        let module = self.module(context, handle)?;
        let mut variables = module.ptx.variables().iter().zip(&module.variables);
        match variables.find(|(known, _)| known.name == variable) {
            Some((known, base)) => Ok((DevicePtr::from_raw(*base), known.size)),
            None => Err(Refusal::new(
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
    ) -> Answer<(ModuleHandle, Arc<LoadedModule>, Arc<str>)> {
        self.context(context)?;
        let (kind, text) = match self.functions.get(&handle) {
            Some(function) if function.context == context => {
                let (module, name) = (function.module, Arc::clone(&function.name));
                return Ok((module, Arc::clone(&self.modules[&module]), name));
            }
            Some(function) => (
                ReportKind::WrongContext,
                format!("{} belongs to {} (rule 20)", name(handle), name(function.context)),
            ),
            None => self.mint.explain(handle),
        };
        Err(self.breach(kind, ResultCode::INVALID_HANDLE, text))
    }

    pub(crate) fn function_max_threads(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
    ) -> Answer<i32> {
        let (_, module, name) = self.function(context, function)?;
        let limit = module.ptx.kernel(&name).and_then(|kernel| kernel.max_threads());
        Ok(limit.unwrap_or(BLOCK_THREADS_MAX).min(BLOCK_THREADS_MAX) as i32)
    }
}
