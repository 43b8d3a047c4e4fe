//! The functions of CUDA's runtime API, by subject.

mod copy;
mod device;
mod entry;
mod function;
mod graph;
mod image;
mod launch;
mod memory;
mod properties;
mod registration;

use crate::{
    abi::{Function, Stream},
    export::{forwarded, refused},
};

type W = usize;
type S = Stream;
type F = Function;

include!("../tables/forwarded.txt");
include!("../tables/refused.txt");
