//! Export of a trace for `chrome://tracing` and Perfetto.

use serde_json::{Value, json};

use super::{
    TimedOperation, Trace, Traces,
    engine::{Work, work},
    order::{StreamIndices, Wait, waits},
};

impl Trace {
    /// Converts the trace to JSON in the Trace Event Format, for
    /// [Perfetto](https://ui.perfetto.dev) and `chrome://tracing`.
    ///
    /// The device is the process and a stream is a thread; both have their names, and a stream has
    /// the number of [`Stream::id`](crate::Stream::id). Waits are flows, from the end of the
    /// operation that was waited for to the start of the one that waited. Times are relative to the
    /// start of the timeline. The output is deterministic.
    #[must_use]
    pub fn to_chrome_trace(&self) -> String {
        chrome(std::slice::from_ref(self))
    }
}

impl Traces {
    /// Converts the traces to one file in the Trace Event Format, as
    /// [`Trace::to_chrome_trace`] does: each device is a process, numbered from 1, and waits of one
    /// device for another are flows too.
    #[must_use]
    pub fn to_chrome_trace(&self) -> String {
        chrome(&self.traces)
    }
}

/// Converts traces on one clock, each a process.
fn chrome(traces: &[Trace]) -> String {
    let mut events = Vec::new();
    for (process, trace) in (1..).zip(traces) {
        let name = json!({ "name": trace.device });
        events.push(metadata("process_name", (process, 0), &name));
        for number in StreamIndices::of(trace).numbers() {
            let name = json!({ "name": format!("stream {number}") });
            events.push(metadata("thread_name", (process, number), &name));
            let index = json!({ "sort_index": number });
            events.push(metadata("thread_sort_index", (process, number), &index));
        }
        for (operation, work) in trace.operations.iter().zip(work(&trace.operations)) {
            events.push(complete(process, operation, work.as_ref()));
        }
    }
    let of_trace = |(process, trace): (u64, &'_ Trace)| {
        let operations = trace.operations.clone().into_iter();
        operations.map(move |operation| (process, operation))
    };
    let (processes, operations): (Vec<_>, Vec<_>) = (1..).zip(traces).flat_map(of_trace).unzip();
    for (id, Wait { earlier, later }) in waits(&operations).into_iter().enumerate() {
        let ends = [earlier, later].map(|at| (processes[at], operations[at].stream));
        let (earlier, later) = (&operations[earlier].time_ns, &operations[later].time_ns);
        // A flow is attached to the operation that is running at its time, so it starts in the
        // last nanosecond, not after it.
        let last_ns = earlier.end.saturating_sub(1).max(earlier.start);
        events.push(flow("s", id, ends[0], last_ns));
        events.push(flow("f", id, ends[1], later.start));
    }
    let events: Vec<_> = events.iter().map(Value::to_string).collect();
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    )
}

/// Creates a metadata event: the name or the sort index of a process or thread.
fn metadata(name: &str, (process, thread): (u64, u64), args: &Value) -> Value {
    json!({ "ph": "M", "name": name, "pid": process, "tid": thread, "args": args })
}

/// Creates a complete event for an operation, displayed as a bar.
fn complete(process: u64, operation: &TimedOperation, work: Option<&Work>) -> Value {
    let mut args = json!({
        "bytes": operation.bytes,
        "sequence number": operation.sequence,
        "source": format!("{}:{}", operation.location.file(), operation.location.line()),
    });
    if let Some(work) = work.filter(|work| work.duration_ns() > 0 && operation.bytes > 0) {
        // Bytes per nanosecond equal gigabytes per second.
        args["GB/s"] = json!(operation.bytes as f64 / work.duration_ns() as f64);
    }
    json!({
        "ph": "X",
        "name": operation.label,
        "cat": operation.kind.to_string(),
        "pid": process,
        "tid": operation.stream,
        "ts": microseconds(operation.time_ns.start),
        "dur": microseconds(operation.time_ns.end.saturating_sub(operation.time_ns.start)),
        "args": args,
    })
}

/// Creates a flow event for one end of a wait.
fn flow(phase: &str, id: usize, (process, thread): (u64, u64), time_ns: u64) -> Value {
    json!({
        "ph": phase,
        "bp": "e",
        "name": "waits for",
        "cat": "waits",
        "id": id,
        "pid": process,
        "tid": thread,
        "ts": microseconds(time_ns),
    })
}

fn microseconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::{
        super::samples::{operation, pictures, trace},
        *,
    };
    use crate::OperationKind;

    fn events(trace: &Trace) -> Vec<Value> {
        let trace: Value = serde_json::from_str(&trace.to_chrome_trace()).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    fn of_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn an_operation_is_a_complete_event_in_microseconds() {
        let mut kernel = operation(OperationKind::Kernel, 77, 1_234_567..1_236_067);
        kernel.bytes = 3_000;
        let events = events(&trace(vec![kernel]));
        let [event] = of_phase(&events, "X")[..] else {
            panic!("one operation: {events:?}")
        };
        assert_eq!(
            (&event["ts"], &event["dur"]),
            (&json!(1234.567), &json!(1.5))
        );
        assert_eq!((&event["pid"], &event["tid"]), (&json!(1), &json!(77)));
        assert_eq!(
            (&event["name"], &event["cat"]),
            (&json!("work"), &json!("kernels"))
        );
        assert_eq!(
            (&event["args"]["bytes"], &event["args"]["GB/s"]),
            (&json!(3_000), &json!(2.0))
        );
        assert!(
            event["args"]["source"]
                .as_str()
                .unwrap()
                .contains("chrome.rs:")
        );
    }

    #[test]
    fn a_wait_is_a_flow_between_two_operations() {
        let earlier = operation(OperationKind::HostToDevice, 5, 1_000..2_000);
        let mut later = operation(OperationKind::Kernel, 3, 2_500..3_000);
        later.waits = vec![(5, 1), (99, 1)];
        let events = events(&trace(vec![earlier, later]));
        let ([start], [finish]) = (&of_phase(&events, "s")[..], &of_phase(&events, "f")[..]) else {
            panic!("one flow: {events:?}")
        };
        assert_eq!(start["id"], finish["id"]);
        assert_eq!((&start["tid"], &start["ts"]), (&json!(5), &json!(1.999)));
        assert_eq!((&finish["tid"], &finish["ts"]), (&json!(3), &json!(2.5)));
    }

    #[test]
    fn flows_have_unique_ids_and_streams_have_names() {
        let trace = pictures(6);
        let events = events(&trace);
        let ids: std::collections::BTreeSet<_> = of_phase(&events, "s")
            .iter()
            .map(|event| event["id"].as_u64())
            .collect();
        assert_eq!(ids.len(), waits(&trace.operations).len());
        let names: Vec<_> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["stream 1", "stream 2", "stream 3", "stream 4"]);
        assert_eq!(of_phase(&events, "X").len(), trace.operations.len());
    }

    #[test]
    fn names_are_escaped() {
        let device = "quote \" backslash \\ newline \n bell \u{7} µ";
        let mut kernel = operation(OperationKind::Kernel, 1, 0..1);
        kernel.label = "a\"b\\c";
        let events = events(&Trace {
            device: device.into(),
            operations: vec![kernel],
        });
        assert_eq!(events[0]["args"]["name"], device);
        assert_eq!(of_phase(&events, "X")[0]["name"], "a\"b\\c");
    }

    #[test]
    fn the_trace_is_deterministic() {
        assert_eq!(pictures(6).to_chrome_trace(), pictures(6).to_chrome_trace());
    }
}
