//! Rule 13 and launches: modules, arguments, dimensions, and a vector addition from end to end.

use millstream_driver::{FillPattern, FunctionAttribute, LaunchDims, ResultCode};
use millstream_sim::{ReportKind, SimConfig};

use crate::rules::sim_harness::{
    Arg, Fails, SimHarness, by_default, each_schedule_and_stream, with_stream,
};

pub(crate) const VECADD: &str = include_str!("../../../../kernels/vecadd.ptx");

/// `set(address, value)`: every thread stores `value` at `address` plus four times its index.
pub(crate) const SET: &str = include_str!("set.ptx");

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn variables_of_a_module_live_as_long_as_it() {
    let module = sim.module_load(SET.as_bytes()).unwrap();
    let count = sim.module_function(module, "count").unwrap();
    let (counter, bytes) = sim.module_global(module, "counter").unwrap();
    assert_eq!(bytes, 4);
    assert_eq!(sim.read(counter, 4, stream), [41, 0, 0, 0]);
    let memory = sim.mem_alloc(4).unwrap();
    for _ in 0..2 {
        sim.launch(count, (1, 1), stream, &[Arg::Pointer(memory)])
            .unwrap();
    }
    assert_eq!(sim.read(memory, 4, stream), [43, 0, 0, 0]);
    let (limit, _) = sim.module_global(module, "limit").unwrap();
    assert_eq!(sim.read(limit, 4, stream), [7, 0, 0, 0]);
    sim.module_global(module, "nothing")
        .fails(ResultCode::NOT_FOUND);
    sim.assert_clean();
    sim.module_unload(module).unwrap();
    assert_eq!(sim.gpu.live_object_counts().modules, 0);
    sim.mem_free(memory).unwrap();
    assert_eq!(sim.gpu.live_object_counts().device_bytes, 0);
    let fill = sim.memset_async(counter, FillPattern::U8(0), 4, stream);
    fill.fails(ResultCode::INVALID_VALUE);
    sim.launch(count, (1, 1), stream, &[])
        .fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(ReportKind::DeadHandle, &["function 1"]);
}

#[run_by(by_default, |sim|)]
fn the_host_cannot_find_a_variable_that_a_function_declares() {
    let source = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry first() { .global .u32 both = 1; ret; }
.visible .global .u32 both = 2;
.visible .entry second() { .global .u64 own; ret; }";
    let stream = sim.stream();
    let module = sim.module_load(source.as_bytes()).unwrap();
    let (both, bytes) = sim.module_global(module, "both").unwrap();
    assert_eq!((bytes, sim.read(both, 4, stream)), (4, vec![2, 0, 0, 0]));
    sim.module_global(module, "own")
        .fails(ResultCode::NOT_FOUND);
    sim.module_unload(module).unwrap();
    assert_eq!(sim.gpu.live_object_counts().device_bytes, 0);
}

#[run_by(by_default, |sim|)]
fn a_newer_target_is_noted_once_and_not_reported() {
    assert!(sim.gpu.notes().is_empty());
    let newer = SET.replace("sm_75", "sm_120a");
    sim.module_load(newer.as_bytes()).unwrap();
    sim.module_load(newer.as_bytes()).unwrap();
    sim.module_load(SET.as_bytes()).unwrap();
    let notes = sim.gpu.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("the target sm_120a is newer"),
        "{notes:?}"
    );
    sim.assert_clean();
}

#[run_by(with_stream, |sim, stream|)]
fn a_kernel_with_an_unsupported_instruction_is_refused_where_it_is_used() {
    let tensor = ".func f() { wgmma.fence.sync.aligned; ret; }
        .visible .entry tensor() { call f; ret; }";
    let source = format!("{SET}{tensor}");
    let module = sim.module_load(source.as_bytes()).unwrap();
    let tensor = sim.module_function(module, "tensor").unwrap();
    let reason = "kernel `tensor` cannot run on the simulated device: line 54: unsupported opcode";
    assert_eq!(sim.gpu.notes().len(), 1);
    assert!(
        sim.gpu.notes()[0].starts_with(reason),
        "{:?}",
        sim.gpu.notes()
    );
    let threads = sim.function_attribute(tensor, FunctionAttribute::MAX_THREADS_PER_BLOCK);
    assert_eq!(threads.unwrap(), 1024);
    let error = sim.function_load(tensor).unwrap_err();
    assert_eq!(error.code(), ResultCode::INVALID_PTX);
    assert!(error.detail().unwrap().starts_with(reason), "{error}");
    sim.assert_clean();
    sim.launch(tensor, (1, 1), stream, &[])
        .fails(ResultCode::INVALID_PTX);
    sim.assert_reported(ReportKind::BadLaunch, &[reason]);
    let memory = sim.mem_alloc(4).unwrap();
    let set = sim.module_function(module, "set").unwrap();
    let args = [Arg::Pointer(memory), Arg::U32(5)];
    sim.launch(set, (1, 1), stream, &args).unwrap();
    assert_eq!(sim.read(memory, 4, stream), [5, 0, 0, 0]);
}

