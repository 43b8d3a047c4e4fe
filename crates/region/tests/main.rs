//! All tests of regions, in one program. A test's name begins with its folder or file here.

mod compile_fail;
mod differential;
mod fusion;
mod maths;
mod mesh;
mod product;
mod scenarios;
