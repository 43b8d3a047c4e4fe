//! The operations of the device as a trace for `chrome://tracing` and Perfetto.

use millstream_sim::Span;
use serde_json::json;

use crate::demangle;

/// The bits of a stream's handle that number it among the streams of its device.
const STREAM_NUMBER: usize = 0xffff_ffff;

/// Returns the operations in the Trace Event Format: a line for each, with a comma at its end, so
/// that several processes can append to one file, which starts with `[`. A device is a process of
/// the trace, a stream a thread; times are virtual.
pub(crate) fn events(process: u32, spans: &[Span]) -> String {
    let mut text = String::new();
    let mut named = Vec::new();
    for span in spans {
        let device = u64::from(process) * 64 + u64::from(span.device);
        let stream = span.stream.as_raw() & STREAM_NUMBER;
        for (kind, id, name) in [
            (
                "process_name",
                0,
                format!("process {process}, device {}", span.device),
            ),
            ("thread_name", stream, format!("stream {stream}")),
        ] {
            if !named.contains(&(kind, device, id)) {
                named.push((kind, device, id));
                let name = json!({ "name": name });
                let event =
                    json!({ "ph": "M", "name": kind, "pid": device, "tid": id, "args": name });
                text += &format!("{event},\n");
            }
        }
        let microseconds = |ns: u64| ns as f64 / 1000.0;
        let event = json!({
            "ph": "X",
            "name": demangle::text(&span.what),
            "pid": device,
            "tid": stream,
            "ts": microseconds(span.start_ns),
            "dur": microseconds(span.finish_ns - span.start_ns),
            "args": { "operation": span.operation },
        });
        text += &format!("{event},\n");
    }
    text
}
