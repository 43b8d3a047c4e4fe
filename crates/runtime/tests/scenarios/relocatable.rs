//! Foreign calls that are recorded so that they can be given other addresses.

#![allow(unsafe_code, reason = "plays a library that launches kernels")]

use std::ffi::c_void;

use millstream::{
    driver::{FunctionHandle, LaunchDims, ModuleHandle},
    interop::read,
};

use crate::scenarios::prelude::*;

/// The library's kernels: the first writes twice the source to the target, whose addresses are
/// fields of a structure, and the second adds the source to the target. The fourth field is no
/// address, and not used.
const KERNELS: &str = include_str!("relocatable.ptx");

struct Library {
    module: ModuleHandle,
    twice: FunctionHandle,
    add: FunctionHandle,
}

impl Library {
    fn load(harness: &Harness) -> Result<Self> {
        let stream = harness.stream();
        let mut word = stream.zeros::<u32>(1)?;
        let mut loaded = None;
        let load = |call: ForeignCall<'_>| {
            let (driver, context) = (call.driver(), call.context());
            // SAFETY: the context is alive.
            let module = unsafe { driver.module_load(context, KERNELS.as_bytes()) }?;
            // SAFETY: the module was just loaded.
            let function = |name| unsafe { driver.module_function(context, module, name) };
            loaded = Some(Self {
                module,
                twice: function("twice")?,
                add: function("add")?,
            });
            Ok::<(), DriverError>(())
        };
        // SAFETY: the call enqueues nothing.
        unsafe { stream.foreign("load", [write(&mut word)], load) }?;
        Ok(loaded.expect("the call was made"))
    }

    /// Unloads the kernels, once all that uses them is complete.
    fn unload(self, stream: &Stream, mut word: Buffer<u32>) -> Result<()> {
        stream.synchronize()?;
        let unload = |call: ForeignCall<'_>| {
            // SAFETY: the module was loaded in this context, and nothing uses it any more.
            unsafe { call.driver().module_unload(call.context(), self.module) }
        };
        // SAFETY: the call enqueues nothing.
        unsafe { stream.foreign("unload", [write(&mut word)], unload) }
    }

    /// Adds twice the first operand to the second by way of the third, the workspace. `number`
    /// makes a number, which no kernel uses, of the first operand's address.
    fn run(&self, call: ForeignCall<'_>, number: impl Fn(u64) -> u64) -> Result<(), DriverError> {
        let [source, target, workspace] = [0, 1, 2].map(|operand| call.address(operand).as_raw());
        let fields = [N as u64, source, workspace, number(source)];
        launch(&call, self.twice, &[(&raw const fields).cast()])?;
        let length = N as u32;
        let params = [
            (&raw const target).cast(),
            (&raw const workspace).cast(),
            (&raw const length).cast(),
        ];
        launch(&call, self.add, &params)
    }
}

/// Launches a kernel of a library with a thread for each of `N` elements.
pub(crate) fn launch(
    call: &ForeignCall<'_>,
    function: FunctionHandle,
    params: &[*const c_void],
) -> Result<(), DriverError> {
    let dims = LaunchDims {
        grid: [N.div_ceil(256) as u32, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
    };
    let (driver, context, stream) = (call.driver(), call.context(), call.stream());
    // SAFETY: the kernels access N elements of their operands, which have as many.
    unsafe { driver.launch_kernel(context, function, &dims, stream, params) }
}

fn upload(stream: &Stream, factor: u32) -> Result<Buffer<u32>> {
    let values: Vec<u32> = (0..N as u32).map(|number| number * factor).collect();
    stream.upload(&values)
}

#[run_by(scenario, |harness|)]
fn g14_a_relocatable_call_takes_other_operands() -> Result<()> {
    let library = Library::load(harness)?;
    let [stream, other] = harness.streams();
    let (x, mut y) = (upload(&stream, 1)?, upload(&stream, 0)?);
    let mut graph = harness.record("library", |r| {
        let recorded = r.stream()?;
        let mut workspace = recorded.zeros::<u32>(N)?;
        let operands = [read(&x), write(&mut y), write(&mut workspace)];
        // SAFETY: the call uses its operands alone, on the given stream, wherever they are.
        unsafe {
            recorded.foreign_relocatable("library", operands, |call| library.run(call, |_| 7))
        }
    })?;
    assert_eq!(graph.figures().nodes, 3, "the workspace is cleared first");
    graph.replay(&stream)?;
    graph.replay(&other)?;
    let values = |factor: u32| -> Vec<u32> { (0..N as u32).map(|n| n * factor).collect() };
    assert_eq!(stream.values(&y)?, values(4));

    let (large, mut target) = (upload(&other, 100)?, upload(&other, 1)?);
    graph.swap(&x, &large)?;
    graph.swap(&y, &mut target)?;
    graph.replay(&stream)?;
    assert_eq!(other.values(&target)?, values(201));
    assert_eq!(other.values(&y)?, values(4));

    let mut second = graph.instance()?;
    second.swap(&target, &mut y)?;
    graph.replay(&stream)?;
    second.replay(&other)?;
    assert_eq!(stream.values(&target)?, values(401));
    assert_eq!(stream.values(&y)?, values(204));
    drop((graph, second));
    library.unload(&stream, y)
}

#[test]
fn g14_a_call_that_depends_on_its_addresses_keeps_them() {
    // With 3, the number of the displaced call differs as an address of the next operand would.
    for factor in [2, 3] {
        scenario(|harness| {
            let library = Library::load(harness)?;
            let stream = harness.stream();
            let (x, mut y) = (upload(&stream, 1)?, upload(&stream, 0)?);
            let mut workspace = stream.zeros::<u32>(N)?;
            let mut graph = harness.record("library", |r| {
                let operands = [read(&x), write(&mut y), write(&mut workspace)];
                // SAFETY: as in the test above; no kernel uses the number.
                unsafe {
                    r.stream()?
                        .foreign_relocatable("library", operands, |call| {
                            library.run(call, |address| address * factor)
                        })
                }
            })?;
            graph.replay(&stream)?;
            let twice: Vec<u32> = (0..N as u32).map(|number| number * 2).collect();
            assert_eq!(stream.values(&y)?, twice);
            let other = upload(&stream, 5)?;
            assert_says(&problem(graph.swap(&x, &other)), "`update` records");
            drop(graph);
            library.unload(&stream, y)
        });
    }
}

#[run_by(scenario, |harness|)]
fn g14_a_call_that_fails_for_other_addresses_is_recorded() -> Result<()> {
    let library = Library::load(harness)?;
    let stream = harness.stream();
    let (x, mut y) = (upload(&stream, 1)?, upload(&stream, 0)?);
    let mut workspace = stream.zeros::<u32>(N)?;
    let here = x.as_raw();
    let graph = harness.record("library", |r| {
        let operands = [read(&x), write(&mut y), write(&mut workspace)];
        // SAFETY: as in the test above.
        unsafe {
            r.stream()?
                .foreign_relocatable("library", operands, |call| {
                    if call.address(0) != here {
                        return Err(DriverError::new("library", ResultCode::INVALID_VALUE));
                    }
                    library.run(call, |_| 7)
                })
        }
    })?;
    graph.replay(&stream)?;
    let twice: Vec<u32> = (0..N as u32).map(|number| number * 2).collect();
    assert_eq!(stream.values(&y)?, twice);
    drop(graph);
    library.unload(&stream, y)
}
