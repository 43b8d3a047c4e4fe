//! Conditional nodes: operations that run as often as a flag in device memory says.
//!
//! A conditional node of the driver looks at a condition, a number in the driver's own memory, that
//! only a kernel can set. The kernel is ours: one launch in front of the node, and in a loop one at
//! the end of the body, copy the flag to the condition. The second also counts the iterations, so
//! that the limit ends every loop, and notes in host memory that it did ([`super::limit`]): in the
//! word of the replay, whose index a fill in front of the replay has written to the graph's memory.
//!
//! Without conditional nodes (a driver older than CUDA 12.4) the host looks at the flag between
//! iterations ([`super::steps`]).

use std::{collections::BTreeMap, ffi::c_void, panic::Location, ptr, sync::Arc};

use millstream_driver::{
    ConditionHandle, ConditionalKind, DevicePtr, FunctionHandle, GraphNode, KernelNode,
    LaunchAttributes, LaunchDims, ResultCode,
};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    GraphRecorder,
    exec::OwnedGraph,
    limit::{LoopNotes, LoopSite},
    node::{Address, Node, NodeAccess, Operand, OperandMemory},
    recording::RecordedGraph,
};
use crate::{
    Buffer, Device, ReadOperand, Result, Stream, UsageError, UsageErrorKind,
    array::Span,
    context::DeviceState,
    kernel::load_generated,
    memory::Allocation,
    tracker::{AccessKind, AccessUnion},
};

/// The compute capability from which on the kernel below can be loaded.
const CAPABILITY_MIN: (i32, i32) = (7, 5);

/// A kernel of one thread that copies a flag to a condition, as 0 or 1. With the address of a
/// counter it belongs to a loop: if `max` is 0, it sets the counter to 0; otherwise it counts an
/// iteration, and if the flag is set in iteration `max`, the condition becomes 0, and the loop's
/// number is noted in that of the words at `limit` whose index is at `slot`: atomically, because
/// another loop of the graph may do so at the same time. The driver provides the function that it
/// calls.
const PTX: &str = "\
.version 8.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry millstream_set_condition(
    .param .u64 condition,
    .param .u64 flag,
    .param .u64 counter,
    .param .u64 limit,
    .param .u64 slot,
    .param .u32 max,
    .param .u32 number)
{
    .reg .pred %p<5>;
    .reg .b32 %r<7>;
    .reg .b64 %d<7>;
    ld.param.u64 %d1, [condition];
    ld.param.u64 %d2, [flag];
    ld.param.u64 %d3, [counter];
    ld.param.u32 %r1, [max];
    ld.global.u32 %r2, [%d2];
    setp.ne.u32 %p1, %r2, 0;
    selp.u32 %r3, 1, 0, %p1;
    setp.eq.u64 %p2, %d3, 0;
    @%p2 bra SET;
    mov.u32 %r4, 0;
    setp.eq.u32 %p3, %r1, 0;
    @%p3 bra COUNTED;
    ld.global.u32 %r4, [%d3];
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p4, %r4, %r1;
    @%p4 bra COUNTED;
    @!%p1 bra COUNTED;
    mov.u32 %r3, 0;
    ld.param.u64 %d4, [limit];
    ld.param.u64 %d5, [slot];
    ld.param.u32 %r5, [number];
    ld.global.u32 %r6, [%d5];
    mul.wide.u32 %d6, %r6, 4;
    add.u64 %d4, %d4, %d6;
    red.global.max.u32 [%d4], %r5;
COUNTED:
    st.global.u32 [%d3], %r4;
SET:
    {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %d1;
    st.param.b32 [value], %r3;
    call.uni cudaGraphSetConditional, (handle, value);
    }
    ret;
}
";

/// The nodes of a body and the flag that decides how often they run.
#[derive(Clone, Debug)]
pub(super) struct Conditional {
    pub(super) flag: Address,
    /// Set for a loop.
    pub(super) repeat: Option<Repeat>,
    /// The nodes, whose dependencies are numbers of nodes of the body.
    pub(super) body: Vec<Node>,
}

/// The count of a loop's iterations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    /// A word of the graph's memory.
    pub(super) counter: Address,
    pub(super) iterations_max: u32,
    /// The number of the loop in the graph, from 1.
    pub(super) number: u32,
}

