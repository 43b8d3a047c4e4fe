//! A grid: its blocks run on all cores, or in order if their order is observable.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::SHARED_BYTES_MAX;
use super::block::{Block, BlockFault, BlockStatus, Worker, coordinates};
use super::checks::{CheckFindings, CheckOptions, LaunchChecks};
use super::cooperative::{WithWorkspace, resident_blocks};
use super::fault::{KernelFault, KernelFaultKind, WaitingThreads};
use super::launch::{GlobalMemory, KernelStats, Launch};
use super::observer::{NoObserver, Observer};
use super::order::{KernelOrder, KernelOrders, LaunchOrder};
use super::private_memory::PrivateMemory;
use super::races::{KernelRace, RaceDetector, RaceModel, RaceUnion};
use super::warp_context::Counters;
use crate::ptx::Kernel;
use crate::ptx::ir::Code;

/// The maximum number of threads of a block.
const THREADS_MAX: u64 = 1024;

/// The maximum number of blocks that run in turn while some wait for others.
const RESIDENT_MAX: usize = 1024;

/// The number of consecutive rounds of waiting after which the next block joins the resident ones.
const ROUNDS_ALONE: u32 = 16;

/// The maximum number of warp instructions of all blocks in an order other than that of the
/// indices. A kernel may wait for the host, which these runs do not see.
const OTHER_ORDERS_STEPS_MAX: u64 = 1 << 22;

/// The maximum number of blocks that a worker takes at a time.
const CHUNK_MAX: u64 = 16;

/// Returns the number of blocks that a worker takes at a time, so that each of `threads` takes
/// blocks about four times.
///
/// The clock counts from the first block that was taken, so the number must not depend on the
/// threads if the kernel reads it.
fn chunk(code: &Code, blocks: u64, threads: usize) -> u64 {
    let parts = if code.reads_clock {
        4
    } else {
        4 * threads as u64
    };
    blocks.div_ceil(parts).clamp(1, CHUNK_MAX)
}

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
    let workspace = workspace(kernel, launch, memory)?;
    let memory = workspace.as_ref().map_or(memory, |with| with);
    let counters = if kernel.is_ordered() || launch.cooperative || blocks == 1 {
        let order = LaunchOrder::new(KernelOrder::Index, launch);
        run_in_order(kernel, launch, memory, &order, &mut NoObserver)
    } else {
        run_in_parallel(kernel, launch, memory, blocks)
    };
    counters.map(|counters| counters.stats(blocks))
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
        orders: KernelOrders::One(KernelOrder::Index),
        instructions: &[],
    };
    let (ran, findings) = run_traced(kernel, launch, memory, checked);
    (ran, findings.races)
}

/// Runs a kernel under the given checks, otherwise like [`run_checked`].
///
/// The check for races also runs the kernel in other orders, each on a private copy of the memory.
/// A fault in one of these runs ends it.
pub(crate) fn run_traced(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    checked: CheckOptions<'_>,
) -> (Result<KernelStats, KernelFault>, CheckFindings) {
    let blocks = match check(kernel, launch) {
        Ok(blocks) => blocks,
        Err(fault) => return (Err(fault), CheckFindings::default()),
    };
    let workspace = match workspace(kernel, launch, memory) {
        Ok(workspace) => workspace,
        Err(fault) => return (Err(fault), CheckFindings::default()),
    };
    let memory = workspace.as_ref().map_or(memory, |with| with);
    let mut union = RaceUnion::default();
    let mut orders = checked.orders.of(launch, kernel.code.synchronises);
    if kernel.uses_heap() {
        // The heap has no private copy for another order.
        orders = vec![KernelOrder::Index];
    }
    let in_index_order = orders.contains(&KernelOrder::Index);
    orders.retain(|order| *order != KernelOrder::Index);
    if let Some(model) = checked.races {
        for order in orders {
            let private = PrivateMemory::new(memory);
            let launch = Launch {
                step_limit: launch.step_limit.min(OTHER_ORDERS_STEPS_MAX),
                ..*launch
            };
            let launch_order = LaunchOrder::new(order, &launch);
            let races = RaceDetector::new(kernel, &launch, &private, model);
            let mut checks = LaunchChecks::new(kernel, &launch, Some(races), &launch_order, &[]);
            let ran = run_in_order(kernel, &launch, &private, &launch_order, &mut checks);
            let findings = checks.findings();
            if private.is_exceeded() {
                break;
            }
            union.add(order, (findings.races, findings.divergences), ran.is_ok());
        }
    }
    let model = checked.races.filter(|_| in_index_order);
    let races = model.map(|model| RaceDetector::new(kernel, launch, memory, model));
    let order = LaunchOrder::new(KernelOrder::Index, launch);
    let mut checks = LaunchChecks::new(kernel, launch, races, &order, checked.instructions);
    let counters = run_in_order(kernel, launch, memory, &order, &mut checks);
    let mut findings = checks.findings();
    if model.is_some() {
        let counts = (findings.races, findings.divergences);
        union.add(KernelOrder::Index, counts, counters.is_ok());
    }
    (findings.races, findings.divergences) = union.findings();
    (counters.map(|counters| counters.stats(blocks)), findings)
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

/// Adds the workspace of a cooperative launch to its memory; `None` for any other launch.
fn workspace<'a>(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &'a dyn GlobalMemory,
) -> Result<Option<WithWorkspace<'a>>, KernelFault> {
    if !launch.cooperative {
        return Ok(None);
    }
    let no_memory = || invalid_launch(kernel, "the host is out of memory".to_owned());
    WithWorkspace::new(memory).ok_or_else(no_memory).map(Some)
}

