//! GPU work that is asynchronous by default and cannot race.
//!
//! Everything put into a [`Stream`] runs later, on the device; the methods return at once. The library works out what must
//! wait for what: an operation runs after every earlier operation that touches the same bytes if one of the two writes
//! them, whichever streams and threads they come from, and beside everything else. The waits are made on the device.
//! Operands live as long as operations need them, and the host waits only when it asks for a value.
//!
//! ```
//! use millstream::Device;
//!
//! let device = Device::simulated()?; // or Device::open(Select::Auto): a GPU if there is one
//! let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
//!
//! let numbers = a.upload(&[1.0_f32; 1024])?;
//! let (mut left, mut right) = (b.zeros::<f32>(1024)?, c.zeros::<f32>(1024)?);
//! b.copy(&numbers, &mut left)?; // waits for the upload, on the device
//! c.copy(&numbers, &mut right)?; // so does this; both copies run together
//! drop(numbers); // freed behind both copies, without waiting for them
//! assert_eq!(a.download(&left)?.wait()?, [1.0; 1024]);
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! The same program runs on a GPU through `libcuda`, which is loaded at run time, and on a simulated device that needs no
//! CUDA at all: see [`Select`].

mod completion;
mod copy;
mod device;
mod error;
#[doc(hidden)]
pub mod kernel;
mod memory;
mod stream;
mod submit;
mod timeline;
mod tracker;

pub use completion::Pending;
pub use device::{Device, Select};
pub use error::{Error, Misuse, OutOfMemory, Problem, Result};
pub use kernel::Grid;
pub use memory::{
    Buffer, CopySource, CopyTarget, Pinned, PinnedRead, PinnedWrite, ReadOperand, View, ViewMut, WriteOperand,
};
pub use millstream_driver as driver;
pub use millstream_macros::kernels;
pub use millstream_sim as sim;
pub use stream::Stream;
pub use timeline::{Kind, Overlap, Recording, TimedOperation, Timeline};
