//! Lists of live objects, for leak reports.

use std::fmt;

use millstream_driver::GraphHandle;
use millstream_ptx::Site;

use crate::{
    core::{
        graph::{Graph, GraphOwner},
        state::SimState,
    },
    ids::name,
    memory::{Allocation, AllocationInfo, MemoryKind},
};

/// An object of a simulated GPU that was created and not destroyed, as listed by
/// [`Gpu::live_objects`](crate::Gpu::live_objects). Its text has the kind, the size and the origin.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver};
/// use millstream_sim::{Gpu, LiveKind, SimConfig, race::Label};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// let _label = Label::new("input");
/// // SAFETY: the context is alive.
/// unsafe { gpu.mem_alloc(context, 64) }.unwrap();
/// let object = &gpu.live_objects()[0];
/// assert_eq!((object.kind, object.bytes), (LiveKind::DeviceMemory, 64));
/// let text = object.to_string();
/// assert!(text.starts_with("device memory of 64 bytes (allocation 1, cuMemAlloc, `input` at "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveObject {
    /// The kind.
    pub kind: LiveKind,
    /// The device of the object's context.
    pub device: u32,
    /// The size in bytes for memory, else 0.
    pub bytes: u64,
    /// The name in reports, such as `stream 3` or `allocation 7`.
    pub name: String,
    /// The caller's [`Label`](crate::race::Label) at the creation, with the source line: `` `input`
    /// at src/main.rs:12 ``.
    pub site: Option<String>,
    /// The creating call for memory, and the device if there are several.
    origin: String,
}

/// The kind of a [`LiveObject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LiveKind {
    /// Device memory, in a pool or not. Memory with a pending free still counts.
    DeviceMemory,
    /// Page-locked host memory.
    PageLockedMemory,
    /// Host memory that is registered as page-locked.
    RegisteredMemory,
    /// Managed memory.
    ManagedMemory,
    /// A stream, except default streams.
    Stream,
    /// An event.
    Event,
    /// A module with its variables.
    Module,
    /// A graph, except one that a stream captures and the body of a conditional node.
    Graph,
    /// An executable graph.
    ExecutableGraph,
    /// A memory pool, except a default pool.
    MemoryPool,
}

impl fmt::Display for LiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeviceMemory => "device memory",
            Self::PageLockedMemory => "page-locked memory",
            Self::RegisteredMemory => "registered memory",
            Self::ManagedMemory => "managed memory",
            Self::Stream => "stream",
            Self::Event => "event",
            Self::Module => "module",
            Self::Graph => "graph",
            Self::ExecutableGraph => "executable graph",
            Self::MemoryPool => "memory pool",
        })
    }
}

impl fmt::Display for LiveObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind, bytes, name, ..
        } = self;
        match kind {
            LiveKind::Stream
            | LiveKind::Event
            | LiveKind::Module
            | LiveKind::Graph
            | LiveKind::ExecutableGraph
            | LiveKind::MemoryPool => {
                write!(f, "{name}")?;
                let origin = [
                    self.origin.as_str(),
                    self.site.as_deref().unwrap_or_default(),
                ];
                let origin: Vec<_> = origin.into_iter().filter(|part| !part.is_empty()).collect();
                if origin.is_empty() {
                    return Ok(());
                }
                write!(f, " ({})", origin.join(", "))
            }
            _ => write!(f, "{kind} of {bytes} bytes ({name}, {})", self.origin),
        }
    }
}

