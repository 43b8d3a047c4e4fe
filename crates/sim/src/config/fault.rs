//! Faults that a test asks for: calls that fail though their caller did nothing wrong.

use millstream_driver::{DeviceOrdinal, ResultCode};

/// A fault to be injected with [`Gpu::inject`](crate::Gpu::inject) or
/// [`SimConfig::fault`](crate::SimConfig::fault): which driver call is hit, and what happens to it.
///
/// A call that is hit fails before it does anything, and nothing is reported: its caller is not to
/// blame. The detail of its error says that the failure was injected. Calls are counted from the
/// injection on, over all threads together; a program of one thread meets the same faults on every
/// run.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver, ResultCode};
/// use millstream_sim::{Fault, Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// gpu.inject(Fault::nth(2).of("cuDeviceGetCount").answering(ResultCode::NOT_INITIALIZED));
/// assert!(gpu.device_count().is_ok());
/// let error = gpu.device_count().unwrap_err();
/// assert_eq!(error.code(), ResultCode::NOT_INITIALIZED);
/// assert_eq!(error.detail(), Some("injected: call 2 of cuDeviceGetCount"));
/// assert!(gpu.device_count().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub(crate) of: Option<String>,
    pub(crate) trigger: Trigger,
    pub(crate) action: FaultAction,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trigger {
    Nth(u64),
    Random { probability: f64, seed: u64 },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultAction {
    Fail(ResultCode),
    LoseContext(DeviceOrdinal, ResultCode),
}

impl Fault {
    fn new(trigger: Trigger) -> Self {
        Self {
            of: None,
            trigger,
            action: FaultAction::Fail(ResultCode::OUT_OF_MEMORY),
        }
    }

    /// Hits the `nth` call from now on, counted from 1, and no other.
    #[must_use]
    pub fn nth(nth: u64) -> Self {
        Self::new(Trigger::Nth(nth))
    }

    /// Hits every call with this probability, from 0 (none) to 1 (all); the seed decides which.
    #[must_use]
    pub fn random(probability: f64, seed: u64) -> Self {
        Self::new(Trigger::Random { probability, seed })
    }

    /// Counts and hits only calls of this driver function, by the `cu*` name that its errors have.
    #[must_use]
    pub fn of(mut self, call: impl Into<String>) -> Self {
        self.of = Some(call.into());
        self
    }

    /// Sets what a call that is hit answers; without this, [`ResultCode::OUT_OF_MEMORY`]. The
    /// context lives on whatever the code: one that is lost is asked for with
    /// [`losing`](Self::losing).
    #[must_use]
    pub fn answering(mut self, code: ResultCode) -> Self {
        self.action = FaultAction::Fail(code);
        self
    }

    /// Loses the primary context of `device` with `code` just before the call that is hit, as if
    /// work enqueued earlier had failed meanwhile. The call itself goes on, and answers `code` if
    /// it needs that context. Nothing happens if the device has no context, or one that is lost
    /// already. A driver loses contexts only with a code for which
    /// [`is_sticky`](ResultCode::is_sticky) holds.
    #[must_use]
    pub fn losing(mut self, device: DeviceOrdinal, code: ResultCode) -> Self {
        self.action = FaultAction::LoseContext(device, code);
        self
    }
}
