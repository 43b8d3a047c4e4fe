//! Changes between replays: other arrays, other arguments, another recording, another instance.
//!
//! A change replaces nodes and operands of the graph at once and notes which nodes of the
//! executable graph differ; the next replay sets them. Replays that are enqueued keep the old ones:
//! the driver applies a change to later launches only, and the memory of the old ones is freed
//! behind them.

#![allow(unsafe_code, reason = "copies between blocks that it holds")]

use std::{panic::Location, ptr, sync::Arc};

use bytemuck::Pod;

use super::{
    Graph, GraphRecorder,
    body::Body,
    conditions::Conditions,
    node::{self, Node, Work},
    operand::OperandMemory,
    recorder,
    recording::RecordedGraph,
    replay,
};
use crate::{
    Error, ReadOperand, Result, Stream, UsageError, UsageErrorKind, array::Span,
    context::DeviceState, memory::Allocation, sync::ranked::Ranked, tracker::AccessKind,
};

/// A kernel of a graph that is about to be changed: see [`Graph::node`].
#[derive(Debug)]
pub struct GraphNodeMut<'a> {
    graph: &'a mut Graph,
    number: usize,
}

fn refused(operation: &'static str, detail: impl Into<String>) -> UsageError {
    let detail = detail.into();
    UsageError::new(operation, UsageErrorKind::Graph { detail })
}

impl Graph {
    /// Exchanges two arrays of equal length in later replays: every operation that used `old` uses
    /// `new`, and every one that used `new` uses `old`. Replays that are enqueued keep the arrays
    /// that they have.
    ///
    /// An array that the graph did not write before and writes afterwards is passed as `&mut`. One
    /// that is lent, or whose contents are invalid, is an error of the next replay, as of any other
    /// operation.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// let (ones, twos) = (stream.upload(&[1_u8; 9])?, stream.upload(&[2_u8; 9])?);
    /// let mut target = stream.zeros::<u8>(9)?;
    /// let mut graph = device.record("copy", |r| r.stream()?.copy(&ones, &mut target))?;
    /// graph.swap(&ones, &twos)?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&target)?.wait()?, [2; 9]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the lengths differ, one is only a part of an array, `new` is on another device, lent for
    /// a scope or in memory that the host can use, only one is a variable of a module, the graph
    /// does not use `old` or would write an array that is passed as `&`, an array is at an address
    /// of a smaller alignment than the recorded one (up to 256 bytes), or an operation contains
    /// addresses that cannot be changed, such as the call of another library or a kernel that uses
    /// a variable by its name: [`update`](Self::update) records it again. The graph is then as
    /// before.
    #[track_caller]
    pub fn swap<T: Pod>(
        &mut self,
        old: impl ReadOperand<T>,
        new: impl ReadOperand<T>,
    ) -> Result<()> {
        let location = Location::caller();
        let (old, old_exclusive) = (old.operand().0, old.is_exclusive());
        let (new, new_exclusive) = (new.operand().0, new.is_exclusive());
        self.swap_memory((&old, old_exclusive), (&new, new_exclusive))
            .map_err(|usage_error| usage_error.at(location).into())
    }

