//! `stasis drain`: copies images from this node's local directory to the checkpoint directory in place of a job that
//! has died. SCR calls this scavenging.

use anyhow::anyhow;
use ckpt_image::{list_sets, FileSystem, ImageError, RankEntry, Set};
use coordinator::claim;
use serde_json::json;

use crate::args::Drain;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::json;

/// Outcome for an image of a set.
enum Done {
    Brought,
    /// The image is not visible from this node.
    Elsewhere,
    Failed(ImageError),
}

/// Runs the command.
pub fn run(options: &Drain) -> exit::Result<()> {
    let directory = &options.directory()?;
    let key = options.key.read().code(Code::Usage)?;
    // A running job drains its images itself.
    claim::check_free(directory).code(Code::Directory)?;
    let sets = list_sets(directory, key.as_ref()).code(Code::Image)?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for info in sets.iter().filter(|set| !set.undrained.is_empty()) {
        let name = &info.name;
        let set = Set::open(directory, name, key.as_ref()).code(Code::Image)?;
        let mut entries: Vec<&RankEntry> = info.undrained.iter().collect();
        // With the parents of each set.
        entries.sort_by_key(|entry| entry.rank);
        entries.dedup_by_key(|entry| entry.rank);
        for entry in entries {
            let rank = entry.rank;
            let done = bring(&set, rank);
            let (state, why) = match &done {
                Done::Brought => ("brought", None),
                Done::Elsewhere => ("elsewhere", None),
                Done::Failed(why) => ("failed", Some(why.to_string())),
            };
            rows.push(json!({ "set": name, "rank": rank, "state": state, "why": why }));
            match done {
                Done::Failed(why) => failed.push(format!("{name}, rank {rank}: {why}")),
                _ if options.json => {}
                Done::Brought => {
                    say!("{name}: the image of rank {rank} is in the checkpoint directory now");
                }
                Done::Elsewhere => {
                    let hosts: Vec<&str> = entry.elsewhere().map(|(host, _)| host).collect();
                    let hosts = hosts.join(" or ");
                    say!("{name}: the image of rank {rank} is not seen from here: drain it on {hosts}");
                }
            }
        }
    }
    if options.json {
        json::print(json!({ "images": rows }));
    } else if rows.is_empty() {
        let what = match sets.is_empty() {
            true => "there is no checkpoint",
            false => "there is nothing to drain: all images are",
        };
        say!("{what} in {}", directory.display());
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(anyhow!("{}", failed.join("\n        "))).code(Code::Image),
    }
}

fn bring(set: &Set, rank: u32) -> Done {
    match set.reaches(rank) {
        false => Done::Elsewhere,
        true => match set.drain(&FileSystem::default(), rank) {
            Ok(()) => Done::Brought,
            Err(why) => Done::Failed(why),
        },
    }
}
