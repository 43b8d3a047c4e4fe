//! Comparison of this crate's declarations of libcuda with published bindings: the parameters of
//! every function, the fields of every structure, and every constant.

#![allow(non_snake_case, reason = "CUDA's own names")]

mod numbers;

use std::{any::type_name, mem::offset_of};

use cudarc::driver::sys;
use millstream_driver::{
    ResultCode,
    cuda::api::{self, types},
};

/// The ABI of a parameter or a result.
#[derive(Debug, PartialEq, Eq)]
struct AbiType {
    size: usize,
    align: usize,
    /// For a pointer, whether its target may be written, and the target's size if this test knows
    /// it.
    pointer: Option<(bool, Option<usize>)>,
}

impl AbiType {
    fn of<T>() -> Self {
        Self {
            size: size_of::<T>(),
            align: align_of::<T>(),
            pointer: pointee(type_name::<T>()),
        }
    }
}

/// Returns the names of the structures, ours and the published ones, with their sizes.
fn structures() -> Vec<(&'static str, usize)> {
    macro_rules! sizes {
        ($($(#[$attribute:meta])* $name:ident = $published:ident { $($fields:tt)* })*) => {
            vec![$(
                (stringify!($name), size_of::<api::$name>()),
                (stringify!($published), size_of::<sys::$published>()),
            )*]
        };
    }
    let mut structures = millstream_driver::cuda_structures!(sizes);
    structures.push(("CUDA_MEMCPY3D_st", size_of::<sys::CUDA_MEMCPY3D_st>()));
    structures
}

/// Parses a pointer's target from the name of the type, because Rust has no other way to inspect a
/// generic type.
fn pointee(name: &str) -> Option<(bool, Option<usize>)> {
    let (writable, target) = match (name.strip_prefix("*mut "), name.strip_prefix("*const ")) {
        (Some(target), _) => (true, target),
        (_, Some(target)) => (false, target),
        _ => return None,
    };
    let structures = structures();
    let name = target.rsplit("::").next().expect("a split has a part");
    let structure = structures.iter().find(|(known, _)| *known == name);
    let unused = ["CUgraphEdgeData_st", "CUDA_RESOURCE_VIEW_DESC_st"];
    let is_struct = structure.is_some() || unused.contains(&name);
    if target.ends_with("_st") && !target.starts_with('*') && !is_struct {
        // A handle: the bindings declare it as a pointer to an opaque type, this crate as a number.
        return None;
    }
    let size = match name {
        _ if structure.is_some() => structure.map(|&(_, size)| size),
        "c_void" if !target.starts_with('*') => None,
        // This crate passes the union of launch attributes without a type.
        "CUlaunchAttributeValue_union" => None,
        _ if unused.contains(&name) => None,
        "i8" | "u8" => Some(1),
        "i32" | "u32" | "f32" => Some(4),
        _ if target.starts_with('*') => Some(8),
        "u64" | "usize" | "ContextHandle" | "StreamHandle" | "EventHandle" | "ModuleHandle"
        | "FunctionHandle" | "PoolHandle" | "DevicePtr" | "GraphHandle" | "GraphNodeHandle"
        | "GraphExecHandle" | "ConditionHandle" | "ArrayHandle" | "TextureHandle"
        | "SurfaceHandle" => Some(8),
        enumeration if enumeration.starts_with("CU") && enumeration.contains("_enum") => Some(4),
        other => panic!("`{other}` is a new target of a pointer; say its size here"),
    };
    Some((writable, size))
}

/// A function type whose result and parameters can be listed, in that order.
trait AbiSignature {
    fn abi_types() -> Vec<AbiType>;
}

macro_rules! signatures {
    ($($parameter:ident)*) => {
        impl<R, $($parameter),*> AbiSignature for unsafe extern "C" fn($($parameter),*) -> R {
            fn abi_types() -> Vec<AbiType> {
                vec![AbiType::of::<R>(), $(AbiType::of::<$parameter>()),*]
            }
        }
        // The bindings wrap each function in one with the same parameters that loads the library
        // first.
        impl<R, $($parameter),*> AbiSignature for unsafe fn($($parameter),*) -> R {
            fn abi_types() -> Vec<AbiType> {
                vec![AbiType::of::<R>(), $(AbiType::of::<$parameter>()),*]
            }
        }
    };
}
signatures!();
signatures!(A);
signatures!(A B);
signatures!(A B C);
signatures!(A B C D);
signatures!(A B C D E);
signatures!(A B C D E F);
signatures!(A B C D E F G H I);
signatures!(A B C D E F G H I J);
signatures!(A B C D E F G H I J K);

fn abi_types_of<F: AbiSignature>(_: F) -> Vec<AbiType> {
    F::abi_types()
}

/// The published function of a row: that of the name, unless another symbol follows.
macro_rules! published {
    ($name:ident) => {
        sys::$name
    };
    ($name:ident $symbol:ident) => {
        sys::$symbol
    };
}

/// Stands for the type of a parameter.
macro_rules! any {
    ($parameter:ident) => {
        _
    };
}

/// Compares each function with the published one.
macro_rules! compare {
    ($($kind:ident {
        $($name:ident $([$symbol:ident])? ($($parameter:ident: $type:ty),*);)*
    })*) => {
        $($(assert_eq!(
            <types::$name as AbiSignature>::abi_types(),
            abi_types_of(published!($name $($symbol)?) as unsafe fn($(any!($parameter)),*) -> _),
            concat!(stringify!($name), ": ours left, published right"),
        );)*)*
    };
}

#[test]
fn every_function_has_the_published_parameters() {
    millstream_driver::cuda_functions!(compare);
    assert_eq!(
        <api::DriverGetVersion as AbiSignature>::abi_types(),
        abi_types_of(sys::cuDriverGetVersion as unsafe fn(_) -> _)
    );
    assert_eq!(
        <api::GetProcAddress as AbiSignature>::abi_types(),
        abi_types_of(sys::cuGetProcAddress_v2 as unsafe fn(_, _, _, _, _) -> _)
    );
    // A callback's own parameters are behind a pointer, so the comparison above does not include
    // them.
    let _: fn(Option<unsafe extern "C" fn(*mut std::ffi::c_void)>) -> sys::CUhostFn =
        |callback| callback;
}

#[test]
fn a_wrong_declaration_is_detected() {
    type Swapped = unsafe extern "C" fn(*mut u64, i32) -> ResultCode;
    type Right = unsafe extern "C" fn(*mut i32, i32) -> ResultCode;
    let published = || abi_types_of(sys::cuDeviceGet as unsafe fn(_, _) -> _);
    assert_eq!(Right::abi_types(), published());
    assert_ne!(
        Swapped::abi_types(),
        published(),
        "a result of another size"
    );
    assert_ne!(
        types::cuInit::abi_types(),
        published(),
        "another number of parameters"
    );
    assert_ne!(
        <unsafe extern "C" fn(*const i32, i32) -> ResultCode>::abi_types(),
        published(),
        "a result that cannot be written"
    );
}

#[test]
fn structures_have_the_published_fields() {
    macro_rules! compare {
        ($($(#[$attribute:meta])* $name:ident = $published:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty $(= $theirs:ident)?;)*
        })*) => {$(
            $($(assert_eq!(
                offset_of!(api::$name, $field),
                offset_of!(sys::$published, $theirs),
                concat!(stringify!($name), "::", stringify!($field))
            );)?)*
            assert_eq!(size_of::<api::$name>(), size_of::<sys::$published>());
        )*};
    }
    millstream_driver::cuda_structures!(compare);
    // The parameters of a copy within a context are those of one between two, but for two names.
    macro_rules! alike {
        ($($ours:ident $theirs:ident)*) => {$(
            let theirs = offset_of!(sys::CUDA_MEMCPY3D_st, $theirs);
            assert_eq!(offset_of!(api::Memcpy3d, $ours), theirs);
        )*};
    }
    alike!(source_context reserved0 target_host dstHost target_context reserved1 depth Depth);
    assert_eq!(
        size_of::<api::Memcpy3d>(),
        size_of::<sys::CUDA_MEMCPY3D_st>()
    );
}
