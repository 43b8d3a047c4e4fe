//! Tests of the mathematical functions of generated kernels: accuracy, special values, and equality
//! of bits on all devices. They run on the simulated device, or with `MILLSTREAM_DEVICE=cuda:0` on
//! a GPU.

mod bits;
mod device;
mod doubles;
mod functions;
mod halves;
mod measure;
mod points;
mod random;
mod singles;
mod specials;
