//! Streams and arrays of [cudarc](https://docs.rs/cudarc) in Millstream, and of Millstream in
//! cudarc.
//!
//! Both libraries use the device's primary context. This crate gives their work an order, on the
//! device and without waiting on the host:
//!
//! | you have | use |
//! |---|---|
//! | a `CudaContext` | [`device_of`]: the same device in Millstream |
//! | a `CudaStream` | [`SharedStream::new`]: both libraries enqueue on it |
//! | a `CudaSlice` that Millstream is to use | [`adopt_slice`], and [`return_slice`] back |
//! | a `&CudaSlice` or `CudaView` that Millstream is to use | [`with_slice`], [`with_slice_mut`] |
//! | a `Buffer` that cudarc is to use | [`lend`], [`lend_mut`] |
//! | a call of cudarc that takes a stream, such as cuBLAS | [`foreign`] |
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use millstream_cudarc::{SharedStream, adopt_slice, device_of, lend_mut, return_slice};
//!
//! let context = CudaContext::new(0)?;
//! let stream = context.new_stream()?;
//! let mut slice = stream.alloc_zeros::<f32>(1000)?;
//!
//! let device = device_of(&context)?;
//! let ours = device.stream()?;
//! let mut array = adopt_slice(&device, slice)?;
//! ours.fill(&mut array, 1.0)?; // waits for cudarc's work, on the device
//!
//! let theirs = SharedStream::new(&device, &stream)?;
//! let mut lent = lend_mut(&mut array, &theirs)?;
//! stream.memset_zeros(&mut lent.view_mut())?; // waits for the fill, on the device
//! drop(lent);
//! slice = return_slice(&device, array)?;
//! assert_eq!(stream.clone_dtoh(&slice)?, [0.0; 1000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program chooses the version of CUDA and the way of linking by cudarc's own features; without
//! a choice cudarc loads the driver at run time, so that this crate builds without CUDA.
//!
//! cudarc orders its own work on several streams by events, one for the last reader of each slice.
//! If several of its streams read a slice, it may forget all readers but the last; this crate sees
//! the order that cudarc has, and adds nothing to it.

mod borrowed;
mod error;
mod lent;
mod memory;
mod stream;

pub use borrowed::{with_slice, with_slice_mut};
pub use error::{Error, Result};
pub use lent::{LentSlice, LentSliceMut, lend, lend_mut};
pub use memory::{adopt_slice, return_slice};
pub use stream::{SharedStream, device_of, foreign};
