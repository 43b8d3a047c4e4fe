//! A grid: its blocks run on all cores, or in order if their order is observable.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::SHARED_BYTES_MAX;
use super::block::{Block, BlockStatus, Worker};
use super::checks::{CheckFindings, CheckOptions, LaunchChecks};
use super::chunks::{chunk, is_short};
use super::cooperative::{self, WithWorkspace, resident_blocks};
use super::fault::{KernelFault, KernelFaultKind};
use super::initialisation::InitialisationCheck;
use super::kernel_errors::KernelErrors;
use super::kernel_faults::KernelFaults;
use super::kernel_pool;
use super::launch::{GlobalMemory, KernelStats, Launch};
use super::memory::Traffic;
use super::observer::NoObserver;
use super::order::{KernelOrder, KernelOrders, LaunchOrder};
use super::private_memory::PrivateMemory;
use super::races::{KernelRace, RaceDetector, RaceModel, RaceUnion};
use super::repair::{KeptMemory, Trial};
use super::turns::{Ordered, Turns, TurnsEnd, WaitingGrid, fault};
use super::warp_context::Counters;
use crate::memory::Backing;
use crate::ptx::Kernel;

/// The maximum number of threads of a block.
const THREADS_MAX: u64 = 1024;

/// The maximum number of warp instructions of all blocks in an order other than that of the
/// indices. A kernel may wait for the host, which these runs do not see.
const OTHER_ORDERS_STEPS_MAX: u64 = 1 << 22;

/// The number of rounds after which a block on one of the cores may poll.
const ROUNDS_IN_PARALLEL: u32 = 4;

/// Runs a kernel, and returns when all its threads have exited.
///
/// Blocks run on all cores, unless the kernel [is ordered](Kernel::is_ordered). The outcome is the
/// same on every run, unless the kernel has a race.
///
/// # Errors
/// The first fault, in block order. Writes that other threads have made by then remain.
pub fn run(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
) -> Result<KernelStats, KernelFault> {
    let blocks = check(kernel, launch)?;
    let order = &LaunchOrder::new(KernelOrder::Index, launch);
    let of = Ordered::new(kernel, launch, order);
    let workspace = workspace(kernel, launch)?;
    let with = workspace
        .as_ref()
        .map(|own| WithWorkspace::new(memory, own));
    let memory = with.as_ref().map_or(memory, |with| with);
    let mut turns = begin(of, memory)?;
    turns.run(of, memory, &mut NoObserver)?;
    Ok(turns.counters.stats(blocks))
}

/// Runs the blocks that can run on all cores, and returns those that must run in turn.
fn begin(of: Ordered<'_>, memory: &dyn GlobalMemory) -> Result<Turns, KernelFault> {
    let blocks = of.order.blocks();
    // In parallel, a block behind one that ends the launch may have had faults or not.
    let in_turn = of.kernel.is_ordered() || of.launch.keep_going.is_some();
    if in_turn || of.launch.cooperative || blocks == 1 {
        Ok(Turns::new(blocks > 1 || of.kernel.code.repeats))
    } else {
        run_in_parallel(of, memory)
    }
}

/// The state of a launch that was run as far as it can go.
pub(crate) enum GridStatus {
    /// All threads have exited.
    Ended(KernelStats),
    /// The launch polls memory, and goes on when one of the polled bytes has changed.
    Waiting(Box<WaitingGrid>),
}

/// Runs a kernel like [`run`], or goes on with a launch of it that has waited. Returns also when
/// the launch waits for a write by something else.
///
/// # Errors
/// The first fault, as for [`run`].
pub(crate) fn run_suspending(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    waited: Option<Box<WaitingGrid>>,
) -> Result<GridStatus, KernelFault> {
    check(kernel, launch)?;
    let (turns, workspace) = match waited {
        Some(waited) => (Some(waited.turns), waited.workspace),
        None => (None, workspace(kernel, launch)?),
    };
    let order = &LaunchOrder::new(KernelOrder::Index, launch);
    let of = Ordered::new(kernel, launch, order);
    let with = workspace
        .as_ref()
        .map(|own| WithWorkspace::new(memory, own));
    let memory = with.as_ref().map_or(memory, |with| with);
    let mut turns = match turns {
        Some(turns) => turns,
        None => begin(of, memory)?,
    };
    let end = turns.run_until_waiting(of, memory, &mut NoObserver)?;
    Ok(status(turns, of, end, workspace))
}

