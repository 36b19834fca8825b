//! The run that made a set, and the runs that it continues. A job removes old sets only of its own lineage.
//!
//! A run is started by one `launch` or one `restart`. Two runs that continue the same set are two branches, and neither
//! removes the other's sets.

use std::io;

use serde::{Deserialize, Serialize};

use crate::format::ids::SetId;

/// A run, and the runs that it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Id of the run.
    pub run: SetId,
    /// Ids of the continued runs, the oldest first.
    pub continues: Vec<SetId>,
    /// Command line of the first of these runs. That program may have executed another one, which takes the
    /// checkpoint.
    pub launched: Vec<String>,
}

impl Lineage {
    /// The lineage of a new run that begins with this program.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn begin(launched: Vec<String>) -> io::Result<Lineage> {
        Ok(Lineage {
            run: SetId::random()?,
            continues: Vec::new(),
            launched,
        })
    }
}