/// A place of the kernel that sets the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetterPlace {
    /// In front of the conditional node.
    Front,
    /// At the end of a loop's body.
    End,
}

/// The memory by which the device notes that a loop ended at its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotingPlace {
    /// An array of words in host memory.
    words: DevicePtr,
    /// The index of the replay's word, in device memory.
    slot: DevicePtr,
}

impl Conditional {
    pub(super) fn kind(&self) -> ConditionalKind {
        match self.repeat {
            Some(_) => ConditionalKind::While,
            None => ConditionalKind::If,
        }
    }

    /// Returns the positions in operands that are not of the body.
    pub(super) fn addresses(&self) -> [Option<Address>; 2] {
        [Some(self.flag), self.repeat.map(|repeat| repeat.counter)]
    }

    /// Returns the positions in operands that are not of the body.
    pub(super) fn addresses_mut(&mut self) -> impl Iterator<Item = &mut Address> {
        let counter = self.repeat.as_mut().map(|repeat| &mut repeat.counter);
        std::iter::once(&mut self.flag).chain(counter)
    }

    /// Returns the access to the flag.
    pub(super) fn flag_access(&self) -> NodeAccess {
        word(self.flag, AccessKind::Read)
    }

    /// Returns the accesses of all iterations.
    pub(super) fn accesses(&self) -> SmallVec<[NodeAccess; 3]> {
        let counted = |repeat: Repeat| word(repeat.counter, AccessKind::Write);
        let own = [Some(self.flag_access()), self.repeat.map(counted)];
        let mut unions: BTreeMap<usize, AccessUnion> = BTreeMap::new();
        let inner = self.body.iter().flat_map(|node| &node.accesses);
        for access in inner.chain(own.iter().flatten()) {
            let union = unions.entry(access.operand).or_default();
            union.add(&access.extent, access.kind, access.ordered);
        }
        NodeAccess::of_unions(unions).collect()
    }

    /// Calls `make` with the kernel that sets the condition.
    pub(super) fn with_setter<R>(
        &self,
        (function, place): (FunctionHandle, SetterPlace),
        condition: ConditionHandle,
        noting: NotingPlace,
        operands: &[Operand],
        make: impl FnOnce(&GraphNode<'_>) -> R,
    ) -> R {
        let flag = self.flag.resolve(operands).as_raw();
        let condition = condition.as_raw();
        let (limit, slot) = (noting.words.as_raw(), noting.slot.as_raw());
        let (counter, max, number) = match self.repeat {
            None => (0, 0, 0),
            Some(repeat) => {
                let max = match place {
                    SetterPlace::Front => 0,
                    SetterPlace::End => repeat.iterations_max,
                };
                let counter = repeat.counter.resolve(operands).as_raw();
                (counter, max, repeat.number)
            }
        };
        let params: [*const c_void; 7] = [
            ptr::from_ref(&condition).cast(),
            ptr::from_ref(&flag).cast(),
            ptr::from_ref(&counter).cast(),
            ptr::from_ref(&limit).cast(),
            ptr::from_ref(&slot).cast(),
            ptr::from_ref(&max).cast(),
            ptr::from_ref(&number).cast(),
        ];
        make(&GraphNode::Kernel(KernelNode {
            function,
            dims: LaunchDims {
                grid: [1; 3],
                block: [1; 3],
                shared_bytes: 0,
            },
            attributes: LaunchAttributes::default(),
            params: &params,
        }))
    }
}

/// Returns an access to the word at this address.
fn word(address: Address, kind: AccessKind) -> NodeAccess {
    NodeAccess {
        operand: address.operand,
        extent: (address.offset..address.offset + size_of::<u32>() as u64).into(),
        kind,
        ordered: true,
    }
}

/// The parts of a graph with conditional nodes that its nodes share.
#[derive(Debug)]
pub(super) struct Conditions {
    /// The kernel that sets conditions. `None` if the host runs loops.
    pub(super) setter: Option<FunctionHandle>,
    pub(super) notes: Arc<LoopNotes>,
    /// The number of the operand that holds the index of a replay's word, if there are loops.
    slot: Option<usize>,
}

impl Conditions {
    /// Creates the shared parts, if a node is conditional. Adds an operand for loops.
    pub(super) fn of(
        device: &Arc<DeviceState>,
        name: &'static str,
        graph: &mut RecordedGraph,
    ) -> Result<Option<Self>> {
        if graph.nodes.iter().all(|node| node.work.body().is_empty()) {
            return Ok(None);
        }
        let loops = std::mem::take(&mut graph.loops);
        let slot = match loops.is_empty() {
            true => None,
            false => {
                let word = Stream::new(device, 0)?.zeros_at::<u32>(1, Location::caller())?;
                let allocation = Allocation::recorded(word.shared_memory());
                let number = graph.operands.len();
                let (pointer, bytes) = (allocation.pointer, allocation.history.bytes());
                let memory = OperandMemory::Recorded {
                    allocation,
                    constant: false,
                };
                graph.operands.push(Operand::new(pointer, bytes, memory));
                Some(number)
            }
        };
        Ok(Some(Self {
            setter: setter(device)?,
            notes: LoopNotes::new(device, name, loops)?,
            slot,
        }))
    }

