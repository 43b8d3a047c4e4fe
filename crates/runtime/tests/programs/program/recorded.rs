//! Parts of a program that are recorded in a graph and replayed. Their effects are those of the
//! steps themselves, so the oracle knows nothing of graphs.

use millstream::{
    GraphRecorder, Result, Stream,
    graph::{GraphOptions, Order},
};

use super::{
    interpreter::{Array, Interpreter},
    step::{ARRAYS, Placed, STREAMS, Step},
};

/// The slots that a step names, if a graph can contain the step.
struct Slots {
    stream: Option<usize>,
    arrays: Vec<usize>,
}

impl Slots {
    fn of(step: &Step) -> Option<Self> {
        let (stream, arrays) = match *step {
            Step::Fill { on, to, .. }
            | Step::UploadInto { on, to, .. }
            | Step::OwnedInto { on, to, .. } => (on.stream, vec![to.array]),
            Step::Copy { on, from, to } => (on.stream, vec![from.array, to.array]),
            Step::CopyWithin { on, from, .. } => (on.stream, vec![from.array]),
            Step::FillRows { on, to, .. } | Step::UploadRows { on, to, .. } => {
                (on.stream, vec![to.array])
            }
            Step::CopyRows { on, from, to } => (on.stream, vec![from.array, to.array]),
            Step::Add { by, terms, sum } => {
                (by.stream, vec![terms[0].array, terms[1].array, sum.array])
            }
            Step::Saxpy { by, x, y, .. } => (by.stream, vec![x.array, y.array]),
            Step::Luminance { by, pixels, luma } => (by.stream, vec![pixels.array, luma.array]),
            Step::Unordered { stream, array, .. } => (stream, vec![array]),
            // The array in the slot is replaced, whatever it is.
            Step::Make { on, .. } => (on.stream, Vec::new()),
            Step::Drop(array) => {
                return Some(Self {
                    stream: None,
                    arrays: vec![array],
                });
            }
            _ => return None,
        };
        Some(Self {
            stream: Some(stream),
            arrays,
        })
    }
}

impl Interpreter<'_> {
    /// Executes steps, some of them through graphs.
    pub(super) fn steps_with_graphs(&mut self, steps: &[Placed]) {
        let mut at = 0;
        while at < steps.len() {
            let len = self.recordable(&steps[at..]);
            self.segments += 1;
            if len < 2 || self.segments.is_multiple_of(3) {
                self.enter(&steps[at].step);
                at += 1;
                continue;
            }
            self.record(&steps[at..at + len]);
            at += len;
        }
    }

    /// Returns the number of steps that a graph can contain.
    fn recordable(&self, steps: &[Placed]) -> usize {
        if !self.environment.records || self.timeline.is_some() {
            return 0;
        }
        let Some(device) = self.device_of(steps) else {
            return 0;
        };
        let mut is_plain: [bool; ARRAYS] = std::array::from_fn(|at| match &self.arrays[at] {
            Some((on, Array::Buffer(_))) => *on == device,
            Some(_) => false,
            None => true,
        });
        let fits = |placed: &&Placed| {
            let Some(slots) = Slots::of(&placed.step) else {
                return false;
            };
            let stream = slots.stream.map(|at| self.streams[at].as_ref());
            let is_here = match stream {
                Some(Some((on, _))) => *on == device,
                // Such a step is skipped.
                Some(None) | None => true,
            };
            if let Step::Make { at, .. } = placed.step {
                is_plain[at] = true;
            }
            is_here && slots.arrays.iter().all(|&array| is_plain[array])
        };
        steps.iter().take_while(fits).count()
    }

    /// Returns the device of the first step's stream.
    fn device_of(&self, steps: &[Placed]) -> Option<usize> {
        let stream = Slots::of(&steps.first()?.step)?.stream?;
        self.streams[stream].as_ref().map(|(device, _)| *device)
    }

    /// Records the steps and replays them once.
    fn record(&mut self, steps: &[Placed]) {
        let first = Slots::of(&steps[0].step).and_then(|slots| slots.stream);
        let replayed_on = first.and_then(|at| self.streams[at].clone());
        let (device, stream) = replayed_on.expect("the first step has a stream");
        let replaced = self.streams.clone();
        let number = self.segments;
        // An access that opts out of ordering counts on the order of its stream.
        let opts_out = |placed: &Placed| matches!(placed.step, Step::Unordered { .. });
        let order = if number.is_multiple_of(2) && !steps.iter().any(opts_out) {
            Order::Data
        } else {
            Order::Stream
        };
        let options = GraphOptions::new()
            .order(order)
            .reuse(!number.is_multiple_of(5));
        let from = self.devices[device].clone();
        let recorded = from.record_with("part of a program", options, |r| {
            self.record_on(r, device)?;
            steps.iter().for_each(|placed| self.enter(&placed.step));
            Ok(())
        });
        self.streams = replaced;
        let graph = recorded.expect("the graph is made");
        let replayed = match number % 4 {
            1 => graph.replay_stepwise(&stream),
            2 => {
                let nested = from.record("a graph around it", |r| graph.replay(&r.stream()?));
                drop(graph);
                nested.and_then(|nested| nested.replay(&stream))
            }
            _ => graph.replay(&stream),
        };
        replayed.expect("the graph is replayed");
    }

    /// Replaces the device's streams by recording ones.
    fn record_on(&mut self, recorder: &GraphRecorder, device: usize) -> Result<()> {
        let mut known: Vec<(u64, Stream)> = Vec::new();
        for at in 0..STREAMS {
            let Some((on, stream)) = &self.streams[at] else {
                continue;
            };
            if *on != device {
                continue;
            }
            let id = stream.id();
            let found = known.iter().find(|(of, _)| *of == id);
            let recorded = match found {
                Some((_, recorded)) => recorded.clone(),
                None => {
                    let recorded = recorder.stream()?;
                    known.push((id, recorded.clone()));
                    recorded
                }
            };
            self.streams[at] = Some((device, recorded));
        }
        Ok(())
    }
}
