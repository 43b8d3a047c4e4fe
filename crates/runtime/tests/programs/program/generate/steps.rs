//! Drawing of the individual steps.

use super::{
    super::{
        elem::Elem,
        step::{
            ARRAYS, EVENTS, Guard, Look, Made, On, Owner, PENDINGS, Pages, Reach, STREAMS,
            ScopeCopy, ScopeEnd, Settle, Step, StreamOf, TimelineStep,
        },
    },
    Array, CACHES, Draw, Kind, SCARCE, SIZES,
};

impl Draw {
    pub(super) fn make_stream(&mut self, stream: usize) -> Step {
        let device = if stream < self.sort.devices {
            stream
        } else {
            self.device()
        };
        self.streams[stream] = Some(device);
        let of = self.pick(&[
            StreamOf::New,
            StreamOf::New,
            StreamOf::Priority,
            StreamOf::Thread,
        ]);
        Step::Stream { stream, device, of }
    }

    fn set(&mut self, at: usize, kind: Kind, device: usize, bytes: usize) {
        self.arrays[at] = Some(Array {
            kind,
            device,
            bytes,
        });
    }

    pub(super) fn make_buffer(&mut self, at: usize, on: On, len: usize, made: Made) -> Step {
        self.arrays[at] = self.streams[on.stream].map(|device| Array {
            kind: Kind::Buffer,
            device,
            bytes: len * on.elem.bytes(),
        });
        Step::Make { at, on, len, made }
    }

    pub(super) fn make(&mut self, array: usize) -> Step {
        let bytes = self.pick(&SIZES);
        let device = self.device();
        match self.below(8) {
            0 => {
                self.set(array, Kind::Pinned, device, bytes);
                let value = self.value();
                let pages = self.pick(&[
                    Pages::Zeros,
                    Pages::Captured(value),
                    Pages::Registered(value),
                ]);
                Step::MakePinned {
                    array,
                    device,
                    len: bytes,
                    pages,
                }
            }
            1 => {
                self.set(array, Kind::Managed, device, bytes);
                Step::MakeManaged {
                    array,
                    device,
                    len: bytes,
                }
            }
            _ => {
                let (elem, stream) = (self.elem(), self.below(3));
                let on = On { stream, elem };
                let made = match self.below(3) {
                    0 => Made::Zeros,
                    1 => Made::Upload(self.value()),
                    _ => Made::Owned(self.owner(), self.value()),
                };
                self.make_buffer(array, on, bytes / elem.bytes(), made)
            }
        }
    }

    fn owner(&mut self) -> Owner {
        self.pick(&[
            Owner::Vec,
            Owner::Box,
            Owner::Arc,
            Owner::ArcVec,
            Owner::Bytes,
        ])
    }

    fn guard(&mut self) -> Guard {
        let reach = self.pick(&[Reach::Wait, Reach::Await, Reach::PollOnce]);
        let forget = self.one_in(6);
        Guard { reach, forget }
    }

    fn settle(&mut self) -> Settle {
        let ways = [
            Settle::Wait,
            Settle::Await,
            Settle::Try,
            Settle::Poll,
            Settle::PollAndDrop,
            Settle::Drop,
        ];
        if self.sort.forgets && self.one_in(6) {
            return Settle::Forget;
        }
        self.pick(&ways)
    }

    pub(super) fn step(&mut self) -> Step {
        if self.one_in(4) {
            return self.rarer();
        }
        self.data()
    }

