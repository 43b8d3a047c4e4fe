//! The lowering of expressions to the instructions of a body.
//!
//! | file | contents |
//! |---|---|
//! | `lowering.rs` | the lowering of nodes to registers |
//! | `position.rs` | positions in arrays and the index maps of views |
//! | `row_nodes.rs` | the nodes of a row kernel that have one element for each row |
//! | `update.rs` | the positions of values that replace elements of a part |
//! | `join.rs` | joined arrays, whose parts are computed under branches |

pub(crate) mod join;
pub(crate) mod lowering;
pub(crate) mod position;
pub(crate) mod row_nodes;
pub(crate) mod update;

pub(crate) use lowering::Lowering;
pub(crate) use position::Position;
pub(crate) use row_nodes::{Divisor, RowNodes};
