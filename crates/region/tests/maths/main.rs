//! The mathematical functions of generated kernels: how accurate they are, what they make of
//! special values, and that they give the same bits everywhere. On the simulated device, or, with
//! `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod bits;
mod device;
mod doubles;
mod functions;
mod measure;
mod points;
mod random;
mod singles;
mod specials;
