//! The key that seals sets: who has it can tell whether a set is as it was made.
//!
//! Checksums and digests find accidents; whoever can write a set can make them right again. A seal is a
//! keyed digest of the manifest, which holds the digest of every image, which covers a digest of every
//! chunk of memory: nothing in a set can be changed without the key. `docs/image-format.md` has the
//! bytes.

use std::io::Read;
use std::path::Path;

use crate::access;
use crate::bytes::{hex, unhex};
use crate::error::{ImageError, Result};

/// Fewer bytes could be guessed.
const LEAST: usize = 32;
const MOST: u64 = 4096;
/// They keep the uses of one file apart (see `blake3::derive_key`), and are part of the format.
const SEALS: &str = "Stasis 2026-11 seal of an image set";
const NAMES: &str = "Stasis 2026-11 name of a key";

/// A key. It never goes into an image: the lower half, which is not saved, has it.
#[derive(Clone)]
pub struct Key {
    secret: [u8; blake3::KEY_LEN],
    id: KeyId,
}

/// Tells keys apart and gives nothing of them away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 8]);

impl Key {
    /// The key that the file `path` holds: 32 to 4096 bytes of any kind. The file must be the user's
    /// own, and nobody else's to read.
    pub fn read(path: &Path) -> Result<Key> {
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
        access::open_secret(path)
            .map_err(|e| match e {
                ImageError::Access { why, .. } => unfit(why),
                e => e,
            })?
            .take(MOST + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| ImageError::io("read the key file", path, e))?;
        match bytes.len() {
            LEAST.. if bytes.len() as u64 <= MOST => Ok(Key::new(&bytes)),
            // No more than that was read.
            len if len as u64 > MOST => Err(unfit(fits(&format!("more than {MOST}")))),
            len => Err(unfit(fits(&len.to_string()))),
        }
    }

    fn new(bytes: &[u8]) -> Key {
        let [a, b, c, d, e, f, g, h, ..] = blake3::derive_key(NAMES, bytes);
        Key {
            secret: blake3::derive_key(SEALS, bytes),
            id: KeyId([a, b, c, d, e, f, g, h]),
        }
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The seal of `bytes`. Hashes are compared in constant time.
    pub(crate) fn seal(&self, bytes: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.secret, bytes)
    }
}

impl KeyId {
    pub(crate) fn parse(text: &str) -> Option<KeyId> {
        unhex(text).map(KeyId)
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl std::fmt::Debug for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Without the secret.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.id)
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
            let error = Key::read(&path).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("/key"), "{error}");
        }
        let path = file(dir, &[1; 32], 0o600);
        let key = Key::read(&path).unwrap();
        assert_eq!(key.id(), Key::new(&[1; 32]).id());
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        Key::read(&path).unwrap();
        symlink(&path, dir.join("link")).unwrap();
        let error = Key::read(&dir.join("link")).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert!(Key::read(&dir.join("none")).is_err() && Key::read(dir).is_err());
        // Only root can give a file away; elsewhere there is nothing to test.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            let error = Key::read(&path).unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345"), "{error}");
        }
    }

    #[test]
    fn keys_differ_in_name_and_seal_and_are_not_printed() {
        let (a, b) = (Key::new(&[1; 32]), Key::new(&[2; 32]));
        assert_ne!(a.id(), b.id());
        assert_ne!(a.seal(b"x"), b.seal(b"x"));
        assert_ne!(a.seal(b"x"), a.seal(b"y"));
        assert_eq!(KeyId::parse(&a.id().to_string()), Some(a.id()));
        let shown = format!("{a:?}");
        assert_eq!(shown, format!("Key({})", a.id()));
    }
}
