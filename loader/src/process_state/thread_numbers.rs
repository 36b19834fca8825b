//! The numbers by which the threads are known in every run of the program (`contract::ThreadBlock::number`).

use crate::interpose::threads::stop::Stopped;
use crate::interpose::threads::Thread;
use serde::{Deserialize, Serialize};

/// The numbers of the threads of a saved process. The version of the section *thread numbers*
/// (`ckpt-image/src/format/section.rs`) changes with any change here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadNumbers {
    threads: Vec<Numbered>,
}

/// One thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Numbered {
    /// Thread id as seen by the application.
    tid: u32,
    /// Its number.
    number: u32,
    /// How many threads it has created.
    births: u32,
}

impl ThreadNumbers {
    /// The numbers of stopped threads.
    pub fn capture(stopped: &Stopped) -> ThreadNumbers {
        let numbered = |thread: &Thread| {
            let (number, births) = thread.number();
            Numbered {
                tid: thread.tid(),
                number,
                births,
            }
        };
        ThreadNumbers {
            threads: stopped.threads().map(numbered).collect(),
        }
    }

    /// Gives a restored thread its number. An image of an older Stasis has none.
    pub(super) fn give(&self, thread: &Thread) {
        let mut all = self.threads.iter();
        if let Some(saved) = all.find(|saved| saved.tid == thread.tid()) {
            thread.set_number(saved.number, saved.births);
        }
    }
}