    /// Returns the address of the index of a replay's word, if there are loops.
    pub(super) fn slot(&self, operands: &[Operand]) -> Option<DevicePtr> {
        self.slot.map(|number| operands[number].pointer)
    }

    /// Returns the memory by which the device notes that a loop ended at its limit.
    pub(super) fn noting_place(&self, operands: &[Operand]) -> NotingPlace {
        NotingPlace {
            words: self.notes.pointer(),
            // No kernel uses it without loops.
            slot: self.slot(operands).unwrap_or(DevicePtr::from_raw(0)),
        }
    }

    /// Creates the parts of another graph with the same nodes.
    pub(super) fn again(&self, device: &Arc<DeviceState>, name: &'static str) -> Result<Self> {
        Ok(Self {
            setter: self.setter,
            notes: LoopNotes::new(device, name, self.notes.loops().to_vec())?,
            slot: self.slot,
        })
    }
}

/// The kernel that sets conditions, once it is known whether the driver has conditional nodes.
#[derive(Debug, Default)]
struct Setter(Mutex<Option<Option<FunctionHandle>>>);

/// Returns the kernel that sets conditions, loaded at the first call. `None` if the driver or the
/// device has no conditional nodes.
fn setter(device: &Arc<DeviceState>) -> Result<Option<FunctionHandle>> {
    let user = Device::from_state(Arc::clone(device));
    let slot = user.slot(Setter::default);
    let known = *slot.0.lock();
    if let Some(known) = known {
        return Ok(known);
    }
    let is_capable = device.limits.compute_capability >= CAPABILITY_MIN;
    let found = match is_capable && has_conditional_nodes(device)? {
        true => {
            let name = "set_condition";
            let loaded = load_generated(&user, PTX, "millstream_set_condition", || name, 7)?;
            Some(loaded.handle())
        }
        false => None,
    };
    *slot.0.lock() = Some(found);
    Ok(found)
}

/// Returns whether the driver has conditional nodes.
fn has_conditional_nodes(device: &Arc<DeviceState>) -> Result<bool> {
    let made = OwnedGraph::create(device).and_then(|graph| graph.condition());
    match made {
        Ok(_) => Ok(true),
        Err(error) if error.code() == ResultCode::NOT_SUPPORTED => Ok(false),
        Err(error) => Err(device.record_failure(error)),
    }
}

/// The flag of a conditional node.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) allocation: Arc<Allocation>,
    /// The position of the word in the allocation.
    pub(super) offset: u64,
}

impl Flag {
    fn of(device: &Arc<DeviceState>, name: &'static str, span: &Span<'_>) -> Result<Self> {
        let refused = |problem| -> crate::Error { UsageError::new(name, problem).into() };
        let allocation = span.allocation;
        if !Arc::ptr_eq(&allocation.device, device) {
            let (operand_device, stream_device) = allocation.device.told_apart(device);
            return Err(refused(UsageErrorKind::OtherDevice {
                operand: 0,
                name: Some("flag"),
                operand_device,
                stream_device,
                advice: "",
            }));
        }
        if span.bytes.is_empty() {
            let why = "the flag has no element";
            return Err(refused(UsageErrorKind::Recording { why }));
        }
        let allocation = Allocation::of(&allocation.history, 0).map_err(refused)?;
        let offset = span.bytes.start as u64;
        Ok(Self { allocation, offset })
    }
}

