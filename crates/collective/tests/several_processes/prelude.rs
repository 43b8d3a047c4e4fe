//! What most tests of several processes use.

pub(super) use std::time::{Duration, Instant};

pub(super) use millstream::{Device, Error, Stream, sim::Gpu};
pub(super) use millstream_collective::{Collectives, Reduce, nccl::loopback::Fault, world::World};

pub(super) use crate::several_processes::processes::{LONG, result, start_all, torchrun};
