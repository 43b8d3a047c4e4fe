//! The user guide: how to write programs with Millstream, a page for each subject.
//!
//! It is for readers who know Rust and some CUDA, or NumPy. Programs on these pages are complete:
//! they can be pasted and run, on a GPU or, without one, on the simulated device.

/// The documentation of a page, whose examples use the simulated device.
macro_rules! pages {
    ($($page:ident: $($text:expr),+;)+) => {
        $(#[cfg(feature = "sim")] pub mod $page { $(#![doc = $text])+ })+
    };
}

pages! {
    start: include_str!("start.md");
    model: include_str!("model.md");
    memory: include_str!("memory.md");
    kernels: include_str!("kernels.md"), "```text", include_str!("vector.ptx"), "```";
    futures: include_str!("futures.md");
    regions: include_str!("regions.md");
    simulator: include_str!("simulator.md"), "```text", include_str!("reverse.ptx"), "```";
    testing: include_str!("testing.md");
    performance: include_str!("performance.md");
    from_cudarc: include_str!("from_cudarc.md");
    from_cuda: include_str!("from_cuda.md");
    from_cupy: include_str!("from_cupy.md");
}

pub mod semantics {
    #![doc = include_str!("semantics.md")]
}
