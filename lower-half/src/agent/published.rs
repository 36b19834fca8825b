//! `STASIS_PUBLISHED`: the algorithms as they were published, to show that they hang where ours does
//! not, or what they cost. For demonstrations and tests alone: a job that is started so may never
//! complete a checkpoint.

use anyhow::{bail, Result};
use contract::{GROUP_CLOCKS, TWO_PHASE_COMMIT};

/// Names, between commas, what is to be as published.
pub const VARIABLE: &str = "STASIS_PUBLISHED";

/// What is to be as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// `group-clocks`: one collective clock for all communicators of a group.
    pub group_clocks: bool,
    /// `final-parking`: a rank that has reached its targets and parks is never let go.
    pub final_parking: bool,
    /// `two-phase-commit`: a barrier before every blocking collective operation, as before there were
    /// clocks (`upper-half/src/message/two_phase.rs`).
    pub two_phase_commit: bool,
}

impl Published {
    /// The bits of `LowerInfo::features` by which the upper half knows of it.
    pub fn features(self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.group_clocks, GROUP_CLOCKS) | bit(self.two_phase_commit, TWO_PHASE_COMMIT)
    }

    /// What the environment says.
    pub fn from_environment() -> Result<Published> {
        match std::env::var_os(VARIABLE) {
            Some(words) => Published::parse(&words.to_string_lossy()),
            None => Ok(Published::default()),
        }
    }

    fn parse(words: &str) -> Result<Published> {
        let mut published = Published::default();
        for word in words.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                "group-clocks" => published.group_clocks = true,
                "final-parking" => published.final_parking = true,
                "two-phase-commit" => published.two_phase_commit = true,
                _ => bail!(
                    "{VARIABLE} says '{word}': it knows group-clocks, final-parking and \
                     two-phase-commit, which are for demonstrations only; unset it for a job that is \
                     to be checkpointed"
                ),
            }
        }
        Ok(published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_or_refused() {
        let both = Published {
            group_clocks: true,
            final_parking: true,
            two_phase_commit: false,
        };
        assert_eq!(Published::parse("").unwrap(), Published::default());
        assert_eq!(
            Published::parse("group-clocks, final-parking").unwrap(),
            both
        );
        let refusal = Published::parse("group-clock").unwrap_err().to_string();
        assert!(refusal.contains("'group-clock'"), "{refusal}");
    }
}
