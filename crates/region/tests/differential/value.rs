//! Arrays of any element type, on the host and on the device, and their transfers.

use std::{
    fmt,
    task::{Context, Poll, ready},
};

use millstream_region::{DeviceValue, Element, Output, OutputNode, PendingValue, Result};
use ndarray::Dimension;

use crate::differential::prelude::*;

/// The element types of most programs.
pub(crate) const KINDS: &[Kind] = &[
    Kind::F32,
    Kind::F64,
    Kind::I32,
    Kind::I64,
    Kind::U8,
    Kind::Bool,
];

/// The element types of the other programs: fewer at a time, so that arrays of one type meet.
pub(crate) const OTHER_KINDS: &[&[Kind]] = &[
    &[Kind::F16, Kind::Bf16, Kind::F32, Kind::F64, Kind::Bool],
    &[Kind::F16, Kind::I64, Kind::I8, Kind::U32, Kind::Bool],
    &[Kind::Bf16, Kind::U64, Kind::I16, Kind::U16, Kind::Bool],
];

impl Kind {
    pub(crate) fn is_float(self) -> bool {
        self.is_half() || matches!(self, Kind::F32 | Kind::F64)
    }

    /// Returns whether the elements are floats of 16 bits.
    pub(crate) fn is_half(self) -> bool {
        matches!(self, Kind::F16 | Kind::Bf16)
    }

    pub(crate) fn is_number(self) -> bool {
        self != Kind::Bool
    }

    /// Returns whether the type has bitwise functions.
    pub(crate) fn has_bits(self) -> bool {
        !self.is_float()
    }
}

/// Calls a macro with the names of some types in brackets, then the other tokens.
macro_rules! each_kind {
    (floats [$call:ident] $($rest:tt)*) => { $call!([F16 Bf16 F32 F64] $($rest)*) };
    (integers [$call:ident] $($rest:tt)*) => {
        $call!([I8 I16 I32 I64 U8 U16 U32 U64] $($rest)*)
    };
    (bits [$call:ident] $($rest:tt)*) => {
        $call!([I8 I16 I32 I64 U8 U16 U32 U64 Bool] $($rest)*)
    };
    (numbers [$call:ident] $($rest:tt)*) => {
        $call!([F16 Bf16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64] $($rest)*)
    };
    (all [$call:ident] $($rest:tt)*) => {
        $call!([F16 Bf16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool] $($rest)*)
    };
}

/// Calls a macro with each type and its name.
macro_rules! each_type {
    ([$call:ident]) => {
        $call! {
            F16 half::f16, Bf16 half::bf16, F32 f32, F64 f64, I8 i8, I16 i16, I32 i32, I64 i64,
            U8 u8, U16 u16, U32 u32, U64 u64, Bool bool
        }
    };
}

/// Matches an array of one of the types, and wraps the result in the same type.
macro_rules! one {
    ([$($kind:ident)*] $of:ident, $value:expr, $x:ident => $body:expr) => {
        match $value {
            $($of::$kind($x) => $of::$kind($body),)*
            #[allow(unreachable_patterns, reason = "with all types there is no other")]
            other => unreachable!("{:?}", other.kind()),
        }
    };
    ($of:ident, $value:expr, $types:ident, $x:ident => $body:expr) => {
        each_kind!($types [one] $of, $value, $x => $body)
    };
}

/// Matches an array of one of the types.
macro_rules! any {
    ([$($kind:ident)*] $of:ident, $value:expr, $x:ident => $body:expr) => {
        match $value {
            $($of::$kind($x) => $body,)*
            #[allow(unreachable_patterns, reason = "with all types there is no other")]
            other => unreachable!("{:?}", other.kind()),
        }
    };
    ($of:ident, $value:expr, $types:ident, $x:ident => $body:expr) => {
        each_kind!($types [any] $of, $value, $x => $body)
    };
}

/// Matches two arrays of one type, and wraps the result in the same type.
macro_rules! two {
    ([$($kind:ident)*] $of:ident, $a:expr, $b:expr, $x:ident, $y:ident => $body:expr) => {
        match ($a, $b) {
            $(($of::$kind($x), $of::$kind($y)) => $of::$kind($body),)*
            (a, b) => unreachable!("{:?} and {:?}", a.kind(), b.kind()),
        }
    };
    ($of:ident, $a:expr, $b:expr, $types:ident, $x:ident, $y:ident => $body:expr) => {
        each_kind!($types [two] $of, $a, $b, $x, $y => $body)
    };
}

pub(crate) use {any, each_kind, each_type, one, two};

