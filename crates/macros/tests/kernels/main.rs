//! Tests of the code that `kernels!` expands to, with a stub of the runtime that records its calls.
//!
//! For the macro, this file is the crate `millstream`.

#![allow(unsafe_code, reason = "declares and calls unsafe kernels")]

extern crate self as millstream;

mod clauses;
mod stub;

pub use stub::{Device, Error, Global, LaunchConfig, Occupancy, Result, Stream, kernel};

const PTX: &str = "<ptx>";
const CHANNELS: usize = 3;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Window {
    left: f32,
    right: f32,
}

type Index = std::ffi::c_int;

millstream_macros::kernels! {
    // SAFETY: nothing is executed here.
    pub unsafe mod photo from PTX {
        /// Computes the brightness of `n` pixels.
        pub safe fn luminance(rgb: &[u8], luma: &mut [u8], n: Index)
            requires n >= 0, rgb.len() >= CHANNELS * n, luma.len() >= n;

        safe fn windowed(window: Window, x: &mut [f32], scale: f32)
            requires
                window.left < window.right,
                scale != 0.0,
                !x.is_empty(),
                grid.blocks.x * grid.block.x >= x.len();

        #[kernel(name = "_Z6volume")]
        safe fn volume(x: &[f64], w: i64, h: i64, d: i64) requires x.len() != w * h * d + 1,;

        /// Scatters by arbitrary indices.
        pub unsafe fn scatter(at: &[u32], out: &mut [f32]);
    }

    unsafe mod empty from "" {}

    #[kernel(abi = "rust")]
    unsafe mod slices from cuda "<source>", ptx "<compiled>" {
        safe fn scale(x: &[f32], factor: f32, y: &mut [f32]);
        #[kernel(abi = "C")]
        safe fn plain(x: &mut [u32]);
    }

    unsafe mod later from cuda "<source>" {
        safe fn nothing();
        static hits: u64;
        #[kernel(name = "_Z5table")]
        static table: [Index];
    }
}

#[test]
fn variables_and_occupancies_are_those_of_the_declarations() {
    let kernels = later::load(&Device::default()).expect("it loads");
    let (hits, table): (Global<u64>, Global<Index>) = (kernels.hits(), kernels.table());
    assert_eq!(
        [hits.0, table.0],
        [
            "hits: 8 bytes, single true",
            "_Z5table: 4 bytes, single false"
        ]
    );
    let Occupancy(name) = kernels.nothing_occupancy();
    assert_eq!(name, "<source> later nothing()");
}

/// Runs `launch` and returns the calls that the stub recorded.
fn launched(launch: impl FnOnce(&photo::Kernels, &Stream) -> Result<()>) -> Result<Vec<String>> {
    let device = Device::default();
    let kernels = photo::load(&device)?;
    launch(&kernels, &Stream)?;
    Ok(std::mem::take(
        &mut device.launches.lock().expect("not poisoned"),
    ))
}

fn requires(kernel: &'static str, clause: &'static str, values: &str) -> Result<Vec<String>> {
    Err(Error::requires(kernel, clause, values.to_owned()))
}

#[test]
fn arguments_are_passed_in_order_with_the_declared_signature() {
    let (rgb, mut luma) = ([0_u8; 30], [0_u8; 10]);
    let window = Window {
        left: 0.0,
        right: 1.0,
    };
    let one = LaunchConfig(1, 1);
    let luminance = launched(|kernels, stream| {
        kernels.luminance(stream, LaunchConfig(1, 32), &rgb[..], &mut luma[..], 10)
    });
    let windowed = launched(|kernels, stream| {
        kernels.windowed(stream, LaunchConfig(2, 32), window, &mut [0.5; 64][..], 2.0)
    });
    let volume = launched(|kernels, stream| kernels.volume(stream, one, &[1.0][..], 2, 3, 4));
    // SAFETY: nothing is executed here.
    let scatter = launched(|kernels, stream| unsafe {
        kernels.scatter(stream, one, &[1_u32][..], &mut [0.0_f32][..])
    });
    for (found, expected) in [
        (
            luminance,
            "<ptx> photo luminance(rgb: read, luma: write, n: 4/4) on 1x32: read 30, write 10, 10",
        ),
        (
            windowed,
            "<ptx> photo windowed(window: 16/16, x: write, scale: 4/4) on 2x32: \
             Window { left: 0.0, right: 1.0 }, write 64, 2.0",
        ),
        (
            volume,
            "<ptx> photo _Z6volume(x: read, w: 8/8, h: 8/8, d: 8/8) on 1x1: read 1, 2, 3, 4",
        ),
        (
            scatter,
            "<ptx> photo scatter(at: read, out: write) on 1x1: read 1, write 1",
        ),
    ] {
        assert_eq!(found, Ok(vec![expected.to_owned()]));
    }
}

