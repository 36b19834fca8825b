//! The lower half's command line. Only `stasis` writes it, so it is plain words in a fixed order
//! of options, then `--`, then the program.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{bail, Context, Result};
use ckpt_image::{Compression, Key, Lineage};
use loader::ChangedFiles;

mod schedule;

pub use schedule::Schedule;

/// What this process is to do.
pub enum Command {
    /// Start a program as the upper half.
    Launch(Launch),
    /// Bring an upper half back from its image.
    Restart(Restart),
    /// End the job with an exit code.
    Refuse(i32),
    /// Say which MPI library this is for.
    About,
}

/// Where, when and how many: options of both.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// Where image sets and the job file go.
    pub dir: PathBuf,
    /// When they are taken that no command asks for.
    pub schedule: Schedule,
    /// How many whole sets stay; all if absent.
    pub keep: Option<NonZeroUsize>,
    /// One in so many sets is a full one, the others hold what has changed.
    pub full_every: u32,
    /// Whether memory is compressed.
    pub compression: Compression,
    /// How long the job stands still.
    pub pause: Pause,
    /// The file of the key that seals sets.
    pub key_file: Option<PathBuf>,
    /// Where images are written first, to be drained to `dir`.
    pub local_dir: Option<PathBuf>,
    /// Ranks on other machines keep copies of what is in `local_dir`.
    pub partner: bool,
    /// What becomes of what the job does to its files.
    pub files: Files,
    /// Bytes that a rank's journal may have between two checkpoints.
    pub undo_limit: u64,
}

/// How a restart treats changes that the job has made to its files since the checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// It is undone: the job keeps a journal.
    #[default]
    Undo,
    /// What was appended is cut off.
    Cut,
    /// The same, but only of files that were open.
    Leave,
}

/// How long the job stands still for a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// Until its memory is copied on write, where the machine can bear it.
    #[default]
    Copy,
    /// Until the images are written.
    Stop,
}

impl Checkpoints {
    /// The key that seals sets.
    pub fn key(&self) -> Result<Option<Key>> {
        let key = self.key_file.as_deref().map(Key::read);
        Ok(key.transpose()?)
    }

    /// The options as they are written.
    pub fn words(&self) -> Vec<OsString> {
        let mut words = vec!["--ckpt-dir".into(), self.dir.clone().into()];
        words.extend(self.schedule.words());
        if let Some(keep) = self.keep {
            words.extend(["--keep".into(), keep.to_string().into()]);
        }
        if self.full_every > 1 {
            words.extend(["--full-every".into(), self.full_every.to_string().into()]);
        }
        if self.compression != Compression::default() {
            words.extend(["--compress".into(), word(self.compression).into()]);
        }
        if self.pause == Pause::Stop {
            words.extend(["--pause".into(), "stop".into()]);
        }
        if let Some(file) = &self.key_file {
            words.extend(["--key-file".into(), file.clone().into()]);
        }
        let (files, _) = FILES[self.files as usize];
        words.extend(["--files".into(), files.into()]);
        words.extend(["--undo-limit".into(), self.undo_limit.to_string().into()]);
        if let Some(dir) = &self.local_dir {
            words.extend(["--local-dir".into(), dir.clone().into()]);
        }
        if self.partner {
            words.push("--partner".into());
        }
        words
    }
}

/// Options of `launch`.
pub struct Launch {
    /// Its checkpoints.
    pub checkpoints: Checkpoints,
    /// The run that this goes on, where the program before has executed this one.
    pub lineage: Option<Lineage>,
    /// The program as the user named it.
    pub program: OsString,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
}

/// Options of `restart`.
pub struct Restart {
    /// Its checkpoints, those that there are among them.
    pub checkpoints: Checkpoints,
    /// Name of the set (`ckpt-3`); the newest whole one if absent.
    pub set: Option<String>,
    /// What to do where a file is not what it was at the checkpoint.
    pub changed_files: ChangedFiles,
}

