//! The steps that several threads execute concurrently, on disjoint data.

use std::{panic::resume_unwind, thread};

use millstream::{Result, Stream, ViewMut};

use super::{
    elem::content,
    interpreter::{Array, Interpreter},
    outcome::{Answer, Stop},
    step::Step,
};

impl Interpreter<'_> {
    pub(super) fn apart(&mut self, lists: &[Vec<Step>; 2]) -> Answer {
        let parts = [self.part(0), self.part(1)];
        let both = thread::scope(|scope| {
            let mut work = parts.into_iter().zip(lists).map(|(mut part, steps)| {
                scope.spawn(move || {
                    steps.iter().for_each(|step| part.enter(step));
                    part
                })
            });
            let both = [work.next(), work.next()];
            both.map(|work| {
                let work = work.expect("there are two threads");
                work.join().unwrap_or_else(|panic| resume_unwind(panic))
            })
        });
        for part in both {
            self.join(part);
        }
        Ok(None)
    }

    pub(super) fn halves(
        &mut self,
        array: usize,
        middle: usize,
        streams: [usize; 2],
        value: u32,
    ) -> Answer {
        let (left_stream, right_stream) = (self.stream(streams[0])?.1, self.stream(streams[1])?.1);
        self.with(array, |_, array| {
            let view = match array {
                Array::Buffer(buffer) => buffer.view_mut(),
                Array::Managed(managed) => managed.view_mut(),
                Array::Pinned(_) => return Err(Stop::SKIP),
            };
            if middle > view.len() {
                return Err(Stop::SKIP);
            }
            let (left, right) = view.split_at_mut(middle);
            let (left, right) = thread::scope(|scope| {
                let right = scope.spawn(|| half(&right_stream, right, value + 1));
                let left = half(&left_stream, left, value);
                (
                    left,
                    right.join().unwrap_or_else(|panic| resume_unwind(panic)),
                )
            });
            Ok(Some([left?, right?].concat()))
        })
    }
}

/// Fills a view, uploads to its first half, and downloads it.
fn half(stream: &Stream, mut view: ViewMut<'_, u8>, value: u32) -> Result<Vec<u8>> {
    stream.fill(&mut view, content(value, 1)[0])?;
    let middle = view.len() / 2;
    stream.upload_into(&content(value, middle), view.slice_mut(..middle))?;
    stream.download(&view)?.wait()
}
