//! Compression where it pays. Floating-point memory does not compress (6 % for two thirds of the
//! speed), program text, tables and sparse arrays do; so a sample of each chunk is tried first.

use std::io;

use zstd::zstd_safe::{self, CCtx, CParameter};

use crate::chunk::CHUNK_BYTES;
use crate::header::PAGE;

/// Finds repetition and leaves entropy alone: what it does not shrink at about the speed of a
/// memory file system would only make the pause longer.
const LEVEL: i32 = -1;
/// For those who would rather wait than write.
const LEVEL_ALWAYS: i32 = 1;
/// A chunk's sample: this many pieces, evenly spread.
const PIECES: usize = 2;
const PIECE: usize = 2048;
/// Store compressed only what shrinks at least to this share (in percent).
const WORTH: usize = 65;
/// After refusals in a row, most chunks are not even sampled: at most this many are skipped.
const MAX_SKIP: u32 = 31;

/// Whether memory chunks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Never.
    Off,
    /// Where a sample says that it pays.
    #[default]
    Probe,
    /// Every chunk that gets a page shorter: for disks that are slower than the compression.
    Always,
}

pub(crate) struct Compressor {
    zstd: CCtx<'static>,
    mode: Compression,
    refused: u32,
    skip: u32,
}

impl Compressor {
    pub fn new(mode: Compression) -> io::Result<Compressor> {
        let level = match mode {
            Compression::Always => LEVEL_ALWAYS,
            Compression::Off | Compression::Probe => LEVEL,
        };
        // Where memory cannot be had others panic.
        let mut zstd = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let set = zstd.set_parameter(CParameter::CompressionLevel(level));
        set.map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
        Ok(Compressor {
            zstd,
            mode,
            refused: 0,
            skip: 0,
        })
    }

    /// Forgets refusals: another region holds another kind of data.
    pub fn start_region(&mut self) {
        self.refused = 0;
        self.skip = 0;
    }

    /// How many of the next chunks are refused whatever is in them.
    pub fn refuses(&self) -> u32 {
        match self.mode {
            Compression::Off => u32::MAX,
            Compression::Probe => self.skip,
            Compression::Always => 0,
        }
    }

    /// One of them was.
    pub fn refuse(&mut self) {
        self.skip = self.skip.saturating_sub(1);
    }

    /// Whether the next chunk, of so many bytes, is refused by its sample alone, which is handed to `read` piece by
    /// piece with its place in the chunk.
    pub fn refuses_sample<E>(
        &mut self,
        len: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.mode != Compression::Probe || len <= 2 * PIECES * PIECE {
            return Ok(false);
        }
        let mut sample = [0u8; PIECES * PIECE];
        for (piece, from) in pieces(&mut sample, len) {
            read(from, piece)?;
        }
        let refused = !self.promises(&sample, &mut Vec::new());
        if refused {
            self.refused();
            // The chunk itself is among those that are refused now.
            self.skip += 1;
        }
        Ok(refused)
    }

    /// Appends the compressed `chunk` to `out` and returns its length, if it is worth it.
    pub fn try_compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if self.refuses() > 0 {
            self.refuse();
            return None;
        }
        if self.mode == Compression::Always {
            let most = chunk.len().saturating_sub(PAGE as usize);
            return self.compress_to(most, chunk, out);
        }
        match self.probe(chunk, out) {
            Some(len) => {
                self.refused = 0;
                Some(len)
            }
            None => {
                self.refused();
                None
            }
        }
    }

    /// The more refusals there were, the more chunks are skipped.
    fn refused(&mut self) {
        self.refused = (self.refused + 1).min(MAX_SKIP);
        self.skip = self.refused;
    }

    fn probe(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if chunk.len() > 2 * PIECES * PIECE {
            let mut sample = [0u8; PIECES * PIECE];
            for (piece, from) in pieces(&mut sample, chunk.len()) {
                piece.copy_from_slice(&chunk[from..from + PIECE]);
            }
            if !self.promises(&sample, out) {
                return None;
            }
        }
        self.compress_to(chunk.len() * WORTH / 100, chunk, out)
    }

    /// Whether a chunk with this sample is worth a try. `out` is as it was afterwards.
    fn promises(&mut self, sample: &[u8], out: &mut Vec<u8>) -> bool {
        let at = out.len();
        let len = self.append(sample, out);
        out.truncate(at);
        len.is_some_and(|len| len * 100 <= sample.len() * WORTH)
    }

    /// Compresses to `most` bytes, or leaves `out` as it is.
    fn compress_to(&mut self, most: usize, chunk: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let at = out.len();
        let len = self.append(chunk, out).filter(|len| *len <= most);
        if len.is_none() {
            out.truncate(at);
        }
        len
    }

    fn append(&mut self, from: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        debug_assert!(from.len() <= CHUNK_BYTES);
        let at = out.len();
        // No room for more than the input: what does not fit does not pay.
        out.resize(at + from.len(), 0);
        let len = self.zstd.compress2(&mut out[at..], from).ok();
        out.truncate(at + len.unwrap_or(0));
        len
    }
}

