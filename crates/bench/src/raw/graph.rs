//! A graph of the driver: launches of one kernel in a line.

#![allow(unsafe_code, reason = "makes, launches and destroys its own graph")]

use std::{ffi::c_void, sync::Arc};

use anyhow::{Result, ensure};
use millstream_driver::{
    DevicePtr, FunctionHandle, GraphExecHandle, GraphHandle, GraphNode, GraphNodeHandle,
    KernelNode, LaunchAttributes, LaunchDims,
};

use super::{BLOCK, Raw, RawKernel, RawMemory, RawStream};

/// An executable graph with its template.
#[derive(Debug)]
pub(crate) struct RawGraph {
    raw: Arc<Raw>,
    template: GraphHandle,
    exec: GraphExecHandle,
    nodes: Vec<GraphNodeHandle>,
    launch: Vecadd,
}

#[derive(Clone, Copy, Debug)]
struct Vecadd {
    function: FunctionHandle,
    operands: [DevicePtr; 3],
    n_max: u64,
}

impl Vecadd {
    /// Calls `body` with the node of a launch for the first `n` numbers.
    fn with_node<R>(&self, n: u64, body: impl FnOnce(&GraphNode<'_>) -> R) -> Result<R> {
        ensure!(n <= self.n_max, "an operand is shorter than {n} numbers");
        let addresses = self.operands.map(DevicePtr::as_raw);
        let [a, b, c] = addresses
            .each_ref()
            .map(|address| std::ptr::from_ref(address).cast::<c_void>());
        let node = KernelNode {
            function: self.function,
            dims: LaunchDims {
                grid: [u32::try_from(self.n_max.div_ceil(u64::from(BLOCK)))?, 1, 1],
                block: [BLOCK, 1, 1],
                shared_bytes: 0,
            },
            attributes: LaunchAttributes::default(),
            params: &[a, b, c, std::ptr::from_ref(&n).cast()],
        };
        Ok(body(&GraphNode::Kernel(node)))
    }
}

impl RawGraph {
    /// Creates a graph of `count` launches, each behind the one before.
    pub(crate) fn new(
        raw: &Arc<Raw>,
        kernel: RawKernel,
        operands: [&RawMemory; 3],
        count: usize,
    ) -> Result<Self> {
        let shortest = operands.iter().map(|operand| operand.bytes).min();
        let launch = Vecadd {
            function: kernel.function,
            operands: operands.map(|operand| operand.pointer),
            n_max: (shortest.unwrap_or(0) / size_of::<f32>()) as u64,
        };
        let (driver, context) = (&raw.driver, raw.context);
        // SAFETY: the context is retained.
        let template = unsafe { driver.graph_create(context) }?;
        let mut nodes: Vec<GraphNodeHandle> = Vec::with_capacity(count);
        for _ in 0..count {
            let before = nodes.last().copied();
            let node = launch.with_node(launch.n_max, |node| {
                // SAFETY: the graph and its node are alive; memory is freed only once the context
                // is idle.
                unsafe { driver.graph_add_node(context, template, before.as_slice(), node) }
            })??;
            nodes.push(node);
        }
        // SAFETY: the graph is alive, and its kernel stays loaded.
        let exec = unsafe { driver.graph_instantiate(context, template) }?;
        Ok(Self {
            raw: Arc::clone(raw),
            template,
            exec,
            nodes,
            launch,
        })
    }

    #[inline]
    pub(crate) fn launch(&self, stream: &RawStream) -> Result<()> {
        let raw = &self.raw;
        // SAFETY: graph and stream are alive.
        Ok(unsafe {
            raw.driver
                .graph_launch(raw.context, self.exec, stream.handle)
        }?)
    }

    /// Changes the first launch to one for the first `n` numbers.
    #[inline]
    pub(crate) fn set_first(&self, n: u64) -> Result<()> {
        self.set(self.nodes[0], n)
    }

    /// Changes all launches to ones for the first `n` numbers, one by one.
    pub(crate) fn set_all(&self, n: u64) -> Result<()> {
        self.nodes.iter().try_for_each(|&node| self.set(node, n))
    }

    #[inline]
    fn set(&self, node: GraphNodeHandle, n: u64) -> Result<()> {
        let raw = &self.raw;
        let set = self.launch.with_node(n, |operation| {
            // SAFETY: the graph and its template are alive.
            unsafe {
                raw.driver
                    .graph_exec_set_node(raw.context, self.exec, node, operation)
            }
        });
        Ok(set??)
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        let (driver, context) = (&self.raw.driver, self.raw.context);
        // SAFETY: the graph is not used again; its launches complete (rule 47).
        let ended = unsafe { driver.graph_exec_destroy(context, self.exec) };
        // SAFETY: as above.
        let destroyed = unsafe { driver.graph_destroy(context, self.template) };
        for error in [ended.err(), destroyed.err()].into_iter().flatten() {
            eprintln!("cannot destroy a graph: {error}");
        }
    }
}
