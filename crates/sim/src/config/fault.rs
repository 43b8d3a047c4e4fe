//! Injected faults: driver calls that fail although their caller is correct.

use millstream_driver::{DeviceOrdinal, ResultCode};

/// A fault to inject with [`Gpu::inject`](crate::Gpu::inject) or
/// [`SimConfig::fault`](crate::SimConfig::fault): the driver calls it hits, and its effect.
///
/// An affected call fails before it has any effect. There is no report, because the caller is not
/// at fault; the error's detail says that the failure was injected. Calls are counted from the
/// injection on, over all threads together; a single-threaded program meets the same faults on
/// every run.
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
#[must_use]
pub struct Fault {
    /// The only driver function to count, if restricted.
    pub(crate) of: Option<String>,
    pub(crate) trigger: Trigger,
    pub(crate) action: FaultAction,
}

/// The rule that selects the calls to hit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trigger {
    /// One call, counted from 1.
    Nth(u64),
    /// Each call with a probability.
    Random { probability: f64, seed: u64 },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultAction {
    /// The call fails with this code.
    Fail(ResultCode),
    /// The device's primary context is lost with this code.
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

    /// Creates a fault that hits only the `nth` call, counted from 1.
    pub fn nth(nth: u64) -> Self {
        Self::new(Trigger::Nth(nth))
    }

    /// Creates a fault that hits each call with this probability, from 0 (none) to 1 (all), drawn
    /// from the seed.
    pub fn random(probability: f64, seed: u64) -> Self {
        Self::new(Trigger::Random { probability, seed })
    }

    /// Restricts the fault to calls of one driver function, given by the `cu*` name in its errors;
    /// other calls are not counted.
    pub fn of(mut self, call: impl Into<String>) -> Self {
        self.of = Some(call.into());
        self
    }

    /// Sets the error code that an affected call returns; the default is
    /// [`ResultCode::OUT_OF_MEMORY`]. The context stays usable whatever the code;
    /// [`losing`](Self::losing) loses it.
    pub fn answering(mut self, code: ResultCode) -> Self {
        self.action = FaultAction::Fail(code);
        self
    }

    /// Loses the primary context of `device` with `code` just before the affected call, as if
    /// earlier work had failed. The call itself proceeds, and fails with `code` if it needs that
    /// context. The fault has no effect if the device has no context or a lost one. A driver loses
    /// contexts only with codes for which [`is_sticky`](ResultCode::is_sticky) holds.
    pub fn losing(mut self, device: DeviceOrdinal, code: ResultCode) -> Self {
        self.action = FaultAction::LoseContext(device, code);
        self
    }
}
