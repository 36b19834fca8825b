//! `STASIS_PUBLISHED`: published algorithms in the place of this project's, to show that they hang, or to measure their
//! cost. It is for demonstrations and tests only: a job with it may never complete a checkpoint.

use anyhow::{bail, Result};
use contract::{GROUP_CLOCKS, TWO_PHASE_COMMIT};

/// The algorithms to use, separated by commas.
pub const VARIABLE: &str = "STASIS_PUBLISHED";

/// The baseline algorithms that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaselineAlgorithms {
    /// `group-clocks`: one collective clock for all communicators of a group.
    pub group_clocks: bool,
    /// `final-parking`: a rank that has reached its targets and parks is never released.
    pub final_parking: bool,
    /// `two-phase-commit`: a barrier before every blocking collective operation, in the place of
    /// clocks (`upper-half/src/quiesce/two_phase.rs`).
    pub two_phase_commit: bool,
}

impl BaselineAlgorithms {
    /// The bits of `LowerInfo::features` that the upper half reads.
    pub fn features(self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.group_clocks, GROUP_CLOCKS) | bit(self.two_phase_commit, TWO_PHASE_COMMIT)
    }

    /// Reads [`VARIABLE`] from the environment.
    pub fn from_environment() -> Result<BaselineAlgorithms> {
        match std::env::var_os(VARIABLE) {
            Some(words) => BaselineAlgorithms::parse(&words.to_string_lossy()),
            None => Ok(BaselineAlgorithms::default()),
        }
    }

    fn parse(words: &str) -> Result<BaselineAlgorithms> {
        let mut baseline = BaselineAlgorithms::default();
        for word in words.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                "group-clocks" => baseline.group_clocks = true,
                "final-parking" => baseline.final_parking = true,
                "two-phase-commit" => baseline.two_phase_commit = true,
                _ => bail!(
                    "{VARIABLE}: unknown algorithm '{word}'. The algorithms are group-clocks, final-parking and \
                     two-phase-commit, for demonstrations only; unset the variable for a job that is to \
                     be checkpointed"
                ),
            }
        }
        Ok(baseline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_or_refused() {
        let both = BaselineAlgorithms {
            group_clocks: true,
            final_parking: true,
            two_phase_commit: false,
        };
        assert_eq!(
            BaselineAlgorithms::parse("").unwrap(),
            BaselineAlgorithms::default()
        );
        assert_eq!(
            BaselineAlgorithms::parse("group-clocks, final-parking").unwrap(),
            both
        );
        let refusal = BaselineAlgorithms::parse("group-clock")
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("'group-clock'"), "{refusal}");
    }
}
