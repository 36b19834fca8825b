//! The seal of a set: a message authentication code (keyed BLAKE3) over its manifest, and the key for it.
//!
//! Checksums and digests detect accidents, but any user who can write a set can adapt them. The manifest
//! holds the digest of every image, which covers a digest of every chunk of memory. So nothing in a sealed
//! set can be changed without the key. `docs/image-format.md` has the bytes.

use std::io::Read;
use std::path::Path;

use crate::error::{ImageError, Result};
use crate::format::ids::KeyId;
use crate::fs::permissions;

/// Least length of a key in bytes; a shorter one could be guessed.
const LEAST: usize = 32;
const MOST: u64 = 4096;
/// Contexts that separate the uses of one key (see `blake3::derive_key`). They are part of the format.
const SEALS: &str = "Stasis 2026-11 seal of an image set";
const NAMES: &str = "Stasis 2026-11 name of a key";

/// A key. It is never stored in an image: only the lower half, which is not saved, has it.
#[derive(Clone)]
pub struct SealKey {
    secret: [u8; blake3::KEY_LEN],
    id: KeyId,
}

impl SealKey {
    /// Reads the key from the file `path`: 32 to 4096 bytes of any kind. The file must belong to the user,
    /// and no other user may read it.
    ///
    /// # Errors
    /// [`ImageError::Io`] if it cannot be read, [`ImageError::Key`] if it is unfit.
    pub fn read(path: &Path) -> Result<SealKey> {
        let unfit = |why: String| ImageError::Key {
            path: path.to_owned(),
            why,
        };
        let fits = |has: &str| {
            format!(
                "it has {has} bytes, a key has {LEAST} to {MOST}. To make one: \
                 (umask 077; head -c {LEAST} /dev/urandom > FILE)"
            )
        };
        let mut bytes = Vec::new();
        permissions::open_secret(path)
            .map_err(|e| match e {
                ImageError::Access { why, .. } => unfit(why),
                e => e,
            })?
            .take(MOST + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| ImageError::io("read the key file", path, e))?;
        match bytes.len() {
            LEAST.. if bytes.len() as u64 <= MOST => Ok(SealKey::new(&bytes)),
            // The read stops there.
            len if len as u64 > MOST => Err(unfit(fits(&format!("more than {MOST}")))),
            len => Err(unfit(fits(&len.to_string()))),
        }
    }

    fn new(bytes: &[u8]) -> SealKey {
        let [a, b, c, d, e, f, g, h, ..] = blake3::derive_key(NAMES, bytes);
        SealKey {
            secret: blake3::derive_key(SEALS, bytes),
            id: KeyId([a, b, c, d, e, f, g, h]),
        }
    }

    /// Id of the key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The seal of `bytes`. Hashes are compared in constant time.
    pub(crate) fn seal(&self, bytes: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.secret, bytes)
    }
}

/// The output leaves the secret out.
impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealKey({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{symlink, PermissionsExt};

    fn file(dir: &Path, bytes: &[u8], mode: u32) -> std::path::PathBuf {
        let path = dir.join("key");
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn only_private_files_of_the_right_size_are_keys() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for (bytes, mode, why) in [
            (&[1; 32][..], 0o640, "others can read"),
            (&[1; 32], 0o604, "others can read"),
            (&[1; 32], 0o620, "others can read or write"),
            (&[1; 31], 0o600, "it has 31 bytes, a key has 32 to 4096"),
            (&[1; 6], 0o600, "it has 6 bytes, a key has"),
            (&[1; 5000], 0o600, "it has more than 4096 bytes, a key has"),
        ] {
            let path = file(dir, bytes, mode);
            let error = SealKey::read(&path).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("/key"), "{error}");
        }
        let path = file(dir, &[1; 32], 0o600);
        let key = SealKey::read(&path).unwrap();
        assert_eq!(key.id(), SealKey::new(&[1; 32]).id());
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        SealKey::read(&path).unwrap();
        symlink(&path, dir.join("link")).unwrap();
        let error = SealKey::read(&dir.join("link")).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert!(SealKey::read(&dir.join("none")).is_err() && SealKey::read(dir).is_err());
        // Only root can change the owner of a file; other users cannot run this test.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            let error = SealKey::read(&path).unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345"), "{error}");
        }
    }

    #[test]
    fn keys_differ_in_name_and_seal_and_are_not_printed() {
        let (a, b) = (SealKey::new(&[1; 32]), SealKey::new(&[2; 32]));
        assert_ne!(a.id(), b.id());
        assert_ne!(a.seal(b"x"), b.seal(b"x"));
        assert_ne!(a.seal(b"x"), a.seal(b"y"));
        assert_eq!(KeyId::parse(&a.id().to_string()), Some(a.id()));
        let shown = format!("{a:?}");
        assert_eq!(shown, format!("SealKey({})", a.id()));
    }
}
