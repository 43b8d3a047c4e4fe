//! The required scenarios, each a test named after its number, under every schedule of the
//! simulated device or, with `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod alignment;
mod arrays;
mod cache;
mod calls;
mod cancel;
mod casts;
mod child;
mod clauses;
mod closing;
mod collectives;
mod configurations;
mod counts;
mod events;
mod every_call;
mod executors;
mod exits;
mod failures;
mod faults;
mod foreign_calls;
mod forked;
mod harness;
mod health;
mod host_memory;
mod instrumented;
mod lost;
mod managed;
mod memory;
mod messages;
mod opting_out;
mod owned;
mod peers;
mod peers_failing;
mod peers_kernels;
#[path = "../programs/program/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod program;
mod properties;
mod random;
mod rectangles;
mod reopening;
mod scopes;
mod shapes;
mod shared_memory;
mod subscribers;
mod sweep;
mod threads;
mod transfers;
mod two_devices;
mod unsubmitted;
mod user_code;
mod wakers;
mod within;
