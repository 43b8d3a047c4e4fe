//! Timelines: the times of operations, measured with events before and after each.
//!
//! `log` collects events and produces a `Trace`. From a trace, `overlap` computes figures, `svg`
//! draws a picture and `chrome` writes JSON. These three use only the trace, never a device; they
//! share the assignment of operations to engines (`engine`) and the dependencies (`order`).

mod chrome;
mod engine;
mod log;
mod order;
mod overlap;
#[cfg(test)]
mod samples;
mod several;
mod svg;
mod trace;
mod units;

pub use log::Timeline;
pub use overlap::Overlap;
pub use several::{Timelines, Traces};
pub use trace::{TimedOperation, Trace};
