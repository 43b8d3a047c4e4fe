//! Rules 32 to 37: stream-ordered allocation and freeing.

use crate::conformance::{gate::Gate, prelude::*};

/// An allocation size above the granularity at which a pool grows.
const LARGE: usize = 64 << 20;

pub(crate) fn r32(dev: &DeviceHarness) -> Observation {
    let (owner, user) = (dev.stream()?, dev.stream()?);
    let (source, target) = (dev.pinned(4, 6)?, dev.pinned(4, 0)?);
    let mut memory = DevicePtr::from_raw(0);
    let gate = dev.gate(owner)?;
    let gate = dev.returns(gate, || {
        memory = dev.mem_alloc_async(4, owner)?;
        let begun = dev.recorded(owner)?;
        dev.stream_wait_event(user, begun)?;
        dev.upload(memory, source, user)?;
        dev.download(target, memory, user)?;
        let used = dev.recorded(user)?;
        dev.stream_wait_event(owner, used)?;
        dev.event_destroy(begun)?;
        dev.event_destroy(used)?;
        dev.mem_free_async(memory, owner)
    })?;
    check(memory.as_raw() != 0, "the address is known at once")?;
    check(dev.stays_pending(user)?, "the use waits for the allocation")?;
    check(target.is(0), "nothing has run")?;
    gate.open();
    dev.stream_synchronize(owner)?;
    check(target.is(6), "the use runs between allocation and free")?;
    Ok("returns; right between allocation and free".into())
}

pub(crate) fn r33(dev: &DeviceHarness) -> Observation {
    let stream = dev.stream()?;
    let plain = dev.mem_alloc(4)?;
    dev.mem_free_async(plain, stream)?;
    let pooled = dev.mem_alloc_async(4, stream)?;
    dev.stream_synchronize(stream)?;
    dev.mem_free(pooled)?;
    dev.stream_synchronize(stream)?;
    Ok("both ways".into())
}

/// Fills and frees an allocation on the first stream, then allocates the same size on `next` and
/// fills it. Checks that each download has its own values, and returns whether the memory was
/// reused. The gate, if there is one, is opened after all of it is enqueued.
fn reuse(
    dev: &DeviceHarness,
    (first, next): (StreamHandle, StreamHandle),
    gate: Option<Gate>,
    order: impl FnOnce() -> Result<(), libtest_mimic::Failed>,
) -> Result<&'static str, libtest_mimic::Failed> {
    dev.keep_pool_bytes(u64::MAX)?;
    let host = dev.pinned(2, 0)?;
    let old = dev.mem_alloc_async(LARGE, first)?;
    dev.memset_async(old, FillPattern::U8(1), LARGE, first)?;
    dev.download(host.part(0, 1), old.offset(LARGE as u64 - 1), first)?;
    dev.mem_free_async(old, first)?;
    let before = dev.pool_usage()?.reserved_bytes;
    order()?;
    let new = dev.mem_alloc_async(LARGE, next)?;
    let grown = dev.pool_usage()?.reserved_bytes > before;
    dev.memset_async(new, FillPattern::U8(2), LARGE, next)?;
    dev.download(host.part(1, 1), new.offset(LARGE as u64 - 1), next)?;
    dev.mem_free_async(new, next)?;
    drop(gate);
    dev.stream_synchronize(first)?;
    dev.stream_synchronize(next)?;
    check(host.read() == [1, 2], "each use has its own values")?;
    dev.keep_pool_bytes(0)?;
    dev.stream_synchronize(next)?;
    dev.trim(0)?;
    Ok(match (new == old, grown) {
        (true, _) => "reused",
        (false, false) => "reused, at another address",
        (false, true) => "not reused",
    })
}

pub(crate) fn r34(dev: &DeviceHarness) -> Observation {
    let stream = dev.stream()?;
    let at_once = reuse(dev, (stream, stream), None, || Ok(()))?;
    let other = dev.stream()?;
    let synchronised = reuse(dev, (stream, other), None, || {
        Ok(dev.stream_synchronize(stream)?)
    })?;
    Ok(format!(
        "on the freeing stream: {at_once}; on another after a synchronisation: {synchronised}"
    ))
}

pub(crate) fn r35(dev: &DeviceHarness) -> Observation {
    let (first, next) = (dev.stream()?, dev.stream()?);
    let by_event = reuse(dev, (first, next), Some(dev.gate(first)?), || {
        let freed = dev.recorded(first)?;
        dev.stream_wait_event(next, freed)?;
        Ok(dev.event_destroy(freed)?)
    })?;
    let complete = reuse(dev, (first, next), None, || {
        // The host polls instead of synchronising.
        check(dev.gets_done(first)?, "the free runs")
    })?;
    let pending = reuse(dev, (first, next), Some(dev.gate(first)?), || Ok(()))?;
    Ok(format!(
        "behind an event: {by_event}; free complete: {complete}; free pending, and memory left: \
         {pending}"
    ))
}

pub(crate) fn r36(dev: &DeviceHarness) -> Observation {
    let (stream, held) = (dev.stream()?, dev.stream()?);
    let base = dev.pool_usage()?.reserved_bytes;
    let use_and_free = || -> Result<u64, libtest_mimic::Failed> {
        let memory = dev.mem_alloc_async(LARGE, stream)?;
        dev.mem_free_async(memory, stream)?;
        dev.stream_synchronize(stream)?;
        Ok(dev.pool_usage()?.reserved_bytes.saturating_sub(base))
    };
    let by_default = use_and_free()?;
    dev.keep_pool_bytes(u64::MAX)?;
    let kept = use_and_free()?;
    check(kept >= LARGE as u64, "kept below the threshold")?;
    dev.trim(0)?;
    check(dev.pool_usage()?.reserved_bytes <= base, "trimmed")?;

    let memory = dev.mem_alloc_async(LARGE, held)?;
    let gate = dev.gate(held)?;
    dev.mem_free_async(memory, held)?;
    let gate = dev.returns(gate, || dev.trim(0))?;
    let skipped = dev.pool_usage()?.reserved_bytes.saturating_sub(base);
    check(skipped >= LARGE as u64, "a pending free is skipped")?;
    gate.open();
    dev.stream_synchronize(held)?;
    dev.keep_pool_bytes(0)?;
    dev.stream_synchronize(held)?;
    dev.trim(0)?;
    let given_back = if by_default == 0 {
        "given back"
    } else {
        "kept"
    };
    Ok(format!(
        "threshold 0: {given_back}; else kept until trimmed; pending frees skipped"
    ))
}

pub(crate) fn r37(dev: &DeviceHarness) -> Observation {
    let (stream, source) = (dev.stream()?, dev.pinned(4, 8)?);
    let memory = dev.mem_alloc_async(4, stream)?;
    let right = thread::scope(|scope| {
        let fresh = scope.spawn(|| {
            dev.upload(memory, source, stream)?;
            dev.holds(memory, 8, 4, stream)
        });
        fresh.join().map_err(|_| "the thread panicked")
    })??;
    check(right, "the downloaded values are correct")?;
    dev.mem_free_async(memory, stream)?;
    dev.stream_synchronize(stream)?;
    Ok("works".into())
}