/// The pieces of a sample, and where they lie in a chunk of so many bytes.
fn pieces(sample: &mut [u8], len: usize) -> impl Iterator<Item = (&mut [u8], usize)> {
    let step = len / PIECES;
    sample.chunks_exact_mut(PIECE).zip((0..).step_by(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_stays_raw_and_tables_shrink() {
        let mut c = Compressor::new(Compression::Probe).unwrap();
        let mut out = Vec::new();
        let mut noise = 1u64;
        let floats: Vec<u8> = (0..CHUNK_BYTES / 8)
            .flat_map(|i| {
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
                ((i as f64 * 1e-3).sin() + (noise >> 40) as f64 * 1e-12).to_le_bytes()
            })
            .collect();
        assert_eq!(c.try_compress(&floats, &mut out), None);
        assert!(out.is_empty());
        let table: Vec<u8> = (0..CHUNK_BYTES as u32 / 4)
            .flat_map(|i| (i % 100).to_le_bytes())
            .collect();
        // The refusal costs one chunk's probe, then it looks again.
        let len = (0..3)
            .find_map(|_| c.try_compress(&table, &mut out))
            .unwrap();
        assert_eq!(len, out.len());
        assert!(len < CHUNK_BYTES / 4);
        assert_eq!(zstd::bulk::decompress(&out, CHUNK_BYTES).unwrap(), table);
    }

    #[test]
    fn a_sample_is_enough_to_refuse() {
        let mut noise = 1u64;
        let random: Vec<u8> = (0..CHUNK_BYTES)
            .map(|_| {
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
                (noise >> 56) as u8
            })
            .collect();
        let zeros = vec![0; CHUNK_BYTES];
        let refuses = |c: &mut Compressor, chunk: &[u8]| {
            let read = |from: usize, piece: &mut [u8]| {
                piece.copy_from_slice(&chunk[from..from + piece.len()]);
                Ok::<_, ()>(())
            };
            c.refuses_sample(chunk.len(), read).unwrap()
        };
        let mut c = Compressor::new(Compression::Probe).unwrap();
        assert!(!refuses(&mut c, &zeros));
        assert_eq!(c.refuses(), 0);
        // Its own chunk and, as after a whole one, another.
        assert!(refuses(&mut c, &random));
        assert_eq!(c.refuses(), 2);
        // What is short is compressed as quickly as a sample.
        assert!(!refuses(&mut c, &random[..2 * PIECES * PIECE]));
        let mut always = Compressor::new(Compression::Always).unwrap();
        assert!(!refuses(&mut always, &random));
        assert!(c.refuses_sample(CHUNK_BYTES, |_, _| Err(())).is_err());
    }

    #[test]
    fn always_takes_what_saves_a_page_and_off_nothing() {
        // A tenth is zero: not worth the time, but some pages.
        let mut noise = 1u64;
        let mut chunk: Vec<u8> = (0..CHUNK_BYTES)
            .map(|_| {
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
                (noise >> 56) as u8
            })
            .collect();
        chunk[..CHUNK_BYTES / 10].fill(0);
        let stored = |mode| {
            let mut out = Vec::new();
            Compressor::new(mode)
                .unwrap()
                .try_compress(&chunk, &mut out)
        };
        assert_eq!(stored(Compression::Off), None);
        assert_eq!(stored(Compression::Probe), None);
        assert!(stored(Compression::Always).unwrap() < CHUNK_BYTES * 95 / 100);
    }
}