#[run_by(with_stream, |sim, stream|)]
fn unloading_a_module_in_use_is_reported() {
    let module = sim.module_load(SET.as_bytes()).unwrap();
    let of_64 = sim.module_function(module, "of_64").unwrap();
    let hold = sim.hold(stream);
    sim.launch(of_64, (1, 64), stream, &[]).unwrap();
    sim.module_unload(module).unwrap();
    sim.assert_reported(
        ReportKind::StillInUse,
        &["module 1", "kernel `of_64`, operation 2"],
    );
    hold.release();
    sim.stream_synchronize(stream).unwrap();
}

#[run_by(by_default, |sim|)]
fn images_that_are_not_ptx_are_refused_with_the_reason() {
    for (image, code, reason) in [
        (&b""[..], ResultCode::INVALID_IMAGE, "empty"),
        (b"\0\0", ResultCode::INVALID_IMAGE, "empty"),
        (b"\x7fELF\x02\x00\x01", ResultCode::INVALID_IMAGE, "binary"),
        (b"\xff\xfe", ResultCode::INVALID_IMAGE, "UTF-8"),
        (b"int main() {}", ResultCode::INVALID_PTX, "line 1"),
        (
            b".version 8.0\n.target sm_75\n.address_size 64\n.entry k() {\n frobnicate.u32 1;\n}",
            ResultCode::INVALID_PTX,
            "line 5",
        ),
    ] {
        let error = sim.module_load(image).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.detail().unwrap().contains(reason), "{error}");
    }
    let mut terminated = VECADD.as_bytes().to_vec();
    terminated.push(0);
    sim.module_load(&terminated).unwrap();
    sim.assert_clean();
    assert_eq!(sim.gpu.live_object_counts().modules, 1);
}

#[run_by(by_default, |sim|)]
fn a_kernel_that_is_not_there_is_not_found() {
    let module = sim.module_load(SET.as_bytes()).unwrap();
    let error = sim.module_function(module, "nothing").unwrap_err();
    assert_eq!(error.code(), ResultCode::NOT_FOUND);
    assert!(error.detail().unwrap().contains("set, count"), "{error}");
    let set = sim.module_function(module, "set").unwrap();
    assert_eq!(sim.module_function(module, "set").unwrap(), set);
}

#[run_by(with_stream, |sim, stream|)]
fn launches_of_a_wrong_shape_are_refused() {
    let module = sim.module_load(SET.as_bytes()).unwrap();
    let function = |name| sim.module_function(module, name).unwrap();
    let launch = |name, grid, block, shared_bytes| {
        let dims = LaunchDims {
            grid,
            block,
            shared_bytes,
        };
        sim.launch_shaped(function(name), &dims, stream, &[])
    };
    let invalid = ResultCode::INVALID_VALUE;
    for (grid, block, shared) in [
        ([0, 1, 1], [1, 1, 1], 0),
        ([1, 1, 1], [1, 0, 1], 0),
        ([1, 65_536, 1], [1, 1, 1], 0),
        ([1 << 31, 1, 1], [1, 1, 1], 0),
        ([1, 1, 1], [1025, 1, 1], 0),
        ([1, 1, 1], [1, 1, 65], 0),
        ([1, 1, 1], [32, 32, 2], 0),
        ([1, 1, 1], [1, 1, 1], (48 << 10) + 1),
        ([1, 1, 1], [1, 1, 1], u32::MAX),
    ] {
        launch("at_most_64", grid, block, shared).fails(invalid);
        sim.assert_reported(ReportKind::BadLaunch, &["kernel `at_most_64`"]);
    }
    launch("at_most_64", [1; 3], [65, 1, 1], 0).fails(invalid);
    launch("of_64", [1; 3], [32, 1, 1], 0).fails(invalid);
    launch("shares", [1; 3], [1; 3], 10_000).fails(invalid);
    launch("shares", [1; 3], [1; 3], 9_000).unwrap();
    launch("of_64", [1; 3], [64, 1, 1], 0).unwrap();
    launch("at_most_64", [2, 2, 2], [1, 8, 8], 48 << 10).unwrap();
    sim.stream_synchronize(stream).unwrap();
    let threads =
        |name| sim.function_attribute(function(name), FunctionAttribute::MAX_THREADS_PER_BLOCK);
    assert_eq!(threads("at_most_64").unwrap(), 64);
    assert_eq!(threads("set").unwrap(), 1024);
}

