//! `stasis inspect`: the content of a checkpoint, by its role in the program's memory.

use std::collections::BTreeMap;
use std::path::Path;

use ckpt_image::{
    explain, image_file, newest_whole, Backing, Image, ImageError, Region, SealKey, Set,
};
use coordinator::claim;
use job_spec::{ChangedFilePolicy, FilePolicy};
use restart::Sections;
use serde_json::json;

use crate::args::{directory_and_set, Inspect};
use crate::check::file_preview::Files;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// Maximum number of lines in the picture; smaller parts are summed in one more.
const LINES: usize = 14;
/// Length of the longest bar, in characters.
const WIDTH: u64 = 16;
/// Longest name of a part. All columns together fit a terminal of 80.
const NAME_WIDTH: usize = 28;

/// Size of a part of a set, in bytes.
#[derive(Clone, Copy, Default)]
struct Amount {
    /// Bytes on disk in this set.
    stored: u64,
    /// Bytes of memory before compression, parent sets included.
    memory: u64,
    /// Bytes of address space.
    mapped: u64,
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.stored += other.stored;
        self.memory += other.memory;
        self.mapped += other.mapped;
    }
}

/// The named set, or the newest complete set of a directory.
pub fn open(path: &Path, key: Option<&SealKey>) -> Result<Set, ImageError> {
    let (directory, named) = directory_and_set(path);
    match named {
        Some(name) => Set::open(&directory, &name, key)
            .map_err(|reason| explain(&directory, &name, key, reason)),
        None => Ok(newest_whole(&directory, key)?.set),
    }
}

/// Runs `stasis inspect`.
pub fn run(options: &Inspect) -> exit::Result<()> {
    let key = options.key.read().code(Code::Usage)?;
    let set = open(&options.directory()?, key.as_ref()).code(Code::Image)?;
    let manifest = set.manifest();
    let mut parts: BTreeMap<String, Amount> = BTreeMap::new();
    let mut ranks = Vec::new();
    let (directory, _) = directory_and_set(&options.directory()?);
    let runs = claim::check_free(&directory).is_err();
    let files = Files::new(
        &directory,
        &set,
        FilePolicy::Undo,
        ChangedFilePolicy::Refuse,
        runs,
    );
    let mut files = files.code(Code::Image)?;
    for entry in &manifest.ranks {
        let image = set.image(entry.rank, None).code(Code::Image)?;
        let mut rank = Amount::default();
        let sections = Sections::of(&image).code(Code::Image)?;
        files.add(entry.rank, &entry.host, &sections);
        for (what, amount) in amounts(&image).code(Code::Image)? {
            rank.add(amount);
            parts.entry(what).or_default().add(amount);
        }
        ranks.push((entry, rank));
    }
    let mut parts: Vec<(String, Amount)> = parts.into_iter().collect();
    parts.sort_by_key(|(_, amount)| std::cmp::Reverse((amount.stored, amount.mapped)));
    let mut all = Amount::default();
    parts.iter().for_each(|(_, amount)| all.add(*amount));

    if options.json {
        let amount = |a: &Amount| json!({ "stored_bytes": a.stored, "memory_bytes": a.memory, "mapped_bytes": a.mapped });
        let parts: BTreeMap<_, _> = parts.iter().map(|(what, a)| (what, amount(a))).collect();
        let ranks: Vec<_> = ranks
            .iter()
            .map(|(entry, a)| {
                json!({ "rank": entry.rank, "host": entry.host, "file": image_file(entry.rank),
                        "bytes": entry.image.bytes, "content": amount(a) })
            })
            .collect();
        let mut all = json!({ "set": set.name(), "command": manifest.command, "library": manifest.library,
                    "abi": manifest.abi, "created": manifest.created,
                    "stasis_version": manifest.stasis_version, "for_cpu": manifest.for_cpu,
                    "increment_of": manifest.increment_of.as_ref().map(|parent| &parent.set), "restarts": manifest.epoch,
                    "ranks": ranks, "parts": parts, "job_runs": runs });
        files.add_to(&mut all);
        json::print(all);
        return Ok(());
    }

    let version = manifest.stasis_version.as_ref();
    say!("{}: {}", set.name(), manifest.command.join(" "));
    say!(
        "{}, taken {} by Stasis{} over {}, after {}",
        text::ranks(manifest.world_size),
        text::when(manifest.created),
        version.map_or(String::new(), |version| format!(" {version}")),
        text::library(&manifest.library),
        text::restarts(manifest.epoch)
    );
    if let Some(parent) = &manifest.increment_of {
        say!("an increment: what has not changed is in {}", parent.set);
    }
    if let Some(shown) = &manifest.for_cpu {
        let features = shown.features.join(", ");
        say!(
            "for processors with the features of {}: {features}",
            shown.name
        );
    }
    say!(
        "{} mapped, {} of it with content, in {} on disk\n",
        text::bytes(all.mapped),
        text::bytes(all.memory),
        text::bytes(all.stored)
    );
    say!("{:>10} {:>10} {:>10}", "on disk", "content", "mapped");
    let rest = parts.split_off(parts.len().min(LINES));
    if !rest.is_empty() {
        let mut others = Amount::default();
        rest.iter().for_each(|(_, amount)| others.add(*amount));
        parts.push((format!("{} others", rest.len()), others));
    }
    let stored = parts.iter().map(|(_, amount)| amount.stored);
    let longest = stored.max().unwrap_or(0);
    for (what, amount) in &parts {
        say!("{}", row(what, *amount, longest));
    }
    say!();
    for (entry, amount) in ranks {
        say!(
            "rank {:<5} {:>10}  {:>10} of memory  {}",
            entry.rank,
            text::bytes(entry.image.bytes),
            text::bytes(amount.memory),
            entry.host
        );
    }
    say!();
    files.say_all();
    say!();
    if runs {
        say!("the job runs and may change its files again: a restart would find this if the job ended now");
    }
    files.say_sums();
    Ok(())
}

