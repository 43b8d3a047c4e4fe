//! The arrays of module variables. A variable has at most one array at a time, with which all
//! kernels and [`Global`](super::Global)s are ordered. The array holds its device open, so the
//! device cannot hold the array: when the last handle is dropped, the access history is put back
//! here, and the variable's next array continues it.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use millstream_driver::DevicePtr;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::Allocation;
use crate::{context::DeviceState, sync::Condvar, tracker::AccessHistory};

/// The variables of a device's modules that have or had an array.
#[derive(Default)]
pub(crate) struct ModuleVariables {
    /// The variables by their addresses, which are unique as long as their modules are loaded.
    by_address: Mutex<FxHashMap<u64, Variable>>,
    /// Notified when a history is put back.
    put_back: Condvar,
}

enum Variable {
    /// The variable has an array, or had one whose history is just being put back.
    InUse(Weak<Allocation>),
    /// The history of the operations on the variable's last array.
    Unused(Box<AccessHistory>),
}

impl ModuleVariables {
    /// Puts back the history of an array that is being dropped.
    pub(super) fn put_back(&self, pointer: DevicePtr, history: AccessHistory) {
        let unused = Variable::Unused(Box::new(history));
        self.by_address.lock().insert(pointer.as_raw(), unused);
        self.put_back.notify_all();
    }
}

impl fmt::Debug for ModuleVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleVariables").finish_non_exhaustive()
    }
}

impl Allocation {
    /// Returns the array of a module's variable, whose memory the module frees when it is unloaded.
    pub(crate) fn of_module(
        device: &Arc<DeviceState>,
        pointer: DevicePtr,
        bytes: usize,
    ) -> Arc<Self> {
        let variables = &device.memory().module_variables;
        let mut by_address = variables.by_address.lock();
        let history = loop {
            match by_address.remove(&pointer.as_raw()) {
                None => break None,
                Some(Variable::Unused(history)) => break Some(*history),
                Some(Variable::InUse(array)) => {
                    let alive = array.upgrade();
                    by_address.insert(pointer.as_raw(), Variable::InUse(array));
                    if let Some(array) = alive {
                        return array;
                    }
                    // Another thread has dropped the last handle, and is about to put it back.
                    variables.put_back.wait(&mut by_address);
                }
            }
        };
        // Another size is that of a module that was unloaded before any of its kernels ran.
        let history = history.filter(|history| history.bytes() == bytes as u64);
        let history = history.unwrap_or_else(|| AccessHistory::new(bytes as u64));
        let array = Self::variable(device, pointer, history).shared();
        let in_use = Variable::InUse(Arc::downgrade(&array));
        by_address.insert(pointer.as_raw(), in_use);
        array
    }
}
