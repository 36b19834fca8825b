//! The clocks of a rank's run: the values that its program read, in their order. They are a stream of their own, in a
//! file with the header of a record.
//!
//! An event is one byte for the clock, and the difference to the clock's value before, in the clock's unit, as a number
//! of variable length. Nothing here allocates or calls the C library: values are written and read in the handler of
//! trapped system calls.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::event::Rest;

/// Bytes that are written for an event. Only some of them count.
pub const MOST_BYTES: usize = 16;

/// Clocks that `clock_gettime` knows by a number.
const IDS: u8 = 16;
const CLOCKS: usize = IDS as usize + 2;

/// The file of a rank.
pub fn path(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank-{rank}.clocks"))
}

/// A clock that a program reads, with the function by which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(u8);

impl Clock {
    /// The clock of `gettimeofday`.
    pub const GETTIMEOFDAY: Clock = Clock(IDS);
    /// The clock of `time`.
    pub const TIME: Clock = Clock(IDS + 1);

    /// The clock of `clock_gettime` with this number. `None` for the processor time of another process or thread.
    pub fn with_id(id: i32) -> Option<Clock> {
        u8::try_from(id).ok().filter(|id| *id < IDS).map(Clock)
    }

    /// Its number for `clock_gettime`; `None` if another function reads it.
    pub fn id(self) -> Option<i32> {
        (self.0 < IDS).then_some(i32::from(self.0))
    }

    /// Nanoseconds of its unit.
    pub fn unit(self) -> i64 {
        match self {
            Clock::GETTIMEOFDAY => 1000,
            Clock::TIME => 1_000_000_000,
            _ => 1,
        }
    }

    /// All clocks.
    pub fn all() -> impl Iterator<Item = Clock> {
        (0..CLOCKS as u8).map(Clock)
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 12] = [
            "CLOCK_REALTIME",
            "CLOCK_MONOTONIC",
            "CLOCK_PROCESS_CPUTIME_ID",
            "CLOCK_THREAD_CPUTIME_ID",
            "CLOCK_MONOTONIC_RAW",
            "CLOCK_REALTIME_COARSE",
            "CLOCK_MONOTONIC_COARSE",
            "CLOCK_BOOTTIME",
            "CLOCK_REALTIME_ALARM",
            "CLOCK_BOOTTIME_ALARM",
            "CLOCK_SGI_CYCLE",
            "CLOCK_TAI",
        ];
        match (*self, NAMES.get(usize::from(self.0))) {
            (Clock::GETTIMEOFDAY, _) => f.write_str("gettimeofday"),
            (Clock::TIME, _) => f.write_str("time"),
            (_, Some(name)) => f.write_str(name),
            (Clock(id), None) => write!(f, "clock {id}"),
        }
    }
}

/// The last value of each clock, from which the next one is told.
#[derive(Clone, Debug)]
pub struct Values {
    last: [i64; CLOCKS],
    /// A bit for each clock that was read.
    read: u32,
}

impl Values {
    /// No clock was read.
    pub const NONE: Values = Values {
        last: [0; CLOCKS],
        read: 0,
    };

    /// The last value of a clock.
    pub fn last(&self, clock: Clock) -> Option<i64> {
        (self.read >> clock.0 & 1 != 0).then(|| self.last[usize::from(clock.0)])
    }

    /// The event of a read, and how many of the bytes count.
    pub fn encode(&self, clock: Clock, value: i64) -> ([u8; MOST_BYTES], usize) {
        let difference = value.wrapping_sub(self.last[usize::from(clock.0)]);
        let mut rest = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        let mut bytes = [0; MOST_BYTES];
        bytes[0] = clock.0;
        let mut length = 1;
        while rest >= 0x80 {
            bytes[length] = rest as u8 | 0x80;
            rest >>= 7;
            length += 1;
        }
        bytes[length] = rest as u8;
        (bytes, length + 1)
    }

    /// The read at the beginning of `bytes`: its clock, its value, and the bytes of the event. `None` if there is no
    /// whole one.
    pub fn decode(&self, bytes: &[u8]) -> Option<(Clock, i64, usize)> {
        let mut rest = Rest::of(bytes);
        let clock = Clock(rest.byte()?);
        let last = self.last.get(usize::from(clock.0))?;
        let value = last.wrapping_add(rest.signed()?);
        Some((clock, value, bytes.len() - rest.length()))
    }

