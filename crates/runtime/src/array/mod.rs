//! Arrays in device memory, their views, and the operands of copies and kernels.

mod accessors;
mod buffer;
mod cast;
mod global;
mod managed;
mod operand;
mod operand_2d;
mod peer_view;
mod pinned_view;
mod shape_2d;
mod span_2d;
mod texture;
mod unordered;
mod view;
mod view_2d;

pub use buffer::Buffer;
pub use global::Global;
pub use managed::{Advice, Managed};
pub(crate) use operand::CopyOperand;
pub use operand::{CopySource, CopyTarget, DeviceOperand, ReadOperand, WriteOperand};
pub use operand_2d::{CopySource2d, CopyTarget2d};
pub(crate) use peer_view::check_access;
pub use peer_view::{PeerView, PeerViewMut};
pub use pinned_view::{PinnedView, PinnedViewMut};
pub(crate) use shape_2d::check_rows;
pub(crate) use span_2d::Span2d;
pub use texture::{AddressMode, Surface, Texel, Texels, Texture, TextureOptions};
pub(crate) use view::{Reach, Span};
pub use view::{View, ViewMut};
pub use view_2d::{View2d, View2dMut};

pub use crate::page_locked::{Pinned, ReadGuard, WriteGuard};
