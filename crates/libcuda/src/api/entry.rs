//! Initialisation, versions, results, and calls about the process.

use std::ffi::{CString, c_char, c_void};

use millstream_driver::ResultCode;

use crate::{
    abi::{In, Out},
    codes::{self, Answer, refuse_if},
    export::exports,
    process,
    sites::native,
};

/// Returns a text about a result, or null and an error if CUDA does not define its number.
fn text(known: Option<&'static CString>, target: Out<*const c_char>) -> Answer {
    target.set(known.map_or(std::ptr::null(), |known| known.as_ptr()))?;
    refuse_if(known.is_none(), ResultCode::INVALID_VALUE)
}

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
        text(codes::name_and_description(code).map(|known| &known.0), name)
    }

    [cuGetErrorString]
    fn error_string(_call, code: i32, description: Out<*const c_char>) {
        text(codes::name_and_description(code).map(|known| &known.1), description)
    }

    /// The tables are undocumented, and none is offered. NVIDIA's runtime library needs them; NVRTC
    /// asks for one and works without.
    [cuGetExportTable]
    fn export_table(_call, table: Out<*const c_void>, _id: In<[u8; 16]>) {
        let caller = native::caller().unwrap_or_else(|| "the program".to_owned());
        if !caller.contains("libnvrtc") {
            process::note_runtime_library(&caller);
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
