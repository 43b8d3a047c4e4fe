//! System calls of kernels: `vprintf`, `__assertfail`, `malloc`, `free` and
//! `cudaGraphSetConditional`.

use super::fault::{Assertion, KernelFaultKind};
use super::memory::WarpMemory;
use super::printf;
use super::registers::{LANES, lanes};
use super::warp::Warp;
use super::warp_access::LaneFault;
use super::warp_context::WarpContext;
use crate::memory::AccessFlags;
use crate::ptx::ir::{SystemCall, Window};

/// The maximum length of a string read from memory, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// Executes the system call for the lanes of `mask`, the lowest first.
#[cold]
pub(super) fn run(
    system: SystemCall,
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    mask: u32,
) -> Result<(), LaneFault> {
    let memory = shared.all(&mut warp.local);
    match system {
        SystemCall::Print {
            format,
            arguments,
            result,
        } => {
            let mut results = [0; LANES];
            for lane in lanes(mask) {
                let (format, arguments) = (
                    warp.registers.double(format)[lane],
                    warp.registers.double(arguments)[lane],
                );
                results[lane] = print(&memory, lane, format, arguments)?.cast_unsigned();
            }
            warp.registers.set_word(result, mask, &results);
            Ok(())
        }
        SystemCall::Free { pointer } => {
            let pointers = *warp.registers.double(pointer);
            let is_wrong = |lane: &usize| {
                let address = pointers[*lane];
                address != 0 && !memory.global.free(address)
            };
            let wrong = lanes(mask).find(is_wrong);
            shared.forget_regions();
            match wrong {
                Some(lane) => {
                    let address = pointers[lane];
                    Err((lane, KernelFaultKind::InvalidFree { address }))
                }
                None => Ok(()),
            }
        }
        SystemCall::Allocate {
            bytes,
            align,
            result,
        } => {
            let sizes = *warp.registers.double(bytes);
            let aligns = align.map_or([1; LANES], |align| *warp.registers.double(align));
            let mut results = [0; LANES];
            for lane in lanes(mask) {
                let allocated = memory.global.allocate(sizes[lane], aligns[lane]);
                results[lane] = allocated.unwrap_or(0);
            }
            warp.registers.set_double(result, mask, &results);
            Ok(())
        }
        SystemCall::SetCondition { condition, value } => {
            let conditions = warp.registers.double(condition);
            let values = warp.registers.word(value);
            let unknown = lanes(mask).find(|lane| {
                !memory
                    .global
                    .set_condition(conditions[*lane], values[*lane])
            });
            match unknown {
                Some(lane) => {
                    let condition = conditions[lane];
                    Err((lane, KernelFaultKind::UnknownCondition { condition }))
                }
                None => Ok(()),
            }
        }
        SystemCall::Assert {
            message,
            file,
            line,
            function,
        } => {
            let lane = mask.trailing_zeros() as usize & 31;
            let r = &warp.registers;
            let text = |slot| {
                let bytes = text(&memory, lane, r.double(slot)[lane])?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            };
            let failed = Assertion {
                message: text(message)?,
                file: text(file)?,
                line: r.word(line)[lane],
                function: text(function)?,
            };
            Err((lane, KernelFaultKind::Assertion(Box::new(failed))))
        }
    }
}

fn text(memory: &WarpMemory<'_, '_>, lane: usize, address: u64) -> Result<Vec<u8>, LaneFault> {
    let bytes = memory.read_text(lane, address);
    bytes.ok_or((lane, KernelFaultKind::Unreadable { address }))
}

/// Prints for one lane, and returns the number of arguments, or -1 for an invalid format.
fn print(
    memory: &WarpMemory<'_, '_>,
    lane: usize,
    format: u64,
    arguments: u64,
) -> Result<i32, LaneFault> {
    let format = text(memory, lane, format)?;
    let mut at = arguments;
    let mut unreadable = None;
    let mut next = |bytes: u64| {
        at = at.next_multiple_of(bytes);
        let mut value = [0; 8];
        if memory
            .read_generic(lane, at, &mut value[..bytes as usize])
            .is_none()
        {
            unreadable = Some(at);
        }
        at += bytes;
        u64::from_le_bytes(value)
    };
    let mut read_text = |address| memory.read_text(lane, address);
    let printed = printf::format(&format, &mut next, &mut read_text);
    if let Some(address) = unreadable {
        return Err((lane, KernelFaultKind::Unreadable { address }));
    }
    match printed {
        Some((output, count)) => {
            memory.global.print(&output);
            Ok(count)
        }
        None => Ok(-1),
    }
}

impl WarpMemory<'_, '_> {
    /// Reads bytes at a lane's generic address, or returns `None` if they are out of bounds.
    pub(super) fn read_generic(&self, lane: usize, address: u64, target: &mut [u8]) -> Option<()> {
        let window = Window::of(address);
        let offset = usize::try_from(address.wrapping_sub(window.base())).ok()?;
        let bytes = match window {
            Window::Global => {
                let source = self.global.traced_region(address)?;
                let offset = usize::try_from(address.checked_sub(source.region.base)?).ok()?;
                source.region.bytes.copy_to(offset, target)?;
                if let Some(bitmap) = source.bitmap {
                    bitmap.note(AccessFlags::READ, offset, target.len());
                }
                return Some(());
            }
            Window::Shared => &*self.shared,
            Window::Local => &self.local[lane * self.local_bytes..][..self.local_bytes],
            Window::Param => self.params,
        };
        let source = bytes.get(offset..offset.checked_add(target.len())?)?;
        target.copy_from_slice(source);
        Some(())
    }

    /// Reads the zero-terminated string at a lane's generic address.
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
