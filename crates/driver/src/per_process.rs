//! Lazily initialised statics that a forked child initialises again.
//!
//! A forked child has a copy of its parent's memory but only one thread: the parent's other threads
//! are gone, and locks that they held stay locked. A static that owns threads (a thread pool, a
//! queue with its worker) must therefore not be shared with a child.

use std::sync::OnceLock;

/// A lazily initialised value, one per process; a forked child has its own.
///
/// The child neither uses nor drops the parent's value, because a thread that the child does not
/// have may have locked it.
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    first: OnceLock<Box<Instance<T>>>,
}

#[derive(Debug)]
struct Instance<T> {
    process: u32,
    value: T,
    /// The value of a process that was forked from this process.
    next: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Creates an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: OnceLock::new(),
        }
    }

    /// Returns the calling process's value, initialised by `make` on first use.
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
