//! The heap of kernels (`malloc` and `free` in device code), managed variables, and `assert`.

use std::ptr::NonNull;

use millstream_driver::{DevicePtr, FillPattern, FunctionHandle, ResultCode, StreamHandle};
use millstream_sim::{ReportKind, SimConfig};

use crate::rules::sim_harness::{
    Arg, DEVICE, Fails, Host, SimHarness, each_schedule, each_schedule_and_stream,
};

/// `take(out, n)`: stores the address of a block of `n` bytes. `put(p, v)`: stores a word at `p`.
/// `get(p, out)`: copies the word at `p`. `give(p)`: frees `p`. `churn(out, n, times)`: takes,
/// puts and gives that often. `bump()`: adds 10 to the second word of the managed variable.
const HEAP: &str = include_str!("heap.ptx");

struct Heap<'s> {
    sim: &'s SimHarness,
    stream: StreamHandle,
    out: DevicePtr,
}

impl<'s> Heap<'s> {
    fn new(sim: &'s SimHarness) -> Self {
        let out = sim.mem_alloc(8).unwrap();
        let stream = sim.stream();
        Self { sim, stream, out }
    }

    fn kernel(&self, name: &str) -> FunctionHandle {
        self.sim.kernel(HEAP, name)
    }

    fn start(&self, name: &str, args: &[Arg]) {
        let kernel = self.kernel(name);
        self.sim.launch(kernel, (1, 1), self.stream, args).unwrap();
    }

    fn run(&self, name: &str, args: &[Arg]) {
        self.start(name, args);
        self.sim.stream_synchronize(self.stream).unwrap();
    }

    /// Returns the address of a new block; 0 if there is none.
    fn take(&self, bytes: u64) -> DevicePtr {
        let bytes = Arg::Pointer(DevicePtr::from_raw(bytes));
        self.run("take", &[Arg::Pointer(self.out), bytes]);
        let address = self.sim.read(self.out, 8, self.stream);
        DevicePtr::from_raw(u64::from_le_bytes(address.try_into().unwrap()))
    }
}

#[run_by(each_schedule, |sim|)]
fn blocks_live_until_a_kernel_frees_them_and_only_kernels_access_them() {
    let heap = Heap::new(sim);
    let block = heap.take(4);
    heap.run("put", &[Arg::Pointer(block), Arg::U32(7)]);
    heap.run("get", &[Arg::Pointer(block), Arg::Pointer(heap.out)]);
    assert_eq!(sim.read(heap.out, 4, heap.stream), [7, 0, 0, 0]);
    sim.assert_clean();
    let bytes = sim.gpu.live_object_counts().device_bytes;
    assert_eq!(bytes, 512, "the 8 bytes alone");
    assert!(sim.gpu.live_objects().iter().all(|found| found.bytes != 4));
    assert!(sim.gpu.allocation_at(block).is_none());
    sim.mem_free(block).fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::WrongFree, &["malloc"]);
    let copy = sim.copy_device_to_device_async(heap.out, block, 4, heap.stream);
    copy.fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::BadArgument, &["memory of a kernel's heap"]);
    let fill = sim.memset_async(block, FillPattern::U8(0), 4, heap.stream);
    fill.fails(ResultCode::INVALID_VALUE);
    heap.run("give", &[Arg::Pointer(DevicePtr::from_raw(0))]);
    heap.run("give", &[Arg::Pointer(block)]);
    heap.start("give", &[Arg::Pointer(block)]);
    let ended = sim.stream_synchronize(heap.stream);
    ended.fails(ResultCode::LAUNCH_FAILED);
    sim.assert_reported(ReportKind::KernelFault, &["4 bytes, malloc", "freed"]);
}

#[test]
fn the_heap_is_exhausted_at_its_size_which_is_set_before_its_first_use() {
    each_schedule(|sim| {
        let heap = Heap::new(sim);
        let own = sim.gpu.context_create(DEVICE).unwrap();
        let set = |context, bytes| sim.gpu.context_set_heap(context, bytes);
        set(own, 1).unwrap();
        set(sim.context, u64::MAX).fails(ResultCode::OUT_OF_MEMORY);
        set(sim.context, 100).unwrap();
        let block = heap.take(60);
        assert_eq!(heap.take(40).as_raw(), 0, "it has 36 bytes left");
        assert_eq!(heap.take(u64::MAX).as_raw(), 0);
        assert_ne!(heap.take(30).as_raw(), 0);
        heap.run("give", &[Arg::Pointer(block)]);
        let again = heap.take(64);
        assert!(again.as_raw() != 0 && again != block);
        sim.assert_clean();
        set(sim.context, 200).fails(ResultCode::INVALID_VALUE);
        sim.assert_reported(ReportKind::BadArgument, &["after the launch of a kernel"]);
        set(own, 200).unwrap();
        // The context frees what is left.
        sim.stream_destroy(heap.stream).unwrap();
        sim.release_context().unwrap();
        assert_eq!(sim.gpu.live_object_counts().device_bytes, 0);
    });
    let sim = SimHarness::new(SimConfig::new());
    let heap = Heap::new(&sim);
    assert_ne!(heap.take((8 << 20) - 16).as_raw(), 0);
    assert_eq!(heap.take(17).as_raw(), 0);
    let sim = SimHarness::new(SimConfig::new());
    let heap = Heap::new(&sim);
    for [bytes, align] in [[17, 256], [1, 1 << 20], [1, 48], [1, 1 << 63]] {
        let [bytes, wanted] = [bytes, align].map(|word| Arg::Pointer(DevicePtr::from_raw(word)));
        heap.run("take_aligned", &[Arg::Pointer(heap.out), bytes, wanted]);
        let address = sim.read(heap.out, 8, heap.stream).try_into().unwrap();
        let address = u64::from_le_bytes(address);
        assert!(address.is_multiple_of(align), "{address:#x}");
        assert_eq!(address > 0, [256, 1 << 20].contains(&align));
    }
}

