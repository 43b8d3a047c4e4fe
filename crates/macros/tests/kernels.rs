//! The expansion of `kernels!` at work, against a stand-in for the runtime that writes down what it is asked for.
//!
//! This file is the crate `millstream` to the macro.

#![allow(unsafe_code, reason = "declares and calls unsafe kernels")]

extern crate self as millstream;

use std::sync::{Arc, Mutex};

/// The runtime's own file.
#[path = "../../runtime/src/kernel/clause.rs"]
pub mod clause;

/// A device that lists its launches.
#[derive(Debug, Default)]
pub struct Device {
    launches: Arc<Mutex<Vec<String>>>,
}

/// Where launches go.
#[derive(Debug)]
pub struct Stream;

/// The shape of a launch: blocks, and threads of a block, in x.
#[derive(Clone, Copy, Debug)]
pub struct Grid(u32, u32);

/// A clause that does not hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    kernel: &'static str,
    clause: &'static str,
}

impl Error {
    #[allow(missing_docs, reason = "a stand-in")]
    pub fn requires(kernel: &'static str, clause: &'static str) -> Self {
        Self { kernel, clause }
    }
}

#[allow(missing_docs, reason = "a stand-in")]
pub type Result<T> = std::result::Result<T, Error>;

#[allow(missing_docs, reason = "a stand-in")]
pub mod kernel {
    use super::*;

    pub use crate::clause;

    impl From<&Grid> for clause::Shape {
        fn from(&Grid(blocks, threads): &Grid) -> Self {
            Self::new([blocks, 1, 1], [threads, 1, 1], 0)
        }
    }

    #[derive(Debug)]
    pub struct Source {
        pub module: &'static str,
        pub ptx: &'static str,
        pub kernels: &'static [Signature],
    }

    #[derive(Debug)]
    pub struct Signature {
        pub name: &'static str,
        pub params: &'static [Param],
    }

    #[derive(Debug)]
    pub struct Param {
        pub name: &'static str,
        pub kind: ParamKind,
    }

    #[derive(Debug)]
    pub enum ParamKind {
        Slice { writable: bool },
        Scalar { size: usize, align: usize },
    }

    #[derive(Debug)]
    pub struct Function {
        name: String,
        launches: Arc<Mutex<Vec<String>>>,
    }

    #[allow(clippy::len_without_is_empty, reason = "a stand-in")]
    pub trait ReadOperand<T> {
        fn len(&self) -> usize;
    }

    pub trait WriteOperand<T>: ReadOperand<T> {}

    impl<T> ReadOperand<T> for &[T] {
        fn len(&self) -> usize {
            <[T]>::len(self)
        }
    }

    impl<T> ReadOperand<T> for &mut [T] {
        fn len(&self) -> usize {
            <[T]>::len(self)
        }
    }

    impl<T> WriteOperand<T> for &mut [T] {}

    /// An argument, as text.
    pub struct Argument<'a>(String, std::marker::PhantomData<&'a ()>);

    impl<'a> Argument<'a> {
        pub fn read<T>(operand: &'a impl ReadOperand<T>) -> Self {
            Self(format!("read {}", operand.len()), Default::default())
        }

        pub fn write<T>(operand: &'a mut impl WriteOperand<T>) -> Self {
            Self(format!("write {}", operand.len()), Default::default())
        }

        pub fn scalar<T: std::fmt::Debug>(value: &'a T) -> Self {
            Self(format!("{value:?}"), Default::default())
        }
    }

    pub fn load(device: &Device, source: &'static Source) -> Result<Arc<[Function]>> {
        let function = |signature: &Signature| {
            let params = signature.params.iter().map(|Param { name, kind }| match kind {
                ParamKind::Slice { writable: false } => format!("{name}: read"),
                ParamKind::Slice { writable: true } => format!("{name}: write"),
                ParamKind::Scalar { size, align } => format!("{name}: {size}/{align}"),
            });
            let params: Vec<_> = params.collect();
            let name = format!(
                "{} {} {}({})",
                source.ptx,
                source.module,
                signature.name,
                params.join(", ")
            );
            Function {
                name,
                launches: device.launches.clone(),
            }
        };
        Ok(source.kernels.iter().map(function).collect())
    }

    /// # Safety
    ///
    /// As a launch of the runtime.
    pub unsafe fn launch<const N: usize>(
        function: &Function,
        _: &Stream,
        Grid(blocks, threads): Grid,
        arguments: [Argument<'_>; N],
    ) -> Result<()> {
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.0.as_str()).collect();
        let launch = format!(
            "{} on {blocks}x{threads}: {}",
            function.name,
            arguments.join(", ")
        );
        function.launches.lock().expect("not poisoned").push(launch);
        Ok(())
    }
}

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
        /// Brightness.
        pub safe fn luminance(rgb: &[u8], luma: &mut [u8], n: Index)
            requires n >= 0, rgb.len() >= CHANNELS * n, luma.len() >= n;

        safe fn windowed(window: Window, x: &mut [f32], scale: f32)
            requires window.left < window.right, scale != 0.0, !x.is_empty(), grid.blocks.x * grid.block.x >= x.len();

        #[kernel(name = "_Z6volume")]
        safe fn volume(x: &[f64], w: i64, h: i64, d: i64) requires x.len() != w * h * d + 1,;

        /// Anything goes.
        pub unsafe fn scatter(at: &[u32], out: &mut [f32]);
    }

    unsafe mod empty from "" {}
}

