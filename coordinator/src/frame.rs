//! Frames: a little-endian length and that many bytes of postcard. Lengths are capped, so that a
//! stranger on the port cannot make us allocate.

use std::io::{self, Read, Write};

use serde::{de::DeserializeOwned, Serialize};

/// Largest frame between peers that know each other.
pub const MAX_FRAME: usize = 64 << 20;

/// Largest opening frame, read before the token is checked.
pub const MAX_FIRST: usize = 4 << 10;

/// Why a frame could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed or was closed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer announced more than it may.
    #[error("a message of {0} bytes was announced; at most {1} are allowed")]
    TooLong(usize, usize),
    /// The bytes are no message of ours.
    #[error(
        "a message could not be understood ({0}); do both sides run the same version of Stasis?"
    )]
    Malformed(postcard::Error),
}

impl Error {
    /// The other side keeps the connection and says nothing.
    pub fn is_timeout(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Error::Io(e) if matches!(e.kind(), TimedOut | WouldBlock))
    }
}

/// The frame for a message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Error> {
    encode_within(message, MAX_FRAME)
}

/// The frame for a message, which may have `cap` bytes.
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
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), Error> {
    Ok(to.write_all(&encode(message)?)?)
}

/// Reads one message of at most `cap` bytes.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read, cap: usize) -> Result<T, Error> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > cap {
        return Err(Error::TooLong(length, cap));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(Error::Malformed(postcard::Error::DeserializeBadEncoding)),
        Err(e) => Err(Error::Malformed(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{FromRank, Outcome, ToRank};

    #[test]
    fn what_is_sent_is_received() {
        let message = ToRank::Resume {
            epoch: 7,
            outcome: Outcome::Abandoned {
                reason: "disk full".into(),
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
    fn announced_length_is_capped_before_allocating() {
        let bytes = u32::MAX.to_le_bytes();
        let got = receive::<FromRank>(&mut &bytes[..], MAX_FIRST);
        assert!(matches!(got, Err(Error::TooLong(_, MAX_FIRST))));
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
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
            let _ = receive::<FromRank>(&mut &bytes[..], MAX_FIRST);
            let _ = receive::<crate::protocol::First>(&mut &bytes[..], MAX_FIRST);
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
