//! Files that are mapped shared as well as open. Their content is memory, so whoever saves and
//! restores memory has it; here is only how they are open.

use super::descriptor::{fcntl, open_again, seek, set_flags, Look};
use crate::error::RestoreError;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd, OwnedFd};

/// What a file is that is mapped shared, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedFile {
    /// A file that is there at the restart; what is mapped of it is given its content back.
    Ordinary,
    /// Memory that is made anew, under this name.
    Object(String),
}

/// Memory that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    object: String,
    offset: u64,
    /// Where it can be sealed.
    seals: Option<i32>,
}

/// Notes how the object is open.
pub fn capture(look: &Look, object: String) -> Mapped {
    Mapped {
        object,
        offset: look.offset(),
        seals: fcntl(look.fd, libc::F_GET_SEALS, 0).ok(),
    }
}

impl Mapped {
    /// Opens the object, which `objects` finds.
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
