//! Fault injection: the injected faults that are active.

use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use super::{
    schedule::generator,
    state::{CallError, SimState},
};
use crate::{
    Fault,
    config::fault::{FaultAction, Trigger},
};

/// An injected fault that may still hit calls.
#[derive(Debug)]
pub(crate) struct ActiveFault {
    fault: Fault,
    /// The number of calls counted so far.
    calls: u64,
    generator: Mcg128Xsl64,
}

impl ActiveFault {
    pub(crate) fn new(fault: Fault) -> Self {
        let seed = match fault.trigger {
            Trigger::Nth(_) => 0,
            Trigger::Random { seed, .. } => seed,
        };
        Self {
            fault,
            calls: 0,
            generator: generator(seed),
        }
    }

    /// Counts the call if the fault applies to it, and returns whether the fault hits it.
    fn hits(&mut self, call: &str) -> bool {
        if self.fault.of.as_deref().is_some_and(|of| of != call) {
            return false;
        }
        self.calls += 1;
        match self.fault.trigger {
            Trigger::Nth(nth) => self.calls == nth,
            // 53 bits, the precision of an `f64`: uniform in [0, 1).
            Trigger::Random { probability, .. } => {
                ((self.generator.next_u64() >> 11) as f64) < probability * (1_u64 << 53) as f64
            }
        }
    }

    /// Returns whether the fault can no longer hit any call.
    fn is_spent(&self) -> bool {
        matches!(self.fault.trigger, Trigger::Nth(nth) if self.calls >= nth)
    }

    /// Describes the current call for error texts.
    fn describe(&self) -> String {
        match &self.fault.of {
            Some(of) => format!("injected: call {} of {of}", self.calls),
            None => format!("injected: call {}", self.calls),
        }
    }
}

impl SimState {
    /// Applies the active faults to a call and returns the error that replaces the call, if any.
    /// Every fault counts the call; the first one that hits it determines the error.
    pub(crate) fn injected_error(&mut self, call: &str) -> Option<CallError> {
        let mut faults = std::mem::take(&mut self.faults);
        let mut error = None;
        for active in &mut faults {
            if !active.hits(call) {
                continue;
            }
            match active.fault.action {
                FaultAction::Fail(code) => {
                    self.faults_injected += 1;
                    error.get_or_insert_with(|| CallError::new(code, active.describe()));
                }
                FaultAction::LoseContext(device, code) => {
                    let index = self.device_index(device).ok();
                    let context = index.and_then(|index| self.devices[index].context);
                    if let Some(context) = context
                        && self.contexts[&context].lost.is_none()
                    {
                        self.faults_injected += 1;
                        self.lose_context(context, code, &active.describe());
                    }
                }
            }
        }
        faults.retain(|active| !active.is_spent());
        self.faults = faults;
        error
    }
}
