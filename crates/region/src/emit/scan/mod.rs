//! Scan kernels.
//!
//! | file | contents |
//! |---|---|
//! | `rows.rs` | scans of rows |
//! | `columns.rs` | scans along another axis than the last |
//! | `column_totals.rs` | the totals of tiles of such scans |
//! | `look_back.rs` | scans in one pass of rows that several blocks share |
//! | `kept.rs` | the elements that a thread keeps in shared memory |
//! | `published.rs` | the totals that blocks publish to each other |
//! | `neighbours.rs` | the elements that a thread loads together |

pub(crate) mod column_totals;
pub(crate) mod columns;
pub(crate) mod kept;
pub(crate) mod look_back;
pub(crate) mod neighbours;
pub(crate) mod published;
pub(crate) mod rows;
