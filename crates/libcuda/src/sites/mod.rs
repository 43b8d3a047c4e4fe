//! Call sites: the places of the program that enqueue work or allocate memory.
//!
//! The simulator cannot see its caller's line. Before such a call, the library therefore takes a
//! trace of the calling thread, the lines of Python if the thread runs Python and else return
//! addresses, and passes the trace's number as a label. Texts of the simulator then have
//! `at site7`, which becomes a file and a line when the report is written. Traces are taken within
//! the program's call, never in a signal handler, and while this library holds no lock: the thread
//! may have to wait for Python's interpreter lock.

pub(crate) mod native;
mod python;

use std::{borrow::Cow, fmt::Write as _, fs::canonicalize};

use millstream_sim::race::Label;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::demangle;

/// The number of frames of a trace.
const FRAMES_MAX: usize = 40;

/// The number of callers that a report lists behind the first place.
const CALLERS_SHOWN: usize = 4;

/// The start of a numbered place in the simulator's texts.
const MARK: &str = "at site";

#[derive(Debug, Default)]
pub(crate) struct Sites {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The numbers of traces, by the words that identify them.
    numbers: FxHashMap<Box<[usize]>, u32>,
    traces: Vec<Trace>,
}

/// The frames of a call, innermost first.
#[derive(Debug)]
enum Trace {
    /// Return addresses.
    Native(Box<[usize]>),
    Python(Vec<Frame>),
}

/// One function in a trace, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    function: String,
    file: Option<String>,
    line: u32,
    /// True if the file belongs to the program, not to a library that it uses.
    own: bool,
}

impl Sites {
    /// Labels the calling thread's calls of the simulator with the place of the program's call.
    pub(crate) fn label(&self) -> Label {
        Label::numbered(self.number())
    }

    /// Returns the number of the calling thread's trace.
    fn number(&self) -> u32 {
        if let Some(trace) = python::Trace::take() {
            return self.number_of(trace.key(), || Trace::Python(trace.frames()));
        }
        let mut addresses = [0; FRAMES_MAX];
        let count = native::trace(&mut addresses);
        let key = &addresses[..count];
        self.number_of(key, || Trace::Native(key.into()))
    }

    fn number_of(&self, key: &[usize], trace: impl FnOnce() -> Trace) -> u32 {
        if let Some(number) = self.known.lock().numbers.get(key) {
            return *number;
        }
        let trace = trace();
        let mut known = self.known.lock();
        let next = known.traces.len() as u32;
        // Another thread may have entered the same trace meanwhile.
        let number = *known.numbers.entry(key.into()).or_insert(next);
        if number == next {
            known.traces.push(trace);
        }
        number
    }

    /// Returns the function of CUDA's runtime library that the program called, if it called one.
    fn runtime_function(&self, number: u32) -> Option<String> {
        match self.known.lock().traces.get(number as usize)? {
            Trace::Native(addresses) => native::runtime_function(addresses),
            Trace::Python(_) => None,
        }
    }

    /// Returns the frames of a trace that a report shows, the first of them the innermost one of
    /// the program itself if there is one.
    fn frames(&self, number: u32) -> Vec<Frame> {
        let known = self.known.lock();
        let frames = match known.traces.get(number as usize) {
            None => Vec::new(),
            Some(Trace::Python(frames)) => frames.clone(),
            Some(Trace::Native(addresses)) => {
                let outside = native::outside(addresses).iter();
                without_launch_code(outside.flat_map(|it| native::frames(*it)).collect())
            }
        };
        shown(frames)
    }
}

/// Replaces the driver's function behind the last comma by that of the runtime library that the
/// program called: `…, cuMemAlloc, ` becomes `…, cudaMalloc, `.
fn with_runtime_function(before: &str, called: Option<String>) -> Cow<'_, str> {
    let start = before.trim_end_matches(", ");
    match (start.rsplit_once(", "), called) {
        (Some((start, name)), Some(called)) if name.starts_with("cuMem") => {
            format!("{start}, {called}, ").into()
        }
        _ => before.into(),
    }
}

