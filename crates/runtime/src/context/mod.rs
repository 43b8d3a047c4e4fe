//! A device's context and streams: submission, polling, events and loss.
//!
//! This layer owns the part of a device's state that submission and completion need. Layers above
//! keep their own state in the slots of [`DeviceState`] and [`StreamState`]; this layer starts
//! their work through the traits that it defines ([`DeviceHooks`], [`Recorder`]). [`Device`] and
//! [`Stream`] are defined here; their methods are in the layers above.

mod admission;
mod adoption;
mod crossing;
mod device;
mod events;
mod examinations;
mod imports;
mod leases;
mod limits;
mod loss;
mod peers;
mod polling;
mod realm;
mod recorder;
mod recording;
mod retired;
mod slots;
mod state;
mod stream;
mod stream_state;
mod streams;
mod submission;

pub(crate) use admission::ForeignCallGuard;
pub(crate) use adoption::Keeper;
pub(crate) use crossing::{Arrival, Crossing, Failure, submit_crossing};
pub use device::Device;
pub(crate) use events::{EventPool, PooledEvent};
pub(crate) use examinations::{ExaminedOperands, enter_realm};
pub(crate) use imports::{note_overwritten, of_operands, reach};
pub(crate) use leases::{GrantedLease, submit_end_of_foreign_work, submit_marker};
pub use peers::PeerStatus;
pub(crate) use peers::{copies_directly, known_peer_status, peer_status};
#[cfg(feature = "sim")]
pub(crate) use polling::LocalReactor;
pub(crate) use polling::{
    Action, Registration, SLEEP_NS_MIN, note_done, poll_ticket, poll_until, query_stream, register,
    retain_patiently, retain_until_complete, wait_backoff, wait_until,
};
pub(crate) use recorder::{OperationRecord, Recorder};
pub(crate) use recording::{HOST_MEMORY, Memory, NodeRecorder, NodeSink, RecordingStream};
pub(crate) use slots::{
    CopyLayer, DeviceSlot, KernelLayer, MemoryLayer, PageLockedLayer, StreamSlot,
};
pub(crate) use state::{DeviceHooks, DeviceState, DeviceStream};
pub use stream::Stream;
pub(crate) use stream_state::{HostWaiter, StreamState, SubmitQueue};
pub use submission::DriverStream;
#[cfg(all(test, shuttle))]
pub(crate) use submission::interleavings;
pub(crate) use submission::{
    Allocate, AtCaller, Command, CopyOnDevice, CopyPeer, CopyPeerRows, CopyRows, CopyToDevice,
    CopyToHost, Fill, Foreign, Free, GroupOperation, Launch, Operation, OverlappingCopy, Prefetch,
    Relocatable, RelocatableKernel, RepeatedRows, StagedUpload, captured, follow, follow_owner,
    make_owner_follow, order_after, record_at_tail, record_event, record_sync_point,
    record_with_clock, repeat, submit, submit_group, submit_in_place, sync_point_after,
    wait_with_clock,
};