    /// Draws a step that moves data, or creates or reads arrays. Such steps may also run
    /// concurrently with others.
    fn data(&mut self) -> Step {
        let on_device = [Kind::Buffer, Kind::Managed];
        let all = [Kind::Buffer, Kind::Managed, Kind::Pinned];
        let (elem, value) = (self.elem(), self.value());
        let array = self.array(&on_device);
        let stream = self.stream_for(array);
        let pending = self.place(PENDINGS);
        let on = On { stream, elem };
        match self.below(34) {
            0..3 => {
                let to = self.part(array, elem, None);
                Step::Fill { on, to, value }
            }
            3..5 => {
                let to = self.part(array, elem, None);
                Step::UploadInto { on, to, value }
            }
            5 => {
                let (to, owner) = (self.part(array, elem, None), self.owner());
                let (from, back) = ((owner, value), pending);
                Step::OwnedInto { on, to, from, back }
            }
            6..11 => {
                let elem = if self.one_in(2) { Elem::U8 } else { elem };
                let [from, to] = self.two_parts(&all, elem);
                let near = if self.one_in(4) { from.array } else { to.array };
                let stream = self.stream_for(near);
                let on = On { stream, elem };
                Step::Copy { on, from, to }
            }
            11 | 12 => {
                let from = self.part(array, elem, None);
                let room = self.len_of(array, elem).saturating_sub(from.len);
                let start = self.below(room + 1) + usize::from(self.one_in(60));
                Step::CopyWithin { on, from, start }
            }
            13 => {
                let to = self.rect(array, elem, None);
                Step::FillRows { on, to, value }
            }
            14 => {
                let (to, gap) = (self.rect(array, elem, None), self.below(4));
                Step::UploadRows { on, to, gap, value }
            }
            15 | 16 => {
                let [from, to] = [self.array(&all), self.array(&all)];
                let from = self.rect(from, elem, None);
                let to = self.rect(to, elem, Some(from.size));
                let stream = self.stream_for(to.array);
                let on = On { stream, elem };
                Step::CopyRows { on, from, to }
            }
            17 => {
                let from = self.rect(array, elem, None);
                Step::DownloadRows { on, from, pending }
            }
            18..22 => {
                let from = self.part(array, elem, None);
                Step::Download { on, from, pending }
            }
            22 | 23 => Step::Settle {
                pending,
                how: self.settle(),
            },
            24 => {
                let [first, sum] = self.two_parts(&on_device, Elem::F32);
                let second = self.array(&on_device);
                let second = self.part(second, Elem::F32, Some(first.len));
                let by = self.kernel(&[sum.array, sum.array, first.array]);
                Step::Add {
                    by,
                    terms: [first, second],
                    sum,
                }
            }
            25 => {
                let [x, y] = self.two_parts(&on_device, Elem::F32);
                let factor = self.below(7) as i8 - 3;
                let by = self.kernel(&[y.array, y.array, x.array]);
                Step::Saxpy { by, factor, x, y }
            }
            26 => {
                let [from, to] = [self.array(&on_device), self.array(&on_device)];
                let longest = self
                    .len_of(from, Elem::Rgb)
                    .min(self.len_of(to, Elem::U8))
                    .min(200);
                let len = Some(self.below(longest + 1));
                let (pixels, luma) = (
                    self.part(from, Elem::Rgb, len),
                    self.part(to, Elem::U8, len),
                );
                let by = self.kernel(&[to, to, from]);
                Step::Luminance { by, pixels, luma }
            }
            27 | 28 => {
                let array = self.array(&[Kind::Managed, Kind::Pinned]);
                let part = self.part(array, Elem::U8, None);
                let to = self.array(&all);
                let copy = self
                    .one_in(2)
                    .then(|| (self.stream_for(to), self.part(to, Elem::U8, Some(part.len))));
                let how = self.guard();
                Step::ReadGuard { part, how, copy }
            }
            29 => {
                let array = self.array(&[Kind::Managed, Kind::Pinned]);
                let part = self.part(array, Elem::U8, None);
                let how = self.guard();
                Step::WriteGuard { part, how, value }
            }
            30 => {
                self.arrays[array] = None;
                Step::Drop(array)
            }
            31 => Step::Synchronize(stream),
            _ => {
                let place = self.place(ARRAYS);
                self.make(place)
            }
        }
    }

