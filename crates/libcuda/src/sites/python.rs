//! Lines of Python, by the public interface of the interpreter that the process contains.
//!
//! A thread that runs Python has a thread state. It released the interpreter lock before it called
//! this library, or holds it still; the lock is taken for the walk in both cases.

#![allow(unsafe_code, reason = "calls functions of the Python interpreter")]
#![allow(non_snake_case, reason = "the names of Python's functions")]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::OnceLock,
};

use super::{FRAMES_MAX, Frame};

/// A Python object.
type Object = *mut c_void;

macro_rules! interpreter {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the interpreter.
        struct Interpreter {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            is_finalizing: Option<unsafe extern "C" fn() -> c_int>,
        }

        impl Interpreter {
            /// Looks the functions up; `None` if the process has no Python of version 3.10 or
            /// newer.
            fn find() -> Option<Self> {
                $(let $name = symbol(concat!(stringify!($name), "\0"))?;)*
                let is_finalizing =
                    symbol("Py_IsFinalizing\0").or_else(|| symbol("_Py_IsFinalizing\0"));
                Some(Self {
                    $(
                        // SAFETY: the function has this signature in every version of Python that
                        // exports it.
                        $name: unsafe {
                            std::mem::transmute::<
                                usize,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >($name)
                        },
                    )*
                    is_finalizing: is_finalizing.map(|address| {
                        // SAFETY: as above.
                        unsafe {
                            std::mem::transmute::<usize, unsafe extern "C" fn() -> c_int>(address)
                        }
                    }),
                })
            }
        }
    };
}

interpreter! {
    Py_IsInitialized: fn() -> c_int;
    PyGILState_GetThisThreadState: fn() -> *mut c_void;
    PyGILState_Ensure: fn() -> c_int;
    PyGILState_Release: fn(c_int);
    PyEval_GetFrame: fn() -> Object;
    PyFrame_GetBack: fn(Object) -> Object;
    PyFrame_GetCode: fn(Object) -> Object;
    PyFrame_GetLineNumber: fn(Object) -> c_int;
    PyObject_GetAttrString: fn(Object, *const c_char) -> Object;
    PyUnicode_AsUTF8AndSize: fn(Object, *mut isize) -> *const c_char;
    PyErr_Clear: fn();
    Py_IncRef: fn(Object);
    Py_DecRef: fn(Object);
}

/// Returns the address of a symbol, whose name ends with a zero byte, in the libraries of the
/// process.
#[cfg(unix)]
fn symbol(name: &'static str) -> Option<usize> {
    // SAFETY: the name ends with a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
    (!address.is_null()).then(|| address.expose_provenance())
}

/// The library takes the place of the driver on Linux only.
#[cfg(not(unix))]
fn symbol(_name: &'static str) -> Option<usize> {
    None
}

fn interpreter() -> Option<&'static Interpreter> {
    static INTERPRETER: OnceLock<Option<Interpreter>> = OnceLock::new();
    INTERPRETER.get_or_init(Interpreter::find).as_ref()
}

/// The lines of the calling thread. The interpreter lock is held until it is dropped.
pub(super) struct Trace {
    python: &'static Interpreter,
    lock: c_int,
    /// A zero, which no native trace starts with, and the code object and the line of each frame.
    key: [usize; 1 + 2 * FRAMES_MAX],
    length: usize,
}

impl Trace {
    /// Takes the trace of the calling thread; `None` if it runs no Python.
    pub(super) fn take() -> Option<Self> {
        let python = interpreter()?;
        // SAFETY: the function may be called at any time and from any thread.
        let initialised = unsafe { (python.Py_IsInitialized)() } != 0;
        let finalising = python.is_finalizing.is_some_and(|is_finalizing| {
            // SAFETY: as above.
            (unsafe { is_finalizing() }) != 0
        });
        // While the interpreter ends, a thread that asks for the lock may never return.
        if !initialised || finalising {
            return None;
        }
        // SAFETY: the interpreter is initialised.
        if unsafe { (python.PyGILState_GetThisThreadState)() }.is_null() {
            return None;
        }
        // SAFETY: the thread has a state, so that this only takes the lock.
        let lock = unsafe { (python.PyGILState_Ensure)() };
        let mut trace = Self {
            python,
            lock,
            key: [0; 1 + 2 * FRAMES_MAX],
            length: 1,
        };
        trace.walk();
        (trace.length > 1).then_some(trace)
    }

