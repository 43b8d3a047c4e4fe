//! Work, streams and memory of other libraries.
//!
//! A program that uses another CUDA library with this one needs an order between the work of both.
//! This module gives it in four ways. The other library's part stays `unsafe` or raw; everything
//! that this library enqueues stays free of races with it:
//!
//! | the other library | use |
//! |---|---|
//! | enqueues on a stream that it is given | [`Stream::foreign`]: its work is one tracked operation |
//! | has a stream of its own | [`Device::adopt_stream`]: operations on it run in order with the owner's |
//! | hands over an array | [`Device::adopt_buffer`]: a [`Buffer`] that returns to its owner, on drop or by [`Buffer::return_to_owner`] |
//! | exchanges arrays by DLPack, as frameworks of Python do | [`Buffer::into_dlpack`], [`Device::adopt_dlpack`] |
//! | borrows an array for its own stream | [`Buffer::lend`], [`Buffer::lend_mut`] |
//!
//! At every moment each byte is used by tracked operations, or lent to one outsider with an order
//! before and behind, or moved out. The promise covers what is declared: accesses that an owner
//! makes to memory or streams behind this library's back are its own, as before.
//!
//! Memory of other processes (CUDA's inter-process handles) and of other interfaces (Vulkan) cannot
//! be adopted.
//!
//! [`Stream::foreign`]: crate::Stream::foreign
//! [`Device::adopt_stream`]: crate::Device::adopt_stream
//! [`Device::adopt_buffer`]: crate::Device::adopt_buffer
//! [`Buffer`]: crate::Buffer
//! [`Buffer::into_dlpack`]: crate::Buffer::into_dlpack
//! [`Device::adopt_dlpack`]: crate::Device::adopt_dlpack
//! [`Buffer::return_to_owner`]: crate::Buffer::return_to_owner
//! [`Buffer::lend`]: crate::Buffer::lend
//! [`Buffer::lend_mut`]: crate::Buffer::lend_mut

mod adopt;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod foreign;
mod lease;

pub use adopt::After;
pub use foreign::{ForeignCall, ForeignOperand, read, write};
pub use lease::{Lease, OwnedLease};
