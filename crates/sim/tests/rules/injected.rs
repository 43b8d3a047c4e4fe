//! Injected faults: the calls that they hit, the errors returned, and that a failed call has no
//! effect.

use std::sync::atomic::AtomicBool;

use crate::rules::prelude::*;

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn the_nth_call_of_a_function_fails_and_has_done_nothing() {
    sim.gpu.inject(Fault::nth(2).of("cuMemAllocAsync"));
    let memory = sim.mem_alloc_async(16, stream).unwrap();
    sim.fill(memory, 1, 16, stream);
    let before = sim.gpu.live_object_counts();
    let error = sim.mem_alloc_async(16, stream).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cuMemAllocAsync failed: CUDA_ERROR_OUT_OF_MEMORY (2): injected: call 2 of \
         cuMemAllocAsync"
    );
    assert_eq!(
        sim.gpu.live_object_counts().device_bytes,
        before.device_bytes
    );
    sim.mem_alloc_async(16, stream)
        .expect("the fault hits only call 2");
    assert_eq!(sim.gpu.faults_injected(), 1);
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn every_call_counts_unless_a_function_is_named() {
    sim.gpu
        .inject(Fault::nth(3).answering(ResultCode::NOT_PERMITTED));
    sim.gpu.inject(
        Fault::nth(1)
            .of("cuEventCreate")
            .answering(ResultCode::UNKNOWN),
    );
    let stream = sim.stream();
    sim.event_create(millstream_driver::EventKind::Ordering)
        .fails(ResultCode::UNKNOWN);
    let error = sim.stream_query(stream).unwrap_err();
    assert_eq!(error.code(), ResultCode::NOT_PERMITTED);
    assert_eq!(error.detail(), Some("injected: call 3"));
    sim.event();
    assert_eq!(sim.gpu.faults_injected(), 2);
}

/// Returns which of 200 calls fail, by index.
fn hits(fault: Fault) -> Vec<usize> {
    let gpu = Gpu::new(SimConfig::new());
    gpu.inject(fault);
    (0..200).filter(|_| gpu.device_count().is_err()).collect()
}

#[test]
fn random_faults_are_the_seed_s_and_as_frequent_as_asked() {
    let some = hits(Fault::random(0.25, 1));
    assert_eq!(some, hits(Fault::random(0.25, 1)), "the same on every run");
    assert_ne!(some, hits(Fault::random(0.25, 2)));
    assert!((30..=70).contains(&some.len()), "{} of 200", some.len());
    assert_eq!(hits(Fault::random(0.0, 1)), [0_usize; 0]);
    assert_eq!(hits(Fault::random(f64::NAN, 1)), [0_usize; 0]);
    assert_eq!(hits(Fault::random(1.0, 1)).len(), 200);
    assert_eq!(hits(Fault::random(1.0, 1).of("cuMemAlloc")), [0_usize; 0]);
    assert_eq!(hits(Fault::nth(0)), [0_usize; 0]);
    assert_eq!(hits(Fault::nth(200)), [199]);
}

#[test]
fn faults_of_the_configuration_hit_from_the_first_call_and_are_taken_back() {
    let gpu = Gpu::new(
        SimConfig::new()
            .fault(Fault::nth(1))
            .fault(Fault::random(1.0, 0).of("cuDeviceGetName")),
    );
    assert!(gpu.device_count().is_err());
    assert!(gpu.device_count().is_ok());
    assert!(gpu.device_name(DEVICE).is_err());
    gpu.inject(Fault::nth(1));
    gpu.clear_faults();
    assert!(gpu.device_name(DEVICE).is_ok());
    assert_eq!(gpu.faults_injected(), 2);
}

#[test]
fn a_host_function_whose_call_fails_is_dropped_and_not_called() {
    let sim = SimHarness::new(SimConfig::new());
    let stream = sim.stream();
    let called = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&called);
    sim.gpu.inject(Fault::nth(1).of("cuLaunchHostFunc"));
    sim.try_host_function(stream, move || flag.store(true, SeqCst))
        .fails(ResultCode::OUT_OF_MEMORY);
    assert_eq!(Arc::strong_count(&called), 1);
    sim.stream_synchronize(stream).unwrap();
    assert!(!called.load(SeqCst));
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn a_context_is_lost_at_the_nth_call_and_waiting_threads_get_an_error() {
    let (stream, other) = (sim.stream(), sim.on_device(1));
    let hold = sim.hold(stream);
    let lost = ResultCode::ECC_UNCORRECTABLE;
    thread::scope(|scope| {
        let waits = scope.spawn(|| sim.stream_synchronize(stream));
        thread::sleep(Duration::from_millis(2));
        sim.gpu.inject(Fault::nth(2).losing(DEVICE, lost));
        sim.event();
        let error = sim.mem_alloc(4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cuMemAlloc failed: CUDA_ERROR_ECC_UNCORRECTABLE (214): \
             the context was lost by injected: call 2 (on device 0)"
        );
        waits.join().unwrap().fails(lost);
    });
    sim.context_synchronize().fails(lost);
    other
        .mem_alloc(4)
        .expect("another device is not affected by the lost context");
    assert_eq!(sim.gpu.faults_injected(), 1);
    sim.gpu.inject(Fault::nth(1).losing(DEVICE, lost));
    sim.gpu
        .inject(Fault::nth(1).losing(DeviceOrdinal::from_raw(2), lost));
    other
        .context_synchronize()
        .expect("a fault without a context to lose does not fail the call");
    assert_eq!(sim.gpu.faults_injected(), 1);
    hold.release();
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn a_call_that_does_not_need_the_lost_context_goes_on() {
    sim.gpu
        .inject(Fault::nth(1).losing(DEVICE, ResultCode::ILLEGAL_ADDRESS));
    assert_eq!(sim.gpu.device_count().unwrap(), 1);
    sim.mem_alloc(4).fails(ResultCode::ILLEGAL_ADDRESS);
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn memory_that_others_take_is_out_of_memory_until_they_give_it_back() {
    const MIB: usize = 1 << 20;
    sim.keep_pool_bytes(u64::MAX);
    let plain = sim.mem_alloc(MIB).unwrap();
    let pooled = sim.mem_alloc_async(2 * MIB, stream).unwrap();
    sim.gpu.set_memory_bytes(4 * MIB as u64);
    assert_eq!(sim.mem_info().unwrap(), (MIB as u64, 4 * MIB as u64));
    sim.gpu.set_memory_bytes(MIB as u64);
    sim.mem_alloc(1).fails(ResultCode::OUT_OF_MEMORY);
    sim.mem_alloc_async(1, stream)
        .fails(ResultCode::OUT_OF_MEMORY);
    sim.memset_async(pooled, FillPattern::U8(1), 2 * MIB, stream)
        .expect("existing allocations stay valid when the memory shrinks");
    sim.mem_free_async(pooled, stream).unwrap();
    sim.mem_alloc_async(2 * MIB, stream)
        .expect("the pool reuses its own memory when no other is free");
    sim.gpu.set_memory_bytes(64 * MIB as u64);
    sim.mem_alloc_async(8 * MIB, stream).unwrap();
    sim.mem_free(plain).unwrap();
    sim.assert_clean();
}
