//! Values awaited on several executors: many at once, in tasks that migrate between threads, and
//! next to other futures.

use std::{pin::pin, task::Wake};

use futures::{
    FutureExt, StreamExt,
    future::{self, Either},
    stream::FuturesUnordered,
};

use crate::scenarios::prelude::*;

/// The time limit within which a completion must be noticed.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

/// The executors under test, with their runtimes.
struct Executors {
    many_threads: tokio::runtime::Runtime,
    one_thread: tokio::runtime::Runtime,
}

impl Executors {
    fn new() -> Self {
        let mut many_threads = tokio::runtime::Builder::new_multi_thread();
        let mut one_thread = tokio::runtime::Builder::new_current_thread();
        Self {
            many_threads: many_threads
                .worker_threads(2)
                .enable_time()
                .build()
                .unwrap(),
            one_thread: one_thread.enable_time().build().unwrap(),
        }
    }

    /// Runs a future as a task on several threads.
    fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let task = self.many_threads.spawn(future);
        self.many_threads.block_on(task).unwrap()
    }

    /// Runs a future made by `make` on each executor in turn.
    fn each<F: Future<Output = Result<()>> + Send + 'static>(
        &self,
        make: impl Fn() -> F,
    ) -> Result<()> {
        self.spawn(make())?;
        self.one_thread.block_on(make())?;
        smol::block_on(smol::spawn(make()))?;
        pollster::block_on(make())
    }
}

/// Enqueues work on two streams and awaits the values one by one, jointly, and by `select`.
async fn program(s1: Stream, s2: Stream) -> Result<()> {
    let mut a = s1.upload(&vec![1_u32; N])?;
    assert_eq!(s2.download(&a)?.await?, [1; N]);
    s2.fill(&mut a, 2)?;
    let mut b = s1.zeros::<u32>(N)?;
    s1.copy(&a, &mut b)?;
    let (first, second) = futures::join!(s1.download(&a)?, s2.download(&b)?);
    assert_eq!((first?, second?), (vec![2; N], vec![2; N]));
    s1.fill(&mut a, 3)?;
    match future::select(s1.download(&a)?, s2.download(&b)?).await {
        Either::Left((value, other)) => {
            assert_eq!((value?, other.await?), (vec![3; N], vec![2; N]))
        }
        Either::Right((value, other)) => {
            assert_eq!((value?, other.await?), (vec![2; N], vec![3; N]))
        }
    }
    let (mut late, mut early) = (s1.download(&a)?.fuse(), future::ready(7));
    futures::select_biased! {
        number = early => assert_eq!(number, 7),
        _ = late => panic!("the first branch was ready and takes precedence"),
    }
    assert_eq!(late.await?, [3; N]);
    Ok(())
}

#[test]
fn values_can_be_awaited_on_every_executor() {
    let executors = Executors::new();
    scenario(|harness| {
        let [s1, s2] = harness.streams();
        executors.each(|| program(s1.clone(), s2.clone()))
    });
}

#[test]
fn a06_an_async_task_returns_an_array_without_waiting() {
    let executors = Executors::new();
    scenario(|harness| {
        let [producer, consumer] = harness.streams();
        let make = |value| {
            let producer = producer.clone();
            async move {
                let mut a = producer.zeros::<u32>(N)?;
                // Yields, so that the executor may move the task to another thread.
                tokio::task::yield_now().await;
                producer.fill(&mut a, value)?;
                Ok::<Buffer<u32>, millstream::Error>(a)
            }
        };
        let gate = harness.gate(&producer);
        let first = executors.spawn(make(5))?;
        let second = smol::block_on(smol::spawn(make(6)))?;
        let arrive = [consumer.download(&first)?, consumer.download(&second)?];
        arrive
            .iter()
            .for_each(|value| harness.assert_pending(value));
        gate.open();
        let [first, second] = arrive;
        assert_eq!(executors.one_thread.block_on(first)?, [5; N]);
        assert_eq!(pollster::block_on(second)?, [6; N]);
        Ok(())
    });
}

#[test]
fn tasks_that_move_between_threads_keep_streams_arrays_and_values() {
    const TASKS: u32 = 8;
    const STEPS: u32 = 5;
    let executors = Executors::new();
    scenario(|harness| {
        let task = |number: u32| {
            let (own, other) = (harness.stream(), harness.stream());
            async move {
                let mut sum = own.upload(&vec![number; N])?;
                for step in 0..STEPS {
                    let value: Pending<Vec<u32>> = other.download(&sum)?;
                    own.fill(sum.slice_mut(..N / 2), number + step)?;
                    tokio::task::yield_now().await;
                    let value = value.await?;
                    assert_eq!(value[..N / 2], [number + step.saturating_sub(1); N / 2]);
                    assert_eq!(value[N / 2..], [number; N / 2]);
                }
                Ok::<_, millstream::Error>(sum)
            }
        };
        let spawned: Vec<_> = (0..TASKS)
            .map(|number| executors.many_threads.spawn(task(number)))
            .collect();
        for (number, joined) in (0..TASKS).zip(spawned) {
            let sum = executors.many_threads.block_on(joined).unwrap()?;
            let expected = [[number + STEPS - 1; N / 2], [number; N / 2]].concat();
            assert_eq!(harness.stream().values(&sum)?, expected);
        }
        Ok(())
    });
}

/// A waker that counts its wake-ups and notifies a receiver.
struct Counting {
    wakes: AtomicUsize,
    told: mpsc::Sender<()>,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        // The receiver may already be dropped.
        let _ = self.told.send(());
    }
}

