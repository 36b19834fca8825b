//! Events of a record, and their encoding: one byte for the kind, then numbers of variable length. No event has more
//! than [`MOST_BYTES`] bytes.
//!
//! *Ordered* events are asked for at replay in the order in which they were written, each by the thread that wrote it.
//! *Keyed* events belong to a posted receive, which is known by its number, and may be asked for before their turn.

use contract::record::Call;

/// Most bytes of an event.
pub const MOST_BYTES: usize = 64;

/// Kinds of events: the first byte. A first byte of [`CALL`] and more is a call from the table of calls.
mod kind {
    pub const MISSES: u8 = 1;
    pub const FOUND: u8 = 2;
    pub const INDEX: u8 = 3;
    pub const SOME: u8 = 4;
    pub const BOUND: u8 = 5;
    pub const CANCELLED: u8 = 6;
    pub const DIGEST: u8 = 7;
    pub const MARK: u8 = 8;
    pub const ANEW: u8 = 9;
    pub const NEW_CALL: u8 = 10;
    pub const THREAD: u8 = 11;
    pub const MESSAGE: u8 = 12;
}
const CALL: u8 = 0x80;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call that is in the table of calls under this number. Ordered.
    Call(u16),
    /// A call that gets this number in the table. Ordered.
    NewCall(u16, Call),
    /// Tests and probes of a thread in a row that found nothing, by their number. Ordered. It has a fixed length,
    /// because its number grows in place, also when events of other threads follow.
    Misses(u32),
    /// A probe found a message of this source with this tag. Ordered.
    Found {
        /// Rank in the communicator.
        source: i32,
        /// Tag.
        tag: i32,
    },
    /// The operation with this index in the array is complete, or none (a negative index). Ordered.
    Index(i32),
    /// The number of indices that follow, or none is under way (a negative number). Ordered.
    Some(i32),
    /// A receive with wildcards got a message. Keyed.
    Bound {
        /// Number of the posted receive.
        posting: u64,
        /// Rank in the communicator.
        source: i32,
        /// Tag.
        tag: i32,
    },
    /// A receive was cancelled. Keyed.
    Cancelled {
        /// Number of the posted receive.
        posting: u64,
    },
    /// Digest of the data that the last call sends, or of a message that it completes. Ordered.
    Digest {
        /// Bytes of data.
        bytes: u64,
        /// CRC-32 of the data.
        crc: u32,
        /// Source and tag of the message, if it is one that was received.
        message: Option<(i32, i32)>,
    },
    /// The cut of a checkpoint: the number of its set.
    Mark(u64),
    /// The table of calls is empty from here on, and the ordered events that follow are of the initial thread.
    Anew,
    /// The ordered events that follow are of the thread with this number (`contract::ThreadBlock::number`).
    Thread(u32),
}

/// The bytes of [`Event::Call`]. They are made as one number, so that they are stored as one: a load of what two stores
/// wrote waits for both.
#[inline(always)]
pub fn again(number: u16) -> [u8; 2] {
    (u16::from(CALL) << 8 | number).to_be_bytes()
}

/// An encoded event.
pub struct Encoded {
    bytes: [u8; MOST_BYTES],
    length: usize,
}

impl Encoded {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn new() -> Encoded {
        Encoded {
            bytes: [0; MOST_BYTES],
            length: 0,
        }
    }

    fn byte(mut self, byte: u8) -> Encoded {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
        self
    }

    fn number(mut self, mut number: u64) -> Encoded {
        while number >= 0x80 {
            self = self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8)
    }

    fn signed(self, number: i64) -> Encoded {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned())
    }

    fn word(self, word: u32) -> Encoded {
        word.to_le_bytes().into_iter().fold(self, Encoded::byte)
    }
}

impl Event {
    /// Its bytes.
    pub fn encode(self) -> Encoded {
        let new = Encoded::new();
        match self {
            Event::Call(number) => again(number).into_iter().fold(new, Encoded::byte),
            Event::NewCall(number, call) => new
                .byte(kind::NEW_CALL)
                .number(number.into())
                .number(call.function.into())
                .number(call.comm)
                .signed(call.peer.into())
                .signed(call.tag.into())
                .signed(call.count),
            Event::Misses(number) => new.byte(kind::MISSES).word(number),
            Event::Found { source, tag } => new
                .byte(kind::FOUND)
                .signed(source.into())
                .signed(tag.into()),
            Event::Index(index) => new.byte(kind::INDEX).signed(index.into()),
            Event::Some(number) => new.byte(kind::SOME).signed(number.into()),
            Event::Bound {
                posting,
                source,
                tag,
            } => new
                .byte(kind::BOUND)
                .number(posting)
                .signed(source.into())
                .signed(tag.into()),
            Event::Cancelled { posting } => new.byte(kind::CANCELLED).number(posting),
            Event::Digest {
                bytes,
                crc,
                message,
            } => match message {
                None => new.byte(kind::DIGEST),
                Some((source, tag)) => new
                    .byte(kind::MESSAGE)
                    .signed(source.into())
                    .signed(tag.into()),
            }
            .number(bytes)
            .word(crc),
            Event::Mark(set) => new.byte(kind::MARK).number(set),
            Event::Anew => new.byte(kind::ANEW),
            Event::Thread(number) => new.byte(kind::THREAD).number(number.into()),
        }
    }