    /// Exchanges two arrays, each with whether its access is exclusive.
    fn swap_memory(
        &mut self,
        (old, old_exclusive): (&Span<'_>, bool),
        (new, new_exclusive): (&Span<'_>, bool),
    ) -> Result<(), UsageError> {
        const NAME: &str = "swap";
        if old.bytes.len() != new.bytes.len() {
            let problem = UsageErrorKind::Length {
                source_len: old.bytes.len(),
                target_len: new.bytes.len(),
            };
            return Err(UsageError::new(NAME, problem));
        }
        let is_whole = |span: &Span<'_>| span.bytes.len() as u64 == span.allocation.history.bytes();
        if !is_whole(old) || !is_whole(new) {
            return Err(refused(
                NAME,
                "only whole arrays can be swapped: `update` records again",
            ));
        }
        if !Arc::ptr_eq(&new.allocation.device, &self.device) {
            let (operand_device, stream_device) = new.allocation.device.told_apart(&self.device);
            return Err(UsageError::new(
                NAME,
                UsageErrorKind::OtherDevice {
                    operand: 1,
                    name: Some("new"),
                    operand_device,
                    stream_device,
                    advice: "",
                },
            ));
        }
        let new_memory = Allocation::of(&new.allocation.history, 1);
        let new_memory = new_memory.map_err(|problem| UsageError::new(NAME, problem))?;
        let Some(at) = self.operand_of(old) else {
            return Err(refused(NAME, "the graph does not use `old`"));
        };
        let other = self.operand_of(new);
        let swapped = |number| number == at || Some(number) == other;
        if let Some(node) = self.nodes.iter().find(|node| node.is_fixed_to(&swapped)) {
            let detail = format!(
                "{node} contains the address of an array, or uses a variable by its name: `update` \
                 records it again with another"
            );
            return Err(refused(NAME, detail));
        }
        self.check_place(NAME, at, (new, new_exclusive, other), "new")?;
        if let Some(other) = other {
            self.check_place(NAME, other, (old, old_exclusive, Some(at)), "old")?;
        }
        match other {
            Some(other) if other == at => return Ok(()),
            Some(other) => {
                self.operands.swap(at, other);
                let alignment = self.operands[at].alignment;
                self.operands[at].alignment = self.operands[other].alignment;
                self.operands[other].alignment = alignment;
            }
            None => {
                let operand = &mut self.operands[at];
                operand.pointer = new_memory.pointer;
                operand.memory = OperandMemory::Outside(new_memory);
            }
        }
        node::resolve(&mut self.nodes, &self.operands);
        let changed =
            |(_, node): &(usize, &Node)| node.accesses.iter().any(|access| swapped(access.operand));
        let changed = || self.nodes.iter().enumerate().filter(changed);
        let state = self.exec.get_mut();
        if changed().any(|(_, node)| !node.work.can_be_set()) {
            state.exec = None;
        }
        changed().for_each(|(number, _)| state.changed.insert(number));
        self.accesses = replay::union_of(&self.nodes, &self.operands);
        self.updates += 1;
        Ok(())
    }

    /// Returns an error unless an array, which is or is not an operand now, can take the place of
    /// an operand.
    fn check_place(
        &self,
        operation: &'static str,
        place: usize,
        (array, is_exclusive, now): (&Span<'_>, bool, Option<usize>),
        name: &str,
    ) -> Result<(), UsageError> {
        let is_written = |number: usize| {
            let mut accesses = self.nodes.iter().flat_map(|node| &node.accesses);
            accesses.any(|access| access.operand == number && access.kind == AccessKind::Write)
        };
        let operand = &self.operands[place];
        let (address, alignment) = (array.allocation.pointer.as_raw(), operand.alignment);
        let is_variable = operand.outside().is_some_and(|there| there.is_variable());
        let detail = if !address.is_multiple_of(alignment) {
            format!(
                "`{name}` is at {address:#x}, and the recorded address is a multiple of {alignment}"
            )
        } else if is_variable != array.allocation.is_variable() {
            String::from("only one of the arrays is a variable of a module")
        } else if is_written(place) && !is_exclusive && !now.is_some_and(is_written) {
            format!("the graph would write `{name}`, which is passed as `&`: pass it as `&mut`")
        } else {
            return Ok(());
        };
        Err(refused(operation, detail))
    }

    /// Returns the number of the operand that is this array.
    fn operand_of(&self, span: &Span<'_>) -> Option<usize> {
        let is_it = |allocation: &Arc<Allocation>| std::ptr::eq(&**allocation, span.allocation);
        let mut operands = self.operands.iter();
        operands.position(|operand| operand.outside().is_some_and(is_it))
    }

    /// Returns the kernel of this name, to change it.
    ///
    /// # Errors
    ///
    /// If the graph has no kernel of this name, or several.
    pub fn node(&mut self, label: &str) -> Result<GraphNodeMut<'_>> {
        let is_named = |node: &Node| {
            matches!(node.work, Work::Kernel(_))
                && (ptr::eq(node.label, label) || node.label == label)
        };
        let mut others = self.nodes.iter();
        let position = others.position(is_named);
        match (position, others.position(is_named)) {
            (Some(number), None) => Ok(GraphNodeMut {
                graph: self,
                number,
            }),
            (None, _) => {
                let named = |node: &Node| usize::from(node.label == label);
                let detail = match super::count(&self.nodes, &named) {
                    0 => format!("graph `{}` has no kernel `{label}`", self.name),
                    _ => format!(
                        "graph `{}` has `{label}` only in the body of a loop or a condition, or \
                         not as a kernel: `update` records again",
                        self.name
                    ),
                };
                Err(refused("node", detail).into())
            }
            (Some(_), Some(_)) => {
                let named = |node: &&Node| is_named(node);
                let detail = format!(
                    "graph `{}` has {} kernels `{label}`: `update` records again",
                    self.name,
                    self.nodes.iter().filter(named).count()
                );
                Err(refused("node", detail).into())
            }
        }
    }

    /// Records the graph again. Later replays run the new operations, in the same memory as far as
    /// possible; replays that are enqueued run the old ones. If only arguments, dimensions and
    /// arrays differ, the driver's graph is changed and not made again. With loops or conditions it
    /// is always made again.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut x = stream.zeros::<u8>(4)?;
    /// let mut graph = device.record("fill", |r| r.stream()?.fill(&mut x, 1))?;
    /// graph.update(|r| r.stream()?.fill(x.slice_mut(..2), 2))?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&x)?.wait()?, [2, 2, 0, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Device::record`](crate::Device::record). The graph is then as before.
    pub fn update(&mut self, body: impl FnOnce(&GraphRecorder) -> Result<()>) -> Result<()> {
        let mut recorded = recorder::record(&self.device, self.options, body)?;
        let conditions = Conditions::of(&self.device, self.name, &mut recorded)?;
        let RecordedGraph {
            mut nodes,
            mut operands,
            ..
        } = recorded;
        let alike = self.nodes.len() == nodes.len()
            && self
                .nodes
                .iter()
                .zip(&nodes)
                .all(|(old, new)| old.is_like(new));
        self.body.adopt(&mut operands, &nodes);
        node::resolve(&mut nodes, &operands);
        let fresh = match alike {
            true => None,
            false => Some(self.built(&nodes, &operands, conditions.as_ref())?),
        };
        let pairs = self.nodes.iter().zip(&nodes).enumerate();
        let differs = |(_, (old, new)): &(usize, (&Node, &Node))| {
            !old.work.equals(&self.operands, &new.work, &operands)
        };
        let changed: Vec<usize> = match alike {
            true => pairs.filter(differs).map(|(number, _)| number).collect(),
            false => Vec::new(),
        };
        let state = self.exec.get_mut();
        if let Some(exec) = fresh {
            state.exec = exec;
            state.changed.clear();
        }
        changed
            .into_iter()
            .for_each(|number| state.changed.insert(number));
        self.conditions = conditions;
        self.set_nodes(nodes, operands);
        self.updates += 1;
        Ok(())
    }

    /// Returns another graph of the same operations on the same arrays, with memory of its own for
    /// what was made in the recording. After [`swap`](Self::swap) has given it arrays of its own
    /// as well, the two can run at the same time; an executable graph never runs twice at a time.
    ///
    /// # Errors
    ///
    /// If the graph contains the call of another library, memory is exhausted, the driver cannot
    /// make the graph, or the device is lost.
    #[track_caller]
    pub fn instance(&self) -> Result<Self> {
        let location = Location::caller();
        if let Some(node) = self.nodes.iter().find(|node| node.work.is_captured()) {
            let detail = format!("{node} contains addresses of its memory: record the graph again");
            return Err(refused("instance", detail).at(location).into());
        }
        let stream = Stream::new(&self.device, 0)?;
        let body = Arc::new(Body::new());
        let mut operands = self.operands.clone();
        body.duplicate(&stream, &mut operands, location)?;
        let mut nodes = self.nodes.clone();
        node::resolve(&mut nodes, &operands);
        let conditions = self.conditions.as_ref();
        let conditions = conditions.map(|shared| shared.again(&self.device, self.name));
        let mut instance = Self {
            name: self.name,
            location,
            device: Arc::clone(&self.device),
            options: self.options,
            accesses: Vec::new(),
            uses_body: false,
            recorded_bodies: Vec::new(),
            accessed_bytes: self.accessed_bytes,
            nodes: Vec::new(),
            operands: Vec::new(),
            exec: Ranked::default(),
            conditions: conditions.transpose()?,
            body,
            updates: 0,
        };
        instance.set_nodes(nodes, operands);
        instance.build()?;
        Ok(instance)
    }

    /// Returns an error unless the device is the graph's.
    #[inline]
    pub(super) fn check_device(
        &self,
        device: &Arc<DeviceState>,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<()> {
        if Arc::ptr_eq(device, &self.device) {
            Ok(())
        } else {
            Err(self.is_elsewhere(device, operation, location))
        }
    }

    #[cold]
    fn is_elsewhere(
        &self,
        device: &DeviceState,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Error {
        let (own, other) = self.device.told_apart(device);
        let detail = format!("graph `{}` is on {own}, and not on {other}", self.name);
        refused(operation, detail).at(location).into()
    }
}

impl GraphNodeMut<'_> {
    /// Sets a parameter that is passed by value, in later replays.
    ///
    /// ```standalone_crate
    /// use millstream::{Device, LaunchConfig};
    ///
    /// millstream::kernels! {
    ///     // SAFETY: the signature is that of vecadd.cu; its threads access `n` elements of each
    ///     // array and no others.
    ///     unsafe mod sums from include_str!("../../kernels/vecadd.ptx") {
    ///         safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
    ///             requires a.len() >= n, b.len() >= n, c.len() >= n;
    ///     }
    /// }
    ///
    /// let device = Device::simulated()?;
    /// let (kernels, stream) = (sums::load(&device)?, device.stream()?);
    /// let a = stream.upload(&[1.0_f32; 3])?;
    /// let mut c = stream.zeros::<f32>(3)?;
    /// let mut graph = device.record("sum", |r| {
    ///     kernels.vecadd(&r.stream()?, LaunchConfig::linear(3), &a, &a, &mut c, 3)
    /// })?;
    /// // SAFETY: the arrays have more than two elements.
    /// unsafe { graph.node("vecadd")?.set_scalar(3, 2_u64) }?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&c)?.wait()?, [2.0, 2.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no such parameter, it is an array or a texture, or the value has another size.
    ///
    /// # Safety
    ///
    /// With this value, the kernel accesses only its array operands within their lengths. The
    /// `requires` clauses of a kernel are not checked.
    #[track_caller]
    pub unsafe fn set_scalar<T: Pod>(&mut self, param: usize, value: T) -> Result<()> {
        let location = Location::caller();
        let node = &mut self.graph.nodes[self.number];
        let label = node.label;
        let Work::Kernel(kernel) = &mut node.work else {
            unreachable!("`node` returns kernels");
        };
        let params = &mut kernel.params;
        let problem = match params.bytes(param) {
            None => format!("parameter {param} of `{label}`: it has {}", params.len()),
            Some(_) if params.is_operand(param) => {
                format!("parameter {param} of `{label}` is an array: use `swap` or `update`")
            }
            Some(bytes) if bytes != size_of::<T>() => format!(
                "parameter {param} of `{label}` has {bytes} bytes, and the value has {}",
                size_of::<T>()
            ),
            Some(_) => {
                params.set(param, &value);
                self.graph.exec.get_mut().changed.insert(self.number);
                self.graph.updates += 1;
                return Ok(());
            }
        };
        Err(refused("set_scalar", problem).at(location).into())
    }
}