#[run_by(with_stream, |sim, stream|)]
fn r57_a_wrong_size_of_dynamic_shared_memory_is_reported_with_the_limits() {
    const DYNAMIC: FunctionAttribute = FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES;
    let module = sim.module_load(SET.as_bytes()).unwrap();
    let function = |name| sim.module_function(module, name).unwrap();
    let (none, some) = (function("at_most_64"), function("shares"));
    let launch = |function, shared_bytes| {
        let dims = LaunchDims {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes,
        };
        sim.launch_shaped(function, &dims, stream, &[])
    };
    for (function, own) in [(none, 0), (some, 40_000)] {
        let limit = (227 << 10) - own;
        launch(function, (48 << 10) - own as u32 + 1).fails(ResultCode::INVALID_VALUE);
        let (wanted, most) = (
            format!("{} bytes of dynamic", (48 << 10) - own + 1),
            format!("up to {limit}"),
        );
        sim.assert_reported(ReportKind::BadLaunch, &[&wanted, &most]);
        for bytes in [limit + 1, -1, i32::MAX, i32::MIN] {
            let set = sim.function_set_attribute(function, DYNAMIC, bytes);
            set.fails(ResultCode::INVALID_VALUE);
            sim.assert_reported(ReportKind::BadLaunch, &[&format!("use 0 to {limit}")]);
        }
        sim.function_set_attribute(function, DYNAMIC, 100_000)
            .unwrap();
        assert_eq!(sim.function_attribute(function, DYNAMIC).unwrap(), 100_000);
        launch(function, 100_001).fails(ResultCode::INVALID_VALUE);
        sim.assert_reported(ReportKind::BadLaunch, &["100001 bytes of dynamic"]);
    }
    for attribute in [
        FunctionAttribute::SHARED_BYTES,
        FunctionAttribute::from_raw(77),
    ] {
        let set = sim.function_set_attribute(none, attribute, 1);
        set.fails(ResultCode::INVALID_VALUE);
    }
    let unknown = sim.function_attribute(none, FunctionAttribute::from_raw(77));
    unknown.fails(ResultCode::INVALID_VALUE);
    // The same module loaded again has separate kernels with separate limits.
    let again = sim.module_load(SET.as_bytes()).unwrap();
    let again = sim.module_function(again, "at_most_64").unwrap();
    launch(again, 100_000).fails(ResultCode::INVALID_VALUE);
}

#[run_by(with_stream, |sim, stream|)]
fn launches_with_wrong_arguments_are_refused() {
    let set = sim.kernel(SET, "set");
    let count = sim.kernel(SET, "count");
    sim.launch(set, (1, 1), stream, &[Arg::U64(0)])
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::BadLaunch, &["1 arguments for 2 parameters"]);
    sim.launch_with_null(count, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::BadLaunch, &["argument 0 is a null pointer"]);
    assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
}

#[test]
fn a_kernel_of_another_context_is_refused() {
    let sim = SimHarness::new(SimConfig::new().devices(2));
    let other = sim.on_device(1);
    let foreign = other.kernel(SET, "of_64");
    let stream = sim.stream();
    sim.launch(foreign, (1, 64), stream, &[])
        .fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(
        ReportKind::WrongContext,
        &["function 1", "the context of device 1"],
    );
}