fn counting() -> (Arc<Counting>, mpsc::Receiver<()>) {
    let (told, listens) = mpsc::channel();
    let wakes = AtomicUsize::new(0);
    (Arc::new(Counting { wakes, told }), listens)
}

#[run_by(scenario_on, |harness, [stream]|)]
fn only_the_last_registered_waker_is_woken() -> Result<()> {
    // A single chunk: a download wakes its task whenever a chunk arrives.
    const LEN: usize = 250;
    let a = stream.upload(&vec![1_u32; LEN])?;
    let gate = harness.gate(&stream);
    let mut value = pin!(stream.download(&a)?);
    let wakers = [counting(), counting(), counting()];
    for (waker, _) in &wakers {
        let waker = Waker::from(Arc::clone(waker));
        match value.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(value) => {
                assert!(!harness.gates_hold(), "it went past a closed gate");
                assert_eq!(value?, [1; LEN]);
                return Ok(());
            }
        }
    }
    gate.open();
    let [(first, _), (second, _), (_, last)] = &wakers;
    last.recv_timeout(NOTICED_WITHIN)
        .expect("the last waker is woken");
    if harness.gates_hold() {
        let earlier = [first, second].map(|waker| waker.wakes.load(Ordering::SeqCst));
        assert_eq!(earlier, [0, 0], "an earlier waker was woken as well");
    }
    let waker = Waker::from(Arc::clone(&wakers[2].0));
    let polled = value.as_mut().poll(&mut Context::from_waker(&waker));
    let Poll::Ready(value) = polled else {
        panic!("woken, but not ready")
    };
    assert_eq!(value?, [1; LEN]);
    Ok(())
}

async fn poll_once(value: &mut Pending<Vec<u32>>) -> Poll<Result<Vec<u32>>> {
    futures::poll!(value)
}

/// Awaits the value of a future that was polled once.
async fn go_on(value: Pending<Vec<u32>>, polled: Poll<Result<Vec<u32>>>) -> Result<Vec<u32>> {
    match polled {
        Poll::Ready(value) => value,
        Poll::Pending => value.await,
    }
}

#[test]
fn a_future_can_move_to_another_executor() {
    let executors = Executors::new();
    scenario(|harness| {
        let stream = harness.stream();
        let a = stream.upload(&vec![4_u32; N])?;
        let gate = harness.gate(&stream);
        let mut values: [_; 4] = std::array::from_fn(|_| stream.download(&a).unwrap());
        // Each is polled once by one executor, and awaited by the next.
        let polled = [
            executors.many_threads.block_on(poll_once(&mut values[0])),
            executors.one_thread.block_on(poll_once(&mut values[1])),
            smol::block_on(poll_once(&mut values[2])),
            pollster::block_on(poll_once(&mut values[3])),
        ];
        gate.open();
        let [first, second, third, fourth] = values;
        let [p1, p2, p3, p4] = polled;
        assert_eq!(pollster::block_on(go_on(first, p1))?, [4; N]);
        assert_eq!(smol::block_on(go_on(second, p2))?, [4; N]);
        assert_eq!(executors.spawn(go_on(third, p3))?, [4; N]);
        assert_eq!(executors.one_thread.block_on(go_on(fourth, p4))?, [4; N]);
        Ok(())
    });
}

/// Returns the number of this process's reactor threads, by the prefix of their names, which the
/// system truncates.
fn reactors() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("millstream-reac"))
        .count()
}

/// The maximum number of reactors: a leader and a standby, and one for each waker that concurrent
/// tests block in.
const REACTORS_MAX: usize = 8;

/// Runs under one schedule: only the number of values matters here.
#[test]
fn ten_thousand_pending_values_need_few_threads() {
    // A GPU's stream accepts a bounded number of operations; beyond it, a call would block until
    // the gates open.
    let values = if on_gpu() { 1_000 } else { 10_000 };
    let executors = Executors::new();
    once(|harness| {
        let streams: [_; 4] = harness.streams();
        let gates = [0, 1, 2, 3].map(|at| harness.gate(&streams[at]));
        let numbers: Vec<u32> = (0..values).collect();
        let a = streams[0].upload(&numbers)?;
        let download = |number: u32| {
            let at = number as usize;
            streams[at % streams.len()].download(a.slice(at..=at))
        };
        let awaits = |number: u32| {
            Ok::<_, millstream::Error>(download(number)?.map(move |value| (number, value)))
        };
        // Half as tasks, half in one future; all are polled before any can be complete.
        let tasks: Vec<_> = (0..values / 2)
            .map(|number| Ok(executors.many_threads.spawn(awaits(number)?)))
            .collect::<Result<_>>()?;
        let mut others: FuturesUnordered<_> =
            (values / 2..values).map(awaits).collect::<Result<_>>()?;
        assert!(
            others.next().now_or_never().is_none(),
            "the gates are closed"
        );
        thread::sleep(Duration::from_millis(20));
        assert!(reactors() <= REACTORS_MAX, "{} threads", reactors());
        drop(gates);
        for (number, task) in (0..values / 2).zip(tasks) {
            let (named, value) = executors.many_threads.block_on(task).unwrap();
            assert_eq!((named, value?), (number, vec![number]));
        }
        let mut came = 0;
        while let Some((number, value)) = pollster::block_on(others.next()) {
            assert_eq!(value?, [number]);
            came += 1;
        }
        assert_eq!(came, values / 2);
        Ok(())
    });
}
