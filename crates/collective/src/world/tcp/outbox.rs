//! Messages on their way to the other end. A thread of the connection writes them, so that a
//! receiver that does not read stalls no caller.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::wire::{Frame, Message};
use crate::world::rendezvous::{VALUE_BYTES_MAX, remaining};

/// The time for one message from its first byte to its last.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest number of bytes that wait to be written.
const BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;

/// The bytes that a message takes besides its own.
const FRAME_BYTES: usize = 64;

/// The stack of a thread that only reads or writes messages.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// A stream whose reads and writes, together, end after a time.
pub(super) struct Timed<'a> {
    stream: &'a TcpStream,
    start: Instant,
    limit: Duration,
}

impl<'a> Timed<'a> {
    pub(super) fn new(stream: &'a TcpStream, limit: Duration) -> Self {
        let start = Instant::now();
        Self {
            stream,
            start,
            limit,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match remaining(self.start, self.limit) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits for the next message, which has to be whole soon after its first byte.
pub(super) fn receive(stream: &TcpStream) -> io::Result<Message> {
    stream.set_read_timeout(None)?;
    stream.peek(&mut [0])?;
    Message::read(&mut Timed::new(stream, MESSAGE_TIMEOUT))
}

pub(super) struct Outbox {
    stream: Arc<TcpStream>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// The bytes of the frames and of the one that is being written.
    bytes: usize,
    closed: bool,
}

impl Outbox {
    /// Starts the thread that writes.
    pub(super) fn start(stream: Arc<TcpStream>) -> io::Result<Arc<Self>> {
        let outbox = Arc::new(Self {
            stream,
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let writing = Arc::clone(&outbox);
        thread::Builder::new()
            .name("millstream-send".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                while let Some(frame) = writing.next() {
                    let mut stream = Timed::new(&writing.stream, MESSAGE_TIMEOUT);
                    if frame.write(&mut stream).is_err() {
                        return writing.close();
                    }
                    writing.queue().bytes -= bytes(&frame);
                    writing.changed.notify_all();
                }
            })?;
        Ok(outbox)
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Enqueues a message, however many there are.
    pub(super) fn push(&self, frame: impl Into<Frame>) {
        let frame = frame.into();
        let mut queue = self.queue();
        if !queue.closed {
            queue.bytes += bytes(&frame);
            queue.frames.push_back(frame);
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// Enqueues a message once there is room; returns false if there is none in time.
    pub(super) fn send(&self, message: Message, limit: Duration) -> bool {
        let frame = Frame::from(message);
        let room = BYTES_MAX - bytes(&frame).min(BYTES_MAX);
        let has_room = self.wait_for_bytes(room, limit);
        if has_room {
            self.push(frame);
        }
        has_room
    }

    /// Waits until at most this many bytes wait to be written, or the connection is closed. Returns
    /// false if that is not so in time.
    pub(super) fn wait_for_bytes(&self, bytes_max: usize, limit: Duration) -> bool {
        let start = Instant::now();
        let mut queue = self.queue();
        while queue.bytes > bytes_max && !queue.closed {
            let left = remaining(start, limit);
            if left.is_zero() {
                return false;
            }
            let woken = self.changed.wait_timeout(queue, left);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Closes the connection, and drops the messages that were not written.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.frames.clear();
        drop(queue);
        // An error means that the connection is closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.changed.notify_all();
    }

    /// Waits for a message; `None` once the connection is closed.
    fn next(&self) -> Option<Frame> {
        let queue = self.queue();
        let woken = self
            .changed
            .wait_while(queue, |queue| queue.frames.is_empty() && !queue.closed);
        let mut queue = woken.unwrap_or_else(PoisonError::into_inner);
        queue.frames.pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(frame: &Frame) -> usize {
    FRAME_BYTES + frame.head.len() + frame.value.len()
}
