//! Test support for several crates: devices in every configuration, drivers that count calls, make
//! them fail or do nothing, and programs that must not compile.

#![allow(missing_docs, reason = "used by this workspace's tests only")]

pub mod calls;
#[cfg(feature = "sim")]
pub mod configurations;
#[cfg(feature = "sim")]
pub mod harness;
#[cfg(feature = "sim")]
pub mod instrumented;
pub mod null;
#[cfg(feature = "sim")]
pub mod outsiders;
#[cfg(feature = "sim")]
pub mod readings;
pub mod refused;
pub mod share;
#[cfg(feature = "sim")]
pub mod sizes;
#[cfg(feature = "sim")]
pub mod sweep;
#[cfg(feature = "sim")]
pub mod tensors;
pub mod watch;

pub use millstream_testkit_macros::run_by;
