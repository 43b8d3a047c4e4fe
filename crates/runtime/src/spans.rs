//! Spans of the library's work on the host, for `tracing` and for NVIDIA's Nsight: submissions,
//! allocations and waits.
//!
//! They are off by default, and cost nothing then: a device that is opened while they are on notes
//! that in its `Admission`, the word that every submission reads anyway. Spans
//! begin and end on the thread of the caller, outside of all locks, because a subscriber is user
//! code.

use std::sync::OnceLock;

use millstream_driver::nvtx::Nvtx;

use crate::disposal::log;

/// The environment variable that turns NVTX ranges on, by the value `on`.
const VARIABLE: &str = "MILLSTREAM_NVTX_RANGES";

const TARGET: &str = "millstream::spans";

/// A span on this thread, ended on drop.
#[must_use]
pub(crate) struct HostSpan {
    _traced: tracing::span::EnteredSpan,
    nvtx: Option<&'static Nvtx>,
}

impl Drop for HostSpan {
    fn drop(&mut self) {
        if let Some(nvtx) = self.nvtx {
            nvtx.pop();
        }
    }
}

/// Returns whether a device that is opened now has spans: NVTX ranges are on, or the subscriber
/// takes spans of the level `TRACE`.
pub(crate) fn is_on() -> bool {
    nvtx().is_some() || tracing::enabled!(target: TARGET, tracing::Level::TRACE)
}

/// Begins the span of a submission, or of an allocation.
pub(crate) fn enqueue(operation: &'static str) -> HostSpan {
    let span = tracing::trace_span!(target: TARGET, "enqueue", operation);
    begin(span, operation)
}

pub(crate) fn wait() -> HostSpan {
    begin(tracing::trace_span!(target: TARGET, "wait"), "wait")
}

fn begin(span: tracing::Span, name: &str) -> HostSpan {
    let nvtx = nvtx();
    if let Some(nvtx) = nvtx {
        nvtx.push(name);
    }
    HostSpan {
        _traced: span.entered(),
        nvtx,
    }
}

/// Returns NVTX if its ranges are on.
fn nvtx() -> Option<&'static Nvtx> {
    static LOADED: OnceLock<Option<Nvtx>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let is_on = std::env::var_os(VARIABLE).is_some_and(|value| value == "on");
        if !is_on {
            return None;
        }
        match Nvtx::load() {
            Ok(nvtx) => Some(nvtx),
            Err(error) => {
                log!(warn, %error, "NVTX ranges are on, but there is no NVTX");
                None
            }
        }
    });
    loaded.as_ref()
}
