//! Contexts beside the primary one of a device (`Gpu::context_create`).

#![allow(unsafe_code, reason = "calls the simulated driver as a program does")]

use millstream_driver::ContextHandle;

use crate::rules::prelude::*;

const LEGACY: StreamHandle = StreamHandle::LEGACY;
const ONES: FillPattern = FillPattern::U8(1);

/// Calls an unsafe method of the driver.
macro_rules! call {
    ($gpu:ident.$method:ident($($argument:expr),*)) => {
        // SAFETY: the simulator checks handles and addresses, and no host memory is involved.
        unsafe { $gpu.$method($($argument),*) }
    };
}

/// Fills one allocation on the legacy default streams of two contexts, without a wait.
fn fill_in(gpu: &Gpu, contexts: [ContextHandle; 2]) {
    let memory = call!(gpu.mem_alloc(contexts[0], 64)).unwrap();
    for context in contexts {
        call!(gpu.memset_async(context, memory, ONES, 64, LEGACY)).unwrap();
    }
    for context in contexts {
        call!(gpu.context_synchronize(context)).unwrap();
    }
}

#[test]
fn each_context_has_a_legacy_default_stream_of_its_own() {
    let gpu = Gpu::new(SimConfig::new());
    let primary = gpu.primary_context_retain(DEVICE).unwrap();
    let own = gpu.context_create(DEVICE).unwrap();
    fill_in(&gpu, [own, own]);
    assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());
    fill_in(&gpu, [primary, own]);
    let findings = gpu.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].kind, ReportKind::Race);
    let stream = findings[0].later.stream.as_deref();
    assert_eq!(stream, Some("the legacy default stream of own context 1"));
}

#[test]
fn a_destroyed_context_takes_its_objects_along_and_leaves_other_contexts_alone() {
    let gpu = Gpu::new(SimConfig::new());
    let primary = gpu.primary_context_retain(DEVICE).unwrap();
    let own = gpu.context_create(DEVICE).unwrap();
    let kept = call!(gpu.mem_alloc_async(primary, 64, LEGACY)).unwrap();
    let stream = call!(gpu.stream_create(own, false, 0)).unwrap();
    call!(gpu.mem_alloc_async(own, 128, stream)).unwrap();
    call!(gpu.mem_alloc(own, 256)).unwrap();
    call!(gpu.context_destroy(own)).unwrap();
    let counts = gpu.live_object_counts();
    assert_eq!((counts.contexts, counts.streams), (1, 0));
    // An allocation takes at least 512 bytes.
    assert_eq!(counts.device_bytes, 512);
    call!(gpu.memset_async(primary, kept, ONES, 64, LEGACY)).unwrap();
    call!(gpu.context_synchronize(primary)).unwrap();
    assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());
    let error = call!(gpu.context_synchronize(own)).unwrap_err();
    assert_eq!(error.code(), ResultCode::INVALID_CONTEXT);
    assert_eq!(gpu.reports()[0].kind, ReportKind::DeadHandle);
}
