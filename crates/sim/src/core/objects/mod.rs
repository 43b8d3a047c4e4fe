//! The data of the simulated objects. The state owns them; none of these modules uses it.

pub(crate) mod captures;
pub(crate) mod device;
pub(crate) mod fault;
pub(crate) mod host_functions;
pub(crate) mod image;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod waiting;
