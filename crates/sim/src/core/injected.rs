//! Injected faults at work.

use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use super::{
    schedule::generator,
    world::{Refusal, World},
};
use crate::{
    Fault,
    config::fault::{Effect, When},
};

/// A fault at work.
#[derive(Debug)]
pub(crate) struct Armed {
    fault: Fault,
    calls: u64,
    generator: Mcg128Xsl64,
}

impl Armed {
    pub(crate) fn new(fault: Fault) -> Self {
        let seed = match fault.when {
            When::Nth(_) => 0,
            When::Random { seed, .. } => seed,
        };
        Self {
            fault,
            calls: 0,
            generator: generator(seed),
        }
    }

    /// Whether this call is hit.
    fn hits(&mut self, call: &str) -> bool {
        if self.fault.of.as_deref().is_some_and(|of| of != call) {
            return false;
        }
        self.calls += 1;
        match self.fault.when {
            When::Nth(nth) => self.calls == nth,
            // 53 bits, as many as a float holds: from 0 up to but not including 1.
            When::Random { probability, .. } => {
                ((self.generator.next_u64() >> 11) as f64) < probability * (1_u64 << 53) as f64
            }
        }
    }

    /// Whether it will hit no call any more.
    fn is_spent(&self) -> bool {
        matches!(self.fault.when, When::Nth(nth) if self.calls >= nth)
    }

    /// Which call it is at, in words.
    fn words(&self) -> String {
        match &self.fault.of {
            Some(of) => format!("injected: call {} of {of}", self.calls),
            None => format!("injected: call {}", self.calls),
        }
    }
}

impl World {
    /// What the faults at work make of this call: the refusal that it is to answer instead of doing
    /// anything. All of them count it; the first that hits it decides the answer.
    pub(crate) fn injected(&mut self, call: &str) -> Option<Refusal> {
        let mut faults = std::mem::take(&mut self.faults);
        let mut refusal = None;
        for armed in &mut faults {
            if !armed.hits(call) {
                continue;
            }
            match armed.fault.effect {
                Effect::Answer(code) => {
                    self.faults_injected += 1;
                    refusal.get_or_insert_with(|| Refusal::new(code, armed.words()));
                }
                Effect::Lose(device, code) => {
                    let index = self.device_index(device).ok();
                    let context = index.and_then(|index| self.devices[index].context);
                    if let Some(context) = context
                        && self.contexts[&context].lost.is_none()
                    {
                        self.faults_injected += 1;
                        self.lose_context(context, code, &armed.words());
                    }
                }
            }
        }
        faults.retain(|armed| !armed.is_spent());
        self.faults = faults;
        refusal
    }
}
