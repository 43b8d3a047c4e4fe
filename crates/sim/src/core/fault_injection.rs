//! Fault injection: the injected faults that are active.

use super::{call_error::CallError, state::SimState};
use crate::config::fault::FaultAction;

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
