//! A device's context and streams: submission, polling, events and loss.
//!
//! What submission and completion need of a device is here. Layers above keep their own state in
//! the slots of [`DeviceState`] and [`StreamState`]; this layer starts their work through the
//! traits that it defines ([`DeviceHooks`], [`Recorder`]). [`Device`] and [`Stream`] are defined
//! here, and their verbs in the layers above.

mod attention;
mod cross_device;
mod device;
mod events;
mod limits;
mod loss;
mod polling;
mod recorder;
mod slots;
mod state;
mod stream;
mod stream_state;
mod streams;
mod submission;

pub(crate) use attention::ForeignCall;
pub(crate) use cross_device::depend_on_device;
pub use device::Device;
pub(crate) use events::{EventPool, PooledEvent};
#[cfg(feature = "sim")]
pub(crate) use polling::LocalReactor;
pub(crate) use polling::{
    Action, Registration, SLEEP_NS_MIN, keep_until_done, note_done, patience, poll_ticket,
    query_stream, register,
};
pub(crate) use recorder::{Note, Recorder};
pub(crate) use state::{DeviceHooks, DeviceState};
pub use stream::Stream;
pub(crate) use stream_state::{Awaited, Lane, StreamState};
pub use submission::Queue;
pub(crate) use submission::{
    Allocate, Behind, Command, Fill, Foreign, Free, Launch, Move, Operation, Prefetch, Repeat,
    RepeatRow, Rows, StagedUpload, ToDevice, ToHost, WithinDevice, mark, order_behind,
    point_behind, record_at_tail, record_event, record_point, submit, submit_in_place,
    wait_for_mark,
};
