//! Open files that are also mapped shared. Their content is saved with the memory; this holds only the state of the
//! open file.

use crate::error::RestoreError;
use crate::process_state::files::look::Look;
use crate::sys::descriptor::{fcntl, open_again, seek, set_flags};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd, OwnedFd};

/// Kind of an open file that is also mapped shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedFile {
    /// A file that exists at the restart; its mapped parts get their saved content.
    Ordinary,
    /// Shared memory that is created again under this name.
    Object(String),
}

/// Open shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    object: String,
    offset: u64,
    /// Seals, if it can be sealed.
    seals: Option<i32>,
}

/// Captures the state of the open object.
pub fn capture(look: &Look, object: String) -> Mapped {
    Mapped {
        object,
        offset: look.offset(),
        seals: fcntl(look.fd, libc::F_GET_SEALS, 0).ok(),
    }
}

impl Mapped {
    /// Opens the object, which `objects` looks up.
    pub fn open(
        &self,
        flags: i32,
        objects: &dyn Fn(&str) -> Option<i32>,
    ) -> Result<OwnedFd, RestoreError> {
        let what = format!("opening the shared memory {} again", self.object);
        let made = objects(&self.object).ok_or(RestoreError::Table)?;
        let reopened = || {
            let opened = open_again(made, flags)?;
            seek(&opened, self.offset);
            set_flags(&opened, flags)?;
            let now = fcntl(made, libc::F_GET_SEALS, 0).unwrap_or(0);
            if let Some(missing) = self.seals.map(|seals| seals & !now).filter(|m| *m != 0) {
                fcntl(opened.as_raw_fd(), libc::F_ADD_SEALS, missing)?;
            }
            Ok(opened)
        };
        reopened().map_err(RestoreError::system(&what))
    }
}
