//! Loaded modules and their kernels.

use std::sync::Arc;

use millstream_driver::{ContextHandle, ModuleHandle};
use millstream_ptx::Site;

use crate::{ids::name, ptx, race::ElementMismatch};

/// A loaded module.
pub(crate) struct LoadedModule {
    pub(crate) context: ContextHandle,
    pub(crate) ptx: ptx::Module,
    /// The address of each of the module's variables.
    pub(crate) variables: Vec<u64>,
    /// The caller's label and source line at its loading.
    pub(crate) site: Option<Site>,
}

impl LoadedModule {
    /// The module's name in texts: the caller's label, or else its handle's number.
    pub(crate) fn name(&self, handle: ModuleHandle) -> String {
        match self.site.as_ref().and_then(Site::label) {
            Some(label) => format!("`{label}`"),
            None => name(handle),
        }
    }
}

/// A kernel of a loaded module.
pub(crate) struct Function {
    pub(crate) context: ContextHandle,
    pub(crate) module: ModuleHandle,
    pub(crate) name: Arc<str>,
    /// Floating-point accesses that do not fit the declared element types.
    pub(crate) mismatches: Arc<[ElementMismatch]>,
    /// The dynamic shared memory that its launches may ask for, if that was set.
    pub(crate) dynamic_shared_bytes: Option<u32>,
}
