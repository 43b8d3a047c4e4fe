//! The functions that the code written by nvcc calls: registration, and the configuration between
//! `<<<` and `>>>`. Parameters at the end that have no use here are not declared.

#![allow(unsafe_code, reason = "exports functions that return no number")]
#![allow(non_snake_case, reason = "the names of CUDA's functions")]

use std::cell::Cell;

use crate::{
    abi::{Dim3, Function, Ptr, Stream},
    api::launch::{self, Shape},
    call::{Need, run},
    codes::MISSING_CONFIGURATION,
    export::exports,
    registry,
    texts::{say, shown},
};

/// The number of configurations that wait for their launch: constructors of arguments may launch
/// kernels, too. One whose argument threw an exception waits for ever, so that the oldest give way.
const NESTED: usize = 16;

thread_local! {
    static CONFIGURATIONS: [Cell<(Shape, usize)>; NESTED] = const {
        [const { Cell::new((Shape::NONE, 0)) }; NESTED]
    };
    static CONFIGURED: Cell<usize> = const { Cell::new(0) };
}

/// Enters a fat binary. The handle is the address of the number of the image.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary(wrapper: Ptr<usize>) -> Ptr<usize> {
    let number = registry::add_image(wrapper).unwrap_or(0);
    Ptr::of(std::ptr::from_mut(Box::leak(Box::new(number))).expose_provenance())
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinaryEnd(_handle: Ptr<usize>) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaUnregisterFatBinary(handle: Ptr<usize>) {
    if let Ok(number) = handle.get() {
        registry::remove_image(number);
    }
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFunction(handle: Ptr<usize>, host: usize, _: usize, name: Ptr<u8>) {
    let _ = handle
        .get()
        .and_then(|it| registry::add_function(it, host, name));
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterVar(handle: Ptr<usize>, host: usize, _: usize, name: Ptr<u8>) {
    let _ = handle
        .get()
        .and_then(|it| registry::add_variable(it, host, name, None));
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterManagedVar(handle: Ptr<usize>, host: usize, _: usize, name: Ptr<u8>) {
    let _ = handle
        .get()
        .and_then(|it| registry::add_variable(it, host, name, Some(host)));
}

/// Symbols of the host that kernels name: not supported.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterHostVar(_handle: usize, name: Ptr<u8>, _host: usize, _bytes: usize) {
    say(&format!(
        "the variable {} of the host is not registered",
        shown(name)
    ));
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterUnifiedTable(_table: usize) {}

/// Gives the managed variables of an image their addresses, before the host first uses one.
#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(handle: Ptr<usize>) -> u8 {
    let placed = run(false, Need::Context, |_| {
        registry::place_managed(handle.get()?)
    });
    (placed == 0).into()
}

/// Keeps the configuration of a launch. Returns 0, so that the launch follows.
#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
) -> u32 {
    let depth = CONFIGURED.get();
    let shape = Shape {
        grid,
        block,
        shared,
    };
    CONFIGURATIONS.with(|all| all[depth % NESTED].set((shape, stream)));
    CONFIGURED.set(depth + 1);
    0
}

exports! {
    Nothing [__cudaPopCallConfiguration]
    (_call, grid: Ptr<Dim3>, block: Ptr<Dim3>, shared: Ptr<usize>, stream: Ptr<usize>) {
        let depth = CONFIGURED.get().checked_sub(1).ok_or(MISSING_CONFIGURATION)?;
        CONFIGURED.set(depth);
        let (shape, of_launch) = CONFIGURATIONS.with(|all| all[depth % NESTED].get());
        grid.set(shape.grid)?;
        block.set(shape.block)?;
        shared.set(shape.shared)?;
        stream.set(of_launch)
    }

    /// After a failure the handle is the function itself, so that the launch fails likewise.
    Context [__cudaGetKernel, cudaGetKernel] (_call, kernel: Ptr<usize>, function: Function) {
        kernel.set(function.0)?;
        kernel.set(registry::kernel(function)?)
    }

    Context [__cudaLaunchKernel, __cudaLaunchKernel_ptsz per_thread]
    (call, kernel: Function, grid: Dim3, block: Dim3, arguments: usize, shared: usize,
     stream: Stream) {
        launch::launch(call, kernel, Shape { grid, block, shared }, arguments, stream, false)
    }
}
