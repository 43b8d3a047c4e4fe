//! The rules of `docs/semantics.md` as the simulated GPU keeps them, each test named after its rule's number.

mod attacks;
mod chaos;
mod copies;
mod events;
mod host_functions;
mod kernels;
mod lost;
mod memory;
mod rig;
mod schedules;
mod streams;
mod time;
