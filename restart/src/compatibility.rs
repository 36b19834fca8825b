//! The check that an image can be restarted on this machine. It is made before any memory is mapped.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ckpt_image::{kind, Backing, FileIdentity, FileIdentityCache, Image, Machine, Region};

use loader::{SavedRegisters, LONGEST_TAIL};
use undo::{Outlook, Plan, View};

use crate::error::{RestartError, Result};
use crate::sections;

/// All reasons why `image` cannot be restarted on this machine, whatever its files are.
pub(crate) fn incompatibilities(image: &Image) -> Result<Vec<String>> {
    let mut reasons = environment(image)?;
    let registers: Option<SavedRegisters> = sections::optional(image, kind::REGISTERS)?;
    reasons.extend(registers.and_then(|registers| registers.incompatibility()));
    Ok(reasons)
}

fn environment(image: &Image) -> Result<Vec<String>> {
    let recorded = image
        .section(kind::ENVIRONMENT)
        .and_then(|section| postcard::from_bytes::<Machine>(&section.bytes).ok());
    let Some(recorded) = recorded else {
        return Ok(vec![
            "the image does not name the machine on which it was taken".to_owned(),
        ]);
    };
    let here = Machine::here().map_err(RestartError::Machine)?;
    Ok(recorded.incompatibilities(&here))
}

/// A mapped file at the checkpoint, and the demands of its mapping.
struct Mapped<'a> {
    path: &'a [u8],
    was: &'a FileIdentity,
    /// Whether its content must be the same.
    whole: bool,
    /// Bytes that it must have.
    needed: u64,
}

impl<'a> Mapped<'a> {
    fn of(region: &'a Region) -> Option<Mapped<'a>> {
        match &region.backing {
            Backing::Anonymous
            | Backing::SharedAnonymous
            | Backing::Shared { .. }
            | Backing::SharedContent { .. } => None,
            Backing::PrivateFile { path, identity, .. } => Some(Mapped {
                path,
                was: identity,
                whole: true,
                needed: 0,
            }),
            // The program itself may have written the file after the checkpoint. But pages that were inside the file
            // must not be past its end now, since an access to them raises SIGBUS.
            Backing::SharedFile {
                path,
                offset,
                identity,
                writable,
            } => Some(Mapped {
                path,
                was: identity,
                whole: !writable,
                needed: identity.size.min(offset + region.len),
            }),
        }
    }

    fn name(&self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.path))
    }

    fn difference(&self, now: &FileIdentity) -> Option<String> {
        match self.whole {
            true => self.was.difference(now),
            false => (now.size < self.needed)
                .then(|| format!("it has {} bytes, {} are mapped", now.size, self.needed)),
        }
    }

    /// The difference between the file of this path and the mapped one.
    fn differs_at(&self, path: &Path, files: &mut FileIdentityCache) -> Option<String> {
        let named = self.name().display();
        let Some((_, now)) = files.at(path.as_os_str().as_bytes()) else {
            return Some(format!("{named} is missing or cannot be read"));
        };
        let differs = self.difference(now);
        differs.map(|how| format!("{named} is not the file that the program had mapped: {how}"))
    }

    /// The difference that will be left when the changes of the job are undone.
    fn differs_undone(&self, undo: &Undo<'_>, files: &mut FileIdentityCache) -> Option<String> {
        let path = self.name();
        let Some(view) = undo.view(path) else {
            return self.differs_at(&undo.place(path), files);
        };
        // Nothing but its name changes back.
        if let Some(now) = view.unchanged() {
            return self.differs_at(now, files);
        }
        if let Some(why) = view.lost() {
            let differs = self.differs_at(&undo.place(path), files);
            return differs.map(|how| format!("{how}, and cannot be brought back: {why}"));
        }
        let undone = FileIdentity {
            size: view.size(),
            mtime_ns: view.modified(),
            build_id: self.was.build_id.clone(),
        };
        let (named, differs) = (path.display(), self.difference(&undone));
        differs.map(|how| {
            format!("{named} was not the file that the program had mapped when the job began to change it: {how}")
        })
    }
}

/// The undo that comes before the memory is mapped.
struct Undo<'a> {
    plan: &'a Plan,
    host: &'a str,
    /// Predicted names, if directories are to be renamed.
    outlook: Option<Outlook>,
}

impl Undo<'_> {
    fn of<'a>((plan, host): (&'a Plan, &'a str)) -> Undo<'a> {
        let moves = plan.renames_directories();
        Undo {
            plan,
            host,
            outlook: moves.then(|| plan.outlook(host, LONGEST_TAIL)),
        }
    }

    /// The file that will have this name, if the job has changed it.
    fn view(&self, path: &Path) -> Option<View<'_>> {
        match &self.outlook {
            Some(outlook) => outlook.view(self.plan, path, self.host),
            None => self.plan.view(path, self.host),
        }
    }

    /// Current name of the file that will have this one.
    fn place(&self, path: &Path) -> PathBuf {
        let outlook = self.outlook.as_ref();
        let place = outlook.and_then(|outlook| outlook.place(path));
        place.unwrap_or_else(|| path.to_owned())
    }
}

/// All reasons why the mapped files of `image` do not do, or will not when the changes in the plan are undone.
pub(crate) fn unsuitable_files(image: &Image, undo: Option<(&Plan, &str)>) -> Vec<String> {
    let undo = undo.map(Undo::of);
    let differs = |file: &Mapped<'_>, files: &mut FileIdentityCache| match &undo {
        Some(undo) => file.differs_undone(undo, files),
        None => file.differs_at(file.name(), files),
    };
    reasons(image, differs)
}

/// All reasons why the mapped files do not do after an undo, which has been judged before. A time of modification
/// that could not be set back counts for nothing: the content is the old one.
pub(crate) fn unsuitable_after_undo(image: &Image) -> Vec<String> {
    reasons(image, |file, files| {
        let now = files.at(file.path).map(|(_, now)| now.mtime_ns);
        let was = FileIdentity {
            mtime_ns: now.unwrap_or(file.was.mtime_ns),
            ..file.was.clone()
        };
        let untimed = Mapped { was: &was, ..*file };
        untimed.differs_at(file.name(), files)
    })
}

fn reasons(
    image: &Image,
    differs: impl Fn(&Mapped<'_>, &mut FileIdentityCache) -> Option<String>,
) -> Vec<String> {
    let (mut files, mut reasons) = (FileIdentityCache::default(), Vec::new());
    for file in image.regions().iter().filter_map(Mapped::of) {
        // A library has several regions, but one reason is enough.
        reasons.extend(differs(&file, &mut files).filter(|reason| !reasons.contains(reason)));
    }
    reasons
}