    /// The event at the beginning of `bytes`, and its length. `None` if there is no whole event of a known kind.
    pub fn decode(bytes: &[u8]) -> Option<(Event, usize)> {
        let mut rest = Rest::of(bytes);
        let event = match rest.byte()? {
            first if first >= CALL => {
                let number = u16::from(first & !CALL) << 8 | u16::from(rest.byte()?);
                Event::Call(number)
            }
            kind::NEW_CALL => {
                let number = rest.number()?.try_into().ok()?;
                let call = Call {
                    function: rest.number()?.try_into().ok()?,
                    comm: rest.number()?,
                    peer: rest.int()?,
                    tag: rest.int()?,
                    count: rest.signed()?,
                };
                Event::NewCall(number, call)
            }
            kind::MISSES => Event::Misses(rest.word()?),
            kind::FOUND => Event::Found {
                source: rest.int()?,
                tag: rest.int()?,
            },
            kind::INDEX => Event::Index(rest.int()?),
            kind::SOME => Event::Some(rest.int()?),
            kind::BOUND => Event::Bound {
                posting: rest.number()?,
                source: rest.int()?,
                tag: rest.int()?,
            },
            kind::CANCELLED => Event::Cancelled {
                posting: rest.number()?,
            },
            kind @ (kind::DIGEST | kind::MESSAGE) => {
                let message = match kind {
                    kind::MESSAGE => Some((rest.int()?, rest.int()?)),
                    _ => None,
                };
                Event::Digest {
                    bytes: rest.number()?,
                    crc: rest.word()?,
                    message,
                }
            }
            kind::MARK => Event::Mark(rest.number()?),
            kind::ANEW => Event::Anew,
            kind::THREAD => Event::Thread(rest.number()?.try_into().ok()?),
            _ => return None,
        };
        Some((event, bytes.len() - rest.length()))
    }
}

/// The rest that is to be decoded.
pub(crate) struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// All of `bytes`.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Rest(bytes)
    }

    /// Bytes that are left.
    pub(crate) fn length(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part.leading_zeros() < shift {
                return None;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    fn int(&mut self) -> Option<i32> {
        self.signed()?.try_into().ok()
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call() -> impl Strategy<Value = Call> {
        (
            any::<u16>(),
            any::<u64>(),
            any::<i32>(),
            any::<i32>(),
            any::<i64>(),
        )
            .prop_map(|(function, comm, peer, tag, count)| Call {
                function: function.into(),
                comm,
                peer,
                tag,
                count,
            })
    }

    fn event() -> impl Strategy<Value = Event> {
        let number = 0_u16..0x8000;
        prop_oneof![
            number.clone().prop_map(Event::Call),
            (number, call()).prop_map(|(number, call)| Event::NewCall(number, call)),
            any::<u32>().prop_map(Event::Misses),
            any::<(i32, i32)>().prop_map(|(source, tag)| Event::Found { source, tag }),
            any::<i32>().prop_map(Event::Index),
            any::<i32>().prop_map(Event::Some),
            any::<(u64, i32, i32)>().prop_map(|(posting, source, tag)| Event::Bound {
                posting,
                source,
                tag
            }),
            any::<u64>().prop_map(|posting| Event::Cancelled { posting }),
            any::<(u64, u32, Option<(i32, i32)>)>().prop_map(|(bytes, crc, message)| {
                Event::Digest {
                    bytes,
                    crc,
                    message,
                }
            }),
            any::<u64>().prop_map(Event::Mark),
            Just(Event::Anew),
            any::<u32>().prop_map(Event::Thread),
        ]
    }

    proptest! {
        #[test]
        fn every_event_is_read_as_it_was_written(event in event(), after in any::<[u8; 4]>()) {
            let encoded = event.encode();
            let mut bytes = encoded.bytes().to_vec();
            prop_assert!(bytes.len() < MOST_BYTES);
            let length = bytes.len();
            bytes.extend(after);
            prop_assert_eq!(Event::decode(&bytes), Some((event, length)));
        }

        #[test]
        fn a_part_of_an_event_is_none(event in event()) {
            let encoded = event.encode();
            for length in 0..encoded.bytes().len() {
                prop_assert_eq!(Event::decode(&encoded.bytes()[..length]), None);
            }
        }

        #[test]
        fn any_bytes_are_read_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some((_, length)) = Event::decode(&bytes) {
                prop_assert!(0 < length && length <= bytes.len());
            }
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let mut bytes = [0xff; 12];
        bytes[0] = 6;
        assert_eq!(Event::decode(&bytes), None);
        bytes[10] = 1;
        assert!(matches!(
            Event::decode(&bytes),
            Some((Event::Cancelled { posting: u64::MAX }, 11))
        ));
    }
}
