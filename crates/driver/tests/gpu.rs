//! The seam on a real GPU. Without one, every test is listed as ignored; with `MILLSTREAM_DEVICE=cuda:0` it fails instead.

#![allow(unsafe_code, reason = "the seam's methods trust their caller")]

use std::{
    env,
    ffi::c_void,
    process::ExitCode,
    ptr,
    sync::{Arc, mpsc},
    time::Duration,
};

use libtest_mimic::{Arguments, Failed, Trial};
use millstream_driver::{
    Completion, ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, EventKind, FillPattern,
    FunctionHandle, LaunchDims, ModuleHandle, ResultCode, StreamHandle,
    cuda::{Cuda, LoadError, ParamLayout},
};

/// `scale(float *data, float factor, unsigned n)`: multiplies each of `n` elements; and a variable of 8 bytes.
const SCALE_PTX: &str = r#"
.version 7.0
.target sm_52
.address_size 64

.global .align 8 .u64 marker = 42;

.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.f32 %f1, [factor];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p, %r5, %r1;
    @%p bra DONE;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r5, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.f32 %f2, [%rd3];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%rd3], %f2;
DONE:
    ret;
}
"#;

type Outcome = Result<(), Failed>;

type Test = (&'static str, fn(&Gpu) -> Outcome);

const TESTS: &[Test] = &[
    ("device_facts", device_facts),
    (
        "copies_and_fills_in_stream_order",
        copies_and_fills_in_stream_order,
    ),
    (
        "synchronous_copies_and_plain_allocation",
        synchronous_copies_and_plain_allocation,
    ),
    ("page_locked_memory", page_locked_memory),
    (
        "events_order_streams_and_measure_time",
        events_order_streams_and_measure_time,
    ),
    ("ptx_loads_and_launches", ptx_loads_and_launches),
    ("bad_ptx_gives_the_compilers_log", bad_ptx_gives_the_compilers_log),
    (
        "host_functions_run_in_stream_order",
        host_functions_run_in_stream_order,
    ),
    (
        "explicit_handles_need_no_current_context",
        explicit_handles_need_no_current_context,
    ),
    ("pool_counters", pool_counters),
    (
        "misuse_is_an_error_that_names_the_call",
        misuse_is_an_error_that_names_the_call,
    ),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let demanded = env::var("MILLSTREAM_DEVICE")
        .ok()
        .filter(|value| value.starts_with("cuda"));
    let ignored = demanded.is_none() && Cuda::load().is_err();
    let ordinal = demanded
        .and_then(|value| value.strip_prefix("cuda:").and_then(|number| number.parse().ok()))
        .unwrap_or(0);
    let trials = TESTS
        .iter()
        .map(|&(name, test)| {
            let trial = Trial::test(name, move || test(&Gpu::open(DeviceOrdinal::from_raw(ordinal))?));
            let kind = if ignored { "needs a GPU" } else { "" };
            trial.with_kind(kind).with_ignored_flag(ignored)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A device with its context and one stream.
struct Gpu {
    cuda: Arc<Cuda>,
    device: DeviceOrdinal,
    context: ContextHandle,
    stream: StreamHandle,
}

impl Gpu {
    fn open(device: DeviceOrdinal) -> Result<Self, Failed> {
        let cuda = Cuda::load().map_err(|error: LoadError| error.to_string())?;
        let context = cuda.primary_context_retain(device)?;
        // SAFETY: the context was retained just now.
        let stream = unsafe { cuda.stream_create(context, true, 0) }?;
        Ok(Self {
            cuda,
            device,
            context,
            stream,
        })
    }

    fn synchronize(&self) -> Outcome {
        // SAFETY: the stream lives as long as `self`.
        Ok(unsafe { self.cuda.stream_synchronize(self.context, self.stream) }?)
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr, Failed> {
        // SAFETY: the stream lives as long as `self`.
        Ok(unsafe { self.cuda.mem_alloc_async(self.context, bytes, self.stream) }?)
    }

    fn free(&self, pointer: DevicePtr) -> Outcome {
        // SAFETY: each test frees what it allocated, once, after its last use of it in this stream.
        Ok(unsafe { self.cuda.mem_free_async(self.context, pointer, self.stream) }?)
    }

    /// Copies to the device, complete on return.
    fn write<T: bytemuck::Pod>(&self, target: DevicePtr, values: &[T]) -> Outcome {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        // SAFETY: the tests pass an allocation of their own that is large enough, and the source outlives the copy.
        unsafe {
            self.cuda.copy_host_to_device_async(
                self.context,
                target,
                bytes.as_ptr(),
                bytes.len(),
                self.stream,
            )
        }?;
        self.synchronize()
    }

    /// Copies back from the device, complete on return.
    fn read<T: bytemuck::Pod>(&self, source: DevicePtr, count: usize) -> Result<Vec<T>, Failed> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        // SAFETY: the tests pass an allocation of their own that is large enough, and the target outlives the copy.
        unsafe {
            self.cuda.copy_device_to_host_async(
                self.context,
                bytes.as_mut_ptr(),
                source,
                bytes.len(),
                self.stream,
            )
        }?;
        self.synchronize()?;
        Ok(values)
    }

    fn load(&self, ptx: &str) -> Result<ModuleHandle, Failed> {
        // SAFETY: the context is retained.
        Ok(unsafe { self.cuda.module_load(self.context, ptx.as_bytes()) }?)
    }

    /// Enqueues `scale` over `count` elements.
    fn scale(&self, function: FunctionHandle, data: DevicePtr, factor: f32, count: u32) -> Outcome {
        let dims = LaunchDims {
            grid: [count.div_ceil(128), 1, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
        };
        let params: [*const c_void; 3] = [
            (&raw const data).cast(),
            (&raw const factor).cast(),
            (&raw const count).cast(),
        ];
        // SAFETY: the arguments have the kernel's types, and the tests pass an allocation of at least `count` elements.
        Ok(unsafe {
            self.cuda
                .launch_kernel(self.context, function, &dims, self.stream, &params)
        }?)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // A failure here has shown itself in a call before.
        // SAFETY: nobody else has the stream.
        let _ = unsafe { self.cuda.stream_destroy(self.context, self.stream) };
        // SAFETY: the reference of `open` is given back, once.
        let _ = unsafe { self.cuda.primary_context_release(self.device) };
    }
}

fn check(holds: bool, claim: &str) -> Outcome {
    if holds { Ok(()) } else { Err(claim.into()) }
}

fn device_facts(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        device,
        context,
        ..
    } = gpu;
    check(cuda.driver_version()? >= 12_000, "driver version")?;
    check(!cuda.device_name(*device)?.is_empty(), "a name")?;
    check(
        cuda.device_attribute(*device, DeviceAttribute::WARP_SIZE)? == 32,
        "warps of 32",
    )?;
    check(
        cuda.device_attribute(*device, DeviceAttribute::UNIFIED_ADDRESSING)? == 1,
        "unified addresses",
    )?;
    // SAFETY: the context is retained.
    let (free, total) = unsafe { cuda.mem_info(*context) }?;
    check(
        0 < free && free <= total && total <= cuda.device_total_bytes(*device)?,
        "memory adds up",
    )?;
    // SAFETY: the context is retained.
    let range = unsafe { cuda.stream_priority_range(*context) }?;
    check(
        range.greatest <= range.least,
        "greater priorities have lower numbers",
    )?;
    let before = cuda.now_ns();
    cuda.pause(Duration::from_millis(2));
    check(
        cuda.now_ns() >= before + 2_000_000,
        "the clock is that of `pause`",
    )
}

fn copies_and_fills_in_stream_order(gpu: &Gpu) -> Outcome {
    const COUNT: usize = 1000;
    let (a, b) = (gpu.alloc(COUNT * 4)?, gpu.alloc(COUNT * 4)?);
    let fill = |target: DevicePtr, pattern: FillPattern, count: usize| {
        // SAFETY: every use below stays within its allocation of `COUNT` words.
        unsafe {
            gpu.cuda
                .memset_async(gpu.context, target, pattern, count, gpu.stream)
        }
    };
    fill(a, FillPattern::U32(0x0102_0304), COUNT)?;
    fill(a, FillPattern::U16(0xabcd), 2)?;
    fill(a.offset(4), FillPattern::U8(0xff), 4)?;
    // SAFETY: both allocations have this size.
    unsafe {
        gpu.cuda
            .copy_device_to_device_async(gpu.context, b, a, COUNT * 4, gpu.stream)
    }?;
    let words: Vec<u32> = gpu.read(b, COUNT)?;
    check(words[..2] == [0xabcd_abcd, 0xffff_ffff], "the narrow fills")?;
    check(
        words[2..].iter().all(|&word| word == 0x0102_0304),
        "the wide fill",
    )?;

    let values: Vec<u32> = (0..COUNT as u32).collect();
    gpu.write(a, &values)?;
    // SAFETY: both allocations have this size.
    unsafe {
        gpu.cuda
            .copy_unified_async(gpu.context, b, a, COUNT * 4, gpu.stream)
    }?;
    check(gpu.read::<u32>(b, COUNT)? == values, "the round trip")?;
    gpu.free(a)?;
    gpu.free(b)?;
    gpu.synchronize()
}

fn synchronous_copies_and_plain_allocation(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    let values: [u64; 4] = [1, 2, 3, u64::MAX];
    let bytes = size_of_val(&values);
    // SAFETY: the context is retained.
    let a = unsafe { cuda.mem_alloc(*context, bytes) }?;
    // SAFETY: the context is retained.
    let b = unsafe { cuda.mem_alloc(*context, bytes) }?;
    let mut back = [0_u64; 4];
    // SAFETY: the source is readable, the target an allocation of that size.
    unsafe { cuda.copy_host_to_device(*context, a, values.as_ptr().cast(), bytes) }?;
    // SAFETY: both are allocations of that size.
    unsafe { cuda.copy_device_to_device(*context, b, a, bytes) }?;
    // SAFETY: the target is writable, the source an allocation of that size.
    unsafe { cuda.copy_device_to_host(*context, back.as_mut_ptr().cast(), b, bytes) }?;
    // SAFETY: freed once, nothing uses it any more.
    unsafe { cuda.mem_free(*context, a) }?;
    // SAFETY: freed once, nothing uses it any more.
    unsafe { cuda.mem_free(*context, b) }?;
    check(back == values, "the values came back")
}

fn page_locked_memory(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    const BYTES: usize = 4096;
    // SAFETY: the context is retained, and the size is not 0.
    let pinned = unsafe { cuda.host_alloc(*context, BYTES) }?;
    // SAFETY: the memory has this size, and nobody else uses it.
    unsafe { ptr::write_bytes(pinned.as_ptr(), 7, BYTES) };
    let device = gpu.alloc(BYTES)?;
    // SAFETY: both have this size, and the host leaves the source alone until the stream is synchronised below.
    unsafe { cuda.copy_host_to_device_async(*context, device, pinned.as_ptr(), BYTES, gpu.stream) }?;
    check(
        gpu.read::<u8>(device, BYTES)? == [7; BYTES],
        "what was written in page-locked memory",
    )?;
    // SAFETY: freed once; the copy from it is done.
    unsafe { cuda.host_free(*context, pinned) }?;

    let mut own = vec![9_u8; BYTES];
    let start = ptr::NonNull::new(own.as_mut_ptr()).ok_or("a vector's pointer is not null")?;
    // SAFETY: the vector lives until after it is unregistered.
    unsafe { cuda.host_register(*context, start, BYTES) }?;
    // SAFETY: this must fail: the range is registered already.
    let again = unsafe { cuda.host_register(*context, start, BYTES) };
    // SAFETY: both have this size, and the host leaves the source alone until the stream is synchronised below.
    unsafe { cuda.copy_host_to_device_async(*context, device, start.as_ptr(), BYTES, gpu.stream) }?;
    let back = gpu.read::<u8>(device, BYTES)?;
    // SAFETY: registered above; the copy from it is done.
    unsafe { cuda.host_unregister(*context, start) }?;
    gpu.free(device)?;
    check(back == own, "what was written in registered memory")?;
    check(
        again.is_err_and(|error| error.code() == ResultCode::HOST_MEMORY_ALREADY_REGISTERED),
        "a second registration is refused",
    )
}

fn events_order_streams_and_measure_time(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        ..
    } = gpu;
    const BYTES: usize = 64 << 20;
    let data = gpu.alloc(BYTES)?;
    // SAFETY: the context is retained.
    let start = unsafe { cuda.event_create(*context, EventKind::Timing) }?;
    // SAFETY: the context is retained.
    let end = unsafe { cuda.event_create(*context, EventKind::Timing) }?;
    // SAFETY: the context is retained.
    let order = unsafe { cuda.event_create(*context, EventKind::Ordering) }?;
    // SAFETY: the event is alive.
    let never_recorded = unsafe { cuda.event_query(*context, order) }?;
    check(
        never_recorded == Completion::Complete,
        "a never-recorded event counts as complete",
    )?;

    // SAFETY: event and stream are of this context.
    unsafe { cuda.event_record(*context, start, *stream) }?;
    for _ in 0..8 {
        // SAFETY: the allocation has this size.
        unsafe { cuda.memset_async(*context, data, FillPattern::U8(1), BYTES, *stream) }?;
    }
    // SAFETY: the allocation has this size.
    unsafe { cuda.memset_async(*context, data, FillPattern::U8(2), BYTES, *stream) }?;
    // SAFETY: event and stream are of this context.
    unsafe { cuda.event_record(*context, end, *stream) }?;
    // SAFETY: event and stream are of this context.
    unsafe { cuda.event_record(*context, order, *stream) }?;

    let second = Gpu::open(gpu.device)?;
    // SAFETY: event and stream are alive.
    unsafe { cuda.stream_wait_event(*context, second.stream, order) }?;
    let last: Vec<u8> = second.read(data.offset(BYTES as u64 - 16), 16)?;
    check(last == [2; 16], "the other stream waited for the fill")?;
    // SAFETY: the event is alive.
    unsafe { cuda.event_synchronize(*context, end) }?;
    // SAFETY: the stream is alive.
    let state = unsafe { cuda.stream_query(*context, *stream) }?;
    check(state.is_complete(), "everything before the event is done")?;
    // SAFETY: both events are alive.
    let milliseconds = unsafe { cuda.event_elapsed_ms(*context, start, end) }?;
    check(milliseconds > 0.0, "time has passed between the events")?;
    for event in [start, end, order] {
        // SAFETY: destroyed once and not used again.
        unsafe { cuda.event_destroy(*context, event) }?;
    }
    gpu.free(data)
}

fn ptx_loads_and_launches(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    const COUNT: u32 = 1000;
    let module = gpu.load(SCALE_PTX)?;
    // SAFETY: the module is loaded.
    let function = unsafe { cuda.module_function(*context, module, "scale") }?;
    // SAFETY: the function is of a loaded module.
    let threads = unsafe { cuda.function_max_threads(*context, function) }?;
    check(threads >= 128, "blocks of 128 are possible")?;
    // SAFETY: the function is of a loaded module of this context.
    if let Some(params) = unsafe { cuda.function_params(*context, function) }? {
        let published = [(0, 8), (8, 4), (12, 4)].map(|(offset, size)| ParamLayout { offset, size });
        check(
            params == published,
            "the driver sees the parameters where they are",
        )?;
    }

    let input: Vec<f32> = (0..COUNT).map(|index| index as f32).collect();
    let data = gpu.alloc(COUNT as usize * 4)?;
    gpu.write(data, &input)?;
    gpu.scale(function, data, 0.5, COUNT - 1)?;
    let output: Vec<f32> = gpu.read(data, COUNT as usize)?;
    let (last, scaled) = output.split_last().ok_or("not empty")?;
    check(
        *last == (COUNT - 1) as f32,
        "the element past the count is as it was",
    )?;
    check(
        scaled.iter().zip(&input).all(|(out, input)| *out == input * 0.5),
        "every element is scaled",
    )?;

    // SAFETY: the module is loaded.
    let (marker, bytes) = unsafe { cuda.module_global(*context, module, "marker") }?;
    check(
        bytes == 8 && gpu.read::<u64>(marker, 1)? == [42],
        "the variable and its first value",
    )?;
    // SAFETY: the module is loaded.
    let absent = unsafe { cuda.module_function(*context, module, "absent") };
    check(
        absent.is_err_and(|e| e.code() == ResultCode::NOT_FOUND && e.to_string().contains("`absent`")),
        "an absent kernel is named",
    )?;
    gpu.free(data)?;
    gpu.synchronize()?;
    // SAFETY: nothing of the module runs any more.
    Ok(unsafe { cuda.module_unload(*context, module) }?)
}

fn bad_ptx_gives_the_compilers_log(gpu: &Gpu) -> Outcome {
    let broken = SCALE_PTX.replace("mul.wide.u32", "mul.narrow.u32");
    // SAFETY: the context is retained.
    let error = match unsafe { gpu.cuda.module_load(gpu.context, broken.as_bytes()) } {
        Ok(_) => return Err("PTX with an unknown opcode was loaded".into()),
        Err(error) => error,
    };
    check(
        error.code() == ResultCode::INVALID_PTX,
        "the result says that it is the PTX",
    )?;
    let log = error.detail().ok_or("no log")?;
    check(
        log.contains("line") && log.contains("narrow"),
        &format!("the log says where and what: {log}"),
    )
}

fn host_functions_run_in_stream_order(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        ..
    } = gpu;
    let (sender, receiver) = mpsc::channel();
    for number in 0..4 {
        let sender = sender.clone();
        let function = Box::new(move || {
            sender.send(number).expect("the receiver waits");
            assert_ne!(number, 1, "a panic in a host function is dropped");
        });
        // SAFETY: the stream is alive, and the function calls no driver.
        unsafe { cuda.launch_host_function(*context, *stream, function) }?;
    }
    gpu.synchronize()?;
    drop(sender);
    check(
        receiver.iter().collect::<Vec<_>>() == [0, 1, 2, 3],
        "in order, the one that panics too",
    )
}

fn explicit_handles_need_no_current_context(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        ..
    } = gpu;
    // SAFETY: the context is retained.
    let event = unsafe { cuda.event_create(*context, EventKind::Timing) }?;
    let on_a_fresh_thread = || -> Outcome {
        // SAFETY: event and stream are alive and of one context.
        unsafe { cuda.event_record(*context, event, *stream) }?;
        // SAFETY: as above.
        unsafe { cuda.stream_wait_event(*context, *stream, event) }?;
        let pointer = gpu.alloc(1 << 20)?;
        gpu.free(pointer)?;
        // SAFETY: the stream is alive, and the function calls no driver.
        unsafe { cuda.launch_host_function(*context, *stream, Box::new(|| {})) }?;
        // SAFETY: as above.
        unsafe { cuda.event_query(*context, event) }?;
        // SAFETY: as above.
        unsafe { cuda.stream_query(*context, *stream) }?;
        gpu.synchronize()?;
        // SAFETY: as above.
        unsafe { cuda.event_synchronize(*context, event) }?;
        // SAFETY: as above.
        let milliseconds = unsafe { cuda.event_elapsed_ms(*context, event, event) }?;
        check(milliseconds == 0.0, "no time from an event to itself")?;
        // SAFETY: destroyed once and not used again.
        Ok(unsafe { cuda.event_destroy(*context, event) }?)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(on_a_fresh_thread);
        thread
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".into()))
    })?;

    // A shared handle does need one, and gets it: also after other code changed it and said so.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Outcome {
            // SAFETY: the context is retained.
            unsafe { cuda.stream_synchronize(*context, StreamHandle::PER_THREAD) }?;
            Cuda::forget_current_context();
            // SAFETY: the context is retained.
            Ok(unsafe { cuda.stream_synchronize(*context, StreamHandle::LEGACY) }?)
        });
        thread
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".into()))
    })
}

