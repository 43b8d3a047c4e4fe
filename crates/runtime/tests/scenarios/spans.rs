//! Spans of submissions, allocations and waits, for `tracing` and for NVTX.

use parking_lot::Mutex;
use tracing::{
    Event, Metadata, Subscriber,
    dispatcher::{Dispatch, with_default},
    field::{Field, Visit},
    span,
};

use crate::scenarios::prelude::*;

/// A subscriber that writes down the spans of this library.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<String>>>);

struct Operation(String);

impl Visit for Operation {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field} {value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push_str(&format!(" {field} {value}"));
    }
}

impl Subscriber for Written {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("millstream")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut text = Operation(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        self.0.lock().push(text.0);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &span::Id) {
        self.0.lock().push("(".to_owned());
    }

    fn exit(&self, _: &span::Id) {
        self.0.lock().push(")".to_owned());
    }
}

/// Allocates, fills and waits.
fn work() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let mut array = stream.zeros::<u32>(4)?;
    stream.fill(&mut array, 7)?;
    stream.synchronize()
}

#[test]
fn a_subscriber_gets_spans_of_submissions_and_waits() {
    let written = Written::default();
    let found = with_default(&Dispatch::new(written.clone()), work);
    found.expect("nothing fails");
    let fill = "enqueue operation fill";
    let expected = ["enqueue operation allocate", fill, fill, "wait"];
    let expected: Vec<_> = expected.iter().flat_map(|name| [*name, "(", ")"]).collect();
    assert_eq!(*written.0.lock(), expected);
}

/// Works with the ranges of NVTX on; run in a child process.
#[test]
#[ignore = "the inner half of a test"]
fn inner_ranges() {
    work().expect("nothing fails");
}

/// A library in the place of NVTX, or of a profiler for NVTX 3, that prints its calls.
#[cfg(target_os = "linux")]
const STAND_IN: &str = include_str!("nvtx.c");

#[test]
#[cfg(target_os = "linux")]
fn ranges_of_nvtx_are_pushed_to_a_library_and_to_a_profiler_if_they_are_on() {
    use std::{fs, process::Command};

    use crate::scenarios::child::in_process;

    let name = format!("millstream-nvtx-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a folder is made");
    let (source, library) = (folder.join("nvtx.c"), folder.join("libnvToolsExt.so.1"));
    fs::write(&source, STAND_IN).expect("a file is written");
    let compiler = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .expect("gcc is installed");
    assert!(compiler.status.success(), "{compiler:?}");
    let path = library.display().to_string();
    let lines = |variable: &str, ranges: &str| {
        let variables = [
            (variable, path.as_str()),
            ("MILLSTREAM_NVTX_RANGES", ranges),
        ];
        let text = in_process("spans::inner_ranges", &variables).text();
        let lines = text.lines().filter_map(|line| {
            let call = line.find("push ").or_else(|| line.find("pop"))?;
            Some(line[call..].to_owned())
        });
        lines.collect::<Vec<_>>().join(" ")
    };
    let expected = "push allocate pop push fill pop push fill pop push wait pop";
    for variable in ["MILLSTREAM_NVTX", "NVTX_INJECTION64_PATH"] {
        assert_eq!(lines(variable, "on"), expected, "{variable}");
        assert_eq!(lines(variable, ""), "", "{variable}");
    }
    fs::remove_dir_all(&folder).expect("a folder is removed");
}
