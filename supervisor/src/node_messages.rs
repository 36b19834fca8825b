//! Messages between a node keeper and `stasis run`: lines of JSON, by TCP. The first one is
//! [`FromRank::KeepsNode`](crate::messages::FromRank::KeepsNode).

use std::io;

use ckpt_image::SetId;
use dump::WrittenImage;
use serde::{Deserialize, Serialize};

use crate::messages::take_line;

/// Longest line of a node keeper that is read: an image's note has the command line of the job.
pub const LONGEST: usize = 1 << 20;

/// Message of a node keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromNode {
    /// It lives: asks for a longer lease.
    Beat,
    /// It has taken over a rank's image of a set.
    Holds {
        /// The set.
        set: SetId,
        /// Its number.
        number: u64,
        /// The rank.
        rank: u32,
        /// Number of ranks of the job.
        ranks: u32,
    },
    /// It has none of the set's images any more.
    Lost {
        /// The set.
        set: SetId,
        /// The reason, which `stasis run` prints.
        why: String,
    },
    /// Answer to [`ToNode::Write`], one for each image of the set.
    Wrote {
        /// The set.
        set: SetId,
        /// The image, or why it could not be written.
        image: Result<WrittenImage, String>,
    },
}

/// Message of `stasis run`: first the answer to the first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToNode {
    /// It is the node keeper of its machine.
    Welcome,
    /// Answer to a heartbeat: the lease counts from its sending.
    Lives,
    /// Write the images of a set, and give them up.
    Write {
        /// The set.
        set: SetId,
        /// Name of the directory in the checkpoint directory.
        directory: String,
    },
    /// Give up the images of a set.
    Drop(SetId),
    /// Give up all images, since another incarnation starts.
    DropAll,
}

/// Takes the first message of `stasis run` out of what has come.
///
/// # Errors
/// The line is no message, or is too long.
pub fn take(text: &mut Vec<u8>) -> io::Result<Option<ToNode>> {
    match take_line(text) {
        Some(line) => Ok(Some(serde_json::from_slice(&line)?)),
        None if text.len() > crate::messages::LONGEST => Err(io::ErrorKind::InvalidData.into()),
        None => Ok(None),
    }
}
