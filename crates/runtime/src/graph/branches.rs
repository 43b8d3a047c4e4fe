//! Loops and conditions of a graph: [`GraphRecorder::while_loop`] and [`GraphRecorder::if_`].

use std::{panic::Location, sync::Arc};

use super::{GraphRecorder, conditional::Flag, conditions::setter, limit::LoopSite};
use crate::{Buffer, ReadOperand, Result, UsageError, UsageErrorKind};

impl GraphRecorder {
    /// Records a loop, which runs on the device without the host. While the first element of `flag`
    /// is not 0, the operations of `body` run: the replay looks at the flag in front of each
    /// iteration. The closure gets the flag back, so that its operations can write it.
    ///
    /// The loop ends after `iterations_max` iterations in any case. If the flag is still set then,
    /// the next host read of what the graph has written returns [`Error::LoopLimit`]: a download
    /// that completes behind the replay, or a guard of memory to which it was copied.
    ///
    /// The loop is one operation of the graph, ordered with others by the bytes that the flag and
    /// the body's operations access. Only streams of the body's own recorder belong to the loop;
    /// the streams of `self` record nothing until the closure returns. Loops and conditions may
    /// contain others.
    ///
    /// ```
    /// use millstream::{Device, Stream};
    ///
    /// /// Halves the number, and clears the flag once it is 1.
    /// fn halve(stream: &Stream, number: &mut millstream::Buffer<u32>) -> millstream::Result<()> {
    ///     // A kernel in a real program.
    ///     stream.fill(number, 0)
    /// }
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut running = stream.upload(&[1_u32])?;
    /// let mut iterations = stream.zeros::<u32>(1)?;
    /// let graph = device.record("loop", |r| {
    ///     r.while_loop(&mut running, 100, |body, running| {
    ///         let recorded = body.stream()?;
    ///         recorded.fill(&mut iterations, 1)?;
    ///         halve(&recorded, running)
    ///     })
    /// })?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&iterations)?.wait()?, [1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// With a driver older than CUDA 12.4, or a GPU of compute capability below 7.5, the host runs
    /// the loop: a replay then enqueues operation by operation and blocks to look at the flag. It
    /// is one operation nevertheless: another thread that submits to the stream, or an operation
    /// that conflicts with the replay, waits until the loop is over.
    ///
    /// # Errors
    ///
    /// The error of `body`; if `iterations_max` is 0, the flag is empty or on another device, the
    /// recording is over or inside another body, or the device is lost. The loop is then no part of
    /// the graph.
    ///
    /// [`Error::LoopLimit`]: crate::Error::LoopLimit
    #[track_caller]
    pub fn while_loop(
        &self,
        flag: &mut Buffer<u32>,
        iterations_max: u32,
        body: impl FnOnce(&Self, &mut Buffer<u32>) -> Result<()>,
    ) -> Result<()> {
        const NAME: &str = "while_loop";
        let location = Location::caller();
        if iterations_max == 0 {
            let why = "a loop of at most 0 iterations never runs its body";
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(NAME, problem).at(location).into());
        }
        let condition = Flag::of(&self.device, NAME, &flag.view().operand().0)?;
        let site = LoopSite {
            iterations_max,
            location,
        };
        self.conditional((NAME, location), condition, Some(site), |recorder| {
            body(recorder, flag)
        })
    }

    /// Records operations that run if the first element of `flag` is not 0 when the replay reaches
    /// them. Otherwise as [`while_loop`](Self::while_loop).
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// let (mut wanted, mut x) = (stream.zeros::<u32>(1)?, stream.zeros::<u8>(3)?);
    /// let graph = device.record("maybe", |r| {
    ///     r.if_(&wanted, |then| then.stream()?.fill(&mut x, 7))
    /// })?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&x)?.wait()?, [0; 3]);
    /// stream.fill(&mut wanted, 1)?;
    /// graph.replay(&stream)?;
    /// assert_eq!(stream.download(&x)?.wait()?, [7; 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`while_loop`](Self::while_loop).
    #[track_caller]
    pub fn if_(
        &self,
        flag: impl ReadOperand<u32>,
        body: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        const NAME: &str = "if_";
        let location = Location::caller();
        let condition = Flag::of(&self.device, NAME, &flag.operand().0)?;
        self.conditional((NAME, location), condition, None, body)
    }

    /// Records the operations of `body` as one conditional operation.
    fn conditional(
        &self,
        (name, location): (&'static str, &'static Location<'static>),
        flag: Flag,
        site: Option<LoopSite>,
        body: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        // Loaded now, because loading may wait for running kernels.
        setter(&self.device)?;
        let nested = self.recording.begin_body(name)?;
        let recorder = Self::of(&self.device, Arc::clone(nested.recording()));
        body(&recorder)?;
        // Its streams stop recording.
        drop(recorder);
        nested.end((name, location), flag, site)
    }
}
