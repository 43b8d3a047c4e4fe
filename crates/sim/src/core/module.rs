//! Loaded modules and kernel handles.

use std::sync::{Arc, atomic::AtomicU32};

use millstream_driver::{ContextHandle, ModuleHandle};
use millstream_ptx::Site;

use crate::{ids::name, ptx, race::ElementMismatch};

pub(crate) struct LoadedModule {
    pub(crate) context: ContextHandle,
    pub(crate) ptx: ptx::Module,
    /// The text, to try repairs of races within its kernels.
    pub(crate) text: Option<Box<str>>,
    /// The addresses of the module's variables.
    pub(crate) variables: Vec<u64>,
    /// The label and source line of the load call, if recorded.
    pub(crate) site: Option<Site>,
}

impl LoadedModule {
    /// Returns the module's name for messages: the caller's label, else the number of its handle.
    pub(crate) fn name(&self, handle: ModuleHandle) -> String {
        match self.site.as_ref().and_then(Site::label) {
            Some(label) => format!("`{label}`"),
            None => name(handle),
        }
    }
}

/// A function handle's target: a kernel of a loaded module.
pub(crate) struct Function {
    pub(crate) context: ContextHandle,
    pub(crate) module: ModuleHandle,
    pub(crate) name: Arc<str>,
    /// The floating-point accesses that do not match the declared element types.
    pub(crate) mismatches: Arc<[ElementMismatch]>,
    /// The limit for dynamic shared memory set with `cuFuncSetAttribute`, in bytes; `None` before
    /// it is set.
    pub(crate) dynamic_shared_bytes: Option<u32>,
    /// The number of launches that have run under the check for races.
    pub(crate) launches: Arc<AtomicU32>,
}
