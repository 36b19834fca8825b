//! Frames: a little-endian length, followed by that many bytes of postcard. Lengths are capped, so that an
//! unauthenticated peer cannot make this process allocate.

use std::io::{self, Read, Write};
use std::thread;

use serde::{de::DeserializeOwned, Serialize};

use crate::net::stream::{is_want_of_memory, PAUSE};

/// Longest frame between authenticated peers, in bytes.
pub const MAX_FRAME: usize = 64 << 20;

/// Longest opening frame in bytes. It is read before the token is checked.
pub const MAX_HELLO: usize = 4 << 10;

/// Size of a frame's length field in bytes.
const LENGTH: usize = size_of::<u32>();

/// Failure to send or receive a frame.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed or was closed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer announced a frame above the cap.
    #[error("a message of {0} bytes was announced; at most {1} are allowed")]
    TooLong(usize, usize),
    /// The bytes do not decode as a message.
    #[error(
        "a message could not be understood ({0}); do both sides run the same version of Stasis?"
    )]
    Malformed(postcard::Error),
}

impl Error {
    /// Whether the connection is open but no data came in time.
    pub fn is_timeout(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Error::Io(e) if matches!(e.kind(), TimedOut | WouldBlock))
    }
}

/// Encodes a message as a frame.
///
/// # Errors
/// As for [`encode_within`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Error> {
    encode_within(message, MAX_FRAME)
}

/// Encodes a message as a frame of at most `cap` bytes.
///
/// # Errors
/// [`Error::TooLong`] beyond `cap`, [`Error::Malformed`] if postcard cannot encode it.
pub fn encode_within<T: Serialize>(message: &T, cap: usize) -> Result<Vec<u8>, Error> {
    let mut frame = postcard::to_extend(message, vec![0; 4]).map_err(Error::Malformed)?;
    let length = frame.len() - 4;
    if length > cap {
        return Err(Error::TooLong(length, cap));
    }
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Writes one message.
///
/// # Errors
/// Those of [`encode`], and of the write.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), Error> {
    Ok(to.write_all(&encode(message)?)?)
}

/// Reads one message of at most `cap` bytes.
///
/// # Errors
/// [`Error::TooLong`] beyond `cap`, [`Error::Malformed`] if the bytes are no such message, and those of the read.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read, cap: usize) -> Result<T, Error> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > cap {
        return Err(Error::TooLong(length, cap));
    }
    let mut bytes = Vec::new();
    reserve(&mut bytes, length)?;
    bytes.resize(length, 0);
    from.read_exact(&mut bytes)?;
    decode(&bytes)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(Error::Malformed(postcard::Error::DeserializeBadEncoding)),
        Err(e) => Err(Error::Malformed(e)),
    }
}

fn reserve(bytes: &mut Vec<u8>, more: usize) -> io::Result<()> {
    let reserved = bytes.try_reserve_exact(more);
    reserved.map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// A frame that arrives in parts. Memory is allocated for received bytes, not for the announced length.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Reads from `read` up to the end of the frame and no further: later bytes may belong to another
    /// reader. Returns the message when the frame is complete. `cap`: longest message in bytes.
    ///
    /// # Errors
    /// As for [`receive`]. A read that would have to wait is no error: the result is `None`, and the next call goes
    /// on.
    pub fn fill<T: DeserializeOwned>(
        &mut self,
        cap: usize,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> Result<Option<T>, Error> {
        const STEP: usize = 256 << 10;
        loop {
            let have = self.bytes.len();
            let missing = match self.bytes.split_first_chunk() {
                None => LENGTH - have,
                Some((length, _)) => match u32::from_le_bytes(*length) as usize {
                    length if length > cap => return Err(Error::TooLong(length, cap)),
                    length => LENGTH + length - have,
                },
            };
            if missing == 0 {
                let message = decode(&self.bytes[LENGTH..]);
                self.bytes = Vec::new();
                return message.map(Some);
            }
            let step = missing.min(STEP);
            reserve(&mut self.bytes, step)?;
            self.bytes.resize(have + step, 0);
            let read = read(&mut self.bytes[have..]);
            self.bytes.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if is_want_of_memory(&e) => {
                    thread::sleep(PAUSE);
                    return Ok(None);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::{FromRank, Outcome, ToRank};
    use crate::protocol::rank_set::RankSet;

    #[test]
    fn a_sent_message_is_received() {
        let message = ToRank::Resume {
            epoch: 7,
            outcome: Outcome::Abandoned {
                reason: "disk full".into(),
                late: RankSet::one(3),
            },
        };
        let mut bytes = Vec::new();
        send(&mut bytes, &message).unwrap();
        assert_eq!(
            receive::<ToRank>(&mut &bytes[..], MAX_FRAME).unwrap(),
            message
        );
    }

    #[test]
    fn a_frame_in_parts_is_read_to_its_end_and_no_further() {
        let mut bytes = encode(&FromRank::Asks { stop: true }).unwrap();
        let frame = bytes.len();
        bytes.extend(b"an image");
        let (mut inbox, mut at, mut there) = (Inbox::default(), 0, 1);
        let mut told = None;
        while told.is_none() {
            told = inbox
                .fill::<FromRank>(MAX_FRAME, |into| {
                    let give = into.len().min(there - at);
                    into[..give].copy_from_slice(&bytes[at..at + give]);
                    at += give;
                    match give {
                        0 => Err(io::ErrorKind::WouldBlock.into()),
                        give => Ok(give),
                    }
                })
                .unwrap();
            there = bytes.len().min(there + 1);
        }
        assert_eq!(told, Some(FromRank::Asks { stop: true }));
        assert_eq!(at, frame);
        let long = (MAX_HELLO as u32 + 1).to_le_bytes();
        let mut give = &long[..];
        let refused = inbox.fill::<FromRank>(MAX_HELLO, |into| give.read(into));
        assert!(matches!(refused, Err(Error::TooLong(..))));
    }

    #[test]
    fn announced_length_is_capped_before_allocating() {
        let bytes = u32::MAX.to_le_bytes();
        let got = receive::<FromRank>(&mut &bytes[..], MAX_HELLO);
        assert!(matches!(got, Err(Error::TooLong(_, MAX_HELLO))));
    }

    #[test]
    fn arbitrary_bytes_do_not_make_the_reader_panic() {
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut body: Vec<u8> = Vec::new();
            for _ in 0..(seed % 24) {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                body.push((seed >> 33) as u8);
            }
            seed = seed.wrapping_add(1);
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend(body);
            let _ = receive::<FromRank>(&mut &bytes[..], MAX_HELLO);
            let _ = receive::<crate::protocol::messages::Hello>(&mut &bytes[..], MAX_HELLO);
        }
    }

    #[test]
    fn trailing_bytes_are_an_error() {
        let mut bytes = encode(&FromRank::Finished).unwrap();
        bytes[0] += 1;
        bytes.push(0);
        assert!(matches!(
            receive::<FromRank>(&mut &bytes[..], MAX_FRAME),
            Err(Error::Malformed(_))
        ));
    }
}
