//! Write-behind: while one block is written, the next ones are read, checked and compressed. This needs a second
//! processor: a rank that is bound to one writes each block itself. So does a rank with few blocks, because waking a
//! thread takes longer than writing a few pages. The blocks and their order are the same either way.
//!
//! Data is also synced while more is written, so that the disk works from the beginning. The last sync, which makes the
//! file durable, then has little left to do.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::format::chunk::CHUNK_BYTES;
use crate::format::header::PAGE;
use crate::fs::file_system::OutputFile;
use crate::parallel;

/// Number of blocks that may wait to be written: half a MiB, which stays in a processor's cache.
const WAITING: usize = 8;

/// Bytes in blocks from which a thread saves time.
const THREAD: u64 = 4 << 20;

/// Bytes from which a separate sync saves time.
const SYNCED: u64 = 8 << 20;

/// Bytes from which a reservation saves time.
const RESERVED: u64 = 4 << 20;

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// A block of memory on its way into the file.
pub(crate) struct Block {
    /// Buffer of [`CHUNK_BYTES`]. Its first bytes are a copy of the memory.
    pub memory: Box<[u8]>,
    /// Compressed bytes.
    pub compressed: Vec<u8>,
    /// Parts to write one after the other, each padded to whole pages.
    pub parts: Vec<Part>,
    /// Offset in the file.
    pub offset: u64,
}

/// A part of a block that is written.
pub(crate) enum Part {
    /// Uncompressed memory.
    Memory(Range<usize>),
    /// Compressed memory.
    Compressed(Range<usize>),
}

impl Part {
    /// Length in the file in bytes, without the padding of the last page.
    fn len(&self) -> u64 {
        let (Part::Memory(range) | Part::Compressed(range)) = self;
        range.len() as u64
    }
}

impl Block {
    fn new() -> Block {
        Block {
            memory: vec![0; CHUNK_BYTES].into_boxed_slice(),
            compressed: Vec::with_capacity(CHUNK_BYTES),
            parts: Vec::new(),
            offset: 0,
        }
    }

    /// Writes the block with one system call and empties it.
    fn write(&mut self, file: &OutputFile) -> io::Result<()> {
        let mut slices = Vec::with_capacity(2 * self.parts.len());
        for part in &self.parts {
            let stored = match part {
                Part::Memory(range) => &self.memory[range.clone()],
                Part::Compressed(range) => &self.compressed[range.clone()],
            };
            let padding = stored.len().next_multiple_of(PAGE as usize) - stored.len();
            slices.push(IoSlice::new(stored));
            if padding > 0 {
                slices.push(IoSlice::new(&ZEROS[..padding]));
            }
        }
        file.write_at(&mut slices, self.offset)?;
        self.compressed.clear();
        self.parts.clear();
        Ok(())
    }
}

/// A file whose blocks are written by a background thread.
pub(crate) struct WriteBehind {
    file: Arc<OutputFile>,
    /// None while there are few blocks, if there is only one processor, and when all is written.
    writer: Option<Writer>,
    /// Bytes in blocks until the writer starts.
    alone: u64,
    /// None while there is little to sync, and when all is written.
    syncer: Option<Syncer>,
    /// Bytes since the last request for a sync.
    unsynced: u64,
    /// End of the reserved space in the file.
    reserved_to: u64,
    /// Number of images that are written at the same time.
    images: u64,
}

struct Writer {
    full: SyncSender<Block>,
    empty: Receiver<Block>,
    thread: JoinHandle<io::Result<()>>,
}

impl WriteBehind {
    /// A writer to `file`, one of `images` image files, and the first block for it.
    pub fn new(file: OutputFile, images: u32) -> (WriteBehind, Block) {
        let several = thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        let behind = WriteBehind {
            file: Arc::new(file),
            writer: None,
            alone: if several { THREAD } else { u64::MAX },
            syncer: None,
            unsynced: 0,
            reserved_to: 0,
            images: images.into(),
        };
        (behind, Block::new())
    }

    /// Writes a block, at once or later, and returns an empty one. Fails if this or an earlier block cannot
    /// be written.
    pub fn write(&mut self, block: Block) -> io::Result<Block> {
        let bytes = block.parts.iter().map(Part::len).sum();
        if self.alone > 0 {
            self.alone = self.alone.saturating_sub(bytes);
            if self.alone == 0 {
                let room = parallel::room_for_thread();
                self.writer = room
                    .then(|| Writer::start(self.file.clone()).ok())
                    .flatten();
            }
        }
        let block = self.pass_on(block)?;
        self.wrote(bytes);
        Ok(block)
    }