impl SimState {
    /// Returns all live objects except contexts and default streams, by kind and in the order of
    /// creation.
    pub(super) fn live_objects(&self) -> Vec<LiveObject> {
        let mut objects: Vec<_> = self.memory.live().filter_map(memory).collect();
        let physical = self.memory.virtual_memory.physical.values();
        objects.extend(
            physical.map(|found| listed(LiveKind::DeviceMemory, found.device, &found.info)),
        );
        objects.sort_by_key(|(kind, number, _)| (*kind, *number));
        let mut objects: Vec<_> = objects.into_iter().map(|(.., object)| object).collect();
        let is_default = |handle| {
            self.contexts.values().any(|context| {
                context.legacy == handle || context.per_thread.iter().any(|(_, own)| *own == handle)
            })
        };
        let device_of = |context| {
            let state = self.contexts.get(&context);
            state.map_or(0, |context| context.device)
        };
        let made = |kind, device, name, site: Option<&Site>| {
            let told = self.handles.has_several_devices() && kind != LiveKind::Stream;
            LiveObject {
                kind,
                device,
                bytes: 0,
                name,
                site: site.map(ToString::to_string),
                origin: if told {
                    format!("on device {device}")
                } else {
                    String::new()
                },
            }
        };
        for (handle, stream) in &self.streams {
            if !stream.destroyed && !is_default(*handle) {
                let (device, site) = (device_of(stream.context), stream.site.as_ref());
                objects.push(made(LiveKind::Stream, device, name(*handle), site));
            }
        }
        for (handle, event) in &self.events {
            objects.push(made(
                LiveKind::Event,
                device_of(event.context),
                name(*handle),
                event.site.as_ref(),
            ));
        }
        for (handle, module) in &self.modules {
            let (device, site) = (device_of(module.context), module.site.as_ref());
            objects.push(made(LiveKind::Module, device, name(*handle), site));
        }
        for (handle, graph) in self.graphs_of_caller() {
            let (device, site) = (device_of(graph.context), graph.site.as_ref());
            objects.push(made(LiveKind::Graph, device, name(*handle), site));
        }
        for (handle, executable) in &self.executables {
            objects.push(made(
                LiveKind::ExecutableGraph,
                device_of(executable.context),
                name(*handle),
                executable.site.as_ref(),
            ));
        }
        let is_default = |handle| {
            let mut devices = self.devices.iter();
            devices.any(|device| device.default_pool == handle)
        };
        for (handle, pool) in &self.pools {
            if !pool.destroyed && !is_default(*handle) {
                let (device, site) = (pool.device, pool.site.as_ref());
                objects.push(made(LiveKind::MemoryPool, device, name(*handle), site));
            }
        }
        objects
    }
}

impl SimState {
    pub(super) fn graphs_of_caller(&self) -> impl Iterator<Item = (&GraphHandle, &Graph)> {
        self.graphs
            .iter()
            .filter(|(_, graph)| graph.owner == GraphOwner::Caller && !graph.is_captured_into)
    }
}

/// Returns a live allocation's kind, number and description; `None` for a module's variable and for
/// a kernel's heap.
fn memory(found: &Allocation) -> Option<(LiveKind, u64, LiveObject)> {
    let kind = match found.kind {
        MemoryKind::Device | MemoryKind::Pool => LiveKind::DeviceMemory,
        MemoryKind::Pinned => LiveKind::PageLockedMemory,
        MemoryKind::Registered => LiveKind::RegisteredMemory,
        MemoryKind::Managed => LiveKind::ManagedMemory,
        // A context frees its variables, and the heap of its kernels. Physical memory is listed.
        MemoryKind::Variable
        | MemoryKind::ManagedVariable
        | MemoryKind::Constant
        | MemoryKind::Heap
        | MemoryKind::Mapped => return None,
    };
    Some(listed(kind, found.device, &found.info))
}

fn listed(kind: LiveKind, device: u32, info: &AllocationInfo) -> (LiveKind, u64, LiveObject) {
    let number = info.number;
    let object = LiveObject {
        kind,
        device,
        bytes: info.bytes,
        name: format!("allocation {number}"),
        site: info.site.as_ref().map(ToString::to_string),
        origin: info.made(),
    };
    (kind, number, object)
}

/// The numbers of live objects of a simulated GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveObjectCounts {
    /// The number of primary contexts.
    pub contexts: usize,
    /// The number of streams created and not destroyed, without default streams.
    pub streams: usize,
    /// The number of events.
    pub events: usize,
    /// The number of modules.
    pub modules: usize,
    /// The number of graphs, except those that streams capture and bodies of conditional nodes.
    pub graphs: usize,
    /// The number of executable graphs.
    pub executable_graphs: usize,
    /// Allocated device memory of all devices in bytes, including memory with a pending free.
    pub device_bytes: u64,
    /// Page-locked host memory, registered memory included, in bytes.
    pub pinned_bytes: u64,
    /// Managed memory, in bytes.
    pub managed_bytes: u64,
    /// The number of operations enqueued and not complete.
    pub pending_operations: usize,
}
