//! What a restart would make of a job's files, as they are now. Nothing is changed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use ckpt_image::Set;
use coordinator::addresses;
use restart::{
    ChangedFiles, Checks, Fate, GrownFiles, Listed, Prospect, Saved, Sections, LONGEST_TAIL,
};
use serde_json::{json, Value};
use undo::{Change, Cut, Deed, Outlook, Plan};

use crate::arguments::{self, Files as How};
use crate::text;

/// Lines of what would be undone; all are in what `--json` prints.
const LINES: usize = 40;

/// The files of a set, and what would become of each.
pub struct Files {
    plan: Plan,
    outlook: Outlook,
    host: String,
    changed: ChangedFiles,
    grown: GrownFiles,
    /// The job runs, and has its own locks.
    runs: bool,
    /// With the ranks that say the same of one.
    rows: BTreeMap<String, Row>,
}

struct Row {
    listed: Listed,
    ranks: Vec<u32>,
    /// The host on which it is and which is not this one.
    elsewhere: Option<String>,
}

impl Files {
    /// Of a set in this directory, when nothing was looked at yet.
    pub fn new(
        directory: &Path,
        set: &Set,
        how: How,
        changed: arguments::ChangedFiles,
        runs: bool,
    ) -> Result<Files> {
        let cut = Cut {
            number: set.number(),
            id: set.manifest().set_id.0,
        };
        let host = addresses::host();
        let plan = match how {
            How::Undo => Plan::read(directory, &cut).with_context(|| {
                format!(
                    "the undo journals in {} cannot be read",
                    directory.display()
                )
            })?,
            How::Cut | How::Leave => Plan::default(),
        };
        Ok(Files {
            outlook: plan.outlook(&host, LONGEST_TAIL),
            plan,
            host,
            changed: match changed {
                arguments::ChangedFiles::Refuse => ChangedFiles::Refuse,
                arguments::ChangedFiles::Warn => ChangedFiles::Warn,
                arguments::ChangedFiles::Ignore => ChangedFiles::Ignore,
            },
            grown: match how {
                How::Undo | How::Cut => GrownFiles::Cut,
                How::Leave => GrownFiles::Leave,
            },
            runs,
            rows: BTreeMap::new(),
        })
    }

    /// Adds those of a rank, which was on that host.
    pub fn add(&mut self, rank: u32, host: &str, sections: &Sections) {
        let prospect = Prospect {
            checks: Checks {
                changed: self.changed,
                undo: Some((&self.plan, &self.host)),
            },
            grown: self.grown,
            outlook: &self.outlook,
            locks: !self.runs,
        };
        let mut all = sections.process.list_files(&prospect);
        all.extend(sections.closed.list(&prospect));
        for listed in all {
            let bad = matches!(listed.fate, Fate::Refused { .. } | Fate::Left { .. });
            let path = listed.path.as_deref();
            let elsewhere = host != self.host && bad && path.is_some_and(is_of_one_machine);
            // Numbers of descriptors are each rank's own.
            let key = format!(
                "{:?}",
                Listed {
                    descriptors: Vec::new(),
                    ..listed.clone()
                }
            );
            let key = format!("{key}{}", listed.descriptors.is_empty());
            let row = self.rows.entry(key).or_insert(Row {
                listed,
                ranks: Vec::new(),
                elsewhere: elsewhere.then(|| host.to_owned()),
            });
            // A rank may have opened one twice.
            if row.ranks.last() != Some(&rank) {
                row.ranks.push(rank);
            }
        }
    }

    /// Why nothing would be restored.
    pub fn refusals(&self) -> Vec<String> {
        let rows = self.rows.values();
        let refused = rows.filter_map(|row| match (&row.listed.fate, &row.elsewhere) {
            (Fate::Refused { why }, None) => Some(format!("{}: {why}", ranks(&row.ranks))),
            _ => None,
        });
        let undone = self.outlook.changes.iter();
        let undone = undone.filter_map(|change| match &change.deed {
            Deed::Refused { why } => Some(format!("{} {why}", change.path.display())),
            _ => None,
        });
        refused.chain(undone).collect()
    }

    /// Adds all of it to what is printed.
    pub fn add_to(&self, object: &mut Value) {
        if let (Value::Object(all), Value::Object(own)) = (object, self.to_json()) {
            all.extend(own);
        }
    }

    fn to_json(&self) -> Value {
        let rows: Vec<_> = self.rows.values().map(Row::to_json).collect();
        let done = self.outlook.count();
        let (files, bytes) = self.cut_back();
        json!({
            "files": rows,
            "changes": self.outlook.changes,
            "undone": {
                "overwritten": done.rewritten,
                "removed_or_renamed": done.restored,
                "made": done.removed,
                "impossible": done.failed,
            },
            "cut_back": { "files": files, "bytes": bytes },
            "on_other_hosts": self.outlook.unseen,
            "unreadable_journals": self.plan.damaged,
        })
    }

    /// Files that would be cut back besides, and by how many bytes in all: several ranks may have one.
    fn cut_back(&self) -> (usize, u64) {
        let mut files = BTreeMap::new();
        for row in self.rows.values() {
            if let (Fate::CutBack { bytes }, None) = (&row.listed.fate, &row.elsewhere) {
                let most = files.entry(&row.listed.name).or_insert(0);
                *most = (*most).max(*bytes);
            }
        }
        (files.len(), files.values().sum())
    }

