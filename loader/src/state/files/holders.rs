//! Who else has a pipe or an unnamed file open. What another process holds too cannot be made
//! anew in this one alone.

use super::descriptor::{unreadable, Look};
use crate::error::CaptureError;
use crate::raw;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses the checkpoint if another process has one of these open. Looks at all processes that
/// may be looked at.
pub fn refuse_others(wanted: &[&Look]) -> Result<(), CaptureError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let own = raw::getpid();
    let entries = fs::read_dir("/proc").map_err(|e| unreadable(wanted[0].fd, e))?;
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for process in numbers.filter(|process| *process != own) {
        let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else {
            continue;
        };
        for entry in open.flatten() {
            let Ok(link) = fs::read_link(entry.path()) else {
                continue;
            };
            let mut same = wanted.iter().filter(|look| look.link == link);
            if let Some(look) = same.find(|look| is(&entry.path(), look)) {
                let name = fs::read_to_string(format!("/proc/{process}/comm"));
                return look.refuse(format!(
                    "{} that process {process} ({}) has open too",
                    describe(look),
                    name.unwrap_or_default().trim()
                ));
            }
        }
    }
    Ok(())
}

fn is(path: &Path, look: &Look) -> bool {
    fs::metadata(path).is_ok_and(|facts| (facts.dev(), facts.ino()) == look.identity())
}

fn describe(look: &Look) -> String {
    let what = match look.mode() {
        libc::S_IFIFO => "a pipe",
        libc::S_IFSOCK => "a socket pair",
        _ => "an unnamed file",
    };
    format!("{what} ({})", look.link.display())
}
