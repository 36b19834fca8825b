//! Objects whose state across a checkpoint is not built yet: windows and files. They are counted by
//! being in their tables, and while there is one a checkpoint is refused by name.

use crate::attribute;
use crate::error;
use crate::file::FileBody;
use crate::message;
use crate::object::{Body, File, Win};
use crate::window::WinBody;

/// The object of a window that the lower half has made. The job ends if there are too many: the
/// library below has the window, and the application would have no handle to free it.
pub fn latch_created_win(word: usize) -> &'static Win {
    Win::make(word, WinBody::new())
        .unwrap_or_else(|_| error::fatal("too many windows are open at the same time", 1))
}

/// The object of a file that the lower half has opened.
pub fn latch_created_file(word: usize) -> &'static File {
    File::make(word, FileBody::opened())
        .unwrap_or_else(|_| error::fatal("too many files are open at the same time", 1))
}

/// The lower half has freed the window.
pub fn latch_freed_win(win: &'static Win) {
    attribute::delete(&win.body.attributes, win.handle());
    win.release();
}

/// The lower half has closed the file.
pub fn latch_freed_file(file: &'static File) {
    file.release();
}

/// Why no checkpoint may be taken now; `None` when it may.
pub(crate) fn refusal() -> Option<String> {
    let windows = WinBody::table().live();
    if windows > 0 {
        return Some(format!(
            "{windows} MPI window(s) are open (MPI_Win_create and the like): not supported across a \
             checkpoint yet; ask again when they are freed"
        ));
    }
    let files = FileBody::table().live();
    if files > 0 {
        return Some(format!(
            "{files} MPI file(s) are open (MPI_File_open): not supported across a checkpoint yet; \
             ask again when they are closed"
        ));
    }
    message::refusal().map(str::to_owned)
}
