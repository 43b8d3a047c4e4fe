//! A call of an exported function: the thread's device, its context, and its last error.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    abi::{Function, Ptr, Stream},
    codes::{Answer, INSUFFICIENT_DRIVER, INVALID_DEVICE, UNKNOWN, refuse_if},
    driver::{Word, cu},
    registry, version,
};

/// `cudaStreamPerThread`
const PER_THREAD: usize = 2;

/// A call in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// True if a null stream means the calling thread's default stream.
    pub(crate) per_thread: bool,
}

/// The needs of a function before its body runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Need {
    Nothing,
    /// The driver is initialised.
    Device,
    /// The thread has a current context.
    Context,
}

thread_local! {
    static DEVICE: Cell<i32> = const { Cell::new(0) };
    static LAST_ERROR: Cell<i32> = const { Cell::new(0) };
    /// The context that this library made current, and the number of resets before.
    static MADE_CURRENT: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// The number of calls that have reset a device.
static RESETS: AtomicU64 = AtomicU64::new(0);

/// The primary contexts that this library keeps alive, by device.
static PRIMARIES: Mutex<Vec<Option<usize>>> = Mutex::new(Vec::new());

/// Runs the body of an exported function and returns its result as a number, which is the thread's
/// last error if it is one. A panic becomes `cudaErrorUnknown`, because it must not reach the C
/// caller.
pub(crate) fn run(per_thread: bool, need: Need, body: impl FnOnce(&Call) -> Answer) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        match need {
            Need::Nothing => {}
            Need::Device => initialise()?,
            Need::Context => enter()?,
        }
        body(&Call { per_thread })
    }));
    let code = outcome.unwrap_or(Err(UNKNOWN)).err().unwrap_or(0);
    if code != 0 {
        note_error(code);
    }
    code
}

/// Makes a result the thread's last error.
pub(crate) fn note_error(code: i32) {
    LAST_ERROR.set(code);
}

/// Returns the thread's last error, and forgets it if `forget` is true. After an error that ended
/// the context, each call that needs the context fails with it again.
pub(crate) fn last_error(forget: bool) -> i32 {
    let code = LAST_ERROR.get();
    if forget {
        LAST_ERROR.set(0);
    }
    code
}

/// Initialises the driver at the first call. Fails with `cudaErrorInsufficientDriver` if there is
/// none, or if it is older than this version of the runtime.
pub(crate) fn initialise() -> Answer {
    static DONE: OnceLock<Answer> = OnceLock::new();
    *DONE.get_or_init(|| {
        cu!(cuInit, 0)?;
        refuse_if(
            driver_version() / 1000 < version::major(),
            INSUFFICIENT_DRIVER,
        )
    })
}

/// Returns the CUDA version of the driver, 0 without one.
pub(crate) fn driver_version() -> u32 {
    let mut version = 0_u32;
    let found = cu!(cuDriverGetVersion, &mut version);
    found.map_or(0, |()| version)
}

pub(crate) fn device_count() -> Answer<i32> {
    initialise()?;
    let mut count = 0_i32;
    cu!(cuDeviceGetCount, &mut count)?;
    Ok(count)
}

pub(crate) fn check_device(device: i32) -> Answer {
    refuse_if(!(0..device_count()?).contains(&device), INVALID_DEVICE)
}

/// Returns the context that is current for the calling thread, 0 if none is.
pub(crate) fn current() -> Answer<usize> {
    let mut context = 0_usize;
    cu!(cuCtxGetCurrent, &mut context)?;
    Ok(context)
}

/// Returns the device of the calling thread.
pub(crate) fn device() -> Answer<i32> {
    initialise()?;
    let (made, resets) = MADE_CURRENT.get();
    let context = current()?;
    let is_stale = context == made && resets != RESETS.load(Ordering::Acquire);
    if context == 0 || is_stale {
        return Ok(DEVICE.get());
    }
    let mut device = 0_i32;
    cu!(cuCtxGetDevice, &mut device)?;
    Ok(device)
}

/// Makes the primary context of the thread's device current, unless the thread has a context.
pub(crate) fn enter() -> Answer {
    initialise()?;
    let (made, resets) = MADE_CURRENT.get();
    let context = current()?;
    if context != 0 && (context != made || resets == RESETS.load(Ordering::Acquire)) {
        return Ok(());
    }
    set_device(DEVICE.get())
}

/// Makes a device that of the calling thread, and its primary context current.
pub(crate) fn set_device(device: i32) -> Answer {
    check_device(device)?;
    let resets = RESETS.load(Ordering::Acquire);
    let context = primary(device)?;
    cu!(cuCtxSetCurrent, context)?;
    DEVICE.set(device);
    MADE_CURRENT.set((context, resets));
    Ok(())
}

/// Returns the primary context of a device, which stays alive until the device is reset.
pub(crate) fn primary(device: i32) -> Answer<usize> {
    check_device(device)?;
    let index = device.unsigned_abs() as usize;
    let mut primaries = PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner);
    if primaries.len() <= index {
        primaries.resize(index + 1, None);
    }
    if let Some(context) = primaries[index] {
        return Ok(context);
    }
    let mut context = 0_usize;
    cu!(cuDevicePrimaryCtxRetain, &mut context, device)?;
    primaries[index] = Some(context);
    Ok(context)
}

/// Destroys the primary context of the thread's device. The next call of any thread makes a new
/// one.
pub(crate) fn reset() -> Answer {
    let device = device()?;
    let mut primaries = PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = primaries.get_mut(device.unsigned_abs() as usize) {
        *context = None;
    }
    let outcome = cu!(cuDevicePrimaryCtxReset_v2, device);
    drop(primaries);
    RESETS.fetch_add(1, Ordering::AcqRel);
    DEVICE.set(device);
    outcome
}

impl Call {
    /// Returns the stream for the driver.
    pub(crate) fn stream(&self, stream: Stream) -> usize {
        match stream.0 {
            0 if self.per_thread => PER_THREAD,
            given => given,
        }
    }
}

/// A parameter that is passed on to the driver.
pub(crate) trait Passed {
    fn pass(self, call: &Call) -> Answer<usize>;
}

impl Passed for usize {
    fn pass(self, _: &Call) -> Answer<usize> {
        Ok(self)
    }
}

impl Passed for Stream {
    fn pass(self, call: &Call) -> Answer<usize> {
        Ok(call.stream(self))
    }
}

impl Passed for Function {
    fn pass(self, _: &Call) -> Answer<usize> {
        registry::function(self)
    }
}

impl<T: Copy> Passed for Ptr<T> {
    fn pass(self, _: &Call) -> Answer<usize> {
        Ok(self.word())
    }
}
