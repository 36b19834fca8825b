//! Finished checkpoints in the directory of a new job. A start never loses them: it is refused, or it moves them
//! to a subdirectory.

use std::path::Path;

use anyhow::{anyhow, Result};
use ckpt_image::{any_finished, archive, list_sets, FileSystem, Manifest, SealKey, SetInfo};
use job_spec::shell;

use crate::args::Launch;
use crate::ui::text;
use launcher::message;

/// Similarity of two command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The same program with the same arguments.
    Same,
    /// The same program with other arguments.
    OtherArguments,
    /// Another program.
    OtherProgram,
}

impl Likeness {
    /// Compares a requested command line with that of a set. Only the file name of the program counts, not its path.
    pub fn of(asked: &[String], taken: &[String]) -> Likeness {
        fn parts(words: &[String]) -> Option<(&str, &[String])> {
            let (program, arguments) = words.split_first()?;
            Some((program.rsplit('/').next()?, arguments))
        }
        match (parts(asked), parts(taken)) {
            (asked, taken) if asked == taken => Likeness::Same,
            (Some((asked, _)), Some((taken, _))) if asked == taken => Likeness::OtherArguments,
            _ => Likeness::OtherProgram,
        }
    }
}

/// Command line of a set's first launch.
pub fn launched(manifest: &Manifest) -> &[String] {
    let lineage = manifest.lineage.as_ref();
    lineage.map_or(&manifest.command, |lineage| &lineage.launched)
}

/// Command line to launch.
pub fn asked(options: &Launch) -> Vec<String> {
    let words = options.app.iter().map(|word| word.to_string_lossy());
    words.map(|word| word.into_owned()).collect()
}

/// Fails if the directory has finished checkpoints. With `--anew` it moves these to another directory, and succeeds.
pub fn make_free(directory: &Path, options: &Launch, key: Option<&SealKey>) -> Result<()> {
    if !any_finished(directory)? {
        return Ok(());
    }
    let sets = list_sets(directory, key)?;
    let asked = asked(options);
    let held = Held::new(directory, &sets, &asked);
    if let Some(why) = held.of_another() {
        return Err(why);
    }
    if !options.anew {
        return Err(held.refusal());
    }
    if let Some(set) = sets.iter().find(|set| !set.undrained.is_empty()) {
        return Err(anyhow!(
            "{}: of {} there are images in local directories alone, which would not be found any more: bring \
             them to the checkpoint directory by `stasis drain {}` on each node, or give another --ckpt-dir",
            directory.display(),
            set.name,
            shell::word(directory)
        ));
    }
    // The undo journals belong to these sets: a restart from one needs them.
    let place = archive(&FileSystem::default(), directory, &[undo::DIRECTORY])?;
    message::say(format_args!(
        "the checkpoints that were in {} are kept in {}: {}",
        directory.display(),
        place.display(),
        held.names
    ));
    Ok(())
}

/// The finished checkpoints of a directory, and the program to launch there.
struct Held<'a> {
    directory: &'a Path,
    /// Sets, newest first.
    sets: Vec<&'a SetInfo>,
    names: String,
    asked: &'a [String],
}

impl<'a> Held<'a> {
    fn new(directory: &'a Path, sets: &'a [SetInfo], asked: &'a [String]) -> Self {
        let finished = |set: &&SetInfo| set.state != ckpt_image::SetState::Unfinished;
        let sets: Vec<&SetInfo> = sets.iter().filter(finished).collect();
        let names: Vec<&str> = sets.iter().map(|set| &*set.name).collect();
        Held {
            directory,
            names: names.join(", "),
            sets,
            asked,
        }
    }

    fn manifests(&self) -> impl Iterator<Item = &'a Manifest> + '_ {
        self.sets.iter().filter_map(|set| set.manifest.as_ref())
    }

    /// The refusal if another program has made one of them.
    fn of_another(&self) -> Option<anyhow::Error> {
        let other = |manifest: &&Manifest| {
            Likeness::of(self.asked, launched(manifest)) == Likeness::OtherProgram
        };
        let other = self.manifests().find(other)?;
        Some(anyhow!(
            "{} holds checkpoints of another program, `{}` ({}), and this is `{}`: give this one its own \
             --ckpt-dir",
            self.directory.display(),
            launched(other).join(" "),
            self.names,
            self.asked.join(" ")
        ))
    }

    /// The refusal if this program has made them.
    fn refusal(&self) -> anyhow::Error {
        let directory = self.directory.display();
        let what = match self.manifests().next() {
            Some(newest) => format!(
                "the newest one taken {} of `{}`, {}",
                text::when(newest.created),
                launched(newest).join(" "),
                text::ranks(newest.world_size)
            ),
            None => "none of which can be read".to_owned(),
        };
        anyhow!(
            "{directory} holds checkpoints already: {} ({what}). --resume continues from the newest one; --anew starts \
             `{}` from its beginning and keeps these in a directory of their own in {directory}; or give another \
             --ckpt-dir",
            self.names,
            self.asked.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn programs_are_compared_by_name_and_arguments() {
        let like = |a, b| Likeness::of(&words(a), &words(b));
        assert_eq!(like("./a 1", "/home/u/a 1"), Likeness::Same);
        assert_eq!(like("./a 1", "a 2"), Likeness::OtherArguments);
        assert_eq!(like("./a", "a 2"), Likeness::OtherArguments);
        assert_eq!(like("./a 1", "./b 1"), Likeness::OtherProgram);
        assert_eq!(Likeness::of(&words("a"), &[]), Likeness::OtherProgram);
    }
}
