//! CUDA's runtime API over the public functions of its driver API.
//!
//! The library takes the place of `libcudart.so.12` and `libcudart.so.13` under programs of nvcc
//! that are linked with the runtime as a shared library (`-cudart shared`). It uses only functions
//! of `libcuda.so.1` that NVIDIA documents, and none of the undocumented tables that NVIDIA's own
//! runtime needs, so that it runs over the drop-in driver of Millstream's simulated device.
//!
//! # How a call runs
//!
//! The files of `api/` declare the functions. A macro (`export.rs`) makes an exported symbol of
//! each declaration, which gives the thread a context (`call.rs`) and remembers the error. Most
//! functions pass their arguments on to a function of the driver, which is found by its name
//! (`driver.rs`). Compiled programs register their kernels and variables in constructors
//! (`registry.rs`); nothing is loaded before it is used. `tables/refused.txt` lists the functions
//! that are refused.

mod abi;
mod api;
mod call;
mod codes;
mod driver;
mod export;
mod registry;
mod texts;
mod version;
