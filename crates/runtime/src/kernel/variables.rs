//! The variables of a module: their memory, and the accesses of its kernels to them.

#![allow(unsafe_code, reason = "looks up variables of a loaded module")]

use std::sync::Arc;

use bytemuck::Pod;
use millstream_driver::{DevicePtr, ModuleHandle, ResultCode};
use millstream_ptx::{DeviceVariable, VariableUse};

use super::{ElementLayout, names::nearest};
use crate::{
    Error, Global, Result, UsageErrorKind,
    array::{Reach, Span},
    context::DeviceState,
    memory::Allocation,
    tracker::{Access, AccessKind},
};

/// A variable of a module that a kernel uses.
#[derive(Clone, Debug)]
pub(super) struct UsedVariable {
    pub(super) name: String,
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
            reach: Reach::Own,
        };
        span.access(self.kind)
    }
}

#[derive(Debug)]
pub(super) struct LoadedVariable {
    declared: DeviceVariable,
    /// `None` if the module has no memory for the variable, because no kernel uses it or the
    /// compiler has replaced it by its value.
    memory: Option<VariableMemory>,
}

/// The memory of a variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct VariableMemory {
    pointer: DevicePtr,
    pub(super) bytes: usize,
}

impl VariableMemory {
    /// Returns the memory as an array, with which kernels that use it are ordered.
    pub(super) fn array<T: Pod>(self, device: &Arc<DeviceState>) -> Global<T> {
        let len = self.bytes.checked_div(size_of::<T>()).unwrap_or(0);
        Global::new(self.allocation(device), len)
    }

    fn allocation(self, device: &Arc<DeviceState>) -> Arc<Allocation> {
        Allocation::of_module(device, self.pointer, self.bytes)
    }
}

/// Looks up those variables of a loaded module for which `is_wanted` returns true. Those that only
/// a compiler names have no memory here: formats of `printf` (`$str`), and variables of headers
/// with internal linkage.
pub(super) fn look_up(
    device: &DeviceState,
    module: ModuleHandle,
    variables: Vec<DeviceVariable>,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<Vec<LoadedVariable>> {
    let variables = variables.into_iter().enumerate();
    let loaded = variables.map(|(index, declared)| {
        let is_named = !declared.name.starts_with('$') && !declared.name.contains("_INTERNAL_");
        let memory = if is_named && declared.bytes > 0 && is_wanted(index) {
            find(device, module, &declared)?
        } else {
            None
        };
        Ok(LoadedVariable { declared, memory })
    });
    loaded.collect()
}

fn find(
    device: &DeviceState,
    module: ModuleHandle,
    declared: &DeviceVariable,
) -> Result<Option<VariableMemory>> {
    let (driver, context) = (&*device.driver, device.context);
    // SAFETY: the module is loaded.
    let memory = unsafe { driver.module_global(context, module, &declared.name) };
    match device.checked(memory) {
        Ok((pointer, bytes)) => Ok(Some(VariableMemory {
            pointer,
            bytes: bytes.min(declared.bytes),
        })),
        Err(Error::Driver(error)) if error.code() == ResultCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the accesses of a kernel with these uses; `None` if it accesses no variable.
pub(super) fn variables_of(
    device: &Arc<DeviceState>,
    variables: &[LoadedVariable],
    uses: &[VariableUse],
) -> Option<Arc<[UsedVariable]>> {
    let uses = uses.iter().filter_map(|variable_use| {
        let LoadedVariable { declared, memory } = &variables[variable_use.variable];
        Some(UsedVariable {
            name: declared.name.clone(),
            allocation: memory.as_ref()?.allocation(device),
            kind: if variable_use.writes {
                AccessKind::Write
            } else {
                AccessKind::Read
            },
        })
    });
    let uses: Arc<[_]> = uses.collect();
    (!uses.is_empty()).then_some(uses)
}

pub(super) fn names(variables: &[LoadedVariable]) -> impl Iterator<Item = &str> {
    let in_memory = variables
        .iter()
        .filter(|variable| variable.memory.is_some());
    in_memory.map(|variable| variable.declared.name.as_str())
}

/// Returns the variable of this name if it can be an array of these elements.
pub(super) fn find_array(
    variables: &[LoadedVariable],
    name: &str,
    element: ElementLayout,
) -> Result<VariableMemory, UsageErrorKind> {
    let mut known = variables.iter();
    let found = known.find(|known| known.declared.name == name);
    let found = found.and_then(|known| Some((&known.declared, known.memory?)));
    let Some((&DeviceVariable { bytes, align, .. }, memory)) = found else {
        return Err(UsageErrorKind::NoVariable {
            variable: name.to_owned(),
            variables: nearest(name, names(variables)),
        });
    };
    if bytes.checked_rem(element.bytes) != Some(0) || align < element.align {
        return Err(UsageErrorKind::Variable {
            variable: name.to_owned(),
            bytes,
            alignment: align,
            element: (element.name)(),
            element_bytes: element.bytes,
            element_alignment: element.align,
        });
    }
    Ok(memory)
}
