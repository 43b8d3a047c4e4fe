//! Calls of the driver, `libcuda.so.1`, whose public functions are found by their names.

#![allow(unsafe_code, reason = "calls the driver's functions")]

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use libloading::Library;

use crate::{
    abi::Ptr,
    codes::{Answer, INSUFFICIENT_DRIVER, NEEDS_NEWER_DRIVER},
};

/// An argument of a driver function: a number, an address, or a structure of 8 bytes.
pub(crate) trait Word {
    fn word(self) -> usize;
}

macro_rules! words {
    ($($ty:ty)*) => {
        $(impl Word for $ty {
            fn word(self) -> usize {
                self as usize
            }
        })*
    };
}

words! { usize u32 i32 u64 u16 u8 }

impl<T> Word for &T {
    fn word(self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }
}

impl<T> Word for &mut T {
    fn word(self) -> usize {
        std::ptr::from_mut(self).expose_provenance()
    }
}

impl<T: Copy> Word for Ptr<T> {
    fn word(self) -> usize {
        self.address()
    }
}

/// A function of the driver, which is looked up at its first call.
pub(crate) struct DriverFunction {
    name: &'static str,
    address: AtomicUsize,
}

/// The address of a function that the driver lacks.
const ABSENT: usize = 1;

impl DriverFunction {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    fn address(&self) -> Answer<usize> {
        let known = self.address.load(Ordering::Relaxed);
        let address = if known == 0 {
            let library = library().ok_or(INSUFFICIENT_DRIVER)?;
            // SAFETY: the symbol is only used as an address.
            let symbol = unsafe { library.get::<*const ()>(self.name) };
            let address = symbol.map_or(ABSENT, |symbol| symbol.expose_provenance());
            self.address.store(address, Ordering::Relaxed);
            address
        } else {
            known
        };
        if address == ABSENT {
            return Err(NEEDS_NEWER_DRIVER);
        }
        Ok(address)
    }
}

/// Returns the driver, if there is one. It stays loaded.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: the constructors of a driver may run at any time.
    let load = || unsafe { Library::new("libcuda.so.1") }.ok();
    LIBRARY.get_or_init(load).as_ref()
}

macro_rules! call_with {
    ($address:ident, $arguments:ident, $([$($name:ident)*])*) => {
        match *$arguments {
            $([$($name),*] => {
                type Function = extern "C" fn($(call_with!(@ $name)),*) -> i32;
                // SAFETY: the driver's function takes so many words and returns a number.
                let function = unsafe { std::mem::transmute::<usize, Function>($address) };
                function($($name),*)
            })*
            _ => crate::codes::UNKNOWN,
        }
    };
    (@ $name:ident) => { usize };
}

/// Calls a function of the driver.
pub(crate) fn call(function: &DriverFunction, arguments: &[usize]) -> Answer {
    let address = function.address()?;
    let code = call_with!(address, arguments,
        [] [a] [a b] [a b c] [a b c d] [a b c d e] [a b c d e f] [a b c d e f g] [a b c d e f g h]
        [a b c d e f g h i] [a b c d e f g h i j] [a b c d e f g h i j k]);
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Calls the driver's function of a name.
macro_rules! cu {
    ($name:ident $(, $argument:expr)* $(,)?) => {{
        static FUNCTION: $crate::driver::DriverFunction =
            $crate::driver::DriverFunction::new(concat!(stringify!($name), "\0"));
        $crate::driver::call(&FUNCTION, &[$($crate::driver::Word::word($argument)),*])
    }};
}

pub(crate) use cu;