/// Parses the words after the program's name.
pub fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Command> {
    let verb = words
        .next()
        .context("this program is started by `stasis launch` or `stasis restart`")?;
    if verb == "about" {
        return Ok(Command::About);
    }
    if verb == "refuse" {
        let code = words.next().context("refuse wants an exit code")?;
        return Ok(Command::Refuse(number(&code)?));
    }
    let (mut ckpt_dir, mut key_file, mut local_dir) = (None, None, None);
    let (mut schedule, mut keep) = (Schedule::default(), None);
    let mut full_every = 1;
    let mut compression = Compression::default();
    let mut pause = Pause::default();
    let mut partner = false;
    let (mut set, mut lineage) = (None, None);
    let mut changed_files = ChangedFiles::default();
    let mut files = Files::default();
    let mut undo_limit = undo::DEFAULT_LIMIT;
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{} wants a value", word.display()))
        };
        match word.to_str() {
            Some("--ckpt-dir") => ckpt_dir = Some(PathBuf::from(value()?)),
            Some(option) if schedule.takes(option) => schedule.read(option, &value()?)?,
            Some("--keep") => keep = Some(number(&value()?)?),
            Some("--full-every") => full_every = number(&value()?)?,
            Some("--compress") => compression = compress(&value()?)?,
            Some("--pause") => pause = pause_of(&value()?)?,
            Some("--key-file") => key_file = Some(PathBuf::from(value()?)),
            Some("--local-dir") => local_dir = Some(PathBuf::from(value()?)),
            Some("--partner") => partner = true,
            Some("--set") => set = Some(value()?.to_string_lossy().into_owned()),
            Some("--lineage") => lineage = Some(lineage_of(&value()?)?),
            Some("--changed-files") => changed_files = changed(&value()?)?,
            Some("--files") => files = files_of(&value()?)?,
            Some("--undo-limit") => undo_limit = number(&value()?)?,
            Some("--") => {
                rest = words.collect();
                break;
            }
            _ => bail!("unknown option {}", word.display()),
        }
    }
    let checkpoints = Checkpoints {
        dir: ckpt_dir.context("--ckpt-dir is missing")?,
        schedule,
        keep,
        full_every,
        compression,
        pause,
        key_file,
        local_dir,
        partner,
        files,
        undo_limit,
    };
    match verb.to_str() {
        Some("launch") => {
            let mut rest = rest.into_iter();
            let program = rest.next().context("no program was named")?;
            Ok(Command::Launch(Launch {
                checkpoints,
                lineage,
                program,
                args: rest.collect(),
            }))
        }
        Some("restart") => Ok(Command::Restart(Restart {
            checkpoints,
            set,
            changed_files,
        })),
        _ => bail!("unknown command {}", verb.display()),
    }
}

fn number<T: FromStr>(word: &OsString) -> Result<T> {
    word.to_str()
        .and_then(|w| w.parse().ok())
        .with_context(|| format!("{} is not a number, or too small", word.display()))
}

/// The word that stands for a run.
pub fn lineage_word(lineage: &Lineage) -> Result<OsString> {
    Ok(serde_json::to_string(lineage)?.into())
}

fn lineage_of(word: &OsString) -> Result<Lineage> {
    let text = word.to_str().context("--lineage is not text")?;
    serde_json::from_str(text).context("--lineage cannot be read")
}

const COMPRESSION: [(&str, Compression); 3] = [
    ("off", Compression::Off),
    ("probe", Compression::Probe),
    ("always", Compression::Always),
];

fn word(compression: Compression) -> &'static str {
    let named = COMPRESSION.iter().find(|(_, known)| *known == compression);
    named.map_or("probe", |(word, _)| word)
}

fn compress(word: &OsString) -> Result<Compression> {
    let named = COMPRESSION.iter().find(|(known, _)| word == known);
    let (_, compression) =
        named.with_context(|| format!("{} is not off, probe or always", word.display()))?;
    Ok(*compression)
}

fn pause_of(word: &OsString) -> Result<Pause> {
    Ok(match word.to_str() {
        Some("copy") => Pause::Copy,
        Some("stop") => Pause::Stop,
        _ => bail!("{} is not copy or stop", word.display()),
    })
}

fn changed(word: &OsString) -> Result<ChangedFiles> {
    Ok(match word.to_str() {
        Some("refuse") => ChangedFiles::Refuse,
        Some("warn") => ChangedFiles::Warn,
        Some("ignore") => ChangedFiles::Ignore,
        _ => bail!("{} is not refuse, warn or ignore", word.display()),
    })
}

/// In the order of the enumeration.
const FILES: [(&str, Files); 3] = [
    ("undo", Files::Undo),
    ("cut", Files::Cut),
    ("leave", Files::Leave),
];

fn files_of(word: &OsString) -> Result<Files> {
    let named = FILES.iter().find(|(known, _)| word == known);
    let (_, files) =
        named.with_context(|| format!("{} is not undo, cut or leave", word.display()))?;
    Ok(*files)
}
