//! Rules 32 to 37: memory that is allocated and freed in stream order.

use std::thread;

use millstream_driver::{DevicePtr, FillPattern, StreamHandle};

use crate::{
    gate::Gate,
    rig::{Outcome, Rig, check},
};

/// More than a pool takes from the system at once on its own account.
const LARGE: usize = 64 << 20;

pub(crate) fn r32(rig: &Rig) -> Outcome {
    let (owner, user) = (rig.stream()?, rig.stream()?);
    let (source, target) = (rig.pinned(4, 6)?, rig.pinned(4, 0)?);
    let mut memory = DevicePtr::from_raw(0);
    let gate = rig.gate(owner)?;
    let gate = rig.returns(gate, || {
        memory = rig.mem_alloc_async(4, owner)?;
        let begun = rig.recorded(owner)?;
        rig.stream_wait_event(user, begun)?;
        rig.upload(memory, source, user)?;
        rig.download(target, memory, user)?;
        let used = rig.recorded(user)?;
        rig.stream_wait_event(owner, used)?;
        rig.event_destroy(begun)?;
        rig.event_destroy(used)?;
        rig.mem_free_async(memory, owner)
    })?;
    check(memory.as_raw() != 0, "the address is known at once")?;
    check(rig.stays_pending(user)?, "the use waits for the allocation")?;
    check(target.is(0), "nothing has run")?;
    gate.open();
    rig.stream_synchronize(owner)?;
    check(target.is(6), "between allocation and free")?;
    Ok("returns; right between allocation and free".into())
}

pub(crate) fn r33(rig: &Rig) -> Outcome {
    let stream = rig.stream()?;
    let plain = rig.mem_alloc(4)?;
    rig.mem_free_async(plain, stream)?;
    let pooled = rig.mem_alloc_async(4, stream)?;
    rig.stream_synchronize(stream)?;
    rig.mem_free(pooled)?;
    rig.stream_synchronize(stream)?;
    Ok("both ways".into())
}

/// Fills, frees, allocates as much again on `next`, and fills that: that values come in order, and
/// where the second was. The gate, if there is one, is opened when all of it is enqueued.
fn reuse(
    rig: &Rig,
    (first, next): (StreamHandle, StreamHandle),
    gate: Option<Gate>,
    order: impl FnOnce() -> Result<(), libtest_mimic::Failed>,
) -> Result<&'static str, libtest_mimic::Failed> {
    rig.keep_pool_bytes(u64::MAX)?;
    let host = rig.pinned(2, 0)?;
    let old = rig.mem_alloc_async(LARGE, first)?;
    rig.memset_async(old, FillPattern::U8(1), LARGE, first)?;
    rig.download(host.part(0, 1), old.offset(LARGE as u64 - 1), first)?;
    rig.mem_free_async(old, first)?;
    let before = rig.pool_usage()?.reserved_bytes;
    order()?;
    let new = rig.mem_alloc_async(LARGE, next)?;
    let grown = rig.pool_usage()?.reserved_bytes > before;
    rig.memset_async(new, FillPattern::U8(2), LARGE, next)?;
    rig.download(host.part(1, 1), new.offset(LARGE as u64 - 1), next)?;
    rig.mem_free_async(new, next)?;
    drop(gate);
    rig.stream_synchronize(first)?;
    rig.stream_synchronize(next)?;
    check(host.read() == [1, 2], "each use has its own values")?;
    rig.keep_pool_bytes(0)?;
    rig.stream_synchronize(next)?;
    rig.trim(0)?;
    Ok(match (new == old, grown) {
        (true, _) => "reused",
        (false, false) => "reused, at another address",
        (false, true) => "not reused",
    })
}

pub(crate) fn r34(rig: &Rig) -> Outcome {
    let stream = rig.stream()?;
    let at_once = reuse(rig, (stream, stream), None, || Ok(()))?;
    let other = rig.stream()?;
    let synchronised = reuse(rig, (stream, other), None, || {
        Ok(rig.stream_synchronize(stream)?)
    })?;
    Ok(format!(
        "on the freeing stream: {at_once}; on another after a synchronisation: {synchronised}"
    ))
}

pub(crate) fn r35(rig: &Rig) -> Outcome {
    let (first, next) = (rig.stream()?, rig.stream()?);
    let by_event = reuse(rig, (first, next), Some(rig.gate(first)?), || {
        let freed = rig.recorded(first)?;
        rig.stream_wait_event(next, freed)?;
        Ok(rig.event_destroy(freed)?)
    })?;
    let complete = reuse(rig, (first, next), None, || {
        // Not a synchronisation: the host asks until it is done.
        check(rig.gets_done(first)?, "the free runs")
    })?;
    let pending = reuse(rig, (first, next), Some(rig.gate(first)?), || Ok(()))?;
    Ok(format!(
        "behind an event: {by_event}; free complete: {complete}; free pending, and memory left: {pending}"
    ))
}

pub(crate) fn r36(rig: &Rig) -> Outcome {
    let (stream, held) = (rig.stream()?, rig.stream()?);
    let base = rig.pool_usage()?.reserved_bytes;
    let use_and_free = || -> Result<u64, libtest_mimic::Failed> {
        let memory = rig.mem_alloc_async(LARGE, stream)?;
        rig.mem_free_async(memory, stream)?;
        rig.stream_synchronize(stream)?;
        Ok(rig.pool_usage()?.reserved_bytes.saturating_sub(base))
    };
    let by_default = use_and_free()?;
    rig.keep_pool_bytes(u64::MAX)?;
    let kept = use_and_free()?;
    check(kept >= LARGE as u64, "kept below the threshold")?;
    rig.trim(0)?;
    check(rig.pool_usage()?.reserved_bytes <= base, "trimmed")?;

    let memory = rig.mem_alloc_async(LARGE, held)?;
    let gate = rig.gate(held)?;
    rig.mem_free_async(memory, held)?;
    let gate = rig.returns(gate, || rig.trim(0))?;
    let skipped = rig.pool_usage()?.reserved_bytes.saturating_sub(base);
    check(skipped >= LARGE as u64, "a pending free is skipped")?;
    gate.open();
    rig.stream_synchronize(held)?;
    rig.keep_pool_bytes(0)?;
    rig.stream_synchronize(held)?;
    rig.trim(0)?;
    let given_back = if by_default == 0 {
        "given back"
    } else {
        "kept"
    };
    Ok(format!(
        "threshold 0: {given_back}; else kept until trimmed; pending frees skipped"
    ))
}

pub(crate) fn r37(rig: &Rig) -> Outcome {
    let (stream, source) = (rig.stream()?, rig.pinned(4, 8)?);
    let memory = rig.mem_alloc_async(4, stream)?;
    let right = thread::scope(|scope| {
        let fresh = scope.spawn(|| {
            rig.upload(memory, source, stream)?;
            rig.holds(memory, 8, 4, stream)
        });
        fresh.join().map_err(|_| "the thread panicked")
    })??;
    check(right, "the values went round")?;
    rig.mem_free_async(memory, stream)?;
    rig.stream_synchronize(stream)?;
    Ok("works".into())
}
