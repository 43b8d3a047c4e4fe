//! Findings as JSON. Written by hand: a library that brings `serde_json` along makes comparisons ambiguous in its users' code.

use std::fmt::Write;

use super::finding::{Finding, FoundMemory, Party};
use crate::exec::KernelAccess;

/// A JSON object under construction.
struct Object(String);

impl Object {
    fn new() -> Self {
        Self("{".into())
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0 += &string(name);
        self.0.push(':');
        self.0 += value;
        self
    }

    fn end(self) -> String {
        self.0 + "}"
    }
}

fn string(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn or_null<T>(value: Option<T>, json: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "null".into(), json)
}

pub(super) fn finding(finding: &Finding) -> String {
    Object::new()
        .with("kind", &string(&format!("{:?}", finding.kind)))
        .with("grade", &string(&finding.grade.to_string()))
        .with("problem", &string(&finding.problem))
        .with("memory", &or_null(finding.memory.as_ref(), memory))
        .with("later", &party(&finding.later))
        .with("earlier", &or_null(finding.earlier.as_ref(), party))
        .with("missing", &or_null(finding.missing.as_deref(), string))
        .with(
            "verdict",
            &or_null(finding.verdict, |verdict| string(&verdict.to_string())),
        )
        .end()
}

fn memory(memory: &FoundMemory) -> String {
    let ranges: Vec<_> = memory
        .ranges
        .iter()
        .map(|range| format!("[{},{}]", range.start, range.end))
        .collect();
    Object::new()
        .with("allocation", &memory.allocation.to_string())
        .with("allocation_bytes", &memory.allocation_bytes.to_string())
        .with("description", &string(&memory.description))
        .with("ranges", &format!("[{}]", ranges.join(",")))
        .end()
}

fn party(party: &Party) -> String {
    Object::new()
        .with(
            "operation",
            &or_null(party.operation, |number| number.to_string()),
        )
        .with("what", &string(&party.what))
        .with("stream", &or_null(party.stream.as_deref(), string))
        .with("device", &or_null(party.device, |device| device.to_string()))
        .with("thread", &or_null(party.thread.as_ref(), thread))
        .with("does", &string(party.does))
        .with("call", &string(party.call))
        .with("site", &or_null(party.site.as_deref(), string))
        .end()
}

fn thread(access: &KernelAccess) -> String {
    let triple = |[x, y, z]: [u32; 3]| format!("[{x},{y},{z}]");
    Object::new()
        .with("block", &triple(access.block))
        .with("thread", &triple(access.thread))
        .with("ptx_line", &access.ptx_line.to_string())
        .with("source", &or_null(access.source.as_deref(), string))
        .with("write", &access.write.to_string())
        .with("atomic", &access.atomic.to_string())
        .end()
}
