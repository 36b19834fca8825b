//! Writing behind: while one block is written, the next ones are read, checked and compressed. That takes a
//! second processor: a rank that is bound to one writes each block itself. So does one that has few, for to wake
//! a thread takes longer than to write a few pages. The blocks are the same either way, and are written in their
//! order.
//!
//! And the disk works from the beginning: what was written is synced while more is, of which there is the more
//! the longer a sync takes. The last one, which makes the file durable, then finds little left to do.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::chunk::CHUNK_BYTES;
use crate::disk::DiskFile;
use crate::header::PAGE;
use crate::parallel;

/// So many blocks may wait to be written: half a MiB, which stays in a processor's cache.
const WAITING: usize = 8;

/// Bytes in blocks that are worth a thread.
const THREAD: u64 = 4 << 20;

/// Bytes that are worth a sync of their own.
const SYNCED: u64 = 8 << 20;

/// Bytes that are worth to be set aside.
const ASIDE: u64 = 4 << 20;

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// Some memory on its way into the file.
pub(crate) struct Block {
    /// The memory, as it was copied: [`CHUNK_BYTES`], of which the first ones count.
    pub memory: Box<[u8]>,
    /// What was compressed of it.
    pub compressed: Vec<u8>,
    /// What is to be written, one behind the other, each filled up to whole pages.
    pub parts: Vec<Part>,
    /// Where in the file.
    pub offset: u64,
}

/// Something that is to be written.
pub(crate) enum Part {
    /// Memory as it is.
    Memory(Range<usize>),
    /// Compressed memory.
    Compressed(Range<usize>),
}

impl Part {
    /// Bytes that it takes in the file, but for what fills up its last page.
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

    /// With one system call, and nothing is left to be written.
    fn write(&mut self, file: &DiskFile) -> io::Result<()> {
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

/// A file whose blocks are written behind.
pub(crate) struct Behind {
    file: Arc<DiskFile>,
    /// None as long as there are few blocks, where there is but one processor, and when all is written.
    writer: Option<Writer>,
    /// Bytes in blocks until there is one.
    alone: u64,
    /// None as long as there is little to sync, and when all is written.
    syncer: Option<Syncer>,
    /// Bytes since a sync was asked for.
    unsynced: u64,
    /// How far the file system has found room.
    aside: u64,
    /// Images that are made at the same time.
    images: u64,
}

struct Writer {
    full: SyncSender<Block>,
    empty: Receiver<Block>,
    thread: JoinHandle<io::Result<()>>,
}

impl Behind {
    /// The file of one of so many images, and the first block for it.
    pub fn new(file: DiskFile, images: u32) -> (Behind, Block) {
        let several = thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        let behind = Behind {
            file: Arc::new(file),
            writer: None,
            alone: if several { THREAD } else { u64::MAX },
            syncer: None,
            unsynced: 0,
            aside: 0,
            images: images.into(),
        };
        (behind, Block::new())
    }

    /// Writes a block, soon or at once, and returns one to go on with. Fails if this or an earlier one cannot
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

    /// So many bytes are about to be written from there on, or fewer: room is set aside for all of them at once (of
    /// one piece after the other ext4's own checks complain, if it writes the one before meanwhile). Only a help: if
    /// there is none, who writes hears of it.
    pub fn expect(&mut self, offset: u64, bytes: u64) {
        if offset >= self.aside && bytes >= ASIDE {
            self.aside = offset + bytes;
            let _ = self.file.set_aside(offset, bytes, self.images);
        }
    }

    /// So many bytes more are in the file, or soon will be.
    pub fn wrote(&mut self, bytes: u64) {
        self.unsynced += bytes;
        if self.unsynced < SYNCED {
            return;
        }
        self.unsynced = 0;
        if self.syncer.is_none() && parallel::room_for_thread() {
            // Only a help: without it all is synced at the end.
            self.syncer = Syncer::start(self.file.clone()).ok();
        }
        // One that runs already is followed by another.
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
                self.settled()?;
                Err(io::Error::other("blocks are not written any more"))
            }
        }
    }

    /// The file, when all blocks are written.
    pub fn settled(&mut self) -> io::Result<&DiskFile> {
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

    /// The file, in which blocks may be missing.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }
}

/// What a thread came to.
fn joined(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

impl Writer {
    fn start(file: Arc<DiskFile>) -> io::Result<Writer> {
        let (full, waiting) = sync_channel::<Block>(WAITING);
        let (used, empty) = sync_channel(WAITING);
        for _ in 0..WAITING {
            // There is room for them.
            let _ = used.try_send(Block::new());
        }
        let write = move || {
            for mut block in waiting {
                block.write(&file)?;
                // Nobody may want it any more.
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

/// A thread that syncs what is there whenever it is asked. The kernel tells each error of the disk but once, so
/// what it meets counts.
struct Syncer {
    ask: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Syncer {
    fn start(file: Arc<DiskFile>) -> io::Result<Syncer> {
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
    use crate::disk::{Disk, Fault, FaultAt};

    /// More than is worth a thread.
    const BLOCKS: u64 = 2 * THREAD / CHUNK_BYTES as u64;

    fn written(disk: &Disk, path: &std::path::Path) -> io::Result<u64> {
        let (mut behind, mut block) = Behind::new(disk.create(path)?, 1);
        for index in 0..BLOCKS {
            block.memory.fill(index as u8);
            block.offset = index * CHUNK_BYTES as u64;
            block.parts.push(Part::Memory(0..CHUNK_BYTES));
            block = behind.write(block)?;
        }
        behind.settled()?;
        Ok(BLOCKS)
    }

    #[test]
    fn every_block_is_written_or_its_error_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        assert_eq!(written(&Disk::default(), &path).unwrap(), BLOCKS);
        let content = std::fs::read(&path).unwrap();
        assert_eq!(content.len() as u64, BLOCKS * CHUNK_BYTES as u64);
        for (block, index) in content.chunks_exact(CHUNK_BYTES).zip(0u64..) {
            assert!(block.iter().all(|byte| *byte == index as u8), "{index}");
        }
        // The first step makes the file. The last writes are the thread's, where there is one.
        for at in [
            2,
            3,
            BLOCKS as usize / 2,
            BLOCKS as usize,
            BLOCKS as usize + 1,
        ] {
            std::fs::remove_file(&path).unwrap();
            let fault = Fault::Full;
            let disk = Disk::watched(Some(FaultAt { fault, at }), |_| {});
            let error = written(&disk, &path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{at}: {error}");
        }
    }
}
