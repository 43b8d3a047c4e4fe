//! The linker: joins PTX texts to one, which takes the place of machine code.

use std::ffi::{c_char, c_void};

use millstream_driver::ResultCode;
use millstream_sim::ptx;

use crate::{
    abi::{Bytes, Handle, In, Out, Text},
    api::module::{FILE_NOT_FOUND, code_of},
    call::Call,
    codes::Answer,
    export::exports,
    image,
    jit::JitOptions,
    objects::{LinkerEntry, Tag},
    process::say,
};

/// `CU_JIT_INPUT_PTX`
const PTX: i32 = 1;
/// `CU_JIT_INPUT_FATBINARY`
const FATBINARY: i32 = 2;

/// `CU_JIT_INPUT_LIBRARY`
const LIBRARY: i32 = 4;

/// The member by which CUDA's device runtime library, `libcudadevrt.a`, is recognised. Its machine
/// code is replaced by [`DEVICE_RUNTIME`].
const OF_DEVICE_RUNTIME: &[u8] = b"cuda_device_runtime.o";

/// The part of the device runtime library that kernels of cooperative launches call.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// Changes a linker.
fn with_linker<R>(
    call: &Call,
    linker: Handle,
    body: impl FnOnce(&mut LinkerEntry) -> R,
) -> Answer<R> {
    let mut objects = call.process()?.objects.lock();
    let found = objects.linkers.get_mut(&linker).map(body);
    drop(objects);
    found.ok_or_else(|| call.wrong_handle("linker", linker))
}

/// Adds a text. Inputs without PTX are not supported.
fn add(call: &Call, linker: Handle, kind: i32, bytes: Vec<u8>) -> Answer {
    let is_device_runtime = |part: &[u8]| part == OF_DEVICE_RUNTIME;
    let is_archive = kind == LIBRARY
        && bytes
            .windows(OF_DEVICE_RUNTIME.len())
            .any(is_device_runtime);
    if is_archive || kind == FATBINARY && image::is_device_runtime(&bytes)? {
        return with_linker(call, linker, |entry| entry.device_runtime = true);
    }
    let bytes = match kind {
        FATBINARY => image::ptx(call.name, bytes)?,
        _ => bytes,
    };
    let text = std::str::from_utf8(&bytes).ok();
    let text = text.map(|text| text.trim_end_matches('\0'));
    let text = text.filter(|text| [PTX, FATBINARY].contains(&kind) && !text.contains('\0'));
    let Some(text) = text else {
        say(&format!(
            "{}: an input of type {kind} is not supported; the simulated device links PTX text",
            call.name
        ));
        return Err(ResultCode::NOT_SUPPORTED);
    };
    with_linker(call, linker, |entry| entry.texts.push(text.to_owned()))
}

/// Joins texts: the first one with its header, the others without theirs.
fn join<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let in_header = |line: &str| {
        let line = line.trim_start();
        [".version", ".target", ".address_size"]
            .iter()
            .any(|directive| line.starts_with(directive))
    };
    let mut joined = String::new();
    for (index, text) in texts.into_iter().enumerate() {
        for line in text.lines() {
            if index == 0 || !in_header(line) {
                joined += line;
                joined.push('\n');
            }
        }
    }
    joined
}

fn with_max_registers(text: &str, limit: u32) -> String {
    let mut limited = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(".entry") {
        limited += before;
        limited += ".entry";
        let end = after.find(['{', ';']).unwrap_or(after.len());
        let (head, body) = after.split_at(end);
        limited += head;
        if body.starts_with('{') && !head.contains(".maxnreg") {
            limited += &format!(".maxnreg {limit}\n");
        }
        rest = body;
    }
    limited + rest
}

