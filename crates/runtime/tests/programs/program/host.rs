//! The host's steps: pending values, guards, scopes, events, timelines.

#![allow(clippy::forget_non_drop, reason = "programs may forget any guard")]

use std::{
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use millstream::{Pending, Result};

use super::{
    data::{copy, mistake},
    elem::{Elem, content},
    interpreter::{Array, Interpreter},
    outcome::{Answer, Outcome, Stop},
    step::{Guard, Look, Part, Reach, ScopeCopy, ScopeEnd, Settle, TimelineStep},
};

/// A pending value of any type, converted to bytes on completion.
pub(super) trait AnyPending: Send {
    fn wait(self: Box<Self>) -> Result<Vec<u8>>;
    fn block_on(self: Box<Self>) -> Result<Vec<u8>>;
    fn try_take(&mut self) -> Result<Option<Vec<u8>>>;
    fn poll(&mut self) -> Poll<Result<Vec<u8>>>;
}

struct PendingBytes<T> {
    pending: Pending<T>,
    bytes: fn(T) -> Vec<u8>,
}

pub(super) fn pending_bytes<T: Send + 'static>(
    pending: Pending<T>,
    bytes: fn(T) -> Vec<u8>,
) -> Box<dyn AnyPending> {
    Box::new(PendingBytes { pending, bytes })
}

impl<T: Send> AnyPending for PendingBytes<T> {
    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        self.pending.wait().map(self.bytes)
    }

    fn block_on(self: Box<Self>) -> Result<Vec<u8>> {
        pollster::block_on(self.pending).map(self.bytes)
    }

    fn try_take(&mut self) -> Result<Option<Vec<u8>>> {
        // `is_ready` is called first, as programs do.
        let is_ready = self.pending.is_ready()?;
        let value = self.pending.try_take()?;
        assert!(
            value.is_some() || !is_ready,
            "is_ready returned true, but try_take returned no value"
        );
        Ok(value.map(self.bytes))
    }

    fn poll(&mut self) -> Poll<Result<Vec<u8>>> {
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(&mut self.pending)
            .poll(&mut context)
            .map(|value| value.map(self.bytes))
    }
}

/// Drives a future in the given way and returns its output, if it completed.
fn reached<F: Future>(reach: Reach, future: F) -> Option<F::Output> {
    match reach {
        Reach::Wait | Reach::Await => Some(pollster::block_on(future)),
        Reach::PollOnce => match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        },
    }
}

