//! The expected result and the effects of each step.

use super::{
    super::{
        elem::{Elem, content},
        step::{Look, Made, On, Pages, Part, Settle, Step, TimelineStep},
    },
    Expected, Oracle,
    bytes::{Array, Bytes, Kind},
};

impl Oracle {
    /// Returns a step's expected result and applies its effects. `had` is whether the step returned
    /// bytes.
    pub(super) fn apply(&mut self, step: &Step, had: bool) -> Expected {
        self.applied(step, had).unwrap_or(Expected::Skip)
    }

    /// Applies a step; returns `None` if it names an empty slot and is skipped.
    pub(super) fn applied(&mut self, step: &Step, had: bool) -> Option<Expected> {
        match *step {
            Step::Stream { stream, device, .. } => self.streams[stream] = Some(device),
            Step::DropStream(stream) => drop(self.streams[stream].take()?),
            Step::Make { at, on, len, made } => {
                let device = self.streams[on.stream]?;
                let values = match made {
                    Made::Zeros => vec![0; len * on.elem.bytes()],
                    Made::Upload(value) | Made::Owned(_, value) => {
                        content(value, len * on.elem.bytes())
                    }
                };
                self.arrays[at] = Some(Array::new(Kind::Buffer, device, values));
            }
            Step::MakePinned {
                array,
                device,
                len,
                pages,
            } => {
                let values = match pages {
                    Pages::Zeros => vec![0; len],
                    Pages::Captured(value) | Pages::Registered(value) => content(value, len),
                };
                self.arrays[array] = Some(Array::new(Kind::Pinned, device, values));
            }
            Step::MakeManaged { array, device, len } => {
                self.arrays[array] = Some(Array::new(Kind::Managed, device, vec![0; len]));
            }
            Step::Drop(array) | Step::Forget(array) => drop(self.arrays[array].take()?),
            Step::IntoVec(array) => {
                let pinned = self.arrays[array].take_if(|array| array.kind == Kind::Pinned)?;
                return Some(Expected::Done(Some(pinned.bytes)));
            }
            Step::Fill { on, to, value } => {
                let element = content(value, on.elem.bytes());
                return self.write(on, to, element.repeat(to.len));
            }
            Step::UploadInto { on, to, value } => {
                return self.write(on, to, content(value, to.len * on.elem.bytes()));
            }
            Step::OwnedInto { on, to, from, back } => {
                let source = content(from.1, to.len * on.elem.bytes());
                let written = self.write(on, to, source.clone())?;
                if matches!(written, Expected::Done(_)) {
                    self.pendings[back] = Some(Bytes::of(source));
                }
                return Some(written);
            }
            Step::Copy { on, from, to } => return self.copy(on, from, to),
            Step::CopyWithin { on, from, start } => {
                let device = self.streams[on.stream]?;
                let (array, bytes) = self.find(from, on.elem)?;
                let elements = array.on_device()?.bytes.values.len() / on.elem.bytes();
                let lie_within = from.first + from.len <= elements && start + from.len <= elements;
                if !lie_within || array.device != device {
                    return Some(Expected::Mistake);
                }
                let moved = array.bytes.part(bytes);
                self.put(from.array, start * on.elem.bytes(), &moved)?;
            }
            Step::FillRows { on, to, value } => {
                let element = Bytes::of(content(value, on.elem.bytes()));
                let device = self.streams[on.stream]?;
                let array = self.arrays[to.array].as_mut()?;
                let Some(places) = array
                    .rect(to, on.elem)
                    .filter(|_| array.is_reached_by(device))
                else {
                    return Some(Expected::Mistake);
                };
                places.for_each(|at| array.bytes.write(at, &element));
            }
            Step::UploadRows { on, to, gap, value } => {
                let device = self.streams[on.stream]?;
                let array = self.arrays[to.array].as_mut()?;
                array.on_device()?;
                let Some(places) = array.rect(to, on.elem).filter(|_| array.device == device)
                else {
                    return Some(Expected::Mistake);
                };
                let (cols, pitch, size) = (to.size[1], to.size[1] + gap, on.elem.bytes());
                let source = Bytes::of(content(value, to.size[0] * pitch * size));
                for (number, at) in places.enumerate() {
                    let from = (number / cols * pitch + number % cols) * size;
                    array.bytes.write(at, &source.part(from..from + size));
                }
            }
            Step::CopyRows { on, from, to } => return self.copy_rows(on, from, to),
            Step::DownloadRows { on, from, pending } => {
                let device = self.streams[on.stream]?;
                let array = self.arrays[from.array].as_ref()?.on_device()?;
                let Some(places) = array.rect(from, on.elem).filter(|_| array.device == device)
                else {
                    return Some(Expected::Mistake);
                };
                self.pendings[pending] = Some(array.gather(places, on.elem));
            }
            Step::Download { on, from, pending } => {
                let device = self.streams[on.stream]?;
                let (array, bytes) = self.find(from, on.elem)?;
                if !array.on_device()?.has(&bytes) || array.device != device {
                    return Some(Expected::Mistake);
                }
                self.pendings[pending] = Some(array.bytes.part(bytes));
            }
            Step::Add { by, terms, sum } => {
                let add = |terms: &[f32]| terms[0] + terms[1];
                return self.compute(by, &terms, sum, add);
            }
            Step::Saxpy { by, factor, x, y } => {
                let multiply = |values: &[f32]| f32::from(factor).mul_add(values[0], values[1]);
                return self.compute(by, &[x], y, multiply);
            }
            Step::Luminance { by, pixels, luma } => return self.luminance(by, pixels, luma),
            Step::Unordered {
                stream,
                array,
                value,
            } => {
                let len = self.arrays[array].as_ref()?.bytes.values.len();
                let whole = Part::whole(array, len);
                let values = vec![content(value + 1, 1)[0]; len];
                let elem = Elem::U8;
                return self.write(On { stream, elem }, whole, values);
            }
            Step::Halves {
                array,
                middle,
                streams,
                value,
            } => return self.halves(array, middle, streams, value),
            Step::Settle { pending, how } => {
                let bytes = self.pendings[pending].take()?;
                return Some(match how {
                    Settle::Wait | Settle::Await => Expected::Done(Some(bytes)),
                    Settle::Drop | Settle::Forget => Expected::Done(None),
                    Settle::PollAndDrop => Expected::Perhaps(bytes),
                    Settle::Try | Settle::Poll => {
                        if !had {
                            self.pendings[pending] = Some(bytes.clone());
                        }
                        Expected::Perhaps(bytes)
                    }
                });
            }
            Step::ReadGuard { part, how, copy } => {
                return self.host_read(part, how.reach, copy, had);
            }
            Step::WriteGuard { part, how, value } => {
                if let Some(mistake) = self.guarded(part)? {
                    return Some(mistake);
                }
                let written = Bytes::of(content(value, part.len));
                if had {
                    self.put(part.array, part.first, &written)?;
                }
                return Some(how.reach.expected(written));
            }
            Step::Prefetch { stream, part, .. } => {
                let device = self.streams[stream]?;
                let (array, bytes) = self.find(part, Elem::U8)?;
                let array = array.on_device()?;
                if array.kind != Kind::Managed || !array.has(&bytes) || array.device != device {
                    return Some(Expected::Mistake);
                }
            }
            Step::Advise { array, .. } => {
                self.arrays[array]
                    .as_ref()
                    .filter(|array| array.kind == Kind::Managed)?;
            }
            Step::Record { stream, event } => self.events[event] = Some(self.streams[stream]?),
            Step::WaitFor { stream, event } => {
                self.streams[stream]?;
                self.events[event]?;
            }
            Step::Look { event, how } => {
                let device = self.events[event]?;
                match how {
                    Look::Since(earlier) if self.events[earlier]? != device => {
                        return Some(Expected::Mistake);
                    }
                    Look::Drop => self.events[event] = None,
                    _ => {}
                }
            }
            Step::Synchronize(stream) | Step::IsIdle(stream) | Step::Close(stream) => {
                self.streams[stream]?;
            }
            Step::Scope {
                device,
                ref copies,
                end,
            } => return self.scope(device, copies, end),
            Step::Timeline(TimelineStep::Start(_)) => self.has_timeline = true,
            Step::Timeline(TimelineStep::Finish | TimelineStep::Drop) => {
                self.has_timeline.then_some(())?;
                self.has_timeline = false;
            }
            Step::Limit { device, bytes } => self.limits[device] = bytes,
            Step::OpenAgain(_)
            | Step::Trim(_)
            | Step::StagingLimit { .. }
            | Step::CacheLimit { .. }
            | Step::Open
            | Step::Apart(_) => {}
        }
        Some(Expected::Done(None))
    }
}
