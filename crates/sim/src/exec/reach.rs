//! Bytes behind the generic addresses of one thread, wherever they lie: for what reads texts and arguments.

use super::memory::Memory;
use crate::memory::Touch;
use crate::ptx::ir::Window;

/// The longest text that is read.
const TEXT_BYTES_MAX: usize = 1 << 16;

impl Memory<'_, '_> {
    /// Reads bytes at a lane's generic address; `None` if they are not all there.
    pub(super) fn read_generic(&self, lane: usize, address: u64, target: &mut [u8]) -> Option<()> {
        let window = Window::of(address);
        let offset = usize::try_from(address.wrapping_sub(window.base())).ok()?;
        let bytes = match window {
            Window::Global => {
                let found = self.global.watched(address)?;
                let offset = usize::try_from(address.checked_sub(found.region.base)?).ok()?;
                found.region.cells.copy_to(offset, target)?;
                if let Some(marks) = found.marks {
                    marks.note(Touch::READ, offset, target.len());
                }
                return Some(());
            }
            Window::Shared => &*self.shared,
            Window::Local => &self.local[lane * self.local_bytes..][..self.local_bytes],
            Window::Param => self.params,
        };
        let found = bytes.get(offset..offset.checked_add(target.len())?)?;
        target.copy_from_slice(found);
        Some(())
    }

    /// Reads the text at a lane's generic address, up to its zero byte.
    pub(super) fn read_text(&self, lane: usize, address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < TEXT_BYTES_MAX {
            let mut byte = [0];
            self.read_generic(lane, address.checked_add(text.len() as u64)?, &mut byte)?;
            if byte == [0] {
                break;
            }
            text.push(byte[0]);
        }
        Some(text)
    }
}