/// Defines enums with an array of each type: on the host, on the device and pending.
macro_rules! values {
    ($($kind:ident $type:ty),*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        /// A host array.
        #[derive(Clone)]
        pub(crate) enum Host {
            $($kind(ArrayD<$type>),)*
        }

        /// A device array.
        #[derive(Clone, Debug)]
        pub(crate) enum Dev {
            $($kind(Array<$type, IxDyn>),)*
        }

        /// A pending download of an array.
        pub(crate) enum PendingHost {
            $($kind(<ArrayD<$type> as Output>::Pending),)*
        }

        impl Dev {
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(Dev::$kind(_) => Kind::$kind,)*
                }
            }
        }

        impl Host {
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(Host::$kind(_) => Kind::$kind,)*
                }
            }

            pub(crate) fn shape(&self) -> &[usize] {
                match self {
                    $(Host::$kind(array) => array.shape(),)*
                }
            }

            /// Uploads the array.
            pub(crate) fn on_device(&self, g: &Region) -> Dev {
                match self {
                    $(Host::$kind(array) => Dev::$kind(g.array(array)),)*
                }
            }

            /// Describes the first element in which two arrays differ.
            pub(crate) fn difference(&self, other: &Self) -> Option<String> {
                match (self, other) {
                    $((Host::$kind(a), Host::$kind(b)) => difference(a, b),)*
                    _ => Some(format!("{:?} is no {:?}", other.kind(), self.kind())),
                }
            }
        }

        impl fmt::Debug for Host {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Host::$kind(array) => {
                        let elements: Vec<_> = array.iter().take(40).collect();
                        write!(f, "{:?}{:?} {elements:?}", self.kind(), array.shape())
                    })*
                }
            }
        }

        impl Output for Host {
            type Body = Dev;
            type Value = Self;
            type Pending = PendingHost;

            fn visit_nodes(body: &Dev, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                match body {
                    $(Dev::$kind(array) => <ArrayD<$type> as Output>::visit_nodes(array, visit),)*
                }
            }

            fn begin_transfer(body: Dev, region: &Region) -> Result<PendingHost> {
                match body {
                    $(Dev::$kind(array) => {
                        let pending = <ArrayD<$type> as Output>::begin_transfer(array, region);
                        pending.map(PendingHost::$kind)
                    })*
                }
            }
        }

        impl PendingValue for PendingHost {
            type Value = Host;

            fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
                match self {
                    $(PendingHost::$kind(pending) => pending.poll(context),)*
                }
            }

            fn wait(&mut self) -> Result<()> {
                match self {
                    $(PendingHost::$kind(pending) => pending.wait(),)*
                }
            }

            fn take(self) -> Host {
                match self {
                    $(PendingHost::$kind(pending) => Host::$kind(pending.take()),)*
                }
            }
        }
    };
}

each_type!([values]);

impl DeviceValue for Dev {
    type Host = Host;
}

/// The results of a program on the device.
pub(crate) struct Given(pub(crate) Vec<Dev>);

/// The downloaded results of a program.
pub(crate) struct Back(pub(crate) Vec<Host>);

impl DeviceValue for Given {
    type Host = Back;
}

impl Output for Back {
    type Body = Given;
    type Value = Self;
    type Pending = PendingHosts;

    fn visit_nodes(body: &Given, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        body.0
            .iter()
            .try_for_each(|array| Host::visit_nodes(array, visit))
    }

    fn begin_transfer(body: Given, region: &Region) -> Result<PendingHosts> {
        let pending: Result<_> = body
            .0
            .into_iter()
            .map(|array| Host::begin_transfer(array, region))
            .collect();
        pending.map(PendingHosts)
    }
}

/// The pending downloads of several arrays.
pub(crate) struct PendingHosts(Vec<PendingHost>);

impl PendingValue for PendingHosts {
    type Value = Back;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        for pending in &mut self.0 {
            ready!(pending.poll(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn wait(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(PendingHost::wait)
    }

    fn take(self) -> Back {
        Back(self.0.into_iter().map(PendingHost::take).collect())
    }
}

/// An element compared by its bits, with all NaNs equal.
pub(crate) trait Exact: Element {
    fn bits(self) -> u64;
}

macro_rules! exact {
    ($($type:ty: |$value:ident| $bits:expr;)*) => {$(
        impl Exact for $type {
            fn bits(self) -> u64 {
                let $value = self;
                $bits
            }
        }
    )*};
}

exact! {
    f16: |value| if value.is_nan() { u64::MAX } else { value.to_bits().into() };
    bf16: |value| if value.is_nan() { u64::MAX } else { value.to_bits().into() };
    i8: |value| u64::from(value as u8);
    i16: |value| u64::from(value as u16);
    u16: |value| value.into();
    u32: |value| value.into();
    u64: |value| value;
    f32: |value| if value.is_nan() { u64::MAX } else { value.to_bits().into() };
    f64: |value| if value.is_nan() { u64::MAX } else { value.to_bits() };
    i32: |value| u64::from(value as u32);
    i64: |value| value as u64;
    u8: |value| value.into();
    bool: |value| value.into();
}

fn difference<T: Exact>(expected: &ArrayD<T>, found: &ArrayD<T>) -> Option<String> {
    if expected.shape() != found.shape() {
        return Some(format!(
            "shape {:?} is not {:?}",
            found.shape(),
            expected.shape()
        ));
    }
    let mut pairs = expected.indexed_iter().zip(found);
    let ((index, expected), found) = pairs.find(|((_, a), b)| a.bits() != b.bits())?;
    Some(format!(
        "at {:?}: {found:?} is not {expected:?}",
        index.slice()
    ))
}