/// Runs a kernel, and checks for [races within it](KernelRace).
///
/// Blocks run on one core, in order, or in turn if they wait for each other. This takes many times
/// longer than [`run`]. The outcome is that of [`run`], and the races are the same on every run, in
/// the order of their lines.
///
/// # Errors
/// The first fault, as for [`run`], together with the races found before it.
pub fn run_checked(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
) -> (Result<KernelStats, KernelFault>, Vec<KernelRace>) {
    run_checked_by(kernel, launch, memory, RaceModel::new())
}

/// Runs a kernel, and checks for races by the given memory model, otherwise like [`run_checked`].
///
/// # Errors
/// The first fault, as for [`run`], together with the races found before it.
pub fn run_checked_by(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    model: RaceModel,
) -> (Result<KernelStats, KernelFault>, Vec<KernelRace>) {
    let checked = CheckOptions {
        races: Some(model),
        initialisation: false,
        orders: KernelOrders::One(KernelOrder::Index),
        instructions: &[],
        text: None,
    };
    let (ran, findings) = run_traced(kernel, launch, memory, checked);
    let ran = ran.and_then(|status| match status {
        GridStatus::Ended(stats) => Ok(stats),
        GridStatus::Waiting(waiting) => Err(waiting.place),
    });
    (ran, findings.races)
}

/// Runs a kernel under the given checks, otherwise like [`run_checked`].
///
/// The check for races also runs the kernel in other orders, each on a private copy of the memory.
/// A fault in one of these runs ends it. A launch that waits is checked up to there; it goes on
/// [without checks](run_suspending).
pub(crate) fn run_traced(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    checked: CheckOptions<'_>,
) -> (Result<GridStatus, KernelFault>, CheckFindings) {
    if let Err(fault) = check(kernel, launch) {
        return (Err(fault), CheckFindings::default());
    }
    let workspace = match workspace(kernel, launch) {
        Ok(workspace) => workspace,
        Err(fault) => return (Err(fault), CheckFindings::default()),
    };
    let with = workspace
        .as_ref()
        .map(|own| WithWorkspace::new(memory, own));
    let memory = with.as_ref().map_or(memory, |with| with);
    let mut union = RaceUnion::default();
    let mut kernel_errors = KernelErrors::default();
    let mut orders = checked.orders.of(launch, kernel.code.synchronises);
    if kernel.uses_heap() {
        // The heap has no private copy for another order.
        orders = vec![KernelOrder::Index];
    }
    let in_index_order = orders.contains(&KernelOrder::Index);
    orders.retain(|order| *order != KernelOrder::Index);
    if let Some(model) = checked.races {
        for order in orders {
            let Some((races, found, ended)) = run_privately(kernel, launch, memory, model, order)
            else {
                break;
            };
            union.add(order, races, ended);
            kernel_errors.add_all(found);
        }
    }
    let tries = checked.text.is_some() && checked.races.is_some() && !kernel.uses_heap();
    let kept = tries.then(|| KeptMemory::new(memory));
    let memory = kept.as_ref().map_or(memory, |kept| kept);
    let model = checked.races.filter(|_| in_index_order);
    let races = model.map(|model| RaceDetector::new(kernel, launch, memory, model));
    let order = LaunchOrder::new(KernelOrder::Index, launch);
    let mut checks = LaunchChecks::new(kernel, launch, memory, races, &order, checked.instructions);
    if checked.initialisation {
        checks.initialisation = Some(InitialisationCheck::new(kernel, launch, memory));
    }
    let of = Ordered::new(kernel, launch, &order);
    let mut turns = Turns::new(false);
    let end = turns.run_until_waiting(of, memory, &mut checks);
    let mut findings = checks.findings();
    if model.is_some() {
        let ended = matches!(end, Ok(TurnsEnd::Ended));
        union.add(KernelOrder::Index, findings.races, ended);
    }
    (findings.races, findings.kernel_errors) = (union.races(), kernel_errors);
    if let (Some(kept), Some(text), Some(model)) = (&kept, checked.text, checked.races)
        && matches!(end, Ok(TurnsEnd::Ended))
        && !kept.before.is_exceeded()
    {
        let trial = Trial {
            kernel,
            launch,
            text,
            orders: checked.orders.of(launch, kernel.code.synchronises),
            steps: turns.counters.warp,
            run: &|kernel, launch, order| run_privately(kernel, launch, &kept.before, model, order),
        };
        trial.repair(&mut findings.races);
    }
    let ran = end.map(|end| status(turns, of, end, workspace));
    (ran, findings)
}

