//! The tests of the driver's interface that need no device, in one program.

mod declarations;
mod load;
