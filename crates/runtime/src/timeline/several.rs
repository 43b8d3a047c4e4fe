//! `Timelines`: the operations of several devices on one clock.

use std::sync::Arc;

use super::{Timeline, Trace};
use crate::{Device, Result, UsageError, UsageErrorKind};

/// The number of measurements of a device's clock.
const TRIES: u32 = 5;

/// Collects the times of the operations of several devices on one clock, until it is finished: one
/// [`Timeline`] for each device.
///
/// The clocks of the devices are compared when it begins, which waits for an event of each of them
/// on an idle stream. On GPUs the comparison is right to about ten microseconds.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}, timeline::Timelines};
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let (one, other) = (Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?);
/// let timelines = Timelines::begin(&[one.clone(), other.clone()])?;
/// let source = one.stream()?.upload(&[1_u8; 1 << 20])?;
/// let stream = other.stream()?;
/// let mut target = stream.zeros::<u8>(1 << 20)?;
/// stream.copy(&source, &mut target)?; // waits for the other device
/// let traces = timelines.finish()?;
/// assert!(traces.to_chrome_trace().contains("\"pid\":2"));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping timelines discards their traces"]
pub struct Timelines(Vec<Timeline>);

impl Timelines {
    /// Starts to trace every operation of the devices, until the timelines are finished or dropped.
    /// It ends timelines of the devices that are running.
    ///
    /// # Errors
    ///
    /// If there are no devices, one is passed twice, they belong to different drivers, or one is
    /// lost.
    #[track_caller]
    pub fn begin(devices: &[Device]) -> Result<Self> {
        check(devices).map_err(|problem| {
            UsageError::new("timelines", problem).at(std::panic::Location::caller())
        })?;
        let begin = |device: &Device| Timeline::begin(device.state(), TRIES);
        Ok(Self(devices.iter().map(begin).collect::<Result<_>>()?))
    }

    /// Ends the timelines: waits until every traced operation is complete, and returns their times
    /// since the first device's clock was compared.
    ///
    /// # Errors
    ///
    /// If a device is lost.
    pub fn finish(self) -> Result<Traces> {
        let origins = self.0.iter().map(Timeline::origin_ns);
        let first_ns = origins.min().unwrap_or(0);
        let finish = |timeline: Timeline| {
            let later_ns = timeline.origin_ns() - first_ns;
            let mut trace = timeline.finish()?;
            for operation in &mut trace.operations {
                operation.time_ns.start += later_ns;
                operation.time_ns.end += later_ns;
            }
            Ok(trace)
        };
        let traces = self.0.into_iter().map(finish).collect::<Result<_>>()?;
        Ok(Traces { traces })
    }
}

fn check(devices: &[Device]) -> Result<(), UsageErrorKind> {
    let Some(first) = devices.first() else {
        return Err(UsageErrorKind::NoDevices);
    };
    for (rank, device) in devices.iter().enumerate() {
        if !device.state().shares_driver(first.state()) {
            return Err(UsageErrorKind::OtherDriver {
                first: first.to_string(),
                other: device.to_string(),
                rank,
            });
        }
        let is_same = |other: &Device| Arc::ptr_eq(other.state(), device.state());
        if let Some(first) = devices[..rank].iter().position(is_same) {
            let device = device.to_string();
            return Err(UsageErrorKind::RepeatedDevice {
                device,
                first,
                second: rank,
            });
        }
    }
    Ok(())
}

/// The operations of several devices during [`Timelines`], on one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The operations of each device, in the order in which the devices were passed. Times are
    /// those since the start of all timelines; an operation also names the operations of other
    /// devices for which the library made it wait.
    pub traces: Vec<Trace>,
}
