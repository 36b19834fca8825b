//! Which run made a set: a job removes as too old only what it or a run that it continues has made.
//!
//! A run is what one `launch` or one `restart` starts. Two that go on from the same set are two branches, and
//! neither removes what the other has made.

use std::io;

use serde::{Deserialize, Serialize};

use crate::header::SetId;
use crate::manifest::Manifest;

/// A run, and those that it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The run's own id.
    pub run: SetId,
    /// Ids of the runs that it continues, the oldest first.
    pub continues: Vec<SetId>,
    /// The command line that the first of them was started with. That program may have executed another one, which
    /// takes the checkpoint.
    pub launched: Vec<String>,
}

impl Lineage {
    /// Of a run that begins with this program.
    pub fn begin(launched: Vec<String>) -> io::Result<Lineage> {
        Ok(Lineage {
            run: SetId::random()?,
            continues: Vec::new(),
            launched,
        })
    }

    /// Of a run that goes on from a set.
    pub fn continuing(set: &Manifest) -> io::Result<Lineage> {
        let Some(older) = &set.lineage else {
            return Lineage::begin(set.command.clone());
        };
        Ok(Lineage {
            run: SetId::random()?,
            continues: [&older.continues[..], &[older.run]].concat(),
            launched: older.launched.clone(),
        })
    }

    /// Whether the run, or one that it continues, has made a set.
    pub fn made(&self, set: &Manifest) -> bool {
        let by = |made: &Lineage| made.run == self.run || self.continues.contains(&made.run);
        set.lineage.as_ref().is_some_and(by)
    }
}
