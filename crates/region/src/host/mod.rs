//! Between the host's types and the device's: what a region takes, and what comes back.

mod input;
mod on_device;
mod output;
mod pending;
mod region;
mod target;
mod transfer;
mod write_back;

pub use input::{Input, Parameter, Source};
pub use on_device::{Assembled, OnDevice, Plain};
pub use output::{
    Arriving, DeviceValue, Elements, Keep, Kept, Output, Parcel, ScalarParcel, VecParcel,
};
pub use pending::Pending;
pub use region::RegionExt;
pub use target::RegionTarget;
pub use write_back::{InputMut, WriteBack, WriteBacks};
