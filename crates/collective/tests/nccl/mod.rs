//! NCCL's function table: loading the library, and the stand-in [`Loopback`] on simulated devices.
//!
//! [`Loopback`]: millstream_collective::nccl::Loopback

mod faults;
mod gpu;
mod load;
mod operations;
mod prelude;
mod rank;
