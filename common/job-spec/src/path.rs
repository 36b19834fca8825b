//! Paths in JSON: as text, or as an array of bytes if they are not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Encoded {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for Encoded {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Encoded::Text(text.to_owned()),
            None => Encoded::Bytes(path.as_os_str().as_bytes().to_owned()),
        }
    }
}

impl From<Encoded> for PathBuf {
    fn from(encoded: Encoded) -> Self {
        match encoded {
            Encoded::Text(text) => text.into(),
            Encoded::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Encoded::from(path).serialize(serializer)
}

pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Encoded::deserialize(deserializer).map(PathBuf::from)
}

/// The same encoding for an optional path.
pub mod optional {
    use super::*;

    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Encoded::from).serialize(serializer)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let encoded = Option::<Encoded>::deserialize(deserializer)?;
        Ok(encoded.map(PathBuf::from))
    }
}
