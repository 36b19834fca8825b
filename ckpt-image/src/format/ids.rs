//! The ids of sets and of keys, as they are stored and displayed.

use crate::format::bytes::{hex, unhex};

/// Random id that all parts of one set share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SetId(pub [u8; 16]);

impl SetId {
    /// A fresh id from the kernel's generator.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn random() -> std::io::Result<SetId> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)?;
        Ok(SetId(id))
    }
}

impl std::fmt::Display for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl std::fmt::Debug for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SetId({self})")
    }
}

impl From<SetId> for String {
    fn from(id: SetId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for SetId {
    type Error = &'static str;
    fn try_from(text: String) -> Result<SetId, &'static str> {
        unhex(&text)
            .map(SetId)
            .ok_or("a set id is 32 lower-case hexadecimal digits")
    }
}

/// Id of a key. It distinguishes keys and reveals nothing about them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(crate) [u8; 8]);

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
