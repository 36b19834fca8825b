//! Candidates for the values of flags and arguments, which shells offer as completions.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ckpt_image::set_number;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use crate::args::{default_dir, schedule};
use crate::install::layout::Layout;
use crate::ui::text;

/// Names of the signals for `--signal`.
pub fn signals() -> Vec<CompletionCandidate> {
    schedule::signals().map(CompletionCandidate::new).collect()
}

/// Names of the lower halves for `--mpi`, with their libraries.
pub fn lower_halves() -> Vec<CompletionCandidate> {
    let lowers = Layout::find().map(|layout| layout.lowers());
    let named = |lower: crate::install::lower_registry::Lower| {
        let library = text::library(&lower.record.library).to_owned();
        CompletionCandidate::new(lower.name).help(Some(library.into()))
    };
    lowers.unwrap_or_default().into_iter().map(named).collect()
}

/// Directories.
pub fn directories(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = PathCompleter::dir().complete(current);
    // It would keep the only directory here from being completed.
    found.retain(|candidate| candidate.get_value() != ".");
    found
}

/// Directories, and the checkpoints in one that has been named.
pub fn checkpoints(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let Some(end) = text.rfind('/') else {
        return directories(current);
    };
    let (directory, beginning) = text.split_at(end + 1);
    let mut sets = sets_in(Path::new(directory));
    if sets.is_empty() {
        return directories(current);
    }
    sets.retain(|(_, name, _)| name.starts_with(beginning));
    let path = |(number, name, age)| candidate((number, format!("{directory}{name}"), age));
    sets.into_iter().map(path).collect()
}

/// Names of the checkpoints in the directories of the command line, for `--set`. If it names none yet, they are those
/// of the only default directory here.
pub fn sets() -> Vec<CompletionCandidate> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let mut found: Vec<_> = words
        .flat_map(|word| sets_in(&PathBuf::from(word)))
        .collect();
    if found.is_empty() {
        let here = default_dir::only_one_here().ok();
        found.extend(here.iter().flat_map(|directory| sets_in(directory)));
    }
    found.into_iter().map(candidate).collect()
}

fn candidate((_, name, age): (u64, String, String)) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(age.into()))
}

/// The checkpoints in a directory, the newest first, with their ages.
fn sets_in(directory: &Path) -> Vec<(u64, String, String)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let written = entry.metadata().ok()?.modified().ok()?;
            let written = written.duration_since(UNIX_EPOCH).ok()?;
            Some((set_number(&name)?, name, text::ago(written.as_secs())))
        })
        .collect();
    found.sort_by_key(|(number, ..)| std::cmp::Reverse(*number));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: Vec<CompletionCandidate>) -> Vec<String> {
        let value = |one: CompletionCandidate| one.get_value().to_string_lossy().into_owned();
        candidates.into_iter().map(value).collect()
    }

    #[test]
    fn checkpoints_of_a_named_directory_are_offered_newest_first() {
        let here = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("{}/{name}", here.path().display());
        for name in ["ck/ckpt-9", "ck/ckpt-10", "ck/undo", "other/a"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        let of = |name: &str| values(checkpoints(path(name).as_ref()));
        assert_eq!(of("c"), [path("ck/")]);
        assert_eq!(of("ck/"), [path("ck/ckpt-10"), path("ck/ckpt-9")]);
        assert_eq!(of("ck/ckpt-9"), [path("ck/ckpt-9")]);
        assert_eq!(of("other/"), [path("other/a/")]);
        assert!(values(signals()).contains(&"TERM".to_owned()));
    }
}
