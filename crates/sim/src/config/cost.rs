//! The cost model: the cost of each call on the host and of each operation on the device, in
//! virtual nanoseconds.

use crate::exec::KernelStats;

/// Virtual costs. The defaults were measured on an H200 (costs and bandwidth in [the
/// guide][rules]), except the fields marked "not measured". A rate in GB/s equals the rate in bytes
/// per nanosecond.
///
/// [rules]: https://docs.rs/millstream/latest/millstream/guide/semantics/index.html
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// Host: `cuLaunchKernel`.
    pub launch_call_ns: u64,
    /// Host: `cuEventRecord`.
    pub record_call_ns: u64,
    /// Host: `cuStreamWaitEvent`.
    pub wait_call_ns: u64,
    /// Host: `cuEventQuery`, `cuStreamQuery`.
    pub query_call_ns: u64,
    /// Host: the return from a wait for the device. Not measured separately; chosen so that a
    /// launch and a synchronisation together cost 8.7 µs.
    pub synchronize_call_ns: u64,
    /// Host: each of `cuEventCreate` and `cuEventDestroy`.
    pub event_lifetime_call_ns: u64,
    /// Host: each of `cuMemAllocAsync` and `cuMemFreeAsync`.
    pub pool_call_ns: u64,
    /// Host: each of `cuMemAlloc`, `cuMemAllocManaged` (not measured) and `cuMemFree`.
    pub device_memory_call_ns: u64,
    /// Host: `cuMemPrefetchAsync`. Not measured.
    pub prefetch_call_ns: u64,
    /// Host: each of `cuMemHostAlloc` and `cuMemFreeHost`.
    pub pinned_memory_call_ns: u64,
    /// Host: each of `cuMemHostRegister` and `cuMemHostUnregister`.
    pub register_call_ns: u64,
    /// Host: a copy between page-locked and device memory.
    pub pinned_copy_call_ns: u64,
    /// Host: a copy between pageable and device memory, excluding the staging copy.
    pub pageable_copy_call_ns: u64,
    /// Host: a copy within the device.
    pub device_copy_call_ns: u64,
    /// Host: a fill.
    pub memset_call_ns: u64,
    /// Host: `cuLaunchHostFunc`.
    pub host_function_call_ns: u64,
    /// Host: creating or destroying a stream.
    pub stream_lifetime_call_ns: u64,
    /// Host: loading a module. Not measured.
    pub module_call_ns: u64,
    /// Host: `cuCtxEnablePeerAccess`.
    pub peer_access_call_ns: u64,
    /// Host: `cuMemPoolSetAccess`.
    pub pool_access_call_ns: u64,
    /// Host: adding a node to a graph.
    pub graph_node_call_ns: u64,
    /// Host: setting a node of an executable graph.
    pub graph_set_node_call_ns: u64,
    /// Host: the fixed part of `cuGraphInstantiate`.
    pub graph_instantiate_call_ns: u64,
    /// Host: the part of `cuGraphInstantiate` for each node.
    pub graph_instantiate_node_ns: u64,
    /// Host: the fixed part of `cuGraphUpload`.
    pub graph_upload_call_ns: u64,
    /// Host: the part of `cuGraphUpload` for each node.
    pub graph_upload_node_ns: u64,
    /// Host: the part of `cuGraphExecUpdate` for each node.
    pub graph_update_node_ns: u64,
    /// Host: the fixed part of `cuGraphLaunch` of nodes in a line.
    pub graph_launch_call_ns: u64,
    /// Host: the fixed part of `cuGraphLaunch` of several branches.
    pub graph_launch_branched_call_ns: u64,
    /// Host: the part of `cuGraphLaunch` for each 100 nodes.
    pub graph_launch_100_nodes_ns: u64,
    /// Host: any other call. Not measured.
    pub other_call_ns: u64,
    /// Host: copying memory to and from staging, one thread.
    pub host_memcpy_gb_s: f64,
    /// Device: the fixed part of a kernel.
    pub kernel_latency_ns: u64,
    /// Device: the fixed part of a graph's launch. Not measured separately; chosen so that a graph
    /// of one kernel takes 7.1 µs from the launch to its completion.
    pub graph_latency_ns: u64,
    /// Device: the fixed part of a kernel in a graph.
    pub graph_kernel_latency_ns: u64,
    /// Device: the fixed part of an iteration of a conditional node. Not measured separately;
    /// chosen so that an iteration of two kernels takes 5.5 µs.
    pub graph_iteration_ns: u64,
    /// Device: thread instructions per nanosecond of all multiprocessors together. Not measured;
    /// computed from 132 multiprocessors, 128 lanes each, at 1.755 GHz.
    pub instructions_per_ns: f64,
    /// Device: memory bandwidth, reads plus writes.
    pub memory_gb_s: f64,
    /// Device: the maximum number of resident threads on all multiprocessors, 2,048 each.
    pub resident_threads: u64,
    /// Device: the fixed part of a copy or fill. Not measured.
    pub copy_latency_ns: u64,
    /// Device: bandwidth from page-locked host memory to the device.
    pub pinned_upload_gb_s: f64,
    /// Device: bandwidth from the device to page-locked host memory.
    pub pinned_download_gb_s: f64,
    /// Device: bandwidth from pageable host memory to the device, staging included.
    pub pageable_upload_gb_s: f64,
    /// Device: bandwidth from the device to pageable host memory, staging included.
    pub pageable_download_gb_s: f64,
    /// Device: bandwidth between two devices that access each other's memory over NVLink.
    pub nvlink_gb_s: f64,
    /// Device: bandwidth between two devices that access each other's memory over PCIe. Not
    /// measured.
    pub pcie_peer_gb_s: f64,
    /// Device: bandwidth between two devices without access, staged by the driver in host memory.
    pub peer_gb_s: f64,
    /// Device: the delay between the end of the work before a host function and its start.
    pub host_function_latency_ns: u64,
    /// Device: the time for which a host function blocks its stream. Not measured; the same for
    /// every function, whatever its real duration.
    pub host_function_ns: u64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            launch_call_ns: 3_550,
            record_call_ns: 147,
            wait_call_ns: 160,
            query_call_ns: 150,
            synchronize_call_ns: 1_670,
            event_lifetime_call_ns: 87,
            pool_call_ns: 310,
            device_memory_call_ns: 32_000,
            prefetch_call_ns: 5_000,
            pinned_memory_call_ns: 15_000,
            register_call_ns: 300_000,
            pinned_copy_call_ns: 1_286,
            pageable_copy_call_ns: 1_665,
            device_copy_call_ns: 3_842,
            memset_call_ns: 772,
            host_function_call_ns: 1_800,
            stream_lifetime_call_ns: 10_000,
            module_call_ns: 100_000,
            peer_access_call_ns: 2_400_000,
            pool_access_call_ns: 18_000_000,
            graph_node_call_ns: 450,
            graph_set_node_call_ns: 300,
            graph_instantiate_call_ns: 15_000,
            graph_instantiate_node_ns: 3_100,
            graph_upload_call_ns: 18_000,
            graph_upload_node_ns: 1_100,
            graph_update_node_ns: 60,
            graph_launch_call_ns: 1_950,
            graph_launch_branched_call_ns: 6_100,
            graph_launch_100_nodes_ns: 160,
            other_call_ns: 50,
            host_memcpy_gb_s: 10.0,
            kernel_latency_ns: 3_480,
            graph_latency_ns: 2_500,
            graph_kernel_latency_ns: 940,
            graph_iteration_ns: 3_600,
            instructions_per_ns: 29_650.0,
            memory_gb_s: 4_197.0,
            resident_threads: 132 * 2_048,
            copy_latency_ns: 1_000,
            pinned_upload_gb_s: 55.4,
            pinned_download_gb_s: 55.3,
            pageable_upload_gb_s: 7.5,
            pageable_download_gb_s: 14.9,
            nvlink_gb_s: 394.0,
            pcie_peer_gb_s: 25.0,
            peer_gb_s: 37.5,
            host_function_latency_ns: 17_800,
            host_function_ns: 1_000,
        }
    }
}