    /// A clock was read.
    pub fn note(&mut self, clock: Clock, value: i64) {
        self.last[usize::from(clock.0)] = value;
        self.read |= 1 << clock.0;
    }
}

/// Decodes reads one after the other. It ends at the first that is damaged or not whole.
pub struct Reads<'a> {
    bytes: &'a [u8],
    /// Offset of the next event.
    pub at: usize,
    /// The values up to there.
    pub values: Values,
}

impl<'a> Reads<'a> {
    /// Reads from the beginning.
    pub fn of(bytes: &'a [u8]) -> Self {
        Reads {
            bytes,
            at: 0,
            values: Values::NONE,
        }
    }

    /// Reads on to the first event at an offset or behind it. Returns the number of events before it.
    pub fn skip_to(&mut self, at: u64) -> u64 {
        let mut number = 0;
        while (self.at as u64) < at && self.next().is_some() {
            number += 1;
        }
        number
    }

    /// Reads on from an offset, up to which these are the values.
    pub fn from(self, at: usize, values: Values) -> Self {
        Reads { at, values, ..self }
    }
}

impl Iterator for Reads<'_> {
    type Item = (Clock, i64);

    fn next(&mut self) -> Option<(Clock, i64)> {
        let (clock, value, length) = self.values.decode(self.bytes.get(self.at..)?)?;
        self.at += length;
        self.values.note(clock, value);
        Some((clock, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reads() -> impl Strategy<Value = Vec<(Clock, i64)>> {
        let clock = (0..CLOCKS as u8).prop_map(Clock);
        let near = (0..1_000_000_000_i64).prop_map(|past| 1_800_000_000_000_000_000 + past);
        prop::collection::vec((clock, prop_oneof![near, any::<i64>()]), 0..40)
    }

    fn encoded(reads: &[(Clock, i64)]) -> Vec<u8> {
        let mut values = Values::NONE;
        let mut bytes = Vec::new();
        for (clock, value) in reads {
            let (event, length) = values.encode(*clock, *value);
            bytes.extend(&event[..length]);
            values.note(*clock, *value);
        }
        bytes
    }

    proptest! {
        #[test]
        fn every_value_is_read_as_it_was_written(reads in reads()) {
            let bytes = encoded(&reads);
            let mut read = Reads::of(&bytes);
            let found: Vec<_> = read.by_ref().collect();
            prop_assert_eq!(&found, &reads);
            prop_assert_eq!(read.at, bytes.len());
            for clock in Clock::all() {
                let last = reads.iter().rfind(|(one, _)| *one == clock).map(|(_, value)| *value);
                prop_assert_eq!(read.values.last(clock), last);
            }
        }

        #[test]
        fn a_file_that_is_cut_is_read_as_far_as_it_goes(reads in reads(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&reads);
            let mut read = Reads::of(&bytes[..cut.index(bytes.len() + 1)]);
            let found: Vec<_> = read.by_ref().collect();
            prop_assert!(reads.starts_with(&found));
            let next = reads.get(found.len()).map_or(0, |(clock, value)| read.values.encode(*clock, *value).1);
            prop_assert!(read.bytes.len() - read.at < next.max(1));
        }

        #[test]
        fn any_bytes_are_read_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut reads = Reads::of(&bytes);
            while reads.next().is_some() {}
            prop_assert!(reads.at <= bytes.len());
        }
    }

    #[test]
    fn a_read_soon_after_another_takes_few_bytes() {
        let clock = Clock::with_id(1).unwrap();
        let mut values = Values::NONE;
        values.note(clock, 1_800_000_000_000_000_000);
        let length = |after: i64| values.encode(clock, 1_800_000_000_000_000_000 + after).1;
        assert_eq!((length(50), length(5_000), length(1_000_000)), (2, 3, 4));
        assert_eq!(length(1_000_000_000), 6);
    }

    #[test]
    fn clocks_have_names_and_units() {
        let all: Vec<String> = Clock::all().map(|clock| clock.to_string()).collect();
        assert_eq!((&*all[1], &*all[15]), ("CLOCK_MONOTONIC", "clock 15"));
        assert_eq!((&*all[16], &*all[17]), ("gettimeofday", "time"));
        assert_eq!(Clock::with_id(-6), None);
        assert_eq!(Clock::TIME.id(), None);
        assert_eq!(Clock::GETTIMEOFDAY.unit(), 1000);
    }
}
