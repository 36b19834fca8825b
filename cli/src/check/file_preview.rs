//! A preview of the changes that a restart would make to the files of a job. It changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use ckpt_image::Set;
use coordinator::net::addresses;
use job_spec::{ChangedFilePolicy, FilePolicy};
use restart::{Checks, ClosedFilePolicy, Fate, Listed, Prospect, Saved, Sections, LONGEST_TAIL};
use serde_json::{json, Value};
use undo::{Change, Deed, Outlook, Plan};

use crate::ui::text;

/// Maximum number of printed lines about undone changes. `--json` prints all.
const LINES: usize = 40;

/// The files of a set, and the effect of a restart on each.
pub struct Files {
    plan: Plan,
    outlook: Outlook,
    host: String,
    changed: ChangedFilePolicy,
    grown: ClosedFilePolicy,
    /// Whether the job is running. It then holds its own locks.
    runs: bool,
    /// Working directories that cannot be entered: the reasons, with the ranks.
    workdirs: BTreeMap<String, Vec<u32>>,
    /// Files, each with the ranks that have the same state of it.
    rows: BTreeMap<String, Row>,
}

struct Row {
    listed: Listed,
    ranks: Vec<u32>,
    /// Host of the file, if it is not this one.
    elsewhere: Option<String>,
}

impl Files {
    /// An empty preview for a set in this directory.
    pub fn new(
        directory: &Path,
        set: &Set,
        policy: FilePolicy,
        changed: ChangedFilePolicy,
        runs: bool,
    ) -> Result<Files> {
        let host = addresses::host();
        let plan = match policy {
            FilePolicy::Undo => {
                if !runs {
                    restart::check_not_left_behind(directory, set)?;
                }
                Plan::read(directory, &restart::cut_of(set)).with_context(|| {
                    format!(
                        "the undo journals in {} cannot be read",
                        directory.display()
                    )
                })?
            }
            FilePolicy::Cut | FilePolicy::Leave => Plan::default(),
        };
        Ok(Files {
            outlook: plan.outlook(&host, LONGEST_TAIL),
            plan,
            host,
            changed,
            grown: policy.into(),
            runs,
            workdirs: BTreeMap::new(),
            rows: BTreeMap::new(),
        })
    }

    /// Plan of the undo that the restart would make, and the host.
    pub fn undo(&self) -> Option<(&Plan, &str)> {
        Some((&self.plan, &self.host))
    }

    /// Adds the files of a rank that ran on `host`.
    pub fn add(&mut self, rank: u32, host: &str, sections: &Sections) {
        let process = &sections.process;
        if let Err(why) = process.check_workdir(self.undo()) {
            if host == self.host || !is_of_one_machine(&process.cwd) {
                let of = self.workdirs.entry(why.to_string()).or_default();
                of.push(rank);
            }
        }
        let prospect = Prospect {
            checks: Checks {
                changed: self.changed,
                undo: self.undo(),
            },
            grown: self.grown,
            outlook: &self.outlook,
            locks: !self.runs,
        };
        let mut all = process.list_files(&prospect);
        all.extend(sections.closed.list(&prospect));
        for listed in all {
            let bad = matches!(listed.fate, Fate::Refused { .. } | Fate::Left { .. });
            let path = listed.path.as_deref();
            let elsewhere = host != self.host && bad && path.is_some_and(is_of_one_machine);
            // Descriptor numbers differ between ranks.
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
            // A rank may have opened a file twice.
            if row.ranks.last() != Some(&rank) {
                row.ranks.push(rank);
            }
        }
    }

    /// Reason for which a restart would be refused.
    pub fn refusals(&self) -> Vec<String> {
        let rows = self.rows.values();
        let refused = rows.filter_map(|row| match (&row.listed.fate, &row.elsewhere) {
            (Fate::Refused { why }, None) => Some(format!("{}: {why}", ranks(&row.ranks))),
            _ => None,
        });
        let workdirs = self.workdirs.iter();
        let workdirs = workdirs.map(|(why, of)| format!("{}: {why}", ranks(of)));
        let undone = self.outlook.changes.iter();
        let undone = undone.filter_map(|change| match &change.deed {
            Deed::Refused { why } => Some(format!("{} {why}", change.path.display())),
            _ => None,
        });
        workdirs.chain(refused).chain(undone).collect()
    }

    /// Adds the preview to the JSON output.
    pub fn add_to(&self, object: &mut Value) {
        if let (Value::Object(all), Value::Object(own)) = (object, self.to_json()) {
            all.extend(own);
        }
    }

    fn to_json(&self) -> Value {
        let rows: Vec<_> = self.rows.values().map(Row::to_json).collect();
        let done = self.outlook.count();
        let (files, bytes) = self.truncated();
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

    /// Number of other files that would be truncated, and their removed bytes. Ranks may share a file.
    fn truncated(&self) -> (usize, u64) {
        let mut files = BTreeMap::new();
        for row in self.rows.values() {
            if let (Fate::Truncated { bytes }, None) = (&row.listed.fate, &row.elsewhere) {
                let most = files.entry(&row.listed.name).or_insert(0);
                *most = (*most).max(*bytes);
            }
        }
        (files.len(), files.values().sum())
    }

    /// Prints one line for each file.
    pub fn say_all(&self) {
        say!(
            "{:>10}  file, how it is restored, and what a restart would do to it now",
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
            (Fate::Truncated { bytes }, None | Some(_)) => format!("cut back by {bytes} bytes"),
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

    /// Prints the effect of a restart in the restart's own terms.
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
        let (files, bytes) = self.truncated();
        if files > 0 {
            say!("files would be cut back to their length at the checkpoint: {files}, by {bytes} bytes in all");
        }
        for (host, count) in &self.outlook.unseen {
            say!("{count} files and names that were changed lie on {host}, whose own file systems cannot be seen from here");
        }
        for why in &self.plan.damaged {
            say!("an undo journal cannot be read, and would be ignored: {why}");
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

/// Whether the path is, or would be, on a file system of this machine alone.
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
            format!("removed or renamed since: restored from {}", from.display())
        }
        Deed::Restored { from: None } => "removed since: created again".to_owned(),
        Deed::Rewritten { bytes, from, to } if from == to => {
            format!("overwritten since: {bytes} bytes restored")
        }
        Deed::Rewritten { bytes, from, to } => format!(
            "overwritten since: {bytes} bytes restored, and its length set to {to} instead of {from}"
        ),
        Deed::Truncated { bytes, to } => format!("has grown: cut back to {to} bytes, by {bytes}"),
        Deed::Left { why } => format!("stays as it is: {why}"),
        Deed::Refused { why } => format!("REFUSED: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ranks_are_abbreviated() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[0, 1, 2]), "ranks 0 to 2");
        assert_eq!(ranks(&[0, 2]), "2 ranks from 0 on");
    }
}
