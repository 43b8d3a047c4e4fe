//! The kinds of usage errors.

use std::{ops::Range, panic::Location};

use millstream_driver::DriverError;

use super::phrases::{in_brackets, names_there_are, of_values};

fn because(cause: Option<&DriverError>) -> String {
    cause.map_or_else(String::new, |cause| format!(" ({cause})"))
}

/// The problem with an invalid call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the message of a variant says which value a field is"
)]
pub enum UsageErrorKind {
    /// The call cannot be part of a [recording](crate::Device::record).
    #[error("this cannot be recorded in a graph: {why}")]
    Recording {
        /// The reason, and what to do instead.
        why: &'static str,
    },
    /// Memory that its owner lends for a scope was to become an operand of a graph.
    #[error(
        "operand {operand} is memory that is lent for a scope, which a graph would keep beyond it: \
         record a copy of it, or an array that was adopted as a whole"
    )]
    LentForScope {
        /// The index of the operand, from 0, or of the kernel's parameter.
        operand: usize,
    },
    /// A change or a replay of a graph is not possible.
    #[error("{detail}")]
    Graph {
        /// The reason, and what to do instead.
        detail: String,
    },
    /// Two operands differ in length.
    #[error("the source has {source_len} elements and the target {target_len}; they must be equal")]
    Length {
        source_len: usize,
        target_len: usize,
    },
    /// A range is out of bounds.
    #[error("range {}..{} is out of bounds for an array of {len} elements", range.start, range.end)]
    Range { range: Range<usize>, len: usize },
    /// The number of elements of an array is not the product of rows and columns.
    #[error("an array of {len} elements cannot be viewed as {rows} rows of {cols} elements")]
    View2dSize {
        rows: usize,
        cols: usize,
        len: usize,
    },
    /// Pitched rows do not fit in the array.
    #[error(
        "{rows} rows of {cols} elements with a pitch of {pitch} elements do not fit in an array of \
         {len} elements"
    )]
    View2dPitch {
        rows: usize,
        cols: usize,
        /// The number of elements from the start of a row to the start of the next.
        pitch: usize,
        len: usize,
    },
    /// The pitch is shorter than a row, so that rows would overlap.
    #[error("rows of {cols} elements would overlap with a pitch of {pitch} elements")]
    View2dRows {
        cols: usize,
        /// The number of elements from the start of a row to the start of the next.
        pitch: usize,
    },
    /// A rectangle is out of bounds of its view.
    #[error(
        "rows {}..{} and columns {}..{} are out of bounds for a view of {view_rows} rows and \
         {view_cols} columns",
        rows.start, rows.end, cols.start, cols.end
    )]
    Rect {
        rows: Range<usize>,
        cols: Range<usize>,
        view_rows: usize,
        view_cols: usize,
    },
    /// Two rectangles differ in rows or columns.
    #[error(
        "the source has {source_rows} rows of {source_cols} elements and the target {target_rows} \
         of {target_cols}; they must be equal"
    )]
    Shape {
        source_rows: usize,
        source_cols: usize,
        target_rows: usize,
        target_cols: usize,
    },
    /// A size in bytes exceeds the address space.
    #[error("{elements} elements of {element_bytes} bytes exceed the address space")]
    TooLarge {
        elements: usize,
        element_bytes: usize,
    },
    /// The size of an array is not a multiple of the new element type's size.
    #[error(
        "{elements} elements of {element_bytes} bytes cannot be cast to elements of \
         {target_element_bytes} bytes: the total is not a multiple"
    )]
    CastSize {
        elements: usize,
        element_bytes: usize,
        target_element_bytes: usize,
    },
    /// The address of an array is not aligned for the new element type.
    #[error(
        "the first element is aligned to {alignment} bytes, but the new element type needs \
         {target_alignment}"
    )]
    CastAlignment {
        /// The largest power of two that divides the address.
        alignment: u64,
        target_alignment: usize,
    },
    /// The element type needs a larger alignment than page-locked or managed memory guarantees, so
    /// that the host could not create references to the elements.
    #[error(
        "elements of type `{element}` need an alignment of {alignment} bytes, and this memory \
         guarantees only {guaranteed}: use a type with a smaller alignment"
    )]
    Alignment {
        element: &'static str,
        alignment: usize,
        guaranteed: usize,
    },
    /// An operand is on another device than the stream.
    #[error(
        "operand {operand}{} is on {operand_device}, but the stream is on {stream_device}{advice}",
        in_brackets(*name)
    )]
    OtherDevice {
        /// The index of the operand, from 0.
        operand: usize,
        /// The name of the operand, such as the name of a kernel's parameter.
        name: Option<&'static str>,
        operand_device: String,
        stream_device: String,
        /// A clause that says what to do instead, if there is something.
        advice: &'static str,
    },
    /// Kernels on a device cannot access the memory of another.
    #[error("kernels on {from} cannot access memory of {to}: {reason}")]
    NoPeerAccess {
        /// The device on which the kernel was to run.
        from: String,
        /// The device that owns the memory.
        to: String,
        reason: String,
    },
    /// A group of no devices was to be created.
    #[error("a group needs at least one device")]
    NoDevices,
    /// A device was passed twice for one group.
    #[error("{device} is both rank {first} and rank {second}; each rank needs a device of its own")]
    RepeatedDevice {
        device: String,
        first: usize,
        second: usize,
    },
    /// The devices of a group belong to different drivers.
    #[error("rank {rank}, {other}, belongs to another driver than rank 0, {first}")]
    OtherDriver {
        /// The device of rank 0.
        first: String,
        /// The device of the other driver.
        other: String,
        /// The rank of the device of the other driver.
        rank: usize,
    },
    /// The number of arrays of a collective is not the number of ranks of this process.
    #[error("{arrays} arrays were passed for {ranks} ranks of this process; one each is needed")]
    ArrayCount { arrays: usize, ranks: usize },
    /// An array of a collective is on another device than its rank.
    #[error("the array of rank {rank} is on {array_device}, but the rank is {rank_device}")]
    RankDevice {
        rank: usize,
        array_device: String,
        rank_device: String,
    },
    /// The arrays of two ranks differ in length.
    #[error(
        "the array of rank {rank} has {len} elements and that of rank {other_rank} {other_len}; \
         they must be equal"
    )]
    RankLength {
        rank: usize,
        len: usize,
        other_rank: usize,
        other_len: usize,
    },
    /// A target of a collective does not have the length that follows from its source's.
    #[error(
        "the source of rank {rank} has {source_len} elements and the target {target_len}; the \
         target must have {needed_len}"
    )]
    TargetLength {
        rank: usize,
        source_len: usize,
        target_len: usize,
        needed_len: usize,
    },
    /// A collective of uneven parts did not get one length for each rank.
    #[error("{lengths} lengths were passed for {ranks} ranks")]
    LengthCount { lengths: usize, ranks: usize },
    /// An array does not have the length that a collective of uneven parts got for its rank.
    #[error("the array of rank {rank} has {len} elements; its length was passed as {passed_len}")]
    PassedLength {
        rank: usize,
        len: usize,
        passed_len: usize,
    },
    /// An array cannot be divided in as many equal parts as there are ranks.
    #[error(
        "the array of rank {rank} has {len} elements, which is not a multiple of {ranks} ranks"
    )]
    Indivisible {
        rank: usize,
        len: usize,
        ranks: usize,
    },
    /// There is no rank of this number.
    #[error("there is no rank {rank} among {ranks} ranks")]
    NoSuchRank {
        /// The requested rank.
        rank: usize,
        ranks: usize,
    },
    /// The rank of an array belongs to another process.
    #[error("rank {rank} belongs to another process; those of this one are {local_ranks:?}")]
    RemoteRank {
        /// The requested rank.
        rank: usize,
        /// The ranks of this process.
        local_ranks: Vec<usize>,
    },
    /// The average of integers was requested.
    #[error("the average is not defined for elements of type `{element}`: reduce by the sum")]
    IntegerAverage { element: &'static str },
    /// A message between two ranks has no counterpart.
    #[error(
        "rank {from} sends {sent} arrays to rank {to}, which receives {received} from it; they \
         must be equal"
    )]
    UnmatchedMessage {
        /// The sending rank.
        from: usize,
        /// The receiving rank.
        to: usize,
        sent: usize,
        received: usize,
    },
    /// A send and its receive differ in length or element type.
    #[error(
        "message {index} from rank {from} to rank {to} is sent as {sent_len} elements of \
         `{sent_type}` and received as {received_len} of `{received_type}`; they must be equal"
    )]
    Message {
        from: usize,
        to: usize,
        /// The index among the messages between these ranks, from 0.
        index: usize,
        sent_len: usize,
        sent_type: &'static str,
        received_len: usize,
        received_type: &'static str,
    },
    /// A kernel is loaded on another device than the stream's.
    #[error(
        "the kernel is loaded on {kernel_device}, but the stream is on {stream_device}: load the \
         module on the stream's device"
    )]
    KernelElsewhere {
        kernel_device: String,
        stream_device: String,
    },
    /// Two operands of one operation overlap in memory, and at least one of them is written.
    #[error(
        "operands {first}{} and {second}{} overlap in memory, and at least one is written",
        in_brackets(*first_name),
        in_brackets(*second_name)
    )]
    Overlap {
        /// The index of one operand, from 0.
        first: usize,
        /// The name of that operand, such as the name of a kernel's parameter.
        first_name: Option<&'static str>,
        second: usize,
        second_name: Option<&'static str>,
    },
    /// An operand of a kernel is a variable of its module that the kernel uses by its name too, and
    /// at least one of the two uses writes.
    #[error(
        "the operand `{variable}` is a variable that the kernel uses by its name too, and at least \
         one of the two uses writes"
    )]
    UsedByName { variable: String },
    /// Both arrays of a copy are in host memory, so the copy needs no device.
    #[error("both arrays are in host memory: copy them on the host")]
    BothOnHost,
    /// The operation requires managed memory.
    #[error("the array is not in managed memory")]
    NotManaged,
    /// An operand is in host memory but must be in device memory.
    #[error("operand {operand} is in host memory, but must be in device memory")]
    OnHost {
        /// The index of the operand, from 0.
        operand: usize,
    },
    /// A `requires` clause of a kernel does not hold.
    #[error("the requirement `{clause}` does not hold{}", of_values(values))]
    Requires {
        /// The source text of the clause in the kernel's declaration.
        clause: &'static str,
        /// The clause's operands and their values, as in `c.len() = 500, n = 1000`, and a note if
        /// its arithmetic overflows.
        values: String,
    },
    /// A kernel's declaration does not match its PTX.
    #[error("the declaration does not match the PTX: {detail}")]
    Signature {
        /// The parameter, its declared type, and its type in the PTX.
        detail: String,
    },
    /// A module has no kernel of this name.
    #[error(
        "there is no kernel `{kernel}`; {}",
        names_there_are("kernel", kernels)
    )]
    NoKernel {
        kernel: String,
        /// The names of the module's kernels, those that resemble the requested one first.
        kernels: Vec<String>,
    },
    /// A module has no variable of this name.
    #[error(
        "there is no variable `{variable}`; {}",
        names_there_are("variable", variables)
    )]
    NoVariable {
        variable: String,
        /// The names of the module's variables, those that resemble the requested one first.
        variables: Vec<String>,
    },
    /// A module's variable is not an array of the requested element type.
    #[error(
        "the variable `{variable}` has {bytes} bytes aligned to {alignment}, which are no elements \
         of `{element}` ({element_bytes} bytes aligned to {element_alignment})"
    )]
    Variable {
        variable: String,
        bytes: usize,
        alignment: usize,
        element: &'static str,
        element_bytes: usize,
        element_alignment: usize,
    },
    /// The PTX is of a newer version than the device's driver supports.
    #[error("the PTX is newer than the driver: {detail}")]
    PtxVersion {
        /// Both versions, and what to do.
        detail: String,
    },
    /// The device runs no code, or has no texture, of this kind.
    #[error("{detail}")]
    Unsupported {
        /// The feature, and what to do.
        detail: String,
    },
    /// The PTX cannot be loaded.
    #[error("the PTX cannot be loaded: {detail}")]
    Ptx {
        /// The line, opcode or parameter, as far as it is known.
        detail: String,
    },
    /// The array, or a part of it that the operation uses, is lent to another library.
    #[error(
        "the array is lent to another library since {since}: drop the lease first, which cannot be \
         made up for if it was forgotten"
    )]
    Lent {
        /// The source line of the call that lent it.
        since: &'static Location<'static>,
    },
    /// A default stream was given, which is not one queue.
    #[error(
        "{raw:#x} is a default stream: other streams wait for it, and its handle does not name a \
         context; create a stream and make the other library use it"
    )]
    DefaultStream {
        /// The driver's handle.
        raw: usize,
    },
    /// An adopted stream takes part in a capture of its owner, or was captured meanwhile. What the
    /// call was to order did not take place, or is not in front of later work of the owner.
    #[error(
        "the owner captures its stream into a graph{}; end the capture before this call, or use \
         another stream",
        because(cause.as_ref())
    )]
    Captured {
        /// The number of the stream, if it is adopted.
        stream: Option<u64>,
        /// The driver's answer to the call that was refused.
        cause: Option<DriverError>,
    },
    /// A stream or memory of another library belongs to another context or device.
    #[error("the {object} belongs to {owner}, not to the primary context of {device}")]
    OtherContext {
        /// The object: `stream` or `memory`.
        object: &'static str,
        /// The context or device that owns it.
        owner: String,
        /// The device that was to adopt it.
        device: String,
    },
    /// An array was to return to its owner, but its memory is this library's own.
    #[error(
        "the array's memory was allocated by this library: it has no owner to return to; lend it"
    )]
    NotAdopted,
    /// A tensor of DLPack cannot be an array, or an array cannot be the tensor asked for.
    #[error("{reason}")]
    Dlpack {
        /// The difference.
        reason: String,
    },
    /// The driver knows of no device memory at an address.
    #[error(
        "{bytes} bytes at {address:#x} are not within one allocation of device memory: they may be \
         freed, or be memory of the host"
    )]
    NoAllocation {
        /// The first address.
        address: u64,
        bytes: u64,
    },
    /// The library was called from inside a foreign call, which holds its stream's lock.
    #[error(
        "this library was called inside the closure of a foreign call, which runs with its stream \
         locked: call it before or after the foreign call"
    )]
    InForeignCall,
    /// A thread was to wait until a device is closed, which has handles.
    #[error(
        "{device} is still open: drop all its handles, streams, arrays, graphs and pending results \
         before this call, or wait with a timeout"
    )]
    StillOpen { device: String },
    /// A thread was to wait for a device that may wait for this thread.
    #[error(
        "this thread runs a waker, a destructor or a foreign call for this library, and the device \
         may wait for it: call this on another thread"
    )]
    InCallback,
    /// The launch configuration exceeds a limit of the device or the kernel.
    #[error("{detail}")]
    LaunchConfig {
        /// The dimension, the requested value, and the limit.
        detail: String,
    },
}
