//! `stasis compact`: merges an increment and its parents into a full checkpoint.

use ckpt_image::{compact, list_sets, prune, FileSystem};
use coordinator::claim;
use job_spec::Keep;
use serde_json::json;

use crate::args::Compact;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// Runs the command.
pub fn run(options: &Compact) -> exit::Result<()> {
    let (directory, disk) = (&options.directory()?, FileSystem::default());
    let key = options.key.read().code(Code::Usage)?;
    let key = key.as_ref();
    // A running job would not notice that its newest checkpoint was replaced.
    claim::check_free(directory).code(Code::Directory)?;
    let compacted = compact(&disk, directory, key).code(Code::Image)?;
    for why in &compacted.from.skipped {
        launcher::message::say(format_args!("skipping {why}"));
    }
    let removed = match options.keep {
        Keep::All => Vec::new(),
        Keep::Newest(number) => {
            let own = compacted.from.set.manifest().lineage.as_ref();
            let left_behind = restart::left_behind(directory, key).code(Code::Directory)?;
            let left_behind: Vec<u64> = left_behind.iter().map(|left| left.cut.number).collect();
            prune(&disk, directory, number, key, own, &left_behind).code(Code::Directory)?
        }
    };
    let from = &compacted.from.set;
    let chain: Vec<&str> = std::iter::once(from)
        .chain(from.chain())
        .map(|set| set.name())
        .collect();
    let sets = list_sets(directory, key).code(Code::Image)?;
    let made = compacted.made.as_deref();
    let name = made.and_then(|path| path.file_name()?.to_str());
    let bytes = sets.iter().find(|set| Some(&*set.name) == name);
    let bytes = bytes.map(|set| set.bytes());
    if options.json {
        json::print(json!({ "merged": chain, "set": name, "bytes": bytes, "removed": removed }));
        return Ok(());
    }
    match (name, bytes) {
        (Some(name), Some(bytes)) => say!(
            "{name}: a full checkpoint of {}, {}",
            chain.join(" on "),
            text::bytes(bytes)
        ),
        _ => say!("{} is a full checkpoint already", from.name()),
    }
    for name in removed {
        say!("{name}: removed");
    }
    Ok(())
}
