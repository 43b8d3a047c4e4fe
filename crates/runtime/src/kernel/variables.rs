//! The variables of a module: their memory, and the accesses of its kernels to them.

#![allow(unsafe_code, reason = "looks up variables of a loaded module")]

use std::sync::Arc;

use millstream_driver::{ModuleHandle, ResultCode};
use millstream_ptx::{DeviceVariable, Interface, VariableUse};

use crate::{
    Error, Result,
    context::DeviceState,
    memory::{Allocation, Span},
    tracker::{Access, AccessKind},
};

/// A variable of a module that a kernel uses.
#[derive(Clone, Debug)]
pub(super) struct UsedVariable {
    allocation: Arc<Allocation>,
    kind: AccessKind,
}

impl UsedVariable {
    /// Returns the access of a launch: to all bytes of the variable.
    pub(super) fn access(&self) -> Access<'_> {
        let bytes = usize::try_from(self.allocation.history.bytes()).unwrap_or(usize::MAX);
        let span = Span {
            allocation: &self.allocation,
            bytes: 0..bytes,
            ordered: true,
            peer: false,
        };
        span.access(self.kind)
    }
}

/// A variable of a loaded module.
#[derive(Debug)]
pub(super) struct LoadedVariable {
    pub(super) declared: DeviceVariable,
    /// The memory; `None` if the module has none for it, because no kernel uses the variable or the
    /// compiler has replaced it by its value.
    pub(super) allocation: Option<Arc<Allocation>>,
}

/// Looks up the variables of a loaded module. Those that only a compiler names have no memory here:
/// formats of `printf` (`$str`), and variables of headers with internal linkage.
pub(super) fn look_up(
    device: &Arc<DeviceState>,
    module: ModuleHandle,
    interface: &Interface,
) -> Result<Vec<LoadedVariable>> {
    let variables = interface.variables.iter();
    let loaded = variables.map(|declared| {
        let is_named = !declared.name.starts_with('$') && !declared.name.contains("_INTERNAL_");
        let allocation = if is_named && declared.bytes > 0 {
            find(device, module, declared)?
        } else {
            None
        };
        Ok(LoadedVariable {
            declared: declared.clone(),
            allocation,
        })
    });
    loaded.collect()
}

/// Returns the memory of a variable, if the module has it.
fn find(
    device: &Arc<DeviceState>,
    module: ModuleHandle,
    declared: &DeviceVariable,
) -> Result<Option<Arc<Allocation>>> {
    let (driver, context) = (&*device.driver, device.context);
    // SAFETY: the module is loaded.
    let found = unsafe { driver.module_global(context, module, &declared.name) };
    match device.checked(found) {
        Ok((pointer, bytes)) => {
            let allocation = Allocation::of_module(device, pointer, bytes.min(declared.bytes));
            Ok(Some(allocation.shared()))
        }
        Err(Error::Driver(error)) if error.code() == ResultCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the accesses of a kernel with these uses.
pub(super) fn used(variables: &[LoadedVariable], uses: &[VariableUse]) -> Arc<[UsedVariable]> {
    let uses = uses.iter().filter_map(|found| {
        let allocation = variables[found.variable].allocation.as_ref()?;
        Some(UsedVariable {
            allocation: Arc::clone(allocation),
            kind: if found.writes {
                AccessKind::Write
            } else {
                AccessKind::Read
            },
        })
    });
    uses.collect()
}
