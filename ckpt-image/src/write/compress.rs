//! Compression where it saves time. Floating-point memory does not compress (6 % for two thirds of the
//! speed); program text, tables and sparse arrays do. So a sample of each chunk is tried first.

use std::io;

use job_spec::Compression;
use zstd::zstd_safe::{self, CCtx, CParameter};

use crate::format::chunk::CHUNK_BYTES;
use crate::format::header::PAGE;

/// Finds repetition and ignores entropy. A slower level than a memory file system would only make the pause
/// longer.
const LEVEL: i32 = -1;
/// Level for users who prefer a longer pause to more bytes.
const LEVEL_ALWAYS: i32 = 1;
/// Number of pieces in a chunk's sample, evenly spread.
const PIECES: usize = 2;
const PIECE: usize = 2048;
/// Largest compressed size that is stored compressed, in percent of the original.
const WORTH: usize = 65;
/// Largest number of chunks that are skipped without a sample, after consecutive refusals.
const MAX_SKIP: u32 = 31;

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
        // Other constructors panic if memory runs out.
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

    /// Clears the count of refusals: another region holds another kind of data.
    pub fn start_region(&mut self) {
        self.refused = 0;
        self.skip = 0;
    }

    /// Number of next chunks that are refused whatever their content.
    pub fn refuses(&self) -> u32 {
        match self.mode {
            Compression::Off => u32::MAX,
            Compression::Probe => self.skip,
            Compression::Always => 0,
        }
    }

    /// Counts one of these chunks.
    pub fn refuse(&mut self) {
        self.skip = self.skip.saturating_sub(1);
    }

    /// Whether the next chunk, of `len` bytes, is refused by its sample alone. `read` gets each piece of
    /// the sample to fill, with its offset in the chunk.
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

    /// Appends the compressed `chunk` to `out` and returns its length, if compression saves enough.
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

    /// Counts a refusal. More consecutive refusals skip more chunks.
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

    /// Whether the sample compresses well enough to try the chunk. `out` is unchanged afterwards.
    fn promises(&mut self, sample: &[u8], out: &mut Vec<u8>) -> bool {
        let at = out.len();
        let len = self.append(sample, out);
        out.truncate(at);
        len.is_some_and(|len| len * 100 <= sample.len() * WORTH)
    }

    /// Compresses to at most `most` bytes; otherwise leaves `out` unchanged.
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
        // The buffer is limited to the input's size: a larger result saves nothing.
        out.resize(at + from.len(), 0);
        let len = self.zstd.compress2(&mut out[at..], from).ok();
        out.truncate(at + len.unwrap_or(0));
        len
    }
}

/// The pieces of a sample, and their offsets in a chunk of `len` bytes.
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
        // The refusal costs one chunk's probe, then chunks are sampled again.
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
        // Its own chunk is refused and, as after a whole one, another.
        assert!(refuses(&mut c, &random));
        assert_eq!(c.refuses(), 2);
        // A short chunk is compressed as quickly as a sample.
        assert!(!refuses(&mut c, &random[..2 * PIECES * PIECE]));
        let mut always = Compressor::new(Compression::Always).unwrap();
        assert!(!refuses(&mut always, &random));
        assert!(c.refuses_sample(CHUNK_BYTES, |_, _| Err(())).is_err());
    }

    #[test]
    fn always_compresses_to_save_a_page_and_off_never() {
        // A tenth is zero: not worth the time, but it saves some pages.
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
