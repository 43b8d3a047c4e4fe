//! Groups of messages: sends and receives that are matched in order.

use std::{marker::PhantomData, panic::Location};

use super::{
    CollectiveElement, CollectiveKind, CollectiveOp, Collectives, Part, element::DataType,
    operands::Checks,
};
use millstream::{DeviceOperand, ReadOperand, Result, UsageError, UsageErrorKind, WriteOperand};

/// The sends and receives of a [`Collectives::group`].
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_collective::Collectives;
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let collectives = Collectives::new(&devices)?;
/// let (s0, s1) = (devices[0].stream()?, devices[1].stream()?);
/// let (a, b) = (s0.upload(&[1_i32, 2])?, s1.upload(&[3_i32, 4])?);
/// let (mut from_b, mut from_a) = (s0.zeros::<i32>(2)?, s1.zeros::<i32>(2)?);
/// collectives.group(|group| {
///     group.send(0, 1, &a)?;
///     group.send(1, 0, &b)?;
///     group.recv(0, 1, &mut from_b)?;
///     group.recv(1, 0, &mut from_a)
/// })?;
/// assert_eq!(s0.download(&from_b)?.wait()?, [3, 4]);
/// assert_eq!(s1.download(&from_a)?.wait()?, [1, 2]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
pub struct Group<'a> {
    collectives: &'a Collectives,
    messages: Vec<Message<'a>>,
}

/// A send or a receive.
struct Message<'a> {
    kind: CollectiveKind,
    element: DataType,
    location: &'static Location<'static>,
    /// The sending or receiving rank as an index among the local ranks.
    local: usize,
    operand: Box<dyn HeldOperand + 'a>,
}

impl std::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, element) = (self.kind, self.element);
        write!(f, "{kind:?} of {element} at {}", self.location)
    }
}

/// An operand whose type is erased.
trait HeldOperand {
    fn span(&self) -> DeviceOperand<'_>;
}

struct Held<T, O>(O, PhantomData<fn() -> T>);

impl<T, O: ReadOperand<T>> HeldOperand for Held<T, O> {
    fn span(&self) -> DeviceOperand<'_> {
        self.0.operand()
    }
}

impl<'a> Group<'a> {
    pub(super) fn new(collectives: &'a Collectives) -> Self {
        Self {
            collectives,
            messages: Vec::new(),
        }
    }

    /// Adds a send of `array` from the local rank `from` to the rank `to`, which may be the same.
    ///
    /// # Errors
    ///
    /// If a rank does not exist, `from` is not a rank of this process, or the array is not on its
    /// device. The message is then not part of the group.
    #[track_caller]
    pub fn send<T: CollectiveElement>(
        &mut self,
        from: usize,
        to: usize,
        array: impl ReadOperand<T> + 'a,
    ) -> Result<()> {
        self.add::<T>(from, to, CollectiveKind::Send { to }, array)
    }

    /// Adds a receive into `array` by the local rank `to` from the rank `from`, which may be the
    /// same.
    ///
    /// # Errors
    ///
    /// If a rank does not exist, `to` is not a rank of this process, or the array is not on its
    /// device. The message is then not part of the group.
    #[track_caller]
    pub fn recv<T: CollectiveElement>(
        &mut self,
        to: usize,
        from: usize,
        array: impl WriteOperand<T> + 'a,
    ) -> Result<()> {
        self.add::<T>(to, from, CollectiveKind::Recv { from }, array)
    }

    #[track_caller]
    fn add<T: CollectiveElement>(
        &mut self,
        own: usize,
        peer: usize,
        kind: CollectiveKind,
        array: impl ReadOperand<T> + 'a,
    ) -> Result<()> {
        let location = Location::caller();
        let element = T::TYPE;
        let checks = Checks {
            collectives: self.collectives,
            operation: kind.label(),
            element,
        };
        let checked = || {
            let local = checks.local(own)?;
            checks.in_range(peer)?;
            checks.on_device(local, &array.operand().device())?;
            Ok(local)
        };
        let local = checked().map_err(|usage_error: UsageError| usage_error.at(location))?;
        self.messages.push(Message {
            kind,
            element,
            location,
            local,
            operand: Box::new(Held(array, PhantomData)),
        });
        Ok(())
    }

    /// Enqueues the messages, as operations in the order of the calls.
    ///
    /// # Errors
    ///
    /// If those between two local ranks do not match.
    pub(super) fn submit(&self, location: &'static Location<'static>) -> Result<()> {
        let locals = &self.collectives.locals;
        for from in locals.iter() {
            for to in locals.iter() {
                let checked = self.check_pair(from.rank, to.rank);
                checked.map_err(|usage_error| usage_error.at(location))?;
            }
        }
        let operations = self.messages.iter().map(Message::operation);
        self.collectives.submit(operations.collect())
    }

    /// Checks that the sends from one local rank to another match the receives there.
    fn check_pair(&self, from: usize, to: usize) -> Result<(), UsageError> {
        let of = |own: usize, kind: CollectiveKind| {
            let local = &self.collectives.locals;
            self.messages
                .iter()
                .filter(move |message| local[message.local].rank == own && message.kind == kind)
        };
        let sends = || of(from, CollectiveKind::Send { to });
        let receives = || of(to, CollectiveKind::Recv { from });
        let refuse = |problem| Err(UsageError::new("group", problem));
        let (sent, received) = (sends().count(), receives().count());
        if sent != received {
            return refuse(UsageErrorKind::UnmatchedMessage {
                from,
                to,
                sent,
                received,
            });
        }
        for (index, (send, receive)) in sends().zip(receives()).enumerate() {
            let (sent_len, received_len) = (send.len(), receive.len());
            if sent_len != received_len || send.element != receive.element {
                return refuse(UsageErrorKind::Message {
                    from,
                    to,
                    index,
                    sent_len,
                    sent_type: send.element.name(),
                    received_len,
                    received_type: receive.element.name(),
                });
            }
        }
        Ok(())
    }
}

impl Message<'_> {
    /// Returns the number of elements.
    fn len(&self) -> usize {
        self.operand.span().bytes() / self.element.size()
    }

    fn operation(&self) -> CollectiveOp<'_> {
        let span = Some(self.operand.span());
        let (source, target) = match self.kind {
            CollectiveKind::Send { .. } => (span, None),
            _ => (None, span),
        };
        CollectiveOp {
            kind: self.kind,
            element: self.element,
            reduce: None,
            location: self.location,
            ranges: Vec::new(),
            parts: vec![Part {
                local: self.local,
                source,
                target,
            }],
        }
    }
}
