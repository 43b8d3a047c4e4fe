//! The tests of the examples, in one program: each example is a module of it.

#![allow(dead_code, reason = "their main functions")]

#[path = "../decode/src/main.rs"]
mod decode;
#[path = "../digits/src/main.rs"]
mod digits;
mod edited;
#[path = "../heat/src/main.rs"]
mod heat;
#[path = "../live/src/main.rs"]
mod live;
#[path = "../options/src/main.rs"]
mod options;
#[path = "../photos/src/main.rs"]
mod photos;
#[path = "../race_caught/src/main.rs"]
mod race_caught;
#[path = "../rust_kernels/src/main.rs"]
mod rust_kernels;
