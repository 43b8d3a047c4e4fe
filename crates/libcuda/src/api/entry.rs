//! Initialisation, versions, results, and calls about the process.

use std::ffi::{c_char, c_void};

use millstream_driver::ResultCode;

use crate::{
    abi::{In, Out},
    codes,
    codes::refuse_if,
    export::exports,
    process,
    sites::native,
};

exports! {
    [cuInit]
    fn init(_call, flags: u32) {
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        process::initialise()
    }

    [cuDriverGetVersion]
    fn driver_version(_call, version: Out<i32>) {
        version.set(process::options()?.cuda_version)
    }

    [cuGetErrorName]
    fn error_name(_call, code: i32, name: Out<*const c_char>) {
        match codes::name_and_description(code) {
            Some((known, _)) => name.set(known.as_ptr()),
            None => {
                name.set(std::ptr::null())?;
                Err(ResultCode::INVALID_VALUE)
            }
        }
    }

    [cuGetErrorString]
    fn error_string(_call, code: i32, description: Out<*const c_char>) {
        match codes::name_and_description(code) {
            Some((_, known)) => description.set(known.as_ptr()),
            None => {
                description.set(std::ptr::null())?;
                Err(ResultCode::INVALID_VALUE)
            }
        }
    }

    /// The tables are undocumented, and none is offered. NVIDIA's runtime library needs them; NVRTC
    /// asks for one and works without.
    [cuGetExportTable]
    fn export_table(_call, table: Out<*const c_void>, _id: In<[u8; 16]>) {
        if native::caller().is_none_or(|file| !file.contains("libnvrtc")) {
            process::note_runtime_library();
        }
        table.set(std::ptr::null())?;
        Err(ResultCode::NOT_FOUND)
    }

    /// There is no profiler.
    [cuProfilerStart, cuProfilerStop]
    fn profiler(call) {
        call.context().map(drop)
    }
}
