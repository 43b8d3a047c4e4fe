//! The boundary between host and device: parameters, results, write-backs and explicit transfers.

mod buffer;
mod entry;
mod explain;
mod files;
mod input;
mod list;
mod nested;
mod on_device;
mod output;
mod packed;
mod pending;
mod prepared;
mod target;
mod transfer;
mod write_back;

pub use buffer::Resident;
pub use entry::RegionExt;
#[cfg(feature = "safetensors")]
pub use files::SafeTensors;
pub use files::{TensorReader, TensorWriter, part_name};
pub(crate) use input::plain_types;
pub use input::{ArraySource, Input, Parameter};
pub use on_device::OnDevice;
pub use output::{
    ArrayDownload, DeviceValue, Keep, Output, OutputNode, PendingStruct, PendingValue, PlainValue,
};
pub use packed::Unpacked;
pub use pending::Pending;
pub use prepared::{Arrays, Prepared};
pub use target::RegionTarget;
pub use write_back::{InputMut, WriteBack, WriteBacks};
