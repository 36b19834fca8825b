//! The bar of a checkpoint, for people who wait for it before a terminal.

use coordinator::client::News;
use coordinator::protocol::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget};
use progress::{bar, TICK};

use crate::text;

const OF_RANKS: &str = "{spinner} {elapsed} [{bar:24}] {pos} of {len} ranks: {wide_msg}";

/// A checkpoint that is being taken, as its ranks get on with it.
pub struct Ranks(ProgressBar);

impl Ranks {
    /// Of a job of so many ranks.
    pub fn new(ranks: u32) -> Ranks {
        Ranks::draw(ranks, ProgressDrawTarget::stderr())
    }

    fn draw(ranks: u32, target: ProgressDrawTarget) -> Ranks {
        let bar = bar(u64::from(ranks), OF_RANKS, target);
        bar.enable_steady_tick(TICK);
        Ranks(bar)
    }

    /// Shows what the job says: notes stay, on lines of their own.
    pub fn tell(&self, news: News) {
        match news {
            News::Note(note) => self.0.suspend(|| launcher::message::say(note)),
            News::Progress(progress) => {
                self.0.set_length(u64::from(progress.ranks));
                self.0.set_position(u64::from(progress.done));
                self.0.set_message(words(&progress));
            }
        }
    }
}

impl Drop for Ranks {
    /// What comes next is the answer, which takes the bar's place.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn words(progress: &Progress) -> String {
    let mut words = progress.stage.clone();
    if progress.bytes > 0 {
        words += &format!(", {} on disk", text::bytes(progress.bytes));
    }
    if progress.done < progress.ranks {
        words += &format!("; not yet: {}", progress.missing);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    fn terminal() -> (InMemoryTerm, ProgressDrawTarget) {
        let terminal = InMemoryTerm::new(4, 120);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        (terminal, target)
    }

    fn progress(stage: &str, done: u32, missing: &str, bytes: u64) -> News {
        News::Progress(Progress {
            stage: stage.into(),
            done,
            ranks: 4,
            missing: missing.into(),
            bytes,
        })
    }

    #[test]
    fn a_checkpoint_shows_its_ranks_and_names_who_is_late() {
        let (terminal, target) = terminal();
        let ranks = Ranks::draw(4, target);
        ranks.tell(progress("asking the ranks", 3, "rank 2", 0));
        ranks.0.force_draw();
        let drawn = terminal.contents();
        assert!(
            drawn.ends_with("3 of 4 ranks: asking the ranks; not yet: rank 2"),
            "{drawn}"
        );
        ranks.tell(progress("writing images", 2, "ranks 0 and 1", 3 << 20));
        ranks.0.force_draw();
        let drawn = terminal.contents();
        assert!(
            drawn.contains("[============>           ] 2 of 4 ranks: writing images, 3.0 MiB on disk; not yet: ranks 0 and 1"),
            "{drawn}"
        );
        drop(ranks);
        assert_eq!(terminal.contents(), "");
    }
}
