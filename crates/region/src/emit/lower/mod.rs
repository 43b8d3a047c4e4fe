//! The lowering of expressions to the instructions of a body.

/// Joined arrays, whose parts are computed under branches.
pub(crate) mod join;
/// The lowering of nodes to registers.
pub(crate) mod lowering;
/// Positions in arrays and the index maps of views.
pub(crate) mod position;
/// The nodes of a row kernel that have one element for each row.
pub(crate) mod row_nodes;
/// The positions of values that replace elements of a part.
pub(crate) mod update;

pub(crate) use lowering::Lowering;
pub(crate) use position::Position;
pub(crate) use row_nodes::{Divisor, RowNodes};
