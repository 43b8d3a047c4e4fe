//! One rank's connection to the hub: its state, and the frames that have arrived.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::frame::{Frame, FrameKind};
use crate::nccl::{CommState, NcclCode};

/// The error of an exchange that ended because the communicator was aborted.
#[derive(Debug, PartialEq)]
pub(super) struct Aborted;

/// The key of data in the mailbox: source, tag and sequence number.
type MailKey = (u32, u32, u64);

#[derive(Debug)]
pub(super) struct Link {
    rank: u32,
    size: usize,
    state: Mutex<LinkState>,
    changed: Condvar,
    writer: Mutex<Option<TcpStream>>,
}

#[derive(Debug, Default)]
struct LinkState {
    ready: bool,
    failure: Option<(NcclCode, String)>,
    aborted: bool,
    /// The number of operations that were issued and whose exchange has not ended.
    pending: usize,
    /// Set when this rank issues no more operations.
    finalizing: bool,
    /// Set when this rank has told the others that it sends nothing more.
    finished: bool,
    /// The number of other ranks that send nothing more.
    others_finished: usize,
    mail: HashMap<MailKey, VecDeque<Vec<u8>>>,
}

impl Link {
    pub(super) fn connect(
        hub: SocketAddr,
        secret: u64,
        rank: u32,
        size: usize,
    ) -> io::Result<Arc<Self>> {
        let link = Arc::new(Self {
            rank,
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
            writer: Mutex::new(None),
        });
        let reader = Arc::clone(&link);
        thread::Builder::new()
            .name(format!("loopback-rank-{rank}"))
            .spawn(move || {
                if let Err(error) = reader.read(hub, secret) {
                    let text = format!("the connection to the hub at {hub} is lost: {error}");
                    reader.fail(NcclCode::REMOTE_ERROR, text);
                }
            })?;
        Ok(link)
    }