/// A text of the simulator with files and lines in the place of the numbers of traces, and these
/// places as JSON, that of the later access first: each with the words of its line of the text.
pub(crate) struct Description {
    pub(crate) text: String,
    pub(crate) places: Vec<Value>,
}

/// Describes a text of the simulator. The callers of a place follow its line. Without `sites` the
/// places are those in kernels.
pub(crate) fn describe(sites: Option<&Sites>, text: &str) -> Description {
    let (mut described, mut places) = (String::with_capacity(text.len()), Vec::new());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            described.push('\n');
        }
        let (start, mut callers) = (described.len(), Vec::new());
        let mut found: Vec<_> = kernel_line(line).into_iter().map(|it| vec![it]).collect();
        let mut rest = line;
        while let Some((sites, (before, after))) = sites.zip(rest.split_once(MARK)) {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let number = after[..digits].parse().ok();
            let called = number.and_then(|number| sites.runtime_function(number));
            described += &with_runtime_function(before, called);
            let frames = number.map_or_else(Vec::new, |number| sites.frames(number));
            match frames.split_first() {
                Some((first, others)) => {
                    let _ = write!(described, "at {first}");
                    callers.extend_from_slice(others);
                }
                None => described += "at an unknown place",
            }
            found.push(frames);
            rest = &after[digits..];
        }
        described += rest;
        let what = described[start..].trim().to_owned();
        for frames in found.iter().filter(|frames| !frames.is_empty()) {
            let frames: Vec<_> = frames.iter().map(Frame::json).collect();
            places.push(json!({ "access": index > 0, "what": what, "frames": frames }));
        }
        for caller in callers {
            let _ = write!(described, "\n      from {caller}");
        }
    }
    if let Some(first) = places.iter().position(|place| place["access"] == true) {
        places[..=first].rotate_right(1);
    }
    Description {
        text: described,
        places,
    }
}

/// Returns the source line of a kernel that a line names: `line 12 of the PTX (k.cu:5)`, perhaps
/// with the module in front of the parenthesis.
fn kernel_line(line: &str) -> Option<Frame> {
    let (_, after) = line.split_once(" of the PTX")?;
    let (_, place) = after.split_once(" (")?;
    let ends = place.match_indices(')').map(|(end, _)| &place[..end]);
    let (file, line) = ends.filter_map(|place| place.rsplit_once(':')).next()?;
    Some(Frame {
        function: String::new(),
        file: Some(file.to_owned()),
        line: line.parse().ok()?,
        own: true,
    })
}

impl Frame {
    fn json(&self) -> Value {
        let file = self.file.as_ref().map(|file| match canonicalize(file) {
            Ok(path) => path.to_string_lossy().into_owned(),
            Err(_) => file.clone(),
        });
        json!({ "function": self.function, "file": file, "line": self.line })
    }
}

