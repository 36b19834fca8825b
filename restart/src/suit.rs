//! Whether this machine suits an image: found out before anything is mapped.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ckpt_image::{kind, Backing, Environment, Identity, IdentityCache, Image, Region};

use crate::error::{RestartError, Result};

/// Every reason against bringing `image` back here.
pub(crate) fn refusals(image: &Image) -> Result<Vec<String>> {
    let mut reasons = environment(image)?;
    let mut files = IdentityCache::default();
    for region in image.regions() {
        // A library has several regions, but one reason is enough.
        reasons.extend(file(region, &mut files).filter(|reason| !reasons.contains(reason)));
    }
    Ok(reasons)
}

fn environment(image: &Image) -> Result<Vec<String>> {
    let recorded = image
        .section(kind::ENVIRONMENT)
        .and_then(|section| postcard::from_bytes::<Environment>(&section.bytes).ok());
    let Some(recorded) = recorded else {
        return Ok(vec![
            "the image does not say on which machine it was taken".to_owned()
        ]);
    };
    let here = Environment::here().map_err(RestartError::Machine)?;
    Ok(recorded.refusals(&here))
}

/// Why the file behind a region is not what it was.
fn file(region: &Region, files: &mut IdentityCache) -> Option<String> {
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
            // The program itself may have written it after the checkpoint; but what was inside the
            // file must not be past its end now, where touching it kills.
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

fn too_short(now: &Identity, needed: u64) -> Option<String> {
    (now.size < needed).then(|| format!("it has {} bytes, {needed} are mapped", now.size))
}