/// Launches, and answers what the runtime was asked for.
fn launched(launch: impl FnOnce(&photo::Kernels, &Stream) -> Result<()>) -> Result<Vec<String>> {
    let device = Device::default();
    let kernels = photo::load(&device)?;
    launch(&kernels, &Stream)?;
    Ok(std::mem::take(&mut device.launches.lock().expect("not poisoned")))
}

fn requires(kernel: &'static str, clause: &'static str) -> Result<Vec<String>> {
    Err(Error { kernel, clause })
}

#[test]
fn arguments_arrive_in_their_order_with_the_declared_signature() {
    let (rgb, mut luma) = ([0_u8; 30], [0_u8; 10]);
    assert_eq!(
        launched(|kernels, stream| kernels.luminance(stream, Grid(1, 32), &rgb[..], &mut luma[..], 10)),
        Ok(vec![
            "<ptx> photo luminance(rgb: read, luma: write, n: 4/4) on 1x32: read 30, write 10, 10".to_owned()
        ])
    );
    let window = Window {
        left: 0.0,
        right: 1.0,
    };
    assert_eq!(
        launched(|kernels, stream| kernels.windowed(stream, Grid(2, 32), window, &mut [0.5; 64][..], 2.0)),
        Ok(vec![
            "<ptx> photo windowed(window: 16/16, x: write, scale: 4/4) on 2x32: \
             Window { left: 0.0, right: 1.0 }, write 64, 2.0"
                .to_owned()
        ])
    );
    assert_eq!(
        launched(|kernels, stream| kernels.volume(stream, Grid(1, 1), &[1.0][..], 2, 3, 4)),
        Ok(vec![
            "<ptx> photo _Z6volume(x: read, w: 8/8, h: 8/8, d: 8/8) on 1x1: read 1, 2, 3, 4".to_owned()
        ])
    );
    // SAFETY: nothing is executed here.
    let scatter = launched(|kernels, stream| unsafe {
        kernels.scatter(stream, Grid(1, 1), &[1_u32][..], &mut [0.0_f32][..])
    });
    assert_eq!(
        scatter,
        Ok(vec![
            "<ptx> photo scatter(at: read, out: write) on 1x1: read 1, write 1".to_owned()
        ])
    );
}

#[test]
fn the_first_clause_that_does_not_hold_is_the_error() {
    let luminance = |pixels: usize, luma: usize, n: i32| {
        launched(|kernels, stream| {
            kernels.luminance(
                stream,
                Grid(1, 1),
                &vec![0; 3 * pixels][..],
                &mut vec![0; luma][..],
                n,
            )
        })
    };
    assert!(luminance(4, 4, 4).is_ok());
    assert!(luminance(0, 0, 0).is_ok());
    assert_eq!(luminance(0, 0, -1), requires("photo::luminance", "n >= 0"));
    assert_eq!(
        luminance(3, 3, 4),
        requires("photo::luminance", "rgb.len() >= CHANNELS * n")
    );
    assert_eq!(
        luminance(4, 3, 4),
        requires("photo::luminance", "luma.len() >= n")
    );
    // `3 * n` would wrap around in 32 bits, to a small number.
    assert_eq!(
        luminance(4, 4, i32::MAX),
        requires("photo::luminance", "rgb.len() >= CHANNELS * n")
    );
}

#[test]
fn fields_floats_and_the_launch_can_be_asked_about() {
    let windowed = |right: f32, len: usize, scale: f32, blocks: u32| {
        let window = Window { left: 0.0, right };
        launched(|kernels, stream| {
            kernels.windowed(stream, Grid(blocks, 32), window, &mut vec![0.0; len][..], scale)
        })
        .map(|_| ())
        .map_err(|error| error.clause)
    };
    assert_eq!(windowed(1.0, 64, 1.0, 2), Ok(()));
    assert_eq!(windowed(0.0, 64, 1.0, 2), Err("window.left < window.right"));
    assert_eq!(windowed(1.0, 64, 0.0, 2), Err("scale != 0.0"));
    assert_eq!(windowed(1.0, 0, 1.0, 2), Err("!x.is_empty()"));
    assert_eq!(
        windowed(1.0, 65, 1.0, 2),
        Err("grid.blocks.x * grid.block.x >= x.len()")
    );
}

#[test]
fn arithmetic_that_overflows_fails_its_clause() {
    let volume = |edge: i64| {
        launched(|kernels, stream| kernels.volume(stream, Grid(1, 1), &[][..], edge, edge, edge)).map(|_| ())
    };
    assert_eq!(volume(1 << 40), Ok(()), "a product of 120 bits fits");
    assert_eq!(
        volume(1 << 43),
        Err(Error {
            kernel: "photo::volume",
            clause: "x.len() != w * h * d + 1"
        }),
        "one of 129 bits does not, and would compare unequal"
    );
}

#[test]
fn a_module_without_kernels_loads_too() {
    assert!(empty::load(&Device::default()).is_ok());
}