    /// Prints the files, one a line.
    pub fn say_all(&self) {
        say!(
            "{:>10}  file, how it comes back, and what a restart would do to it now",
            "length"
        );
        let mut rows: Vec<&Row> = self.rows.values().collect();
        rows.sort_by_key(|row| {
            (
                row.listed.path.is_none(),
                row.listed.name.clone(),
                row.ranks.clone(),
            )
        });
        for row in rows {
            let bytes = row.listed.bytes.map_or(String::new(), text::bytes);
            say!("{bytes:>10}  {}", self.words(row));
        }
    }

    fn words(&self, row: &Row) -> String {
        let Listed {
            name,
            descriptors,
            writable,
            saved,
            fate,
            ..
        } = &row.listed;
        let held = match (descriptors.is_empty(), writable) {
            (true, _) => "closed, was written",
            (false, true) => "open for writing",
            (false, false) => "open",
        };
        let deeds: Vec<String> = match &row.listed.path {
            Some(path) => self.outlook.of(path).map(deed).collect(),
            None => Vec::new(),
        };
        let fate = match (fate, &row.elsewhere) {
            (Fate::Refused { why } | Fate::Left { why }, Some(host)) => {
                format!("it was on {host}, whose own file systems cannot be seen from here: {why}")
            }
            (Fate::Refused { why }, None) => format!("REFUSED: {why}"),
            (Fate::Left { why }, None) => format!("stays as it is: it {why}"),
            (Fate::CutBack { bytes }, None | Some(_)) => format!("cut back by {bytes} bytes"),
            (Fate::Unchanged, _) if deeds.is_empty() => "as it is".to_owned(),
            (Fate::Unchanged, _) => String::new(),
        };
        let mut fates = deeds;
        fates.extend(Some(fate).filter(|fate| !fate.is_empty()));
        format!(
            "{name} ({held}, {}): {}; {}",
            ranks(&row.ranks),
            how(*saved),
            fates.join(", ")
        )
    }

    /// Prints what would be done, in the words of a restart.
    pub fn say_sums(&self) {
        let done = self.outlook.count();
        if done.rewritten + done.restored + done.removed > 0 {
            say!(
                "files would be as they were at the checkpoint: {} overwritten since, {} removed or renamed, {} made",
                done.rewritten,
                done.restored,
                done.removed
            );
        }
        for change in self.outlook.changes.iter().take(LINES) {
            say!("    {}", line(change));
        }
        if let Some(more @ 1..) = self.outlook.changes.len().checked_sub(LINES) {
            say!("    and {more} more, which --json lists");
        }
        let (files, bytes) = self.cut_back();
        if files > 0 {
            say!("files would be cut back to their length at the checkpoint: {files}, by {bytes} bytes in all");
        }
        for (host, count) in &self.outlook.unseen {
            say!("{count} files and names that were changed lie on {host}, whose own file systems cannot be seen from here");
        }
        for why in &self.plan.damaged {
            say!("an undo journal cannot be read, and would be passed over: {why}");
        }
    }
}

impl Row {
    fn to_json(&self) -> Value {
        let mut row = json!(self.listed);
        row["ranks"] = json!(self.ranks);
        row["closed"] = json!(self.listed.descriptors.is_empty());
        row["elsewhere"] = json!(self.elsewhere);
        row
    }
}

/// Whether this machine alone reaches what has the name, or would.
fn is_of_one_machine(path: &Path) -> bool {
    let mut there = path.ancestors();
    let facts = there.find_map(|path| nix::sys::statfs::statfs(path).ok());
    facts.is_some_and(|facts| undo::is_local(facts.filesystem_type().0 as u64))
}

fn ranks(all: &[u32]) -> String {
    match all {
        [one] => format!("rank {one}"),
        [first, .., last] if *last as usize - *first as usize + 1 == all.len() => {
            format!("ranks {first} to {last}")
        }
        _ => format!("{} ranks from {} on", all.len(), all.first().unwrap_or(&0)),
    }
}

fn how(saved: Saved) -> &'static str {
    match saved {
        Saved::OnDisk => "stays on the disk",
        Saved::ByName => "opened again by its name",
        Saved::InImage => "in the image",
        Saved::WithMemory => "in the image, with memory",
        Saved::FromLauncher => "the launcher's of the restart",
    }
}

fn line(change: &Change) -> String {
    format!("{}: {}", change.path.display(), deed(&change.deed))
}

fn deed(deed: &Deed) -> String {
    match deed {
        Deed::Removed { bytes } => format!("made since, with {bytes} bytes: removed"),
        Deed::Restored { from: Some(from) } => {
            format!("removed or renamed since: brought back from {}", from.display())
        }
        Deed::Restored { from: None } => "removed since: made again".to_owned(),
        Deed::Rewritten { bytes, from, to } if from == to => {
            format!("overwritten since: {bytes} bytes put back")
        }
        Deed::Rewritten { bytes, from, to } => format!(
            "overwritten since: {bytes} bytes put back, and its length made {to} again instead of {from}"
        ),
        Deed::CutBack { bytes, to } => format!("has grown: cut back to {to} bytes, by {bytes}"),
        Deed::Left { why } => format!("stays as it is: {why}"),
        Deed::Refused { why } => format!("REFUSED: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_in_short() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[0, 1, 2]), "ranks 0 to 2");
        assert_eq!(ranks(&[0, 2]), "2 ranks from 0 on");
    }
}
