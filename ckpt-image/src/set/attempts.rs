//! Failed restarts of a set, counted in a file beside its images. A set from which restarts fail repeatedly
//! is skipped for an older one.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::{ImageError, Result};
use crate::fs::permissions::open;
use crate::set::image_set::Set;
use crate::set::names::ATTEMPTS_FILE;

impl Set {
    /// Counts a restart that begins. Called by one process of the job, after all processes have chosen
    /// their set.
    ///
    /// # Errors
    /// [`ImageError::Io`] if the file in the set cannot be replaced.
    pub fn restart_begun(&self) -> Result<()> {
        let path = self.path().join(ATTEMPTS_FILE);
        let attempts = self.attempts().saturating_add(1).to_string();
        // The rename replaces an existing entry, so a link is not followed and the open does not block on a
        // pipe.
        let new = self.path().join(format!("{ATTEMPTS_FILE}.partial"));
        let _ = fs::remove_file(&new);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options
            .open(&new)
            .and_then(|mut file| file.write_all(attempts.as_bytes()))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| ImageError::io("write", &path, e))
    }

    /// Clears the count: the job has restarted.
    pub fn restart_worked(&self) {
        // A failed removal is harmless: the next successful restart clears the count.
        let _ = fs::remove_file(self.path().join(ATTEMPTS_FILE));
    }

    /// Number of failed restarts from the set since the last successful one.
    pub fn attempts(&self) -> u32 {
        const MOST_DIGITS: u64 = 10;
        let mut text = String::new();
        let file = open(&self.path().join(ATTEMPTS_FILE)).ok();
        let read = file.map(|file| file.take(MOST_DIGITS).read_to_string(&mut text));
        read.and_then(|_| text.parse().ok()).unwrap_or(0)
    }
}
