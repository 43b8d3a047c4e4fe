//! The interface for tests: inspection and control of a simulated GPU beyond the driver interface.

mod gpu;
mod hold;
mod live;
mod search;

pub use gpu::RunningKernel;
pub use hold::Hold;
pub use live::{LiveKind, LiveObject, LiveObjectCounts};
pub use search::Search;