impl GraphRecorder {
    /// Records a loop, which runs on the device without the host. While the first element of `flag`
    /// is not 0, the operations of `body` run: the replay looks at the flag in front of each
    /// iteration. The closure gets the flag back, so that its operations can write it.
    ///
    /// The loop ends after `iterations_max` iterations in any case. If the flag is still set then,
    /// the next host read of what the graph has written returns [`Error::LoopLimit`]: a download
    /// that completes behind the replay, or a guard of memory to which it was copied.
    ///
    /// The loop is one operation of the graph, ordered with others by the bytes that the flag and
    /// the body's operations access. Only streams of the body's own recorder belong to the loop;
    /// the streams of `self` record nothing until the closure returns. Loops and conditions may
    /// contain others.
    ///
    /// ```
    /// use millstream::{Device, Stream};
    ///
    /// /// Halves the number, and clears the flag once it is 1.
    /// fn halve(stream: &Stream, number: &mut millstream::Buffer<u32>) -> millstream::Result<()> {
    ///     // A kernel in a real program.
    ///     stream.fill(number, 0)
    /// }
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut running = stream.upload(&[1_u32])?;
    /// let mut iterations = stream.zeros::<u32>(1)?;
    /// let graph = device.record("loop", |r| {
    ///     r.while_loop(&mut running, 100, |body, running| {
    ///         let recorded = body.stream()?;
    ///         recorded.fill(&mut iterations, 1)?;
    ///         halve(&recorded, running)
    ///     })
    /// })?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&iterations)?.wait()?, [1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// With a driver older than CUDA 12.4, or a GPU of compute capability below 7.5, the host runs
    /// the loop: a replay then enqueues operation by operation and blocks to look at the flag. It
    /// is one operation nevertheless: another thread that submits to the stream, or an operation
    /// that conflicts with the replay, waits until the loop is over.
    ///
    /// # Errors
    ///
    /// The error of `body`; if `iterations_max` is 0, the flag is empty or on another device, the
    /// recording is over or inside another body, or the device is lost. The loop is then no part of
    /// the graph.
    ///
    /// [`Error::LoopLimit`]: crate::Error::LoopLimit
    #[track_caller]
    pub fn while_loop(
        &self,
        flag: &mut Buffer<u32>,
        iterations_max: u32,
        body: impl FnOnce(&Self, &mut Buffer<u32>) -> Result<()>,
    ) -> Result<()> {
        const NAME: &str = "while_loop";
        let location = Location::caller();
        if iterations_max == 0 {
            let why = "a loop of at most 0 iterations never runs its body";
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(NAME, problem).at(location).into());
        }
        let found = Flag::of(&self.device, NAME, &flag.view().operand().0)?;
        let site = LoopSite {
            iterations_max,
            location,
        };
        self.conditional((NAME, location), found, Some(site), |recorder| {
            body(recorder, flag)
        })
    }

    /// Records operations that run if the first element of `flag` is not 0 when the replay reaches
    /// them. Otherwise as [`while_loop`](Self::while_loop).
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// let (mut wanted, mut x) = (stream.zeros::<u32>(1)?, stream.zeros::<u8>(3)?);
    /// let graph = device.record("maybe", |r| {
    ///     r.if_(&wanted, |then| then.stream()?.fill(&mut x, 7))
    /// })?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&x)?.wait()?, [0; 3]);
    /// stream.fill(&mut wanted, 1)?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&x)?.wait()?, [7; 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`while_loop`](Self::while_loop).
    #[track_caller]
    pub fn if_(
        &self,
        flag: impl ReadOperand<u32>,
        body: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        const NAME: &str = "if_";
        let location = Location::caller();
        let found = Flag::of(&self.device, NAME, &flag.operand().0)?;
        self.conditional((NAME, location), found, None, body)
    }

    /// Records the operations of `body` as one conditional operation.
    fn conditional(
        &self,
        (name, location): (&'static str, &'static Location<'static>),
        flag: Flag,
        site: Option<LoopSite>,
        body: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        // Loaded now, because loading may wait for running kernels.
        setter(&self.device)?;
        let nested = self.recording.begin_body(name)?;
        let recorder = Self::of(&self.device, Arc::clone(nested.recording()));
        body(&recorder)?;
        // Its streams stop recording.
        drop(recorder);
        nested.end((name, location), flag, site)
    }
}