#[test]
fn the_element_type_of_each_array_is_declared_with_its_index() {
    let kernels = photo::load(&Device::default()).expect("it loads");
    let arrays = kernels.functions.iter().map(|function| {
        let arrays = function.arrays.lock().expect("not poisoned");
        arrays.clone()
    });
    let expected = [
        "0 rgb: u8, 1 luma: u8",
        "1 x: f32",
        "0 x: f64",
        "0 at: u32, 1 out: f32",
    ];
    assert_eq!(arrays.collect::<Vec<_>>(), expected);
}

#[test]
fn the_first_clause_that_fails_is_the_error() {
    let luminance = |pixels: usize, luma: usize, n: i32| {
        launched(|kernels, stream| {
            kernels.luminance(
                stream,
                LaunchConfig(1, 1),
                &vec![0; 3 * pixels][..],
                &mut vec![0; luma][..],
                n,
            )
        })
    };
    assert!(luminance(4, 4, 4).is_ok());
    assert!(luminance(0, 0, 0).is_ok());
    let of_rgb = "rgb.len() >= CHANNELS * n";
    for (pixels, luma, n, clause, values) in [
        (0, 0, -1, "n >= 0", "n = -1"),
        (3, 3, 4, of_rgb, "rgb.len() = 9, CHANNELS = 3, n = 4"),
        (4, 3, 4, "luma.len() >= n", "luma.len() = 3, n = 4"),
        // `3 * n` would wrap around in 32 bits, to a small number.
        (
            4,
            4,
            i32::MAX,
            of_rgb,
            "rgb.len() = 12, CHANNELS = 3, n = 2147483647",
        ),
    ] {
        let expected = requires("photo::luminance", clause, values);
        assert_eq!(luminance(pixels, luma, n), expected);
    }
}

#[test]
fn clauses_may_use_fields_floats_and_the_launch_configuration() {
    let windowed = |right: f32, len: usize, scale: f32, blocks: u32| {
        let window = Window { left: 0.0, right };
        launched(|kernels, stream| {
            kernels.windowed(
                stream,
                LaunchConfig(blocks, 32),
                window,
                &mut vec![0.0; len][..],
                scale,
            )
        })
    };
    assert!(windowed(1.0, 64, 1.0, 2).is_ok());
    let of_fields = "window.left = 0.0, window.right = 0.0";
    let of_launch = "grid.blocks.x = 2, grid.block.x = 32, x.len() = 65";
    for (right, len, scale, clause, values) in [
        (0.0, 64, 1.0, "window.left < window.right", of_fields),
        (1.0, 64, 0.0, "scale != 0.0", "scale = 0.0"),
        (1.0, 0, 1.0, "!x.is_empty()", "x.len() = 0"),
        (
            1.0,
            65,
            1.0,
            "grid.blocks.x * grid.block.x >= x.len()",
            of_launch,
        ),
    ] {
        let expected = requires("photo::windowed", clause, values);
        assert_eq!(windowed(right, len, scale, 2), expected);
    }
}

#[test]
fn arithmetic_that_overflows_fails_its_clause() {
    let volume = |edge: i64| {
        launched(|kernels, stream| {
            kernels.volume(stream, LaunchConfig(1, 1), &[][..], edge, edge, edge)
        })
    };
    assert!(volume(1 << 40).is_ok(), "a product of 120 bits fits");
    assert_eq!(
        volume(1 << 43),
        requires(
            "photo::volume",
            "x.len() != w * h * d + 1",
            "x.len() = 0, w = 8796093022208, h = 8796093022208, d = 8796093022208; \
             its arithmetic overflows or divides by zero"
        ),
        "one of 129 bits does not, and would compare unequal"
    );
}

#[test]
fn a_module_without_kernels_loads_too() {
    assert!(empty::load(&Device::default()).is_ok());
}

#[test]
fn lengths_follow_the_arrays_of_kernels_in_rust() {
    let device = Device::default();
    let kernels = slices::load(&device).expect("it loads");
    let (x, mut y) = ([1.0_f32; 3], [0.0_f32; 4]);
    let config = LaunchConfig(1, 1);
    kernels
        .scale(&Stream, config, &x[..], 2.0, &mut y[..])
        .expect("it launches");
    kernels
        .plain(&Stream, config, &mut [1_u32][..])
        .expect("it launches");
    assert_eq!(
        *device.launches.lock().expect("not poisoned"),
        [
            "<compiled> slices scale(x: read, x.len(): len, factor: 4/4, y: write, y.len(): len) \
             on 1x1: read 3, len 3, 2.0, write 4, len 4",
            "<compiled> slices plain(x: write) on 1x1: write 1",
        ]
    );
    let arrays = kernels.functions[0].arrays.lock().expect("not poisoned");
    assert_eq!(*arrays, "0 x: f32, 3 y: f32");
}

#[test]
fn a_source_without_ptx_is_passed_on_to_be_compiled() {
    let device = Device::default();
    let kernels = later::load(&device).expect("it loads");
    kernels
        .nothing(&Stream, LaunchConfig(1, 1))
        .expect("it launches");
    let launches = device.launches.lock().expect("not poisoned");
    assert_eq!(*launches, ["<source> later nothing() on 1x1: "]);
}
