//! T9: the latency from a launch to the future that awaits its result, and the processor time of
//! waiting and of idling.

#![allow(unsafe_code, reason = "launches the gate kernel")]

use std::{fs, thread, time::Duration};

use crate::{kernels::gate, raw::Flag, targets::prelude::*};

const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
const AWAIT: Target = latency_of("launch, download of one number, .await", Goal::AtMost(1.05));
const WAIT: Target = latency_of("launch, download of one number, .wait()", Goal::None);
const SLEEP: Target = latency_of("the same with cuStreamSynchronize", Goal::None);

const fn latency_of(what: &'static str, goal: Goal) -> Target {
    Target("T9", what, "ns", goal)
}

const SAMPLE_SIZE: SampleSize = SampleSize::of(400, 1);
const KERNEL: Duration = Duration::from_secs(1);
/// The duration of the idle period, without futures.
const IDLE: Duration = Duration::from_secs(2);
/// The start of the reactor thread's name, of which Linux keeps 15 bytes. The reactor polls for all
/// futures.
const REACTOR: &str = "millstream-reac";

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if !harness.device.is_simulated() {
        rows.extend(latency(harness)?);
        rows.push(load(harness)?);
    }
    rows.push(idle(harness)?);
    Ok(rows)
}

/// Measures a launch and the download of one number of its result.
fn latency(harness: &Harness) -> Result<Vec<Row>> {
    let kernels = sums::load(&harness.device)?;
    let stream = harness.device.stream()?;
    let a = stream.zeros(ELEMENTS)?;
    let mut c = stream.zeros(ELEMENTS)?;
    let mut d = stream.zeros(ELEMENTS)?;
    let awaited = Variant::complete(|| {
        kernels.vecadd(&stream, ELEMENTS, &a, &a, &mut c, ELEMENTS as u64)?;
        pollster::block_on(stream.download(c.slice(..1))?)?;
        Ok(())
    });
    let blocked = Variant::complete(|| {
        kernels.vecadd(&stream, ELEMENTS, &a, &a, &mut d, ELEMENTS as u64)?;
        stream.download(d.slice(..1))?.wait()?;
        Ok(())
    });
    let raw = &harness.raw;
    let (kernel, raw_stream) = (raw.vecadd()?, raw.stream()?);
    let operands = [raw.memory(BYTES)?, raw.memory(BYTES)?, raw.memory(BYTES)?];
    let landing = raw.pinned(size_of::<f32>())?;
    let enqueue = || {
        raw_stream.launch(kernel, operands.each_ref(), ELEMENTS as u64)?;
        raw_stream.download(&landing, &operands[2], size_of::<f32>())
    };
    let spun = Variant::complete(|| {
        enqueue()?;
        while !raw_stream.is_idle()? {}
        Ok(())
    });
    let slept = Variant::complete(|| {
        enqueue()?;
        raw_stream.synchronize()
    });
    let [awaited, blocked, spun, slept] =
        medians(harness, SAMPLE_SIZE, [awaited, blocked, spun, slept])?;
    Ok(vec![
        AWAIT.row(awaited, spun),
        WAIT.row(blocked, spun),
        SLEEP.by("raw", slept, spun),
    ])
}

/// Measures the processor time of all threads while a kernel of one second is awaited.
pub(crate) fn load(harness: &Harness) -> Result<Row> {
    let kernels = gate::load(&harness.device)?;
    let stream = harness.device.stream()?;
    let word = stream.zeros::<u32>(1)?;
    // This download makes all allocations before the kernel runs.
    stream.download(&word)?.wait()?;
    load_of(harness, |flag| {
        // SAFETY: the flag's memory is never freed.
        unsafe { kernels.gate(&stream, LaunchConfig::new([1; 3], [1; 3]), flag.address()) }?;
        pollster::block_on(stream.download(&word)?)?;
        Ok(())
    })
}

/// The same for a function that launches the gate kernel with a flag, and awaits it.
pub(crate) fn load_of(harness: &Harness, run: impl FnOnce(Flag) -> Result<()>) -> Result<Row> {
    let what = "processor time while a kernel of 1 s is awaited";
    let flag = Flag::new(&harness.raw)?;
    let Some(before_ns) = processor_ns()? else {
        let why = "the system does not count processor time";
        return Ok(Row::absent("T9", what, why));
    };
    let start_ns = harness.now_ns();
    let opener = thread::spawn(move || {
        thread::sleep(KERNEL);
        flag.raise();
    });
    let awaited = run(flag);
    let took_ns = (harness.now_ns() - start_ns) as f64;
    let used_ns = (processor_ns()?.unwrap_or(before_ns) - before_ns) as f64;
    opener.join().expect("the opener does not panic");
    awaited?;
    let percent = 100.0 * used_ns / took_ns;
    Ok(Row::judged("T9", what, "%", percent, Goal::AtMost(2.0)))
}

/// Counts the wake-ups of the reactor thread while there are no futures.
pub(crate) fn idle(harness: &Harness) -> Result<Row> {
    let stream: Stream = harness.device.stream()?;
    pollster::block_on(stream.download(&stream.zeros::<u32>(1)?)?)?;
    idle_of(&[REACTOR])
}

/// The same for the threads whose names begin so, after a future.
pub(crate) fn idle_of(names: &[&str]) -> Result<Row> {
    // The pause lets the threads go to sleep.
    thread::sleep(Duration::from_millis(100));
    let before = switches(names)?;
    thread::sleep(IDLE);
    let woken = switches(names)? - before;
    let what = format!("wake-ups in {} s without futures", IDLE.as_secs());
    let goal = Goal::AtMost(0.0);
    Ok(Row::judged("T9", what, "times", woken as f64, goal))
}

/// Reads the file of this name of every thread, with the thread's name.
fn threads(file: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for task in
        fs::read_dir("/proc/self/task").context("cannot list the threads of this process")?
    {
        let folder = task?.path();
        // A thread may end while its files are read.
        let texts = fs::read_to_string(folder.join("comm"))
            .and_then(|name| Ok((name, fs::read_to_string(folder.join(file))?)));
        found.extend(texts);
    }
    Ok(found)
}

/// Returns the processor time of all live threads in nanoseconds, if the system counts it.
fn processor_ns() -> Result<Option<u64>> {
    let texts = threads("schedstat")?;
    let times = texts
        .iter()
        .map(|(_, text)| text.split(' ').next()?.parse::<u64>().ok());
    Ok(times.sum::<Option<u64>>().filter(|&sum| sum > 0))
}

/// Returns the number of times that the threads whose names begin so have gone to sleep.
fn switches(names: &[&str]) -> Result<u64> {
    let texts = threads("status")?;
    let mut count = None;
    for (_, status) in texts
        .iter()
        .filter(|(name, _)| names.iter().any(|start| name.starts_with(start)))
    {
        let own = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let own = own.context("/proc has no count of a thread's wake-ups")?;
        count = Some(count.unwrap_or(0) + own.trim().parse::<u64>()?);
    }
    count.with_context(|| format!("there is no thread {}", names.join(" or ")))
}
