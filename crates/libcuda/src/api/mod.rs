//! The exported functions, by subject.

use crate::export::Symbol;

pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod copy_3d;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod fill;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod graph_exec;
pub(crate) mod graph_node;
pub(crate) mod graph_questions;
pub(crate) mod image;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod linker;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod primary;
pub(crate) mod stream;
pub(crate) mod stream_values;
pub(crate) mod user_object;
pub(crate) mod virtual_memory;

/// The exported symbols of each module.
pub(crate) static SYMBOLS: &[&[Symbol]] = &[
    capture::SYMBOLS,
    context::SYMBOLS,
    copy::SYMBOLS,
    copy_3d::SYMBOLS,
    device::SYMBOLS,
    entry::SYMBOLS,
    event::SYMBOLS,
    fill::SYMBOLS,
    function::SYMBOLS,
    graph::SYMBOLS,
    graph_exec::SYMBOLS,
    graph_node::SYMBOLS,
    graph_questions::SYMBOLS,
    image::SYMBOLS,
    launch::SYMBOLS,
    library::SYMBOLS,
    linker::SYMBOLS,
    memory::SYMBOLS,
    module::SYMBOLS,
    occupancy::SYMBOLS,
    pointer::SYMBOLS,
    pool::SYMBOLS,
    primary::SYMBOLS,
    stream::SYMBOLS,
    stream_values::SYMBOLS,
    user_object::SYMBOLS,
    virtual_memory::SYMBOLS,
];
