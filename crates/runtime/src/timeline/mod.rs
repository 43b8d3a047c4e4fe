//! Timelines: what ran when, measured with events behind and in front of every operation.

mod record;
mod recording;

pub use record::Timeline;
pub(crate) use record::{Note, TimelineSlot};
pub use recording::{Kind, Recording, TimedOperation};
