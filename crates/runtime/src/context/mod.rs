//! A device's context and streams: submission, polling, events and loss.
//!
//! Operations on several devices are a layer above ([`multi_device`](crate::multi_device)).
//!
//! This layer owns the part of a device's state that submission and completion need. Layers above
//! keep their own state in the slots of [`DeviceState`] and [`StreamState`]; this layer starts
//! their work through the traits that it defines ([`DeviceHooks`], [`Tracer`]). [`Device`] and
//! [`Stream`] are defined here; their methods are in the layers above.

mod admission;
mod adopted;
mod adoption;
mod device;
mod events;
mod examinations;
pub(crate) mod imports;
mod lease_conflicts;
mod leases;
mod limits;
mod loss;
mod operation;
mod polling;
mod realm;
mod recording;
mod retired;
mod slots;
mod state;
mod stream;
mod stream_state;
mod streams;
mod submission;
mod trace;

pub(crate) use admission::ForeignCallGuard;
pub(crate) use admission::in_foreign_call;
pub(crate) use adopted::Keeper;
pub use device::Device;
pub(crate) use events::{EventPool, PooledEvent};
pub(crate) use examinations::{ExaminedOperands, begin_examining, end_examining, enter_realm};
pub(crate) use lease_conflicts::end_returned_leases;
pub(crate) use leases::{GrantedLease, submit_end_of_foreign_work, submit_marker};
pub(crate) use operation::Operation;
#[cfg(feature = "sim")]
pub(crate) use polling::LocalReactor;
pub(crate) use polling::{
    Action, Registration, SLEEP_NS_MIN, has_pending_work, note_done, poll_ticket, poll_until,
    query_stream, register, retain_patiently, retain_until_complete, wait_backoff, wait_until,
    wait_until_timeout,
};
pub(crate) use realm::{Visit, contains as realm_contains};
pub(crate) use recording::{
    HOST_MEMORY, Memory, NodeRecorder, NodeSink, RecordingStream, RelocatableKernel,
};
pub(crate) use slots::{
    AdoptionLayer, CopyLayer, DeviceSlot, GraphLayer, KernelLayer, MemoryLayer, MultiDeviceLayer,
    OpenSlot, PageLockedLayer, StreamSlot, TraceLayer,
};
pub(crate) use state::{DeviceHooks, DeviceState, DeviceStream};
pub use stream::Stream;
pub(crate) use stream_state::{HostWaiter, StreamState, SubmitQueue};
pub use submission::DriverStream;
#[cfg(all(test, shuttle))]
pub(crate) use submission::interleavings;
pub(crate) use submission::{
    Allocate, AtCaller, Command, CopyBox, CopyOnDevice, CopyPeer, CopyPeerRows, CopyRows,
    CopyToDevice, CopyToHost, Fill, Foreign, Free, GroupOperation, Launch, OverlappingCopy,
    Prefetch, Relocatable, RepeatedRows, StagedUpload, captured, enqueue, enqueue_group, follow,
    follow_owner, make_owner_follow, order_after, record_at_tail, record_event, record_sync_point,
    record_with_clock, refuse_unordered, repeat, submit, sync_point_after, wait_with_clock,
};
pub(crate) use trace::{TracedOperation, Tracer};
