//! Statics that start over in the child of a `fork`.
//!
//! A forked child has the memory of its parent and one thread: threads that served the parent are
//! gone, and locks that they held stay locked. A static that stands for threads (a pool, a queue
//! with its worker) therefore belongs to one process.

use std::sync::OnceLock;

/// A lazily made value of which each process has its own, a forked child too.
///
/// The parent's value is not touched in the child, not even dropped: it may be locked by a thread
/// that the child does not have.
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    first: OnceLock<Box<Instance<T>>>,
}

#[derive(Debug)]
struct Instance<T> {
    process: u32,
    value: T,
    /// The value of a child of this one's process.
    next: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// A static without a value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: OnceLock::new(),
        }
    }

    /// The calling process's value, made by `make` on first use.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let process = std::process::id();
        let mut make = Some(make);
        let mut slot = &self.first;
        loop {
            let instance = slot.get_or_init(|| {
                let make = make
                    .take()
                    .expect("the chain ends with the instance made here");
                Box::new(Instance {
                    process,
                    value: make(),
                    next: OnceLock::new(),
                })
            });
            if instance.process == process {
                return &instance.value;
            }
            slot = &instance.next;
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}
