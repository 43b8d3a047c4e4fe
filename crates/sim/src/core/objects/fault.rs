//! The injected faults that may still hit calls.

use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use crate::{Fault, config::fault::Trigger, core::schedule::generator};

/// An injected fault that may still hit calls.
#[derive(Debug)]
pub(crate) struct ActiveFault {
    pub(crate) fault: Fault,
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
    pub(crate) fn hits(&mut self, call: &str) -> bool {
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
    pub(crate) fn is_spent(&self) -> bool {
        matches!(self.fault.trigger, Trigger::Nth(nth) if self.calls >= nth)
    }

    /// Describes the current call for error texts.
    pub(crate) fn describe(&self) -> String {
        match &self.fault.of {
            Some(of) => format!("injected: call {} of {of}", self.calls),
            None => format!("injected: call {}", self.calls),
        }
    }
}
