//! Rule 54: the number of operations that a stream's queue accepts while none of them runs.

use std::sync::{
    atomic::AtomicUsize,
    mpsc::{self, RecvTimeoutError},
};

use crate::conformance::{on_gpu, prelude::*};

/// The number of operations tried.
const MOST: usize = 1500;
/// The queue length that every program may rely on.
const LEAST: usize = 256;
/// A call that takes longer than this counts as blocked.
const BLOCKED_AFTER: Duration = Duration::from_millis(300);

type Enqueue<'a> = dyn Fn(StreamHandle) -> Result<(), DriverError> + Sync + 'a;

pub(crate) fn r54(dev: &DeviceHarness) -> Observation {
    let (memory, other) = (dev.memory(24)?, dev.stream()?);
    let (up, down) = (dev.pinned(4, 1)?, dev.pinned(4, 1)?);
    let event = dev.recorded(other)?;
    let fill = FillPattern::U8(2);
    let kinds: [(&str, &Enqueue<'_>); 8] = [
        ("kernels", &|stream| dev.store(memory, 1, stream)),
        ("copies up", &|stream| {
            dev.upload(memory.offset(4), up, stream)
        }),
        ("copies down", &|stream| {
            dev.download(down, memory.offset(8), stream)
        }),
        ("copies within the device", &|stream| {
            dev.copy_device_to_device_async(memory.offset(16), memory.offset(12), 4, stream)
        }),
        ("fills", &|stream| {
            dev.memset_async(memory.offset(20), fill, 4, stream)
        }),
        ("event records", &|stream| dev.event_record(event, stream)),
        ("event waits", &|stream| {
            dev.event_record(event, other)?;
            dev.stream_wait_event(stream, event)
        }),
        ("allocations with their frees", &|stream| {
            let memory = dev.mem_alloc_async(4096, stream)?;
            dev.mem_free_async(memory, stream)
        }),
    ];
    let depth = |&(what, enqueue): &(&'static str, &Enqueue<'_>)| Ok((what, depth(dev, enqueue)?));
    let depths: Result<Vec<_>, Failed> = if on_gpu() {
        // In turn, because a blocked call of the driver may block other threads.
        kinds.iter().map(depth).collect()
    } else {
        thread::scope(|scope| {
            let threads = kinds.each_ref().map(|kind| scope.spawn(|| depth(kind)));
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|depth| depth.map_err(|_| "a thread panicked")?)
                .collect()
        })
    };
    let depths = depths?;
    dev.event_destroy(event)?;
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (what, depth) in depths {
        let word = depth.map_or(format!("{MOST} do not block"), |depth| {
            format!("{depth}, then blocks")
        });
        match said.iter_mut().find(|(known, _)| *known == word) {
            Some((_, all)) => all.push(what),
            None => said.push((word, vec![what])),
        }
    }
    let said = said
        .iter()
        .map(|(word, what)| format!("{}: {word}", what.join(", ")));
    Ok(said.collect::<Vec<_>>().join("; "))
}

/// Returns the number of operations accepted behind a closed gate before a call blocks, if one
/// blocks.
fn depth(dev: &DeviceHarness, enqueue: &Enqueue<'_>) -> Result<Option<usize>, Failed> {
    let stream = dev.stream()?;
    let taken = AtomicUsize::new(0);
    let gate = dev.gate(stream)?;
    let patience = BLOCKED_AFTER.max(dev.patience);
    let depth = thread::scope(|scope| -> Result<Option<usize>, Failed> {
        let (done, is_done) = mpsc::channel();
        let taken = &taken;
        scope.spawn(move || {
            let all = (0..MOST).try_for_each(|_| {
                enqueue(stream)?;
                taken.fetch_add(1, SeqCst);
                Ok::<(), DriverError>(())
            });
            done.send(all)
        });
        let mut before = 0;
        let depth = loop {
            match is_done.recv_timeout(patience) {
                Ok(all) => {
                    all?;
                    break None;
                }
                Err(RecvTimeoutError::Disconnected) => return Err("a call panicked".into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = taken.load(SeqCst);
            if now == before {
                gate.open();
                is_done.recv().map_err(|_| "a call panicked")??;
                break Some(now);
            }
            before = now;
        };
        Ok(depth)
    })?;
    dev.stream_synchronize(stream)?;
    check(
        taken.load(SeqCst) == MOST,
        "all operations are accepted after the gate opens",
    )?;
    check(
        depth.is_none_or(|depth| depth >= LEAST),
        &format!("a queue of {depth:?}"),
    )?;
    Ok(depth)
}