impl Interpreter<'_> {
    pub(super) fn settle(&mut self, at: usize, how: Settle) -> Answer {
        let mut pending = self.pendings[at].take().ok_or(Stop::SKIP)?;
        match how {
            Settle::Wait => return Ok(Some(pending.wait()?)),
            Settle::Await => return Ok(Some(pending.block_on()?)),
            Settle::Try => {
                if let Some(value) = pending.try_take()? {
                    return Ok(Some(value));
                }
                self.pendings[at] = Some(pending);
            }
            Settle::Poll | Settle::PollAndDrop => match pending.poll() {
                Poll::Ready(value) => return Ok(Some(value?)),
                Poll::Pending if matches!(how, Settle::Poll) => self.pendings[at] = Some(pending),
                Poll::Pending => {}
            },
            Settle::Drop => drop(pending),
            Settle::Forget => mem::forget(pending),
        }
        Ok(None)
    }

    pub(super) fn host_read(
        &mut self,
        part: Part,
        how: Guard,
        copied: Option<(usize, Part)>,
    ) -> Answer {
        // The copy's target is another array; it is taken out of its slot so that the guard's array
        // can be borrowed in place.
        let mut copied = copied.and_then(|(stream, to)| {
            let stream = self.stream(stream).ok()?.1;
            let target = self.arrays[to.array].take_if(|_| to.array != part.array)?;
            Some((stream, to, target))
        });
        let answer = self.array(part.array).and_then(|source| {
            guarded(source, part, how, || match &mut copied {
                Some((stream, to, (_, target))) => {
                    copy(stream, Elem::U8, (source, part), (target, *to))
                }
                None => Ok(None),
            })
        });
        if let Some((_, to, back)) = copied {
            self.arrays[to.array] = Some(back);
        }
        answer
    }

    pub(super) fn host_write(&mut self, part: Part, how: Guard, value: u32) -> Answer {
        let Guard { reach, forget } = how;
        self.with(part.array, |_, array| {
            let range = part.first..part.first + part.len;
            let (guard, range) = match array {
                Array::Pinned(pinned) => {
                    let guard = match reach {
                        Reach::Wait => Some(pinned.write_range(range)?),
                        reach => reached(reach, pinned.write_range_async(range)).transpose()?,
                    };
                    (guard, 0..part.len)
                }
                Array::Managed(managed) => {
                    let guard = match reach {
                        Reach::Wait => Some(managed.write_range(range)?),
                        reach => reached(reach, managed.write_range_async(range)).transpose()?,
                    };
                    (guard, 0..part.len)
                }
                _ => return Err(Stop::SKIP),
            };
            let Some(mut guard) = guard else {
                return Ok(None);
            };
            guard[range.clone()].copy_from_slice(&content(value, part.len));
            let seen = guard[range].to_vec();
            if forget {
                mem::forget(guard);
            }
            Ok(Some(seen))
        })
    }

    pub(super) fn look(&mut self, event: usize, how: Look) -> Answer {
        let found = self.events[event].as_ref().ok_or(Stop::SKIP)?;
        match how {
            Look::Wait => found.wait()?,
            Look::Ask => drop(found.is_complete()?),
            Look::Since(earlier) => {
                let earlier = self.events[earlier].as_ref().ok_or(Stop::SKIP)?;
                found.elapsed_since(earlier)?;
            }
            Look::Drop => self.events[event] = None,
        }
        Ok(None)
    }

    pub(super) fn scope(&mut self, device: usize, copies: &[ScopeCopy], end: ScopeEnd) -> Answer {
        let device = self.devices[device].clone();
        let source = |copy: &ScopeCopy| content(copy.upload.unwrap_or_default(), copy.part.len);
        let sources: Vec<_> = copies.iter().map(source).collect();
        let mut targets: Vec<_> = copies.iter().map(|copy| vec![0; copy.part.len]).collect();
        let slots = copies.iter().zip(&sources).zip(&mut targets);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            device.scope(|scope| {
                for (
                    (
                        ScopeCopy {
                            stream,
                            part,
                            upload,
                        },
                        source,
                    ),
                    target,
                ) in slots
                {
                    let Ok((_, stream)) = self.stream(*stream) else {
                        continue;
                    };
                    let range = part.first..part.first + part.len;
                    match (&mut self.arrays[part.array], upload) {
                        (Some((_, Array::Buffer(buffer))), Some(_)) => {
                            scope.upload(&stream, source, buffer.try_slice_mut(range)?)?;
                        }
                        (Some((_, Array::Managed(managed))), Some(_)) => {
                            scope.upload(&stream, source, managed.try_slice_mut(range)?)?;
                        }
                        (Some((_, Array::Buffer(buffer))), None) => {
                            scope.download(&stream, buffer.try_slice(range)?, target)?;
                        }
                        (Some((_, Array::Managed(managed))), None) => {
                            scope.download(&stream, managed.try_slice(range)?, target)?;
                        }
                        _ => {}
                    }
                }
                match end {
                    ScopeEnd::Value => Ok(()),
                    ScopeEnd::Error => Err(mistake(&device)),
                    // `resume_unwind` skips the panic hook, which would print a message.
                    ScopeEnd::Panic => resume_unwind(Box::new(end)),
                }
            })
        }));
        let seen = Some(targets.concat());
        match outcome {
            Ok(Ok(())) => Ok(seen),
            Ok(Err(error)) => Err(Stop {
                outcome: Outcome::Failed(error),
                seen,
            }),
            Err(panic) if panic.is::<ScopeEnd>() => Err(Stop {
                outcome: Outcome::Panicked,
                seen,
            }),
            Err(panic) => resume_unwind(panic),
        }
    }

    pub(super) fn timeline(&mut self, step: TimelineStep) -> Answer {
        match step {
            TimelineStep::Start(device) => {
                self.timeline = None;
                self.timeline = Some(self.devices[device].timeline()?);
            }
            TimelineStep::Finish => drop(self.timeline.take().ok_or(Stop::SKIP)?.finish()?),
            TimelineStep::Drop => drop(self.timeline.take().ok_or(Stop::SKIP)?),
        }
        Ok(None)
    }
}

/// Returns the bytes that the host reads through a guard, before and after `meanwhile` runs while
/// the guard is alive. If the guard's future was polled once and is still pending, `meanwhile` does
/// not run.
fn guarded(
    array: &Array,
    part: Part,
    Guard { reach, forget }: Guard,
    meanwhile: impl FnOnce() -> Answer,
) -> Answer {
    let range = part.first..part.first + part.len;
    let (guard, range) = match array {
        Array::Pinned(pinned) => {
            let guard = match reach {
                Reach::Wait => Some(pinned.read_range(range)?),
                reach => reached(reach, pinned.read_range_async(range)).transpose()?,
            };
            (guard, 0..part.len)
        }
        Array::Managed(managed) => {
            let guard = match reach {
                Reach::Wait => Some(managed.read_range(range)?),
                reach => reached(reach, managed.read_range_async(range)).transpose()?,
            };
            (guard, 0..part.len)
        }
        _ => return Err(Stop::SKIP),
    };
    let Some(guard) = guard else {
        return Ok(None);
    };
    let before = guard[range.clone()].to_vec();
    let ended = meanwhile();
    let seen = Some([&before[..], &guard[range]].concat());
    if forget {
        mem::forget(guard);
    }
    match ended {
        // A skipped copy is not a failure.
        Ok(_)
        | Err(Stop {
            outcome: Outcome::Skipped,
            ..
        }) => Ok(seen),
        Err(Stop { outcome, .. }) => Err(Stop { outcome, seen }),
    }
}
