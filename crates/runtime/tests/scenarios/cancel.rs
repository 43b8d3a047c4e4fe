//! Futures dropped before completion: by timeouts, aborts, and after every number of polls.
//! Enqueued work still runs, memory is freed, and everything stays usable.

use std::cell::Cell;

use crate::scenarios::prelude::*;

fn current_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap()
}

/// The number of fills that an async program has enqueued so far.
#[derive(Default)]
struct Progress {
    fills: Cell<u32>,
}

/// Fills an array repeatedly, on two streams in turn, with downloads of several kinds in between.
async fn program(streams: &[Stream; 2], a: &mut Buffer<u32>, progress: &Progress) -> Result<()> {
    let fill = |a: &mut Buffer<u32>| {
        let next = progress.fills.get() + 1;
        streams[next as usize % 2].fill(a, next)?;
        progress.fills.set(next);
        Ok::<_, millstream::Error>(next)
    };
    let first = fill(a)?;
    assert_eq!(streams[0].download(&*a)?.await?, [first; N]);
    let second = fill(a)?;
    let before = streams[1].download(&*a)?;
    let third = fill(a)?;
    let after = streams[0].download(&*a)?;
    // Awaited in reverse order.
    assert_eq!(after.await?, [third; N]);
    assert_eq!(before.await?, [second; N]);
    let values = [
        streams[0].download(a.slice(1..))?,
        streams[1].download(a.slice(..1))?,
    ];
    let made = streams[0].upload(&vec![fill(a)?; N])?;
    let [rest, one] = futures::future::join_all(values)
        .await
        .try_into()
        .expect("two values");
    assert_eq!((rest?, one?), (vec![third; N - 1], vec![third; 1]));
    streams[1].copy(&made, &mut *a)?;
    assert_eq!(streams[1].download(&*a)?.await?, [progress.fills.get(); N]);
    Ok(())
}

/// Polls the future at most `polls` times, then drops it. Between two polls all enqueued work
/// completes, so each await needs at most two polls. Returns whether the future completed.
fn poll_at_most(
    polls: usize,
    streams: &[Stream; 2],
    future: impl Future<Output = Result<()>>,
) -> Result<bool> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            return Ok(true);
        }
        streams.iter().try_for_each(Stream::synchronize)?;
    }
    Ok(false)
}

#[run_by(scenario_on, |_, streams: [_; 2]|)]
fn b08_a_program_may_be_cancelled_at_every_await() -> Result<()> {
    let mut a = streams[0].upload(&vec![0_u32; N])?;
    for polls in 0.. {
        assert!(polls <= 20, "each await completes after two polls");
        let progress = Progress::default();
        streams[0].fill(&mut a, 0)?;
        let ended = poll_at_most(polls, &streams, program(&streams, &mut a, &progress))?;
        let called_for = progress.fills.get();
        assert_eq!(
            streams[1].values(&a)?,
            [called_for; N],
            "after {polls} polls"
        );
        if ended {
            assert_eq!(called_for, 4);
            break;
        }
    }
    Ok(())
}

#[test]
fn b08_a_timeout_gives_up_a_download_and_not_its_array() {
    let runtime = current_thread();
    scenario(|harness| {
        let [s1, s2, s3] = harness.streams();
        let mut a = s1.upload(&vec![1_u32; N])?;
        let gate = harness.gate(&s1);
        s1.fill(&mut a, 2)?;
        let given_up = runtime.block_on(async {
            let value = tokio::time::timeout(Duration::from_millis(1), s2.download(&a)?).await;
            Ok::<_, millstream::Error>(value)
        })?;
        assert!(
            given_up.is_err() || !harness.gates_hold(),
            "it went past a closed gate"
        );
        let mut b = s3.upload(&vec![3_u32; N])?;
        let chosen = runtime.block_on(async {
            let value = s1.download(&a)?;
            // The download cannot be ready behind the gate, so the second branch is taken and the
            // download dropped.
            Ok::<_, millstream::Error>(tokio::select! {
                biased;
                value = value => Some(value?),
                () = tokio::time::sleep(Duration::from_millis(1)) => None,
            })
        })?;
        assert!(chosen.is_none() || !harness.gates_hold());
        s3.fill(b.slice_mut(1..), 4)?;
        let mut expected = vec![4; N];
        expected[0] = 3;
        assert_eq!(
            s3.values(&b)?,
            expected,
            "the dropped download's memory must not be reused yet"
        );
        gate.open();
        assert_eq!(runtime.block_on(s2.download(&a)?)?, [2; N]);
        Ok(())
    });
}

#[test]
fn b08_an_aborted_task_neither_blocks_nor_corrupts() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_time().build().unwrap();
    scenario(|harness| {
        let [s1, s2, s3] = harness.streams();
        let mut a = s1.upload(&vec![1_u32; N])?;
        let gate = harness.gate(&s1);
        s1.fill(&mut a, 5)?;
        let task = {
            let (s1, s2) = (s1.clone(), s2.clone());
            runtime.spawn(async move {
                let kept = s2.download(&a)?;
                let value = s1.download(&a)?.await?;
                drop(kept);
                Ok::<_, millstream::Error>((a, value))
            })
        };
        // Aborted before its first poll, between polls, or after its end.
        std::thread::sleep(Duration::from_micros(u64::from(harness.gates_hold()) * 300));
        task.abort();
        let joined = runtime.block_on(task);
        if let Ok(ended) = joined {
            assert!(!harness.gates_hold(), "it went past a closed gate");
            let (a, value) = ended?;
            assert_eq!(value, [5; N]);
            assert_eq!(s2.values(&a)?, [5; N]);
        }
        // Its array and its staging memory are freed after their last uses.
        let b = s3.upload(&vec![6_u32; N])?;
        let other = s3.download(&b)?;
        assert_eq!(other.wait()?, [6; N]);
        gate.open();
        s1.synchronize()?;
        assert_eq!(s1.values(&b)?, [6; N]);
        Ok(())
    });
}

#[run_by(scenario, |harness|)]
fn b08_memory_of_downloads_given_up_is_used_again() -> Result<()> {
    const LEN: usize = 1 << 16;
    let Some(gpu) = harness.if_simulated() else {
        return Ok(());
    };
    let stream = harness.stream();
    let a = stream.upload(&vec![1_u8; LEN])?;
    let round = || -> Result<u64> {
        let gate = harness.gate(&stream);
        for _ in 0..50 {
            let mut value = Box::pin(stream.download(&a)?);
            // Polled, so that its waker is registered with the reactor, and dropped.
            let _ = value.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        gate.open();
        stream.synchronize()?;
        Ok(gpu.live_object_counts().pinned_bytes)
    };
    for _ in 0..4 {
        // The memory of one round, with a margin for the upload and the gates.
        assert!(
            round()? < 60 * LEN as u64,
            "dropped downloads keep their memory"
        );
    }
    Ok(())
}
