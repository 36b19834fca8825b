//! Writing behind: while one block is written, the next ones are read, checked and compressed. That takes a
//! second processor: a rank that is bound to one writes each block itself. The blocks are the same either way,
//! and are written in their order.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::chunk::CHUNK_BYTES;
use crate::disk::DiskFile;
use crate::header::PAGE;

/// So many blocks may wait to be written: half a MiB, which stays in a processor's cache.
const WAITING: usize = 8;

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
    /// None where there is but one processor, and when all is written.
    writer: Option<Writer>,
}

struct Writer {
    full: SyncSender<Block>,
    empty: Receiver<Block>,
    thread: JoinHandle<io::Result<()>>,
}

impl Behind {
    /// The file, and the first block for it.
    pub fn new(file: DiskFile) -> (Behind, Block) {
        let file = Arc::new(file);
        let several = thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        let writer = several.then(|| Writer::start(file.clone()).ok()).flatten();
        (Behind { file, writer }, Block::new())
    }

    /// Writes a block, soon or at once, and returns one to go on with. Fails if this or an earlier one cannot
    /// be written.
    pub fn write(&mut self, mut block: Block) -> io::Result<Block> {
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
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        }
        Ok(&self.file)
    }

    /// The file, in which blocks may be missing.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }
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