/// A line about a part, with a bar that is the longest one for `longest` bytes.
fn row(what: &str, amount: Amount, longest: u64) -> String {
    format!(
        "{:>10} {:>10} {:>10}  {:NAME_WIDTH$} {}",
        text::bytes(amount.stored),
        text::bytes(amount.memory),
        text::bytes(amount.mapped),
        console::truncate_str(what, NAME_WIDTH, "…"),
        bar(amount.stored, longest)
    )
}

/// A bar whose length is proportional to `of`; at least one character if `of` is not zero.
fn bar(of: u64, longest: u64) -> String {
    let length = (of * WIDTH).checked_div(longest).unwrap_or(0);
    "█".repeat(length.max(u64::from(of > 0)) as usize)
}

/// The content of an image, by the role of the memory.
fn amounts(image: &Image) -> Result<Vec<(String, Amount)>, ImageError> {
    let memory = image.memory()?;
    let regions = image.regions().iter().enumerate();
    let mut amounts: Vec<_> = regions
        .map(|(index, region)| {
            let (chunks, pieces) = (image.chunks_of(index), memory.pieces_of(index));
            let content = matches!(region.backing, Backing::SharedContent { .. });
            let amount = Amount {
                stored: chunks.iter().map(|chunk| u64::from(chunk.stored)).sum(),
                memory: pieces.iter().map(|piece| u64::from(piece.len)).sum(),
                mapped: if content { 0 } else { region.len },
            };
            (what(image, region), amount)
        })
        .collect();
    let sections = image.sections().iter().map(|s| s.bytes.len() as u64).sum();
    let tables = Amount {
        stored: sections,
        ..Amount::default()
    };
    amounts.push(("state of process and job".to_owned(), tables));
    Ok(amounts)
}

/// Readable name of a region's role.
pub fn what(image: &Image, region: &Region) -> String {
    match &region.backing {
        Backing::Anonymous if region.grows_down => "stack of the program".to_owned(),
        Backing::Anonymous => "heap, data and stacks".to_owned(),
        Backing::PrivateFile { path, .. } => file_name(path),
        Backing::SharedFile { path, .. } => format!("{} (not stored)", file_name(path)),
        Backing::SharedAnonymous => "memory for children".to_owned(),
        Backing::Shared { object, .. } | Backing::SharedContent { object, .. } => {
            let object = image.shared().get(*object as usize);
            object.map_or("shared memory".to_owned(), |o| o.kind.describe())
        }
    }
}

fn file_name(path: &[u8]) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_a_terminal() {
        let amount = Amount {
            stored: 1 << 40,
            memory: 1 << 40,
            mapped: 1 << 40,
        };
        let row = row("libsomething-with-a-long-name.so.1.2.3", amount, 1 << 40);
        assert!(row.chars().count() <= 80 && row.contains('…'), "{row}");
    }

    #[test]
    fn bars_are_in_proportion_and_show_the_smallest() {
        let length = |of, longest| bar(of, longest).chars().count() as u64;
        assert_eq!(length(100, 100), WIDTH);
        assert_eq!(length(50, 100), WIDTH / 2);
        assert_eq!(
            (length(1, 1 << 40), length(0, 100), length(0, 0)),
            (1, 0, 0)
        );
    }
}