/// Runs a kernel in an order on a private copy of the memory. Returns its races, its errors of
/// synchronisation, and whether all threads have exited; `None` if the copies would be too large.
fn run_privately(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    model: RaceModel,
    order: KernelOrder,
) -> Option<(Vec<KernelRace>, KernelErrors, bool)> {
    let private = PrivateMemory::new(memory);
    let ignored = KernelFaults::default();
    let launch = Launch {
        keep_going: launch.keep_going.map(|_| &ignored),
        step_limit: launch.step_limit.min(OTHER_ORDERS_STEPS_MAX),
        ..*launch
    };
    let launch_order = LaunchOrder::new(order, &launch);
    let races = RaceDetector::new(kernel, &launch, &private, model);
    let mut checks = LaunchChecks::new(kernel, &launch, &private, Some(races), &launch_order, &[]);
    let of = Ordered::new(kernel, &launch, &launch_order);
    let ran = Turns::new(false).run_until_waiting(of, &private, &mut checks);
    let races = checks.findings().races;
    let ended = matches!(ran, Ok(TurnsEnd::Ended));
    (!private.is_exceeded()).then(|| (races, private.kernel_errors(order), ended))
}

/// Returns the status of a launch whose blocks have stopped taking turns.
fn status(turns: Turns, of: Ordered<'_>, end: TurnsEnd, workspace: Option<Backing>) -> GridStatus {
    match end {
        TurnsEnd::Waiting(polled) => GridStatus::Waiting(turns.wait_for(of, polled, workspace)),
        _ => GridStatus::Ended(turns.counters.stats(of.order.blocks())),
    }
}

