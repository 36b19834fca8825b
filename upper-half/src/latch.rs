//! Objects whose state across a checkpoint is not built yet: files. They are counted by being in
//! their table, and while there is one a checkpoint is refused by name.

use crate::error;
use crate::file::FileBody;
use crate::message;
use crate::object::{Body, File};

/// The object of a file that the lower half has opened. The job ends if there are too many: the
/// library below has the file, and the application would have no handle to close it.
pub fn latch_created_file(word: usize) -> &'static File {
    File::make(word, FileBody::opened())
        .unwrap_or_else(|_| error::fatal("too many files are open at the same time", 1))
}

/// The lower half has closed the file.
pub fn latch_freed_file(file: &'static File) {
    file.release();
}

/// Why no checkpoint may be taken now; `None` when it may.
pub(crate) fn refusal() -> Option<String> {
    let files = FileBody::table().live();
    if files > 0 {
        return Some(format!(
            "{files} MPI file(s) are open (MPI_File_open): not supported across a checkpoint yet; \
             ask again when they are closed"
        ));
    }
    message::refusal().map(str::to_owned)
}
