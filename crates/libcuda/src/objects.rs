//! The tables of live objects: which handles are valid, and the context of each.
//!
//! Contexts, streams, events, modules, functions and pools have the simulator's handles. Libraries,
//! kernels and linkers, which belong to no context, are numbered here, with tags of their own.

use std::{
    ffi::{CString, c_char, c_void},
    ops::Range,
    sync::Arc,
};

use millstream_driver::{
    ContextHandle, EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, GraphNodeHandle,
    ModuleHandle, PoolHandle, StreamHandle,
};
use millstream_sim::FunctionDetails;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    abi::{Address, AttributeValue, Device, Handle, HostFunctionPointer, In},
    jit::JitOptions,
};

/// The bit position of the tag in handles that this module allocates. The simulator's tags are
/// below [`FIRST_TAG`].
const TAG_SHIFT: u32 = 40;
/// The first tag of handles that this module allocates.
const FIRST_TAG: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) contexts: FxHashMap<ContextHandle, ContextEntry>,
    pub(crate) streams: FxHashMap<StreamHandle, StreamEntry>,
    pub(crate) events: FxHashMap<EventHandle, EventEntry>,
    pub(crate) modules: FxHashMap<ModuleHandle, ModuleEntry>,
    pub(crate) functions: FxHashMap<FunctionHandle, FunctionEntry>,
    pub(crate) libraries: FxHashMap<Handle, LibraryEntry>,
    pub(crate) kernels: FxHashMap<Handle, KernelEntry>,
    pub(crate) linkers: FxHashMap<Handle, LinkerEntry>,
    pub(crate) executables: FxHashMap<GraphExecHandle, ExecutableEntry>,
    /// The objects of the program that graphs keep.
    pub(crate) user_objects: FxHashMap<Handle, UserObjectEntry>,
    /// The references to such objects that graphs and executable graphs hold, by the graph's
    /// number.
    pub(crate) graph_references: FxHashMap<Handle, Vec<UserReference>>,
    /// References of graphs that are gone, to release when the device is idle.
    pub(crate) released: Vec<UserReference>,
    /// The list of nodes that a capturing stream depends on, as last returned to the program.
    pub(crate) captured_nodes: FxHashMap<StreamHandle, Box<[Handle]>>,
    /// The attributes that the program has set, by the number of the attribute.
    pub(crate) stream_attributes: FxHashMap<(StreamHandle, u32), AttributeValue>,
    /// The lists of nodes that the program reads through pointers.
    pub(crate) node_lists: FxHashMap<GraphNodeHandle, NodeList>,
    /// The state of each device's primary context, by ordinal.
    pub(crate) primaries: FxHashMap<Device, PrimaryEntry>,
    /// The flags of page-locked allocations, by first address.
    pub(crate) host_flags: FxHashMap<Address, u32>,
    /// The kernels of each context that wait for values and write them, by name.
    pub(crate) value_kernels: FxHashMap<(ContextHandle, &'static str), FunctionHandle>,
    /// The pools that the program forbade reuse along event dependencies.
    pub(crate) pools_without_events: FxHashSet<PoolHandle>,
    /// Names that were returned to the program, which may keep the pointers.
    names: FxHashMap<String, CString>,
    /// The number of handles that this module has allocated.
    allocated: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextEntry {
    pub(crate) device: Device,
    pub(crate) flags: u32,
    /// True if it is its device's primary context.
    pub(crate) primary: bool,
    /// The number that `cuCtxGetId` returns.
    pub(crate) id: u64,
    /// The values of `cuCtxSetLimit`, by the number of the limit.
    pub(crate) limits: [usize; LIMITS],
    /// The values of `cuCtxSetCacheConfig` and `cuCtxSetSharedMemConfig`, which have no effect.
    pub(crate) cache_config: i32,
    pub(crate) bank_config: i32,
}

/// The number of limits of a context.
pub(crate) const LIMITS: usize = 7;

/// The initial limits: stack size, printf buffer, heap, depth and number of pending launches of
/// dynamic parallelism, fetch granularity of the L2 cache, its size for persisting accesses.
pub(crate) const LIMITS_DEFAULT: [usize; LIMITS] = [1024, 7 << 20, 8 << 20, 2, 2048, 64, 0];

/// The state of a device's primary context.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrimaryEntry {
    pub(crate) references: u32,
    pub(crate) flags: u32,
    pub(crate) context: Option<ContextHandle>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamEntry {
    pub(crate) context: ContextHandle,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct EventEntry {
    pub(crate) context: ContextHandle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ModuleEntry {
    pub(crate) context: ContextHandle,
    /// Whether the module is the form of a library in one context, which the program cannot unload.
    pub(crate) of_library: bool,
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub(crate) struct FunctionEntry {
    pub(crate) context: ContextHandle,
    pub(crate) module: ModuleHandle,
    pub(crate) details: Arc<FunctionDetails>,
    pub(crate) hints: [i32; 3],
}

/// The initial values of a function's attributes that have no effect (`function::hint_of`).
pub(crate) const HINTS_DEFAULT: [i32; 3] = [-1, 0, 0];

/// A library: a module that every context loads when it first needs it.
#[derive(Debug, Default)]
pub(crate) struct LibraryEntry {
    pub(crate) image: Arc<[u8]>,
    /// The names of the kernels, in the order of the text, with their handles.
    pub(crate) kernels: Vec<(String, Handle)>,
    pub(crate) modules: FxHashMap<ContextHandle, ModuleHandle>,
}

#[derive(Clone, Debug)]
pub(crate) struct KernelEntry {
    pub(crate) library: Handle,
    pub(crate) name: Arc<str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutableEntry {
    pub(crate) context: ContextHandle,
    /// The flags of its instantiation.
    pub(crate) flags: u64,
}

/// The list of a node that the program reads through a pointer: the bodies of a conditional node,
/// or the addresses of the arguments of a kernel.
#[derive(Debug)]
pub(crate) struct NodeList {
    pub(crate) context: ContextHandle,
    values: Box<[usize]>,
    /// The block of arguments.
    _block: Box<[u8]>,
}

impl NodeList {
    pub(crate) fn of_bodies(context: ContextHandle, bodies: &[GraphHandle]) -> Self {
        Self {
            context,
            values: bodies.iter().map(|body| body.as_raw()).collect(),
            _block: Box::default(),
        }
    }

    /// Makes the list of the arguments with these ranges in a block.
    pub(crate) fn of_arguments(
        context: ContextHandle,
        block: Box<[u8]>,
        params: &[Range<usize>],
    ) -> Self {
        let start = block.as_ptr().expose_provenance();
        Self {
            context,
            values: params.iter().map(|param| start + param.start).collect(),
            _block: block,
        }
    }

    pub(crate) fn pointer(&self) -> *const usize {
        self.values.as_ptr()
    }
}

/// An object of the program, with a function that is called when the last reference is released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserObjectEntry {
    pub(crate) references: u64,
    pub(crate) destroy: HostFunctionPointer,
    pub(crate) data: In<c_void>,
}

/// A number of references to an object of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserReference {
    pub(crate) object: Handle,
    pub(crate) count: u64,
}

/// A linker, with the PTX texts that were added.
#[derive(Debug, Default)]
pub(crate) struct LinkerEntry {
    pub(crate) texts: Vec<String>,
    /// True if CUDA's device runtime library was added.
    pub(crate) device_runtime: bool,
    /// The joined text, once complete. The program holds a pointer to it.
    pub(crate) image: Option<Box<[u8]>>,
    /// The options of its creation, whose log buffers stay valid as long as the linker.
    pub(crate) options: Option<JitOptions>,
    /// The limit of registers of each kernel, if the options have one.
    pub(crate) max_registers: Option<u32>,
}

impl Objects {
    /// Allocates a handle for an object of this module: a library, a kernel, a linker, an object of
    /// the program.
    pub(crate) fn next_handle(&mut self, tag: Tag) -> Handle {
        self.allocated += 1;
        (FIRST_TAG + tag as usize) << TAG_SHIFT | self.allocated
    }

    /// Returns a pointer to a name that stays valid.
    pub(crate) fn name(&mut self, name: &str) -> *const c_char {
        let known = self.names.entry(name.to_owned());
        known
            .or_insert_with(|| CString::new(name).unwrap_or_default())
            .as_ptr()
    }

    pub(crate) fn add_context(
        &mut self,
        context: ContextHandle,
        device: Device,
        flags: u32,
        primary: bool,
    ) {
        self.allocated += 1;
        let id = self.allocated as u64;
        self.contexts.insert(
            context,
            ContextEntry {
                device,
                flags,
                primary,
                id,
                limits: LIMITS_DEFAULT,
                cache_config: 0,
                bank_config: 0,
            },
        );
    }

    pub(crate) fn remove_context(&mut self, context: ContextHandle) {
        self.contexts.remove(&context);
        self.streams.retain(|_, entry| entry.context != context);
        let streams = &self.streams;
        self.stream_attributes
            .retain(|(stream, _), _| streams.contains_key(stream));
        self.events.retain(|_, entry| entry.context != context);
        self.modules.retain(|_, entry| entry.context != context);
        self.functions.retain(|_, entry| entry.context != context);
        self.value_kernels.retain(|(of, _), _| *of != context);
        self.node_lists.retain(|_, list| list.context != context);
        self.executables.retain(|_, entry| entry.context != context);
        for library in self.libraries.values_mut() {
            library.modules.remove(&context);
        }
    }

    pub(crate) fn remove_module(&mut self, module: ModuleHandle) {
        self.modules.remove(&module);
        self.functions.retain(|_, entry| entry.module != module);
    }
}

/// The kinds of handles that this module allocates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tag {
    Library,
    Kernel,
    Linker,
    UserObject,
}
