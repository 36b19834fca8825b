//! The stages of the coordinator and the states of ranks, with their texts for users.
//!
//! They are serialised as these texts, on the wire and in the JSON output of `stasis status`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An enum without data, whose variants are displayed and serialised as fixed texts.
macro_rules! worded {
    ($(#[$meta:meta])* $name:ident, $kind:literal { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All variants, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The text for display and serialisation.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl From<$name> for String {
            fn from(state: $name) -> String {
                state.as_str().to_owned()
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                let known = $name::ALL.iter().find(|known| known.as_str() == text);
                known.copied().ok_or_else(|| format!("'{text}' is no {}", $kind))
            }
        }
    };
}

worded! {
    /// Stage of the coordinator.
    Stage, "stage of a checkpoint" {
        /// No checkpoint is in progress or requested.
        Idle = "idle",
        /// A checkpoint is requested, and some ranks have not called MPI_Init.
        WaitingForInit = "waiting for MPI_Init",
        /// The directory of the set is being created.
        Preparing = "making the directory",
        /// The collective clocks of the ranks are gathered.
        Asking = "asking the ranks",
        /// The ranks run on to their targets.
        Approaching = "approaching a safe state",
        /// The ranks stop their threads and drain messages.
        Draining = "stopping and draining",
        /// The ranks stand still and write their images.
        Saving = "writing images",
        /// The ranks run, and images of copied memory are written.
        SavingInBackground = "writing images while the job runs",
        /// The manifest is written.
        Committing = "committing",
        /// The job ends with a checkpoint, as requested.
        Ending = "ending",
    }
}

worded! {
    /// State of a rank, as seen by the coordinator.
    RankState, "state of a rank" {
        /// The rank has not called MPI_Init.
        Absent = "absent",
        /// The rank runs, and no checkpoint involves it.
        Running = "running",
        /// The process has ended normally.
        Finished = "finished",
        /// The connection broke.
        Lost = "lost",
        /// The rank has reached its targets.
        Reached = "reached",
        /// The rank computes on its way to the targets.
        Computing = "computing",
        /// The rank is in a collective operation.
        InCollective = "in a collective",
        /// The rank waits for a message.
        WaitingForMessage = "waiting for a message",
        /// The rank is parked before a collective operation.
        Parked = "parked",
        /// The threads are stopped, and the messages are drained.
        Drained = "drained",
        /// The rank writes its image.
        Saving = "saving",
        /// The memory is copied, and the image is being written.
        Copied = "copied",
        /// The image is on disk.
        Saved = "saved",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those that the protocol had before it had enums.
    #[test]
    fn states_are_serialised_as_their_texts() {
        for stage in Stage::ALL {
            let bytes = postcard::to_stdvec(stage).unwrap();
            assert_eq!(bytes, postcard::to_stdvec(stage.as_str()).unwrap());
            assert_eq!(postcard::from_bytes::<Stage>(&bytes).unwrap(), *stage);
        }
        for state in RankState::ALL {
            let bytes = postcard::to_stdvec(state).unwrap();
            assert_eq!(bytes, postcard::to_stdvec(state.as_str()).unwrap());
            assert_eq!(postcard::from_bytes::<RankState>(&bytes).unwrap(), *state);
        }
        let other = postcard::to_stdvec("asleep").unwrap();
        assert!(postcard::from_bytes::<RankState>(&other).is_err());
        let json = serde_json::to_string(&Stage::WaitingForInit).unwrap();
        assert_eq!(json, "\"waiting for MPI_Init\"");
    }
}
