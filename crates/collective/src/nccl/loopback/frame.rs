//! Frames: the messages between the ranks and the hub, over TCP.

use std::io::{self, Read, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// From a rank: its number (`peer`), the world size (`sequence`), and the identifier.
    Hello = 0,
    /// To a rank: all ranks are connected.
    Ready = 1,
    /// Elements for rank `peer`, or from it.
    Data = 2,
    /// The rank will send nothing more.
    Goodbye = 3,
    /// To a rank: the connection to rank `peer` is lost.
    Gone = 4,
    /// To a rank: it is not admitted, for the reason in the payload.
    Refused = 5,
}

/// The `peer` of a frame to all other ranks.
pub(super) const ALL: u32 = u32::MAX;

/// The largest payload that is read: a limit for the memory that a wrong length allocates.
const PAYLOAD_BYTES_MAX: u64 = 1 << 36;

const HEADER_BYTES: usize = 25;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// The number of the operation's kind: frames of different operations never match.
    pub(super) tag: u32,
    /// The destination on the way to the hub, the source on the way from it.
    pub(super) peer: u32,
    /// The position of the operation among those of its kind between these ranks.
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Creates a frame without a payload.
    pub(super) fn signal(kind: FrameKind, peer: u32) -> Self {
        Self {
            kind,
            tag: 0,
            peer,
            sequence: 0,
            payload: Vec::new(),
        }
    }

    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.push(self.kind as u8);
        header.extend(self.tag.to_le_bytes());
        header.extend(self.peer.to_le_bytes());
        header.extend(self.sequence.to_le_bytes());
        header.extend((self.payload.len() as u64).to_le_bytes());
        to.write_all(&header)?;
        to.write_all(&self.payload)
    }

    /// Reads a frame with a payload of at most `limit` bytes.
    pub(super) fn read_limited(from: &mut impl Read, limit: u64) -> io::Result<Self> {
        let kind = match take::<1>(from)? {
            [0] => FrameKind::Hello,
            [1] => FrameKind::Ready,
            [2] => FrameKind::Data,
            [3] => FrameKind::Goodbye,
            [4] => FrameKind::Gone,
            [5] => FrameKind::Refused,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let tag = u32::from_le_bytes(take(from)?);
        let peer = u32::from_le_bytes(take(from)?);
        let sequence = u64::from_le_bytes(take(from)?);
        let length = u64::from_le_bytes(take(from)?);
        if length > limit {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Ok(Self {
            kind,
            tag,
            peer,
            sequence,
            payload,
        })
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        Self::read_limited(from, PAYLOAD_BYTES_MAX)
    }
}

fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_the_way_over_the_wire() {
        let frame = Frame {
            kind: FrameKind::Data,
            tag: 3,
            peer: ALL,
            sequence: 1 << 40,
            payload: vec![1, 2, 3],
        };
        let mut wire = Vec::new();
        frame.write(&mut wire).expect("a vector accepts all bytes");
        assert_eq!(wire.len(), HEADER_BYTES + 3);
        assert_eq!(Frame::read(&mut &wire[..]).expect("it is complete"), frame);
        assert!(Frame::read(&mut &wire[..10]).is_err());
        assert!(Frame::read_limited(&mut &wire[..], 2).is_err());
        wire[0] = 77;
        assert!(Frame::read(&mut &wire[..]).is_err());
    }
}
