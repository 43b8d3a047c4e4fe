//! The lowering of expressions to the instructions of a body.

mod destination;
pub(crate) mod join;
pub(crate) mod lowering;
pub(crate) mod nested;
pub(crate) mod position;
pub(crate) mod row_nodes;
pub(crate) mod update;

pub(crate) use lowering::{Lowering, RegisterCache};
pub(crate) use position::{Indices, Position};
pub(crate) use row_nodes::{Divisor, RowNodes};