/// Rejects a launch that does not fit the kernel, as a driver does, and returns its number of
/// blocks.
fn check(kernel: &Kernel, launch: &Launch<'_>) -> Result<u64, KernelFault> {
    let invalid = |problem: String| Err(invalid_launch(kernel, problem));
    if let Some(refused) = kernel.refused() {
        return invalid(refused);
    }
    let threads = launch
        .block
        .iter()
        .map(|size| u64::from(*size))
        .try_fold(1u64, u64::checked_mul);
    if launch.grid.contains(&0) || launch.block.contains(&0) {
        return invalid(format!(
            "the grid {:?} of blocks {:?} is empty",
            launch.grid, launch.block
        ));
    }
    if launch.grid[1] > 65_535 || launch.grid[2] > 65_535 || launch.grid[0] > 0x7fff_ffff {
        return invalid(format!(
            "the grid {:?} exceeds 2147483647 × 65535 × 65535",
            launch.grid
        ));
    }
    if launch.block[2] > 64 || threads.is_none_or(|threads| threads > THREADS_MAX) {
        return invalid(format!(
            "the block {:?} exceeds {THREADS_MAX} threads, or 64 along z",
            launch.block
        ));
    }
    let threads = threads.unwrap_or(0);
    if kernel
        .max_threads()
        .is_some_and(|most| threads > u64::from(most))
    {
        return invalid(format!(
            "the block {:?} has {threads} threads, more than the kernel was compiled for \
             (`.maxntid`)",
            launch.block
        ));
    }
    if kernel
        .required_block()
        .is_some_and(|block| block != launch.block)
    {
        return invalid(format!(
            "the block {:?} differs from the block size that the kernel requires (`.reqntid`)",
            launch.block
        ));
    }
    let shared = u64::from(kernel.code.shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    if shared > u64::from(SHARED_BYTES_MAX) {
        return invalid(format!(
            "{shared} bytes of shared memory exceed the limit of {SHARED_BYTES_MAX}"
        ));
    }
    let params = kernel.signature().param_bytes();
    if launch.params.len() < params {
        return invalid(format!(
            "the launch passes {} bytes of parameters, but the kernel takes {params}",
            launch.params.len()
        ));
    }
    let blocks = launch.grid.iter().map(|size| u64::from(*size)).product();
    let resident = resident_blocks(threads as u32, shared as u32);
    if launch.cooperative && blocks > u64::from(resident) {
        return invalid(format!(
            "{blocks} blocks of a cooperative launch exceed the {resident} that the device holds \
             at the same time"
        ));
    }
    Ok(blocks)
}

fn invalid_launch(kernel: &Kernel, problem: String) -> KernelFault {
    KernelFault {
        kernel: kernel.name().into(),
        block: [0; 3],
        thread: [0; 3],
        ptx_line: 0,
        source_line: None,
        kind: KernelFaultKind::InvalidLaunch(problem),
    }
}

/// Creates the workspace of a cooperative launch; `None` for any other launch.
fn workspace(kernel: &Kernel, launch: &Launch<'_>) -> Result<Option<Backing>, KernelFault> {
    if !launch.cooperative {
        return Ok(None);
    }
    let no_memory = || invalid_launch(kernel, "the host is out of memory".to_owned());
    cooperative::workspace().ok_or_else(no_memory).map(Some)
}

/// Runs the blocks on all cores. Returns those that only poll, to run in turn.
fn run_in_parallel(of: Ordered<'_>, memory: &dyn GlobalMemory) -> Result<Turns, KernelFault> {
    let Ordered {
        kernel,
        launch,
        order,
    } = of;
    let (code, blocks) = (&kernel.code, order.blocks());
    let polling = Mutex::new(Vec::new());
    // Blocks after a failed block need not run; blocks before it must run, because one of them may
    // fail, too.
    let first_failed = AtomicU64::new(u64::MAX);
    let chunk = chunk(code, blocks, kernel_pool::threads());
    let run_chunk = |(worker, block): &mut (Worker<'_>, Box<Block>),
                     chunk_index: u64|
     -> Result<Counters, (u64, KernelFault)> {
        worker.counters = Counters::default();
        // Blocks that take turns are counted there.
        let mut done = 0;
        for index in chunk_index * chunk..blocks.min((chunk_index + 1) * chunk) {
            if index > first_failed.load(Relaxed) {
                break;
            }
            worker.allow(launch.step_limit);
            block.start(index, code, launch, true);
            let mut rounds = 0;
            let failure = loop {
                match block.run_round(kernel, launch, worker, &mut NoObserver) {
                    Ok(BlockStatus::Done) => {
                        done += 1;
                        break None;
                    }
                    Ok(_) if rounds < ROUNDS_IN_PARALLEL => rounds += 1,
                    Ok(_) => {
                        let own = mem::replace(block, Block::spare());
                        let mut alone = Turns::alone(own, blocks);
                        alone.counters = worker.counters;
                        let end = alone.run_until_waiting(of, memory, &mut NoObserver);
                        worker.counters = alone.counters;
                        polling.lock().extend(alone.resident);
                        break end.err();
                    }
                    Err(failure) => break Some(fault(kernel, launch, index, failure)),
                }
            };
            if let Some(failure) = failure {
                first_failed.fetch_min(index, Relaxed);
                return Err((index, failure));
            }
        }
        memory.blocks_done(done);
        Ok(worker.counters)
    };
    let chunks = blocks.div_ceil(chunk);
    let (next, outcome) = (AtomicU64::new(0), Mutex::new((Counters::default(), None)));
    let warps = u64::from(launch.block.iter().product::<u32>().div_ceil(32));
    let most = if is_short(code, blocks.saturating_mul(warps)) {
        1
    } else {
        chunks
    };
    if most > 1 && kernel_pool::threads() > 1 {
        memory.share();
    }
    kernel_pool::share(most, || {
        let mut state = None;
        let mut counters = Counters::default();
        loop {
            let chunk_index = next.fetch_add(1, Relaxed);
            if chunk_index >= chunks {
                break;
            }
            let own = state.get_or_insert_with(|| (Worker::new(code, memory), Block::spare()));
            match run_chunk(own, chunk_index) {
                Ok(more) => counters = counters.plus(more),
                Err(failure) => {
                    state = None;
                    let first = &mut outcome.lock().1;
                    if first.as_ref().is_none_or(|(block, _)| failure.0 < *block) {
                        *first = Some(failure);
                    }
                }
            }
        }
        if let Some((_, block)) = state {
            block.keep();
        }
        let all = &mut outcome.lock().0;
        *all = all.plus(counters);
    });
    let (counters, failure) = outcome.into_inner();
    if let Some((_, fault)) = failure {
        return Err(fault);
    }
    let mut turns = Turns::new(true);
    turns.counters = counters;
    turns.next = blocks;
    turns.resident.extend(polling.into_inner());
    turns
        .resident
        .make_contiguous()
        .sort_by_key(|block| block.index);
    Ok(turns)
}

impl Counters {
    pub(super) fn numbers(&self) -> [u64; 5] {
        let Traffic {
            read_bytes,
            written_bytes,
            atomics,
        } = self.traffic;
        [self.warp, self.thread, read_bytes, written_bytes, atomics]
    }

    pub(super) fn stats(&self, blocks: u64) -> KernelStats {
        KernelStats {
            thread_instructions: self.thread,
            warp_instructions: self.warp,
            global_bytes_read: self.traffic.read_bytes,
            global_bytes_written: self.traffic.written_bytes,
            global_atomics: self.traffic.atomics,
            blocks,
        }
    }

    fn plus(mut self, other: Self) -> Self {
        self.warp += other.warp;
        self.thread += other.thread;
        self.traffic.read_bytes += other.traffic.read_bytes;
        self.traffic.written_bytes += other.traffic.written_bytes;
        self.traffic.atomics += other.traffic.atomics;
        self
    }
}
