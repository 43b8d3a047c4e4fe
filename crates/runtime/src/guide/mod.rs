//! The user guide: how to write programs with Millstream, a page for each subject.
//!
//! It is for readers who know Rust and some CUDA, or NumPy. Programs on these pages are complete:
//! they can be pasted and run, on a GPU or, without one, on the simulated device.
//!
#![cfg_attr(feature = "sim", doc = include_str!("index.md"))]
#![cfg_attr(
    not(feature = "sim"),
    doc = "Most pages need the simulated device, for their examples run on it. They are left out \
           here, because this documentation was made without the feature `sim`."
)]

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
    textures: include_str!("textures.md");
    graphs: include_str!("graphs.md");
    futures: include_str!("futures.md");
    several_devices: include_str!("several_devices.md");
    other_libraries: include_str!("other_libraries.md");
    with_pytorch: include_str!("with_pytorch.md");
    with_cudarc: include_str!("with_cudarc.md");
    regions: include_str!("regions.md");
    simulator: include_str!("simulator.md"), "```text", include_str!("reverse.ptx"), "```";
    programs: include_str!("programs.md");
    testing: include_str!("testing.md");
    performance: include_str!("performance.md");
    several_machines: include_str!("several_machines.md");
    from_cudarc: include_str!("from_cudarc.md");
    from_cuda: include_str!("from_cuda.md");
    from_cupy: include_str!("from_cupy.md");
}

pub mod semantics {
    #![doc = include_str!("semantics.md")]
}

#[cfg(test)]
mod tests {
    /// The text of a source behind its first lines, which are for the compiler of kernels.
    fn shown(source: &str, lines: usize) -> &str {
        source
            .splitn(lines + 1, '\n')
            .last()
            .expect("a source has lines")
    }

    #[test]
    fn the_pages_show_the_kernels_that_their_examples_launch() {
        let vector = shown(include_str!("vector.cu"), 1);
        assert!(include_str!("kernels.md").contains(vector));
        let reverse = shown(include_str!("reverse.cu"), 2);
        assert!(include_str!("simulator.md").contains(reverse));
    }
}