    fn rarer(&mut self) -> Step {
        let on_device = [Kind::Buffer, Kind::Managed];
        let value = self.value();
        let array = self.array(&on_device);
        let (stream, event, device) = (self.stream_for(array), self.below(EVENTS), self.device());
        match self.below(26) {
            0 | 1 => {
                let stream = self.below(STREAMS);
                self.make_stream(stream)
            }
            2 => {
                self.streams[stream] = None;
                Step::DropStream(stream)
            }
            3 if self.sort.forgets => {
                self.arrays[array] = None;
                Step::Forget(array)
            }
            4 | 5 => Step::Unordered {
                stream,
                array,
                value,
            },
            6 | 7 => {
                let middle = self.below(self.len_of(array, Elem::U8) + 1);
                let streams = [stream, self.stream_for(array)];
                Step::Halves {
                    array,
                    middle,
                    streams,
                    value,
                }
            }
            8 | 9 => {
                let managed = self.array(&[Kind::Managed]);
                let part = self.part(managed, Elem::U8, None);
                let stream = self.stream_for(managed);
                Step::Prefetch {
                    stream,
                    part,
                    to_host: self.one_in(2),
                }
            }
            10 => Step::Advise {
                array: self.array(&[Kind::Managed]),
                advice: value as u8,
            },
            11 | 12 => {
                self.events[event] = self.streams[stream];
                Step::Record { stream, event }
            }
            13 => Step::WaitFor { stream, event },
            14 => {
                let earlier = self.below(EVENTS);
                Step::Look {
                    event,
                    how: self.pick(&[Look::Wait, Look::Ask, Look::Since(earlier), Look::Drop]),
                }
            }
            15 => Step::IsIdle(stream),
            16 | 17 => self.scope(),
            18 => {
                let ways = [
                    TimelineStep::Start(device),
                    TimelineStep::Finish,
                    TimelineStep::Drop,
                ];
                Step::Timeline(self.pick(&ways))
            }
            19 => Step::OpenAgain(device),
            20 => Step::Trim(device),
            21 if self.sort.scarce => {
                let bytes = self.pick(&SCARCE);
                Step::Limit {
                    device,
                    bytes: (!self.one_in(3)).then_some(bytes),
                }
            }
            22 if self.sort.scarce && self.one_in(2) => Step::StagingLimit {
                device,
                bytes: self.pick(&SCARCE),
            },
            22 => Step::CacheLimit {
                device,
                bytes: self.pick(&CACHES),
            },
            23 if self.sort.gates && !self.sort.scarce => {
                if self.one_in(3) {
                    Step::Open
                } else {
                    Step::Close(stream)
                }
            }
            24 if self.sort.threads => Step::Apart([self.list(0), self.list(1)]),
            25 => {
                let array = self.array(&[Kind::Pinned]);
                self.arrays[array].take_if(|array| array.kind == Kind::Pinned);
                Step::IntoVec(array)
            }
            _ => self.data(),
        }
    }

    /// Draws one of two lists that run concurrently.
    fn list(&mut self, odd: usize) -> Vec<Step> {
        self.odd = Some(odd);
        let steps = (0..1 + self.below(8)).map(|_| self.data()).collect();
        self.odd = None;
        steps
    }

    fn scope(&mut self) -> Step {
        let on_device = [Kind::Buffer, Kind::Managed];
        let mut copies = Vec::new();
        let mut device = self.device();
        for _ in 0..1 + self.below(4) {
            let array = self.array(&on_device);
            let upload = self.one_in(2).then(|| self.value());
            let (stream, part) = (self.stream_for(array), self.part(array, Elem::U8, None));
            device = self.arrays[array].map_or(device, |array| array.device);
            copies.push(ScopeCopy {
                stream,
                part,
                upload,
            });
        }
        let end = self.pick(&[
            ScopeEnd::Value,
            ScopeEnd::Value,
            ScopeEnd::Error,
            ScopeEnd::Panic,
        ]);
        Step::Scope {
            device,
            copies,
            end,
        }
    }
}