    /// Introduces the rank and receives frames until the connection ends.
    fn read(&self, hub: SocketAddr, secret: u64) -> io::Result<()> {
        let mut stream = TcpStream::connect(hub)?;
        stream.set_nodelay(true)?;
        let mut hello = Frame::signal(FrameKind::Hello, self.rank);
        hello.sequence = self.size as u64;
        hello.payload = secret.to_le_bytes().to_vec();
        hello.write(&mut stream)?;
        *lock(&self.writer) = Some(stream.try_clone()?);
        if self.state().aborted {
            return Ok(());
        }
        loop {
            let frame = match Frame::read(&mut stream) {
                Ok(frame) => frame,
                // The hub's process may end once every rank has finished, before it has told so.
                Err(_) if self.is_quiescent() => {
                    self.changed.notify_all();
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let from = frame.peer;
            match frame.kind {
                FrameKind::Ready => self.state().ready = true,
                FrameKind::Data => {
                    let key = (from, frame.tag, frame.sequence);
                    let mut state = self.state();
                    state.mail.entry(key).or_default().push_back(frame.payload);
                }
                FrameKind::Goodbye => self.state().others_finished += 1,
                FrameKind::Gone => {
                    let text = format!("the connection to rank {from} is lost");
                    self.fail(NcclCode::REMOTE_ERROR, text);
                }
                FrameKind::Refused => {
                    let text = String::from_utf8_lossy(&frame.payload).into_owned();
                    self.fail(NcclCode::INVALID_USAGE, text);
                }
                FrameKind::Hello => return Err(io::ErrorKind::InvalidData.into()),
            }
            self.changed.notify_all();
        }
    }

    pub(super) fn comm_state(&self) -> CommState {
        let state = self.state();
        match &state.failure {
            Some((code, _)) => CommState::Failed(*code),
            None if !state.ready => CommState::InProgress,
            None if state.finalizing && !self.all_finished(&state) => CommState::InProgress,
            None => CommState::Success,
        }
    }

    /// Returns the description of the first failure, or an empty text.
    pub(super) fn failure_text(&self) -> String {
        let state = self.state();
        state
            .failure
            .as_ref()
            .map_or_else(String::new, |(_, text)| text.clone())
    }

    /// Marks the communicator as failed, unless it is already.
    pub(super) fn fail(&self, code: NcclCode, text: String) {
        self.state().failure.get_or_insert((code, text));
        self.changed.notify_all();
    }

    /// Ends all waits and closes the connection.
    pub(super) fn abort(&self) {
        self.state().aborted = true;
        self.changed.notify_all();
        self.close();
    }

    pub(super) fn close(&self) {
        // The frames that this process has written are still delivered.
        if let Some(stream) = lock(&self.writer).take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Announces that no more operations are issued.
    pub(super) fn finalize(&self) {
        self.state().finalizing = true;
        self.finish_if_idle();
    }

    /// Counts an operation that was issued.
    pub(super) fn begin(&self) {
        self.state().pending += 1;
    }

    /// Counts an operation whose exchange has ended.
    pub(super) fn end(&self) {
        self.state().pending -= 1;
        self.finish_if_idle();
        self.changed.notify_all();
    }

    /// Tells the others that this rank is finished, once its last operation is.
    fn finish_if_idle(&self) {
        let mut state = self.state();
        let finishes = state.finalizing && state.pending == 0 && !state.finished && !state.aborted;
        state.finished |= finishes;
        drop(state);
        if finishes {
            self.send(Frame::signal(FrameKind::Goodbye, super::frame::ALL));
            self.changed.notify_all();
        }
    }

    /// Waits until all ranks are finished, or the communicator failed or was aborted.
    pub(super) fn wait_finished(&self) {
        let mut state = self.state();
        while !self.all_finished(&state) && state.failure.is_none() && !state.aborted {
            state = self.wait(state, None);
        }
    }

    fn all_finished(&self, state: &LinkState) -> bool {
        state.finished && state.others_finished + 1 >= self.size
    }

    /// Returns whether the end of the connection is no failure, and if so marks all ranks as
    /// finished: this rank has received everything, and sends nothing more.
    fn is_quiescent(&self) -> bool {
        let mut state = self.state();
        if state.finished {
            state.others_finished = self.size - 1;
        }
        state.aborted || state.finished
    }

    /// Sends data to rank `to`, or to all other ranks.
    pub(super) fn send_data(&self, to: u32, tag: u32, sequence: u64, payload: Vec<u8>) {
        self.send(Frame {
            kind: FrameKind::Data,
            tag,
            peer: to,
            sequence,
            payload,
        });
    }

    /// Sends a frame. If the connection is lost, the thread that reads from it reports that.
    fn send(&self, frame: Frame) {
        if let Some(stream) = &mut *lock(&self.writer) {
            let _ = frame.write(stream);
        }
    }

    /// Waits for `bytes` of data from rank `from`. Data of another length never matches, and a
    /// failure does not end the wait: as with NCCL, only an abort does.
    pub(super) fn receive(
        &self,
        from: u32,
        tag: u32,
        sequence: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Aborted> {
        let key = (from, tag, sequence);
        let mut state = self.state();
        loop {
            if state.aborted {
                return Err(Aborted);
            }
            if let Some(queue) = state.mail.get_mut(&key)
                && queue.front().is_some_and(|data| data.len() == bytes)
            {
                let data = queue.pop_front().expect("the queue has a front");
                if queue.is_empty() {
                    state.mail.remove(&key);
                }
                return Ok(data);
            }
            state = self.wait(state, None);
        }
    }

    /// Sleeps until the communicator is aborted, for at most `limit`.
    pub(super) fn sleep(&self, limit: Option<Duration>) -> Result<(), Aborted> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut state = self.state();
        while !state.aborted {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            state = self.wait(state, left);
        }
        Err(Aborted)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, LinkState>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, LinkState> {
        match limit {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let woken = self.changed.wait_timeout(state, limit);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