#[test]
fn a_kernel_that_allocates_and_frees_in_a_loop_uses_little_memory_of_the_host() {
    let blocks_apart = |races: bool| {
        let sim = SimHarness::new(SimConfig::new().kernel_race_check(races));
        let heap = Heap::new(&sim);
        let (first, bytes) = (heap.take(4), Arg::Pointer(DevicePtr::from_raw(4 << 20)));
        heap.run("churn", &[Arg::Pointer(heap.out), bytes, Arg::U32(40)]);
        let last = u64::from_le_bytes(sim.read(heap.out, 8, heap.stream).try_into().unwrap());
        sim.assert_clean();
        (last - first.as_raw()) >> 22
    };
    assert_eq!(blocks_apart(true), 39, "each block is a new one");
    assert_eq!(
        blocks_apart(false),
        15,
        "64 MiB, and then the last freed again"
    );
}

#[test]
fn races_on_blocks_and_reads_of_fresh_ones_are_found() {
    let program = |waits: bool, second: &str| {
        let sim = SimHarness::new(SimConfig::new().race_check(true));
        let heap = Heap::new(&sim);
        let block = heap.take(4);
        let other = sim.stream();
        heap.start("put", &[Arg::Pointer(block), Arg::U32(7)]);
        if waits {
            let event = sim.recorded(heap.stream);
            sim.stream_wait_event(other, event).unwrap();
        }
        let args = [Arg::Pointer(block), Arg::Pointer(heap.out)];
        let args = &args[..if second == "give" { 1 } else { 2 }];
        let kernel = heap.kernel(second);
        sim.launch(kernel, (1, 1), other, args).unwrap();
        sim.context_synchronize().unwrap();
        let report = sim.gpu.reports().into_iter().next()?;
        assert!(report.text.contains("4 bytes, malloc by operation 1"));
        Some(report.kind)
    };
    assert_eq!(program(true, "get"), None);
    assert_eq!(program(true, "give"), None);
    assert_eq!(program(false, "get"), Some(ReportKind::Race));
    assert_eq!(program(false, "give"), Some(ReportKind::FreeInFlight));
    let sim = SimHarness::new(SimConfig::new().race_check(true));
    let heap = Heap::new(&sim);
    let block = heap.take(4);
    heap.run("get", &[Arg::Pointer(block), Arg::Pointer(heap.out)]);
    sim.assert_reported(ReportKind::UninitialisedRead, &["malloc"]);
}

#[run_by(each_schedule, |sim|)]
fn each_launch_of_a_graph_allocates() {
    let heap = Heap::new(sim);
    let graph = sim.graph_create().unwrap();
    let args = [heap.out.as_raw(), 4];
    let take = heap.kernel("take");
    sim.graph_one_thread(graph, &[], take, &args).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    let mut blocks: Vec<_> = (0..3)
        .map(|_| {
            sim.graph_launch(exec, heap.stream).unwrap();
            sim.read(heap.out, 8, heap.stream)
        })
        .collect();
    blocks.dedup();
    assert_eq!(blocks.len(), 3);
    sim.assert_clean();
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn a_managed_variable_is_read_and_written_by_host_and_device_at_one_address() {
    let module = sim.module_load(HEAP.as_bytes()).unwrap();
    let (shared, bytes) = sim.module_global(module, "shared").unwrap();
    let start = std::ptr::with_exposed_provenance_mut(shared.as_raw() as usize);
    let host = Host {
        pointer: NonNull::new(start).unwrap(),
        bytes,
    };
    assert_eq!(host.part(0, 8).read(), [1, 0, 0, 0, 2, 0, 0, 0]);
    host.part(4, 1).fill(30);
    let bump = sim.module_function(module, "bump").unwrap();
    sim.launch(bump, (1, 1), stream, &[]).unwrap();
    sim.stream_synchronize(stream).unwrap();
    assert_eq!(host.part(0, 8).read(), [1, 0, 0, 0, 40, 0, 0, 0]);
    assert_eq!(sim.read(shared, 8, stream), [1, 0, 0, 0, 40, 0, 0, 0]);
    assert_eq!(sim.gpu.live_object_counts().managed_bytes, 0);
    sim.assert_clean();
    sim.mem_free(shared).fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::WrongFree, &["a module's variable"]);
    sim.module_unload(module).unwrap();
    sim.memset_async(shared, FillPattern::U8(0), 4, stream)
        .fails(ResultCode::INVALID_VALUE);
}
