//! The bytes of greetings and messages.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use crate::world::rendezvous::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

pub(super) const VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"\x89MSWORLD";

const GREETING_BYTES: usize = 24;

/// The first bytes of a rank, and rank 0's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Greeting {
    pub(super) version: u32,
    pub(super) size: u32,
    /// The rank in a greeting, a [`Verdict`] in an answer.
    pub(super) word: u64,
}

/// Rank 0's answer to a greeting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Admitted = 0,
    OtherVersion = 1,
    OtherSize = 2,
    RankTaken = 3,
    /// To be answered with a random number and the proof that the rank knows the secret.
    Challenge = 4,
    OtherSecret = 5,
}

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verb {
    /// Request: set a key. Answer: it is set.
    Set = 1,
    /// Request: send the value of a key once it is set. Answer: the value.
    Get = 2,
    /// Request: the ranks that are not connected. Answer: their numbers in the value.
    Missing = 3,
    /// To a rank: all ranks are connected.
    Complete = 4,
    /// The rank waits no longer for the answer with this number.
    Cancel = 5,
    /// Answer: the request is refused, for the reason in the value.
    Refused = 6,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) verb: Verb,
    /// The number that pairs a request with its answer.
    pub(super) id: u64,
    pub(super) key: String,
    pub(super) value: Arc<[u8]>,
}

pub(super) struct Frame {
    pub(super) head: Vec<u8>,
    pub(super) value: Arc<[u8]>,
}

impl Frame {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.head)?;
        to.write_all(&self.value)
    }
}

impl From<Message> for Frame {
    fn from(message: Message) -> Self {
        let Message {
            verb,
            id,
            key,
            value,
        } = message;
        let mut head = Vec::with_capacity(21 + key.len());
        head.push(verb as u8);
        head.extend(id.to_le_bytes());
        head.extend((key.len() as u32).to_le_bytes());
        head.extend((value.len() as u64).to_le_bytes());
        head.extend(key.as_bytes());
        Self { head, value }
    }
}

impl Greeting {
    pub(super) fn new(size: usize, word: u64) -> Self {
        Self {
            version: VERSION,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            word,
        }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GREETING_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.word.to_le_bytes());
        bytes
    }

    /// Reads a greeting; `InvalidData` if the bytes are none.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        // A stranger may send fewer bytes than a greeting has, and then wait.
        if take::<8>(from)? != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            version: u32::from_le_bytes(take(from)?),
            size: u32::from_le_bytes(take(from)?),
            word: u64::from_le_bytes(take(from)?),
        })
    }
}

impl Message {
    /// Creates a message without key and value.
    pub(super) fn new(verb: Verb, id: u64) -> Self {
        Self {
            verb,
            id,
            key: String::new(),
            value: Arc::default(),
        }
    }

    /// Creates the answer to a request that is refused.
    pub(super) fn refused(id: u64, reason: &str) -> Self {
        let value = reason.as_bytes().into();
        Self {
            value,
            ..Self::new(Verb::Refused, id)
        }
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let verb = match take::<1>(from)? {
            [1] => Verb::Set,
            [2] => Verb::Get,
            [3] => Verb::Missing,
            [4] => Verb::Complete,
            [5] => Verb::Cancel,
            [6] => Verb::Refused,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let id = u64::from_le_bytes(take(from)?);
        let key_length = u32::from_le_bytes(take(from)?) as usize;
        let value_length = u64::from_le_bytes(take(from)?);
        if key_length > KEY_BYTES_MAX || value_length > VALUE_BYTES_MAX as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut key = vec![0; key_length];
        from.read_exact(&mut key)?;
        // Grows with what arrives, so that a length alone takes no memory.
        let mut value = Vec::new();
        from.take(value_length).read_to_end(&mut value)?;
        if value.len() as u64 != value_length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self {
            verb,
            id,
            key: String::from_utf8(key).map_err(|_| io::ErrorKind::InvalidData)?,
            value: value.into(),
        })
    }
}

pub(super) fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_and_messages_survive_the_way_over_the_wire() {
        let greeting = Greeting::new(4, 3);
        let wire = greeting.to_bytes();
        assert_eq!(wire.len(), GREETING_BYTES);
        assert_eq!(
            Greeting::read(&mut &wire[..]).expect("it is whole"),
            greeting
        );
        let message = Message {
            verb: Verb::Set,
            id: 1 << 40,
            key: "a/b".to_owned(),
            value: [1, 2].into(),
        };
        let mut wire = Vec::new();
        Frame::from(message.clone())
            .write(&mut wire)
            .expect("a vector accepts all bytes");
        assert_eq!(Message::read(&mut &wire[..]).expect("it is whole"), message);
        assert!(Message::read(&mut &wire[..wire.len() - 1]).is_err());
        // A length of the key that no message has.
        wire[12] = 0xff;
        let error = Message::read(&mut &wire[..]).expect_err("the key is too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let error = Greeting::read(&mut &text[..]).expect_err("no greeting");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
