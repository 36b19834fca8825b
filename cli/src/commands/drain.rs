//! `stasis drain`: copies images from this node's local directory to the checkpoint directory in place of a job that
//! has died. SCR calls this scavenging. With `--with` it also hands the newest checkpoint over to a command.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::anyhow;
use ckpt_image::{list_sets, FileSystem, ImageError, RankEntry, SealKey, Set};
use coordinator::claim;
use serde_json::json;

use crate::args::Drain;
use crate::hand_over::HandOver;
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
    let free = claim::check_free(directory);
    let sets = match (&free, &options.with) {
        (Err(_), Some(_)) => Vec::new(),
        _ => {
            free.code(Code::Directory)?;
            list_sets(directory, key.as_ref()).code(Code::Image)?
        }
    };
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
    let mut stored = Vec::new();
    if let Some(command) = &options.with {
        hand_over(options, directory, command, key, &mut stored, &mut failed)?;
    }
    if options.json {
        json::print(json!({ "images": rows, "handed_over": stored }));
    } else if rows.is_empty() && options.with.is_none() {
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

/// Hands over the newest set, after those that it inherits from, and names them.
fn hand_over(
    options: &Drain,
    directory: &Path,
    command: &OsStr,
    key: Option<SealKey>,
    stored: &mut Vec<String>,
    failed: &mut Vec<String>,
) -> exit::Result<()> {
    let mut hand_over = HandOver::new(directory, command, key).code(Code::Directory)?;
    while let Some(set) = hand_over.next().code(Code::Image)? {
        let name = set.name.clone();
        let started = hand_over.start(set);
        if let Err(why) = started.and_then(|handed| hand_over.finish(handed)) {
            failed.push(format!("{why:#}"));
            return Ok(());
        }
        if !options.json {
            say!("{name} is handed over");
        }
        stored.push(name);
    }
    if stored.is_empty() && !options.json {
        let directory = directory.display();
        say!("there is nothing to hand over in {directory}: the newest whole checkpoint is stored, or there is none");
    }
    Ok(())
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