/// Removes the innermost frames if they are those of the functions that nvcc writes for a kernel:
/// the one or two that launch it, and the one of its own name that calls these.
fn without_launch_code(mut frames: Vec<Frame>) -> Vec<Frame> {
    // The name of a kernel without its namespace, its template arguments and its parameters.
    let short = |name: &str| {
        let name = demangle::name(name).into_owned();
        let name = name.split(['<', '(']).next().unwrap_or_default();
        name.rsplit([' ', ':'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let kernel_of = |frame: &Frame| {
        let (_, kernel) = frame.function.split_once("__device_stub_")?;
        Some(short(kernel.split('(').next()?))
    };
    if let Some(last) = frames.iter().rposition(|frame| kernel_of(frame).is_some()) {
        let next = frames.get(last + 1);
        let is_kernel =
            next.is_some_and(|it| kernel_of(&frames[last]) == Some(short(&it.function)));
        frames.drain(..=last + usize::from(is_kernel));
    }
    // Without line information of the program, the C library's start would be shown, and the
    // functions of CUDA's headers that only call one of the runtime library.
    let is_header = |it: &Frame| {
        it.file.is_none() && it.function.starts_with("cuda") && it.function.ends_with(')')
    };
    let headers = frames.iter().take_while(|frame| is_header(frame)).count();
    frames.drain(..headers);
    frames.retain(|it| !it.function.starts_with("__libc_start_") && it.function != "_start");
    frames
}

/// Returns the frames that a report shows: the innermost one of the program and its callers in the
/// program. Without line information nothing tells the program's frames from those of libraries,
/// and the innermost ones are shown.
fn shown(mut frames: Vec<Frame>) -> Vec<Frame> {
    let own = frames.iter().position(|frame| frame.own);
    let first = own
        .or_else(|| frames.iter().position(|frame| frame.file.is_some()))
        .unwrap_or(0);
    frames.drain(..first.min(frames.len()));
    let callers = frames.split_off(frames.len().min(1));
    let callers = callers.into_iter().filter(|it| it.own || own.is_none());
    frames.extend(callers.take(CALLERS_SHOWN));
    frames
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{} ({})", self.line, self.function),
            None => f.write_str(&self.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>, own: bool) -> Frame {
        Frame {
            function: function.into(),
            file: file.map(str::to_owned),
            line: 3,
            own,
        }
    }

    #[test]
    fn the_first_shown_frame_is_the_innermost_one_of_the_program() {
        let library = frame("launch", Some("/site-packages/a.py"), false);
        let inner = frame("step", Some("app.py"), true);
        let outer = frame("main", Some("app.py"), true);
        let frames = vec![
            library.clone(),
            inner.clone(),
            library.clone(),
            outer.clone(),
        ];
        assert_eq!(shown(frames), [inner, outer]);
        let unknown = frame("start", None, false);
        assert_eq!(
            shown(vec![unknown.clone(), library.clone(), unknown.clone()]),
            [library, unknown]
        );
        assert_eq!(shown(Vec::new()), []);
    }

    #[test]
    fn the_functions_that_nvcc_writes_for_a_launch_are_left_out() {
        let stub = frame(
            "__device_stub__Z3addPfi(float*, int)",
            Some("a.stub.c"),
            true,
        );
        let kernel = frame("add(float*, int)", Some("a.cu"), true);
        let main = frame("main", Some("a.cu"), true);
        let own = vec![main.clone()];
        assert_eq!(
            without_launch_code(vec![stub.clone(), kernel, main.clone()]),
            own
        );
        assert_eq!(
            without_launch_code(vec![stub, main.clone()]),
            own,
            "a tail call"
        );
        let of_template = |name| frame(name, Some("a.cu"), true);
        let wrapper = of_template("ns::__wrapper__device_stub_twice<float>");
        let stub = of_template("__device_stub__ZN2ns5twiceIfEEvPT_(float*)");
        let kernel = of_template("ns::twice<float>");
        let start = frame("__libc_start_call_main", Some("csu/start.c"), false);
        assert_eq!(
            without_launch_code(vec![stub, wrapper, kernel, main.clone(), start]),
            own
        );
        let header = frame("cudaMalloc<float>(float**, unsigned long)", None, false);
        let start = frame("_start", None, false);
        assert_eq!(without_launch_code(vec![header, main, start]), own);
    }

    #[test]
    fn a_trace_has_one_number_and_its_frames_take_the_place_of_the_number() {
        let sites = Sites::default();
        let python = || Trace::Python(vec![frame("step", Some("app.py"), true); 2]);
        assert_eq!(sites.number_of(&[0, 1, 2], python), 0);
        assert_eq!(sites.number_of(&[0, 1, 3], python), 1);
        assert_eq!(sites.number_of(&[0, 1, 2], python), 0);
        let text = "operation 7, at site1, writes\n  memory at site9";
        let described = describe(Some(&sites), text);
        assert_eq!(
            described.text,
            "operation 7, at app.py:3 (step), writes\n      from app.py:3 (step)\n  \
             memory at an unknown place"
        );
        let frame = json!({ "function": "step", "file": "app.py", "line": 3 });
        let what = "operation 7, at app.py:3 (step), writes";
        let place = json!({ "access": false, "what": what, "frames": [frame, frame] });
        assert_eq!(described.places, [place]);
    }

    #[test]
    fn calls_from_one_place_have_one_trace() {
        let sites = Sites::default();
        let numbers: Vec<_> = (0..2).map(|_| sites.number()).collect();
        assert_eq!(numbers, [0, 0]);
        assert_eq!(sites.number(), 1);
    }
}
