//! `Function`: a kernel that is loaded on a device.

#![allow(unsafe_code, reason = "sets attributes of loaded kernels")]

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::{FunctionAttribute, FunctionHandle};

use super::{Param, entry_point::EntryPoint, module_cache::ModuleCache, variables::UsedVariable};
use crate::{
    Result, UsageError, UsageErrorKind,
    context::DeviceState,
    tracker::{Access, AccessKind, Accesses},
};

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
    /// The variables of the module that the kernel uses. [`using`](Self::using) sets them and keeps
    /// the kernel's launches off the fast path.
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
    /// Returns an error if the kernel uses an operand by its name too, as a variable, and one of
    /// the two uses writes.
    pub(super) fn check_variables(
        &self,
        operands: &Accesses<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        for variable in self.variables() {
            let by_name = variable.access();
            let conflicts = |operand: &Access<'_>| {
                std::ptr::eq(operand.history, by_name.history)
                    && operand.extent.overlaps(&by_name.extent)
                    && (operand.kind == AccessKind::Write || by_name.kind == AccessKind::Write)
            };
            if operands.iter().any(conflicts) {
                let variable = variable.name.clone();
                let problem = UsageErrorKind::UsedByName { variable };
                return Err(UsageError::new(self.name, problem).at(location).into());
            }
        }
        Ok(())
    }
}
