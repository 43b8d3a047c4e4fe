//! The front door for tests: what a program asks of a simulated GPU, and does to it, that no driver
//! offers.

mod gpu;
mod hold;
mod live;
mod search;

pub use hold::Hold;
pub use live::{LiveKind, LiveObject, LiveObjectCounts};
pub use search::Search;