fn pool_counters(gpu: &Gpu) -> Outcome {
    const BYTES: usize = 32 << 20;
    let pool = gpu.cuda.default_pool(gpu.device)?;
    // SAFETY: the default pool lives as long as the device.
    unsafe { gpu.cuda.pool_set_release_threshold(pool, u64::MAX) }?;
    let pointer = gpu.alloc(BYTES)?;
    // SAFETY: as above.
    let usage = unsafe { gpu.cuda.pool_usage(pool) }?;
    check(usage.used_bytes >= BYTES as u64, "the allocation is counted")?;
    check(usage.used_peak_bytes >= usage.used_bytes, "the peak is no less")?;
    check(
        usage.reserved_bytes >= usage.used_bytes,
        "what is used is reserved",
    )?;
    check(
        usage.reserved_peak_bytes >= usage.reserved_bytes,
        "the peak is no less",
    )?;
    gpu.free(pointer)?;
    gpu.synchronize()?;
    // SAFETY: as above.
    Ok(unsafe { gpu.cuda.pool_trim(pool, 0) }?)
}

fn misuse_is_an_error_that_names_the_call(gpu: &Gpu) -> Outcome {
    let absent = gpu.cuda.device_name(DeviceOrdinal::from_raw(9999));
    check(
        absent.is_err_and(|e| e.call() == "cuDeviceGet" && e.code() == ResultCode::INVALID_DEVICE),
        "an absent device",
    )?;
    // SAFETY: the context is retained; an allocation that cannot succeed.
    let huge = unsafe { gpu.cuda.mem_alloc(gpu.context, 1 << 60) };
    check(
        huge.is_err_and(|e| e.call() == "cuMemAlloc" && e.code() == ResultCode::OUT_OF_MEMORY),
        "an allocation larger than any device",
    )
}