exports! {
    [cuLinkCreate, cuLinkCreate_v2]
    fn create(call, count: u32, numbers: In<i32>, values: Out<usize>, linker: Out<Handle>) {
        linker.check()?;
        call.context()?;
        let options = JitOptions { count, numbers, values };
        let max_registers = options.max_registers();
        let mut objects = call.process()?.objects.lock();
        let handle = objects.next_handle(Tag::Linker);
        let entry = LinkerEntry {
            options: Some(options),
            max_registers,
            ..LinkerEntry::default()
        };
        objects.linkers.insert(handle, entry);
        drop(objects);
        linker.set(handle)
    }

    [cuLinkAddData, cuLinkAddData_v2]
    fn add_data(
        call, linker: Handle, kind: i32, data: Bytes, size: usize, _name: In<c_char>, _count: u32,
        _numbers: In<i32>, _values: In<usize>
    ) {
        add(call, linker, kind, data.get(size)?)
    }

    [cuLinkAddFile, cuLinkAddFile_v2]
    fn add_file(
        call, linker: Handle, kind: i32, path: Text, _count: u32, _numbers: In<i32>,
        _values: In<usize>
    ) {
        let bytes = std::fs::read(path.get()?).map_err(|_| FILE_NOT_FOUND)?;
        add(call, linker, kind, bytes)
    }

    /// The image belongs to the linker.
    [cuLinkComplete]
    fn complete(call, linker: Handle, image: Out<*const c_void>, size: Out<usize>) {
        image.check()?;
        let (joined, options) = with_linker(call, linker, |entry| {
            let runtime = entry.device_runtime.then_some(DEVICE_RUNTIME);
            let joined = join(entry.texts.iter().map(String::as_str).chain(runtime));
            let joined = match entry.max_registers {
                Some(limit) => with_max_registers(&joined, limit),
                None => joined,
            };
            (joined, entry.options)
        })?;
        let log = |text: &str| {
            if let Some(options) = options {
                options.write_log(text);
            }
        };
        if let Err(error) = ptx::parse(&joined) {
            let reason = error.to_string();
            say(&format!("{}: {reason}", call.name));
            log(&reason);
            return Err(code_of(&error));
        }
        log("");
        let bytes: Box<[u8]> = joined.into_bytes().into_iter().chain([0]).collect();
        let length = bytes.len();
        let start = with_linker(call, linker, |entry| {
            let image = entry.image.insert(bytes);
            image.as_ptr().expose_provenance()
        })?;
        image.set(std::ptr::with_exposed_provenance(start))?;
        size.set_if_wanted(length);
        Ok(())
    }

    [cuLinkDestroy]
    fn destroy(call, linker: Handle) {
        let removed = call.process()?.objects.lock().linkers.remove(&linker);
        removed.map(drop).ok_or_else(|| call.wrong_handle("linker", linker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_texts_have_one_header() {
        let texts = [
            ".version 8.0\n.target sm_90\n.func one() { ret; }",
            ".version 8.1\n.target sm_90\n.address_size 64\n.func two() { ret; }",
        ];
        assert_eq!(
            join(texts),
            ".version 8.0\n.target sm_90\n.func one() { ret; }\n.func two() { ret; }\n"
        );
    }

    #[test]
    fn the_device_runtime_has_the_functions_that_a_kernel_with_a_grid_barrier_calls() {
        let caller = ".version 8.0\n.target sm_90\n.address_size 64\n\
            .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 n);\n\
            .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);\n\
            .visible .entry k() { .param .b32 n; .param .b64 h; .param .b32 r;\n\
            call.uni (h), cudaCGGetIntrinsicHandle, (n);\n\
            call.uni (r), cudaCGSynchronize, (h, n); ret; }";
        let runs = |texts: &[&str]| {
            let module = ptx::parse(&join(texts.iter().copied())).unwrap();
            module.kernel("k").unwrap().refusal().is_none()
        };
        assert!(runs(&[caller, DEVICE_RUNTIME]));
        assert!(!runs(&[caller]));
    }

    #[test]
    fn a_limit_of_registers_is_given_to_each_kernel_without_one() {
        let text = ".entry a(.param .u32 n)\n{ ret; }\n.entry b();\n.entry c()\n.maxnreg 9\n{ }";
        assert_eq!(
            with_max_registers(text, 38),
            ".entry a(.param .u32 n)\n.maxnreg 38\n{ ret; }\n.entry b();\n\
             .entry c()\n.maxnreg 9\n{ }"
        );
    }

    #[test]
    fn a_function_may_be_declared_with_a_result_that_its_definition_lacks() {
        let caller = ".version 8.0\n.target sm_90\n.address_size 64\n\
            .extern .func (.param .b64 r) note(.param .b32 n);\n\
            .visible .entry k() { .param .b32 n; st.param.b32 [n], 1;\n\
            .param .b64 r; call.uni (r), note, (n); ret; }";
        let void = ".version 8.0\n.target sm_90\n.address_size 64\n\
            .visible .func note(.param .b32 n) { ret; }";
        let joined = join([caller, void]);
        assert!(ptx::parse(&joined).is_ok());
        let undeclared = joined.replace("(.param .b64 r) note", "note");
        assert!(ptx::parse(&undeclared).is_err());
    }
}
