//! Timelines: the times of operations, measured with events before and after each.
//!
//! `record` collects events and produces a `Recording`. From a recording, `overlap` computes
//! figures, `svg` draws a picture and `chrome` writes a trace. These three use only the recording,
//! never a device; they share the assignment of operations to engines (`engine`) and the
//! dependencies (`order`).

mod chrome;
mod engine;
mod order;
mod overlap;
mod record;
mod recording;
#[cfg(test)]
mod samples;
mod svg;
mod units;

pub use overlap::Overlap;
pub use record::Timeline;
pub use recording::{Recording, TimedOperation};