impl CostModel {
    /// Returns the nanoseconds to transfer `bytes` at `gb_s`, rounded up.
    pub(crate) fn transfer_ns(bytes: u64, gb_s: f64) -> u64 {
        // The conversion to an integer saturates, so a rate of zero takes for ever instead of
        // panicking.
        (bytes as f64 / gb_s).ceil() as u64
    }

    /// Returns the number of resident threads that a kernel with this launch configuration
    /// occupies.
    pub(crate) fn kernel_threads(&self, grid: [u32; 3], block: [u32; 3]) -> u64 {
        let threads = block.iter().map(|&d| u64::from(d)).product::<u64>();
        let blocks = grid
            .iter()
            .fold(1u64, |n, &d| n.saturating_mul(u64::from(d)));
        // A multiprocessor holds at most 32 blocks, so a block counts for at least two warps.
        let resident = threads.next_multiple_of(32).max(64);
        blocks.saturating_mul(resident).min(self.resident_threads)
    }

    /// Returns the duration of a kernel with these statistics on `threads` resident threads, in a
    /// graph or not.
    pub(crate) fn kernel_ns(&self, stats: &KernelStats, threads: u64, in_graph: bool) -> u64 {
        let share = threads as f64 / self.resident_threads as f64;
        let compute = stats.thread_instructions as f64 / (self.instructions_per_ns * share);
        let bytes = stats
            .global_bytes_read
            .saturating_add(stats.global_bytes_written);
        // A quarter of the device's threads saturates the memory bandwidth.
        let memory = bytes as f64 / (self.memory_gb_s * (share * 4.0).min(1.0));
        let latency_ns = if in_graph {
            self.graph_kernel_latency_ns
        } else {
            self.kernel_latency_ns
        };
        latency_ns + compute.max(memory).ceil() as u64
    }

    /// Returns the number of threads that a fill or copy of `bytes` occupies, at 16 bytes each.
    pub(crate) fn bulk_threads(&self, bytes: u64) -> u64 {
        (bytes / 16).clamp(64, self.resident_threads)
    }
}
