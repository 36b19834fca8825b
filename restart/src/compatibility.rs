//! The check that an image can be restarted on this machine. It is made before any memory is mapped.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ckpt_image::{kind, Backing, FileIdentity, FileIdentityCache, Image, Machine, Region};

use loader::SavedRegisters;

use crate::error::{RestartError, Result};
use crate::sections;

/// All reasons why `image` cannot be restarted here.
pub(crate) fn incompatibilities(image: &Image) -> Result<Vec<String>> {
    let mut reasons = environment(image)?;
    let registers: Option<SavedRegisters> = sections::optional(image, kind::REGISTERS)?;
    reasons.extend(registers.and_then(|registers| registers.incompatibility()));
    let mut files = FileIdentityCache::default();
    for region in image.regions() {
        // A library has several regions, but one reason is enough.
        reasons.extend(file(region, &mut files).filter(|reason| !reasons.contains(reason)));
    }
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

/// The difference between the file behind a region now and at the checkpoint.
fn file(region: &Region, files: &mut FileIdentityCache) -> Option<String> {
    let (path, was, must_be_same, needed) = match &region.backing {
        Backing::Anonymous
        | Backing::SharedAnonymous
        | Backing::Shared { .. }
        | Backing::SharedContent { .. } => return None,
        Backing::PrivateFile { path, identity, .. } => (path, identity, true, 0),
        Backing::SharedFile {
            path,
            offset,
            identity,
            writable,
        } => {
            // The program itself may have written the file after the checkpoint. But pages that were inside the file
            // must not be past its end now, since an access to them raises SIGBUS.
            let needed = identity.size.min(offset + region.len);
            (path, identity, !writable, needed)
        }
    };
    let named = Path::new(OsStr::from_bytes(path)).display();
    let Some((_, now)) = files.at(path) else {
        return Some(format!("{named} is missing or cannot be read"));
    };
    let differs = match must_be_same {
        true => was.difference(now),
        false => too_short(now, needed),
    };
    differs.map(|how| format!("{named} is not the file that the program had mapped: {how}"))
}

fn too_short(now: &FileIdentity, needed: u64) -> Option<String> {
    (now.size < needed).then(|| format!("it has {} bytes, {needed} are mapped", now.size))
}