fn fault(kernel: &Kernel, launch: &Launch<'_>, block: u64, failure: BlockFault) -> KernelFault {
    let source = |pc| kernel.source(pc).map(String::into_boxed_str);
    let mut kind = failure.failed.kind;
    if let KernelFaultKind::BarrierDeadlock { waiting, .. } = &mut kind {
        let groups = failure.waiting.iter().map(|group| WaitingThreads {
            threads: group.threads,
            first: coordinates(group.first.into(), launch.block),
            what: group.what,
            ptx_line: kernel.line(group.pc),
            source_line: source(group.pc),
        });
        *waiting = groups.collect();
    }
    if let KernelFaultKind::StepLimit { limit } = &mut kind {
        *limit = launch.step_limit;
    }
    KernelFault {
        kernel: kernel.name().into(),
        block: coordinates(block, launch.grid),
        thread: coordinates(u64::from(failure.thread), launch.block),
        ptx_line: kernel.line(failure.failed.pc),
        source_line: source(failure.failed.pc),
        kind,
    }
}

/// Runs the blocks in the given order. While blocks seem to wait for other blocks, further blocks
/// join them, and the resident blocks run in turn. The blocks of a cooperative launch run in turn
/// from the beginning.
fn run_in_order<O: Observer>(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    order: &LaunchOrder,
    observer: &mut O,
) -> Result<Counters, KernelFault> {
    let code = &kernel.code;
    let blocks = order.blocks();
    let mut worker = Worker::new(code, memory);
    worker.allow(launch.step_limit);
    let mut resident: VecDeque<Block> = VecDeque::new();
    let mut spare: Vec<Block> = Vec::new();
    let mut next = 0;
    let mut rounds_waited = 0;
    loop {
        let join = rounds_waited > ROUNDS_ALONE && resident.len() < RESIDENT_MAX;
        if next < blocks && (resident.is_empty() || join || launch.cooperative) {
            let mut block = spare.pop().unwrap_or_default();
            block.start(order.block(next), code, launch, !O::ON && blocks > 1);
            block.arrange(order);
            resident.push_front(block);
            next += 1;
            rounds_waited = 0;
        }
        let Some(mut block) = resident.pop_front() else {
            return Ok(worker.counters);
        };
        let index = block.index;
        match block.run_round(code, launch, &mut worker, observer) {
            Ok(BlockStatus::Done) => {
                rounds_waited = 0;
                memory.blocks_done(1);
                if order.token() == KernelOrder::Index {
                    worker.allow(launch.step_limit);
                }
                spare.push(block);
            }
            Ok(progress) => {
                rounds_waited = match progress {
                    BlockStatus::Waiting => rounds_waited + 1,
                    BlockStatus::Preempted => ROUNDS_ALONE + 1,
                    BlockStatus::Running | BlockStatus::Done => 0,
                };
                resident.push_back(block);
            }
            Err(failure) => return Err(fault(kernel, launch, index, failure)),
        }
    }
}

/// Runs the blocks on all cores.
fn run_in_parallel(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn GlobalMemory,
    blocks: u64,
) -> Result<Counters, KernelFault> {
    let code = &kernel.code;
    // Blocks after a failed block need not run; blocks before it must run, because one of them may
    // fail, too.
    let first_failed = AtomicU64::new(u64::MAX);
    let chunk = chunk(code, blocks, rayon::current_num_threads());
    let run_chunk = |(worker, block): &mut (Worker<'_>, Block),
                     chunk_index: u64|
     -> Result<Counters, (u64, KernelFault)> {
        worker.counters = Counters::default();
        for index in chunk_index * chunk..blocks.min((chunk_index + 1) * chunk) {
            if index > first_failed.load(Relaxed) {
                break;
            }
            worker.allow(launch.step_limit);
            block.start(index, code, launch, true);
            let failure = loop {
                match block.run_round(code, launch, worker, &mut NoObserver) {
                    Ok(BlockStatus::Done) => break None,
                    Ok(_) => {}
                    Err(failure) => break Some(fault(kernel, launch, index, failure)),
                }
            };
            if let Some(failure) = failure {
                first_failed.fetch_min(index, Relaxed);
                return Err((index, failure));
            }
        }
        memory.blocks_done(chunk.min(blocks - chunk_index * chunk));
        Ok(worker.counters)
    };
    let outcomes = (0..blocks.div_ceil(chunk))
        .into_par_iter()
        .map_init(|| (Worker::new(code, memory), Block::default()), run_chunk);
    let first = |a: Result<Counters, (u64, KernelFault)>,
                 b: Result<Counters, (u64, KernelFault)>| match (a, b) {
        (Ok(a), Ok(b)) => Ok(a.plus(b)),
        (Err(a), Err(b)) => Err(if a.0 <= b.0 { a } else { b }),
        (Err(failure), Ok(_)) | (Ok(_), Err(failure)) => Err(failure),
    };
    outcomes
        .reduce(|| Ok(Counters::default()), first)
        .map_err(|(_, fault)| fault)
}

impl Counters {
    fn stats(&self, blocks: u64) -> KernelStats {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_shared_out_to_all_threads_unless_the_kernel_reads_the_clock() {
        let mut code = Code::default();
        assert_eq!(
            [1, 2, 16].map(|threads| chunk(&code, 64, threads)),
            [16, 8, 1]
        );
        assert_eq!(chunk(&code, 1 << 20, 16), CHUNK_MAX);
        code.reads_clock = true;
        assert_eq!([1, 2, 16].map(|threads| chunk(&code, 64, threads)), [16; 3]);
    }
}
