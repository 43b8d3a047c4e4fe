//! T9: from a launch to the future that awaits its result; and what waiting, and not waiting, costs
//! the processor.

#![allow(unsafe_code, reason = "launches the gate kernel")]

use std::{fs, thread, time::Duration};

use anyhow::{Context, Result};
use millstream::{LaunchConfig, Stream};

use crate::{
    kernels::{gate, sums},
    raw::Flag,
    report::{Goal, Row},
    rig::Rig,
    timing::{Contender, Effort, medians},
};

const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
const EFFORT: Effort = Effort {
    rounds: 400,
    batch: 1,
};
/// How long the kernel takes that is awaited.
const KERNEL: Duration = Duration::from_secs(1);
/// How long nobody awaits anything.
const IDLE: Duration = Duration::from_secs(2);
/// The thread that asks on behalf of futures, by the beginning of its name: Linux keeps 15 bytes of
/// it.
const REACTOR: &str = "millstream-reac";

pub(crate) fn measure(rig: &Rig) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if !rig.device.is_simulated() {
        rows.extend(latency(rig)?);
        rows.push(load(rig)?);
    }
    rows.push(idle(rig)?);
    Ok(rows)
}

/// A launch and the first number of its result, which is what there is to await.
fn latency(rig: &Rig) -> Result<Vec<Row>> {
    let kernels = sums::load(&rig.device)?;
    let stream = rig.device.stream()?;
    let a = stream.zeros(ELEMENTS)?;
    let mut c = stream.zeros(ELEMENTS)?;
    let mut d = stream.zeros(ELEMENTS)?;
    let awaited = Contender::complete(|| {
        kernels.vecadd(
            &stream,
            LaunchConfig::linear(ELEMENTS),
            &a,
            &a,
            &mut c,
            ELEMENTS as u64,
        )?;
        pollster::block_on(stream.download(c.slice(..1))?)?;
        Ok(())
    });
    let blocked = Contender::complete(|| {
        kernels.vecadd(
            &stream,
            LaunchConfig::linear(ELEMENTS),
            &a,
            &a,
            &mut d,
            ELEMENTS as u64,
        )?;
        stream.download(d.slice(..1))?.wait()?;
        Ok(())
    });
    let raw = &rig.raw;
    let (kernel, raw_stream) = (raw.vecadd()?, raw.stream()?);
    let operands = [raw.memory(BYTES)?, raw.memory(BYTES)?, raw.memory(BYTES)?];
    let landing = raw.pinned(size_of::<f32>())?;
    let enqueue = || {
        raw_stream.vecadd(kernel, operands.each_ref(), ELEMENTS as u64)?;
        raw_stream.download(&landing, &operands[2], size_of::<f32>())
    };
    let spun = Contender::complete(|| {
        enqueue()?;
        while !raw_stream.is_idle()? {}
        Ok(())
    });
    let slept = Contender::complete(|| {
        enqueue()?;
        raw_stream.synchronize()
    });
    let [awaited, blocked, spun, slept] = medians(rig, EFFORT, [awaited, blocked, spun, slept])?;
    Ok(vec![
        Row::times(
            "T9",
            "launch, a number back, .await",
            "ns",
            awaited,
            spun,
            Goal::AtMost(1.25),
        ),
        Row::times(
            "T9",
            "launch, a number back, .wait()",
            "ns",
            blocked,
            spun,
            Goal::None,
        ),
        Row::times(
            "T9",
            "the same with cuStreamSynchronize",
            "ns",
            slept,
            spun,
            Goal::None,
        )
        .by("raw"),
    ])
}

/// The processor's time, of all threads, while a kernel of a second is awaited.
fn load(rig: &Rig) -> Result<Row> {
    let what = "processor while a kernel of 1 s is awaited";
    let kernels = gate::load(&rig.device)?;
    let stream = rig.device.stream()?;
    let word = stream.zeros::<u32>(1)?;
    let flag = Flag::new(&rig.raw)?;
    // So that nothing is allocated while the kernel runs.
    stream.download(&word)?.wait()?;
    let Some(before_ns) = processor_ns()? else {
        return Ok(Row::absent(
            "T9",
            what,
            "the kernel of this machine does not count it",
        ));
    };
    let start_ns = rig.now_ns();
    // SAFETY: the flag's memory is never freed.
    unsafe { kernels.gate(&stream, LaunchConfig::new([1; 3], [1; 3]), flag.address()) }?;
    let opener = thread::spawn(move || {
        thread::sleep(KERNEL);
        flag.raise();
    });
    let awaited = pollster::block_on(stream.download(&word)?);
    let took_ns = (rig.now_ns() - start_ns) as f64;
    let used_ns = (processor_ns()?.unwrap_or(before_ns) - before_ns) as f64;
    opener.join().expect("the opener does not panic");
    awaited?;
    Ok(Row::judged(
        "T9",
        what,
        "%",
        100.0 * used_ns / took_ns,
        Goal::AtMost(2.0),
    ))
}

/// How often the reactor's thread is woken while nobody awaits anything.
fn idle(rig: &Rig) -> Result<Row> {
    let stream: Stream = rig.device.stream()?;
    pollster::block_on(stream.download(&stream.zeros::<u32>(1)?)?)?;
    // A first sleep, so that it has gone to rest.
    thread::sleep(Duration::from_millis(100));
    let before = reactor_switches()?;
    thread::sleep(IDLE);
    let woken = reactor_switches()? - before;
    let what = format!("wake-ups in {} s in which nobody awaits", IDLE.as_secs());
    Ok(Row::judged(
        "T9",
        what,
        "times",
        woken as f64,
        Goal::AtMost(0.0),
    ))
}

/// The files of this name of all threads, with the threads' names.
fn threads(file: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for task in
        fs::read_dir("/proc/self/task").context("cannot list the threads of this process")?
    {
        let folder = task?.path();
        // A thread may end meanwhile.
        let texts = fs::read_to_string(folder.join("comm"))
            .and_then(|name| Ok((name, fs::read_to_string(folder.join(file))?)));
        found.extend(texts);
    }
    Ok(found)
}

/// Nanoseconds that the threads alive have had a processor, if the system counts them.
fn processor_ns() -> Result<Option<u64>> {
    let texts = threads("schedstat")?;
    let times = texts
        .iter()
        .map(|(_, text)| text.split(' ').next()?.parse::<u64>().ok());
    Ok(times.sum::<Option<u64>>().filter(|&sum| sum > 0))
}

/// How often the reactor's thread went to sleep so far.
fn reactor_switches() -> Result<u64> {
    let texts = threads("status")?;
    let status = texts.iter().find(|(name, _)| name.starts_with(REACTOR));
    let (_, status) = status.context("there is no thread of the reactor")?;
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(count
        .context("Linux does not say how often a thread was woken")?
        .trim()
        .parse()?)
}