    /// Reserves space for at most `bytes` bytes that are about to be written from `offset` on. One
    /// reservation covers all: if ext4 writes the previous piece during another one, its own checks
    /// complain. A failure is ignored here, because the write reports a full disk.
    pub fn expect(&mut self, offset: u64, bytes: u64) {
        if offset >= self.reserved_to && bytes >= RESERVED {
            self.reserved_to = offset + bytes;
            let _ = self.file.reserve(offset, bytes, self.images);
        }
    }

    /// Counts bytes that are in the file, or soon will be.
    pub fn wrote(&mut self, bytes: u64) {
        self.unsynced += bytes;
        if self.unsynced < SYNCED {
            return;
        }
        self.unsynced = 0;
        if self.syncer.is_none() && parallel::room_for_thread() {
            // A failure is harmless: all data is then synced at the end.
            self.syncer = Syncer::start(self.file.clone()).ok();
        }
        // A sync that is running is followed by another.
        self.syncer.iter().for_each(|syncer| {
            let _ = syncer.ask.try_send(());
        });
    }

    fn pass_on(&mut self, mut block: Block) -> io::Result<Block> {
        let Some(writer) = &self.writer else {
            block.write(&self.file)?;
            return Ok(block);
        };
        let sent = writer.full.send(block);
        match sent.ok().and_then(|()| writer.empty.recv().ok()) {
            Some(block) => Ok(block),
            None => {
                self.finish()?;
                Err(io::Error::other("blocks are not written any more"))
            }
        }
    }

    /// The file, after all blocks are written.
    pub fn finish(&mut self) -> io::Result<&OutputFile> {
        if let Some(Writer { full, thread, .. }) = self.writer.take() {
            drop(full);
            joined(thread)?;
        }
        if let Some(Syncer { ask, thread }) = self.syncer.take() {
            drop(ask);
            joined(thread)?;
        }
        Ok(&self.file)
    }

    /// The file, in which blocks may still be missing.
    pub fn file(&self) -> &OutputFile {
        &self.file
    }
}

/// The result of a thread.
fn joined(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

impl Writer {
    fn start(file: Arc<OutputFile>) -> io::Result<Writer> {
        let (full, waiting) = sync_channel::<Block>(WAITING);
        let (used, empty) = sync_channel(WAITING);
        for _ in 0..WAITING {
            // The channel has room for them.
            let _ = used.try_send(Block::new());
        }
        let write = move || {
            for mut block in waiting {
                block.write(&file)?;
                // The receiver may be gone.
                let _ = used.try_send(block);
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("stasis-write".to_owned());
        let thread = thread.spawn(write)?;
        Ok(Writer {
            full,
            empty,
            thread,
        })
    }
}

/// A thread that syncs the present data at each request. The kernel reports each disk error only once, so
/// its result counts.
struct Syncer {
    ask: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Syncer {
    fn start(file: Arc<OutputFile>) -> io::Result<Syncer> {
        let (ask, asked) = sync_channel(1);
        let thread = thread::Builder::new().name("stasis-sync".to_owned());
        let thread =
            thread.spawn(move || asked.into_iter().try_for_each(|()| file.sync_ahead()))?;
        Ok(Syncer { ask, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::fault::{Fault, FaultAt};
    use crate::fs::file_system::FileSystem;

    /// Number of blocks that starts the thread.
    const BLOCKS: u64 = 2 * THREAD / CHUNK_BYTES as u64;

    fn written(fs: &FileSystem, path: &std::path::Path) -> io::Result<u64> {
        let (mut behind, mut block) = WriteBehind::new(fs.create(path)?, 1);
        for index in 0..BLOCKS {
            block.memory.fill(index as u8);
            block.offset = index * CHUNK_BYTES as u64;
            block.parts.push(Part::Memory(0..CHUNK_BYTES));
            block = behind.write(block)?;
        }
        behind.finish()?;
        Ok(BLOCKS)
    }

    #[test]
    fn every_block_is_written_or_its_error_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        assert_eq!(written(&FileSystem::default(), &path).unwrap(), BLOCKS);
        let content = std::fs::read(&path).unwrap();
        assert_eq!(content.len() as u64, BLOCKS * CHUNK_BYTES as u64);
        for (block, index) in content.chunks_exact(CHUNK_BYTES).zip(0u64..) {
            assert!(block.iter().all(|byte| *byte == index as u8), "{index}");
        }
        // Step 1 creates the file. The last writes are those of the thread, if there is one.
        for at in [
            2,
            3,
            BLOCKS as usize / 2,
            BLOCKS as usize,
            BLOCKS as usize + 1,
        ] {
            std::fs::remove_file(&path).unwrap();
            let fault = Fault::Full;
            let fs = FileSystem::watched(Some(FaultAt { fault, at }), |_| {});
            let error = written(&fs, &path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{at}: {error}");
        }
    }
}