    /// Fills the key with the frames, innermost first.
    fn walk(&mut self) {
        let python = self.python;
        // SAFETY: the lock is held. The frame is borrowed from the thread, which keeps it.
        let mut frame = unsafe { (python.PyEval_GetFrame)() };
        let innermost = frame;
        while !frame.is_null() && self.length + 2 <= self.key.len() {
            // SAFETY: the lock is held, and the frame is alive.
            let code = unsafe { (python.PyFrame_GetCode)(frame) };
            // SAFETY: as above.
            let line = unsafe { (python.PyFrame_GetLineNumber)(frame) };
            // SAFETY: as above.
            let back = unsafe { (python.PyFrame_GetBack)(frame) };
            self.key[self.length] = code.expose_provenance();
            self.key[self.length + 1] = line.max(0) as usize;
            self.length += 2;
            self.release(code);
            if frame != innermost {
                self.release(frame);
            }
            frame = back;
        }
        if frame != innermost {
            self.release(frame);
        }
    }

    /// Gives up a reference to an object, if it is one.
    fn release(&self, object: Object) {
        if !object.is_null() {
            // SAFETY: the lock is held, and the reference was this library's.
            unsafe { (self.python.Py_DecRef)(object) };
        }
    }

    pub(super) fn key(&self) -> &[usize] {
        &self.key[..self.length]
    }

    /// Returns the frames in words. Their code objects stay alive from now on, so that no other
    /// trace has the same key.
    pub(super) fn frames(&self) -> Vec<Frame> {
        let pairs = self.key[1..self.length].chunks_exact(2);
        let frame = |pair: &[usize]| {
            let code: Object = std::ptr::with_exposed_provenance_mut(pair[0]);
            // SAFETY: the lock is held, and a frame of the calling thread keeps the code alive.
            unsafe { (self.python.Py_IncRef)(code) };
            let file = self.text(code, c"co_filename");
            let name = self.text(code, c"co_qualname");
            let name = name.or_else(|| self.text(code, c"co_name"));
            Frame {
                function: name.unwrap_or_else(|| "?".into()),
                own: file.as_deref().is_some_and(is_own),
                file,
                line: pair[1] as u32,
            }
        };
        pairs.map(frame).collect()
    }

    fn text(&self, object: Object, name: &CStr) -> Option<String> {
        // SAFETY: the lock is held, and the object is alive.
        let value = unsafe { (self.python.PyObject_GetAttrString)(object, name.as_ptr()) };
        if value.is_null() {
            // SAFETY: the lock is held; the error is that of the missing attribute.
            unsafe { (self.python.PyErr_Clear)() };
            return None;
        }
        let mut bytes = 0;
        // SAFETY: the lock is held; the attributes that are asked for are text.
        let start = unsafe { (self.python.PyUnicode_AsUTF8AndSize)(value, &raw mut bytes) };
        let text = (!start.is_null()).then(|| {
            // SAFETY: the text has so many bytes and lives as long as its object.
            let bytes = unsafe { std::slice::from_raw_parts(start.cast(), bytes as usize) };
            String::from_utf8_lossy(bytes).into_owned()
        });
        self.release(value);
        text
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // SAFETY: the lock was taken by this thread, which held it since.
        unsafe { (self.python.PyGILState_Release)(self.lock) };
    }
}

/// Returns whether a file is the program's, not a package's or the interpreter's.
fn is_own(file: &str) -> bool {
    let library = ["/site-packages/", "/dist-packages/", "/lib/python3."];
    !file.starts_with('<') && !library.iter().any(|folder| file.contains(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_packages_and_of_the_interpreter_are_not_the_program_s() {
        assert!(is_own("/home/me/app.py"));
        assert!(!is_own("/venv/lib/python3.11/site-packages/numba/core.py"));
        assert!(!is_own("/usr/lib/python3.11/runpy.py"));
        assert!(!is_own("<frozen importlib._bootstrap>"));
    }
}
