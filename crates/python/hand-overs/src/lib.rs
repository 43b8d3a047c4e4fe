//! Random hand-overs between cudarc and Millstream, in which a framework of Python takes part: a
//! module for the tests of three libraries in one process.

#[path = "../../../cli/tests/hand_overs/interposed.rs"]
mod interposed;
#[path = "../../../cli/tests/hand_overs/play.rs"]
mod play;

use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaEvent;
use millstream::Buffer;
use millstream_python::{Array, import, import_to_read, open, python_error};
use pyo3::{
    exceptions::{PyIndexError, PyRuntimeError},
    prelude::*,
};

use play::{ARRAYS, Gate, N, Outcome};

/// Arrays that go back and forth between streams of cudarc, of Millstream and of a framework.
#[pyclass(frozen)]
struct Play(Mutex<play::Play>);

impl Play {
    /// Returns the arrays. No code of Python runs while they are locked.
    fn lock(&self) -> MutexGuard<'_, play::Play> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exchanges an array for another, all of whose elements have this value. Returns the array and the
/// value of its elements.
fn exchange(
    play: &mut play::Play,
    at: usize,
    new: Buffer<f32>,
    value: f32,
) -> PyResult<(Buffer<f32>, f32)> {
    let array = play.arrays.get_mut(at).ok_or_else(no_array)?;
    play.hand_overs += 1;
    let old = std::mem::replace(array, new);
    Ok((old, std::mem::replace(&mut play.expected[at], value)))
}

fn no_array() -> PyErr {
    PyIndexError::new_err(format!("there are {ARRAYS} arrays"))
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Play {
    /// The number of elements of each array.
    #[classattr]
    const N: usize = N;

    #[classattr]
    const ARRAYS: usize = ARRAYS;

    #[new]
    fn new(seed: u64) -> PyResult<Self> {
        play::Play::new(seed)
            .map(|play| Self(Mutex::new(play)))
            .map_err(failed)
    }

    /// The number of times that memory or its use passed from one library to another.
    #[getter]
    fn hand_overs(&self) -> usize {
        self.lock().hand_overs
    }

    /// Makes a random step of cudarc and Millstream.
    fn step(&self, py: Python<'_>, value: f32) -> PyResult<()> {
        let step = || -> Result<(), String> {
            let stepped: Outcome = self.lock().step(value);
            stepped.map_err(|error| error.to_string())
        };
        py.detach(step).map_err(failed)
    }

    /// Gives an array away to a framework, with the value of its elements. Zeros take its place.
    fn give(&self, py: Python<'_>, at: usize) -> PyResult<(Array, f32)> {
        py.detach(|| {
            let mut play = self.lock();
            let zeros = play.ours[at % play.ours.len()].zeros(N);
            let (given, value) = exchange(&mut play, at, zeros.map_err(python_error)?, 0.0)?;
            let given = Array::new(&play.setup.device, given, vec![N as i64]);
            Ok((given, value))
        })
    }

    /// Takes an array of a framework, whose elements will all have this value, in the place of
    /// another.
    fn take(
        &self,
        py: Python<'_>,
        at: usize,
        tensor: &Bound<'_, PyAny>,
        value: f32,
    ) -> PyResult<()> {
        let stream = {
            let play = self.lock();
            play.ours[at % play.ours.len()].clone()
        };
        let (taken, _) = import::<f32>(tensor, &stream)?;
        py.detach(|| {
            let replaced = exchange(&mut self.lock(), at, taken, value);
            replaced.map(drop)
        })
    }

    /// Waits for all arrays, and compares their elements with those expected.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let check = || self.lock().check().map_err(|error| error.to_string());
        py.detach(check).map_err(failed)
    }

    /// Blocks a stream of cudarc.
    fn close(&self, stream: usize) -> PyResult<Closed> {
        let play = self.lock();
        let stream = play.theirs[stream % play.theirs.len()].cudarc();
        let gate = Gate::close(stream).map_err(failed)?;
        let behind = stream.record_event(None).map_err(failed)?;
        Ok(Closed(Mutex::new(Some((gate, behind)))))
    }
}

/// A stream of cudarc that is blocked until it is opened.
#[pyclass(frozen)]
struct Closed(Mutex<Option<(Gate, CudaEvent)>>);

#[pymethods]
impl Closed {
    /// Lets the stream run. Returns whether it was blocked until now.
    fn open(&self) -> PyResult<bool> {
        let mut closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((gate, behind)) = closed.take() else {
            return Ok(false);
        };
        let was_closed = !behind.try_is_complete().map_err(failed)?;
        drop(gate);
        Ok(was_closed)
    }
}

/// Records a graph that writes `target`, and swaps that array for `read_only`, which is only read.
/// Returns the text of the error.
#[pyfunction]
fn refused_swap(
    target: &Bound<'_, PyAny>,
    read_only: &Bound<'_, PyAny>,
) -> PyResult<Option<String>> {
    let device = open(target)?;
    let stream = device.stream().map_err(python_error)?;
    let (mut target, _) = import::<f32>(target, &stream)?;
    let (read_only, _) = import_to_read::<f32>(read_only, &stream)?;
    let recorded = device.record("fill", |r| r.stream()?.fill(&mut target, 0.0));
    let swapped = recorded.map_err(python_error)?.swap(&target, &*read_only);
    Ok(swapped.err().map(|error| error.to_string()))
}

/// Returns the number of calls with which this process has waited for the device on the host, or
/// `None` if they are not counted.
#[pyfunction]
fn waits() -> Option<u64> {
    interposed::waits()
}

/// The module.
#[pymodule]
fn millstream_hand_overs(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Play>()?;
    module.add_class::<Closed>()?;
    module.add_class::<Array>()?;
    module.add_function(wrap_pyfunction!(refused_swap, module)?)?;
    module.add_function(wrap_pyfunction!(waits, module)?)
}
