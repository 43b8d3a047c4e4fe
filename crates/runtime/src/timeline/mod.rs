//! Timelines: what ran when, measured with events behind and in front of every operation.
//!
//! `record` notes down, and what comes of it is a `Recording`. From that, `overlap` makes figures,
//! `svg` a picture and `chrome` a trace. These three see a recording alone, never a device; they
//! share which engine worked on what (`engine`) and what waited for what (`order`).

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
