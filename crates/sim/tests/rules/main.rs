//! The rules of `docs/semantics.md` as the simulated GPU keeps them, each test named after its rule's number.

mod attacks;
mod chaos;
mod copies;
mod events;
mod host_functions;
mod injected;
mod kernels;
mod lost;
mod managed;
mod memory;
mod replays;
mod rig;
mod rows;
mod schedules;
mod streams;
mod texts;
mod time;
