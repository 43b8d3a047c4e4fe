//! The limits of fusion: the bounds beyond which a value is stored, a node has a kernel of its own,
//! or kernels stay apart.
//!
//! The limits decide which kernels there are, and so in which order elements are combined
//! (`order/`). They are therefore the same for every device: each follows from the form of the
//! code, from CUDA, or from a ratio of instructions to accesses to memory that suits all devices.

// The size of a kernel (`size.rs`, `cut.rs`).

/// The maximum number of operations of one kernel, which bounds its code and compilation time.
pub(crate) const OPERATIONS_MAX: usize = 256;
/// The maximum number of costly functions of one kernel, each of some tens of instructions.
pub(crate) const COSTLY_MAX: usize = 96;
/// The maximum number of values that are needed at the same time. Each is in four registers, as a
/// thread computes 16 bytes, and CUDA has 255 for a thread.
pub(crate) const LIVE_MAX: usize = 32;
/// The maximum number of arrays that one kernel reads: their addresses and strides are parameters.
pub(crate) const INPUTS_MAX: usize = 16;
/// The maximum number of joined parts that another kernel computes: as many as arrays.
pub(crate) const PARTS_MAX: usize = INPUTS_MAX;
/// The number of simple operations for each element of a kernel that take no longer than its
/// accesses to memory.
pub(crate) const HIDDEN: usize = 24;

// Values that several kernels, or one at several positions, compute (`share.rs`). Costs are in
// simple operations.

/// The cost of some tens of instructions, or of an element at an index that is read from memory.
pub(crate) const COSTLY: f32 = 40.0;
/// The cost of finding the part of an element of joined arrays: branches.
pub(crate) const JOINED: f32 = 12.0;
/// The cost of a write and a read of memory for each element.
pub(crate) const STORING: f32 = 32.0;
/// The number of instructions for each element of 32 bits that take as long as a write and a read
/// of memory: a large GPU executes 60 in that time, of which a third is left to addresses and to
/// waiting.
pub(crate) const INSTRUCTIONS_STORING: f32 = 40.0;
/// The number of elements of a thread, which computes a single value for all of them once.
pub(crate) const PER_THREAD: f32 = 4.0;
/// The maximum number of arrays that kernels read again to compute a value again. Storing it takes
/// one write, and one read more than that of each kernel.
pub(crate) const READ_AGAIN_MAX: usize = 2;
/// The minimum number of times that a broadcast repeats each element, from which on an operation
/// that uses it does not count the work for these.
pub(crate) const REPEATED_MIN: usize = 8;
/// The maximum number of kernels of one value that are counted.
pub(crate) const CONSUMERS_MAX: usize = 8;

// Reductions in row kernels (`row_kernels.rs`).

/// The maximum number of elements of a row that stays in registers: 32 for each of the 256 threads
/// of a block.
pub(crate) const ROW_LENGTH_MAX: usize = 8192;
/// The minimum number of rows beyond registers for which a block computes each. With fewer blocks
/// most of a device would be idle, so several blocks share a row.
pub(crate) const LONG_ROWS_MIN: usize = 128;
/// The maximum number of values in the registers of a thread, each of 32 bits. As many are left to
/// addresses and to the functions.
pub(crate) const ROW_REGISTERS_MAX: usize = 128;
/// The maximum number of operations for all elements of a thread, whose code is unrolled.
pub(crate) const ROW_OPERATIONS_MAX: usize = 2048;
/// The same for rows beyond registers. Most of their elements are computed again at each read.
pub(crate) const LONG_ROW_OPERATIONS_MAX: usize = 48;
/// The maximum number of reductions. Each takes shared memory.
pub(crate) const ROW_REDUCTIONS_MAX: usize = 8;
/// The number of nodes before the last of a row kernel among which its others are searched, so that
/// planning stays linear.
pub(crate) const ROW_REACH: usize = 256;

// Nested reductions (`nested.rs`).

/// The maximum number of elements of a reduction that a thread computes for another kernel. Its
/// code has the operations for each.
pub(crate) const NESTED_MAX: usize = 16;
/// The maximum number of bytes of such elements that are in memory, and not of smaller arrays:
/// neighbouring threads read them so far apart from each other.
pub(crate) const NESTED_BYTES_MAX: usize = 16;
/// The number of times that an element of smaller arrays is read, at least.
pub(crate) const NESTED_REUSE_MIN: usize = 4;

// Epilogues of products (`epilogue.rs`).

/// The maximum number of operations of a product's epilogue. The kernel of large matrices contains
/// the epilogue for each of the sixteen elements of a thread.
pub(crate) const PRODUCT_OPERATIONS_MAX: usize = 24;

// Functions that stencils read (`stencil.rs`).

/// The maximum number of elements of a tile with its halo: twice as many as results, because a
/// thread has the registers for eight.
pub(crate) const TILE_ELEMENTS_MAX: usize = 2048;
/// The maximum number of bytes of a block in shared memory, so that a multiprocessor runs as many
/// blocks as without.
pub(crate) const TILE_BYTES_MAX: usize = 24 * 1024;
/// The number of results of a small array: the launch of a second kernel takes longer than the
/// elements of halos that are computed again.
pub(crate) const RESULTS_SMALL: usize = 1_081_344;

// Kernels of several outputs (`siblings.rs`, `groups.rs`).

/// The maximum number of members of a group. Each has an output.
pub(crate) const MEMBERS_MAX: usize = 8;
/// The maximum number of groups that are tried for a node, so that planning stays linear.
pub(crate) const GROUPS_TRIED_MAX: usize = 8;
/// The maximum number of nodes among which groups are searched.
pub(crate) const GROUPED_MAX: usize = 1024;

// Parts of arrays with blocks of their own (`updates.rs`, `build.rs`).

/// The maximum number of updates that one kernel makes.
pub(crate) const SECTIONS_MAX: usize = 128;
/// The maximum number of later updates with which a thread compares its element.
pub(crate) const OVERLAPS_MAX: usize = 8;
/// The maximum number of arrays that the kernel reads. Each part needs the address of few.
pub(crate) const SECTION_INPUTS_MAX: usize = 128;

// Joins of arrays (`joins.rs`).

/// The maximum number of arrays that one kernel joins. Their addresses and places are parameters,
/// at most 16 bytes for each array, and no kernel takes more than 4,096 bytes of them.
pub(crate) const ARRAYS_MAX: usize = 250;
/// The least number of elements of an array that is copied in front of its borders, which come
/// later: for fewer, a second launch takes longer than the copy.
pub(crate) const BORDERED_MIN: usize = 1 << 20;
/// The least number of elements of such an array for each element of its borders.
pub(crate) const BORDERED_TIMES: usize = 16;
