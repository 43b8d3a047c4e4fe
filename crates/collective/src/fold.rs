//! Reduction kernels: fold the arrays of several ranks, in order, into one of them.

#![allow(unsafe_code, reason = "launches its own kernels")]

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;

use super::{Reduce, element::DataType};
use millstream::{
    DeviceOperand, LaunchConfig, Result, Stream,
    kernel::{Argument, Function, ModuleSource, Param, ParamKind, Signature, launch_at, load},
};

/// The number of arrays that one launch can fold.
pub(super) const FOLDED_MAX: usize = 8;

const BLOCK_THREADS: u32 = 256;
/// The number of bytes of each array that a thread handles at a time.
const THREAD_BYTES: usize = 32;
/// The number of blocks for each multiprocessor, at most.
const BLOCKS_PER_MULTIPROCESSOR: usize = 8;

/// The reduction kernels of one element type on one device.
pub(super) struct FoldKernels {
    element: DataType,
    functions: Arc<[Function]>,
}

#[derive(Clone)]
pub(super) enum Term<'a> {
    /// The array that also gets the result.
    Own,
    /// Another array, on a device whose memory the kernel can access.
    Array(DeviceOperand<'a>),
}

impl FoldKernels {
    /// Loads the kernels, unless they are loaded.
    #[track_caller]
    pub(super) fn load(stream: &Stream, element: DataType) -> Result<Self> {
        Ok(Self {
            element,
            functions: load(&stream.device(), source(element))?,
        })
    }

    /// Sets each element of `target` to the reduction of those of the terms, from the first to the
    /// last. There are two to [`FOLDED_MAX`] terms, all as long as `target`. An average divides by
    /// `divisor`.
    pub(super) fn fold(
        &self,
        stream: &Stream,
        target: &DeviceOperand<'_>,
        terms: &[Term<'_>],
        (reduce, divisor): (Reduce, usize),
        location: &'static Location<'static>,
    ) -> Result<()> {
        assert!(
            (2..=FOLDED_MAX).contains(&terms.len()),
            "{} terms",
            terms.len()
        );
        for term in terms {
            if let Term::Array(span) = term {
                assert_eq!(span.bytes(), target.bytes(), "terms differ in length");
            }
        }
        let len = target.bytes() / self.element.size();
        // A null pointer stands for the target.
        let (null, count, divisor, len) = (0_u64, terms.len() as u64, divisor as u64, len as u64);
        let mut arguments: SmallVec<[Argument<'_>; 12]> = SmallVec::new();
        arguments.push(target.to_write());
        arguments.extend((0..FOLDED_MAX).map(|index| match terms.get(index) {
            Some(Term::Array(span)) => span.to_read(),
            Some(Term::Own) | None => Argument::scalar(&null),
        }));
        arguments.extend([&count, &divisor, &len].map(Argument::scalar));
        let threads_per_block = BLOCK_THREADS as usize;
        let blocks_max = usize::try_from(stream.device().multiprocessors()).unwrap_or(1)
            * BLOCKS_PER_MULTIPROCESSOR;
        let blocks = target.bytes().div_ceil(threads_per_block * THREAD_BYTES);
        let blocks = u32::try_from(blocks.clamp(1, blocks_max.max(1))).unwrap_or(u32::MAX);
        let config = LaunchConfig::new([blocks, 1, 1], [BLOCK_THREADS, 1, 1]);
        let function = &self.functions[index_of(reduce)];
        // SAFETY: the arguments are those of the entries in kernels/fold.h: the target, the arrays
        // or null, and three numbers. The kernel accesses `len` elements of the target and of the
        // first `count` arrays, which have that length, and writes the target alone.
        unsafe { launch_at(function, stream, config, &arguments, location) }
    }
}

/// Returns the index of a reduction's kernel in its module.
fn index_of(reduce: Reduce) -> usize {
    match reduce {
        Reduce::Sum => 0,
        Reduce::Prod => 1,
        Reduce::Min => 2,
        Reduce::Max => 3,
        Reduce::Avg => 4,
    }
}

const fn array(name: &'static str, writable: bool) -> Param {
    Param {
        name,
        kind: ParamKind::Slice { writable },
    }
}

const fn number(name: &'static str) -> Param {
    Param {
        name,
        kind: ParamKind::Scalar { size: 8, align: 8 },
    }
}

static PARAMS: [Param; 12] = [
    array("acc", true),
    array("x0", false),
    array("x1", false),
    array("x2", false),
    array("x3", false),
    array("x4", false),
    array("x5", false),
    array("x6", false),
    array("x7", false),
    number("count"),
    number("divisor"),
    number("n"),
];

/// The kernels of an element type: integers have no average.
macro_rules! signatures {
    (integer $element:literal) => {
        signatures!($element: "sum", "prod", "min", "max")
    };
    ($float:ident $element:literal) => {
        signatures!($element: "sum", "prod", "min", "max", "avg")
    };
    ($element:literal: $($reduction:literal),*) => {
        &[$(Signature {
            name: concat!("fold_", $element, "_", $reduction),
            params: &PARAMS,
        }),*]
    };
}

macro_rules! modules {
    ($(
        $type:ty: $name:ident = $number:literal, $element:literal, $kind:ident, $doc:literal;
    )*) => {
        fn source(element: DataType) -> &'static ModuleSource {
            match element {
                $(DataType::$name => {
                    static SOURCE: ModuleSource = ModuleSource {
                        module: concat!("fold_", $element),
                        origin: concat!("collective/src/kernels/", $element, ".ptx"),
                        declared: concat!(file!(), ":", line!()),
                        ptx: include_str!(concat!("kernels/", $element, ".ptx")),
                        cuda: None,
                        kernels: signatures!($kind $element),
                        variables: &[],
                    };
                    &SOURCE
                })*
            }
        }
    };
}

crate::elements!(modules);
