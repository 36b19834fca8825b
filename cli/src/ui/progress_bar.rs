//! The progress bar of a checkpoint at a terminal.

use coordinator::client::News;
use coordinator::protocol::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget};
use progress::{bar, TICK};

use crate::ui::text;

const OF_ONE_RANK: &str = "{spinner} {elapsed} [{bar:12}] {pos}/{len} rank: {wide_msg}";
const OF_RANKS: &str = "{spinner} {elapsed} [{bar:12}] {pos}/{len} ranks: {wide_msg}";

/// Progress bar of a checkpoint over the job's ranks.
pub struct CheckpointBar(ProgressBar);

impl CheckpointBar {
    /// A bar for a job of `ranks` ranks.
    pub fn new(ranks: u32) -> CheckpointBar {
        CheckpointBar::draw(ranks, ProgressDrawTarget::stderr())
    }

    fn draw(ranks: u32, target: ProgressDrawTarget) -> CheckpointBar {
        let template = match ranks {
            1 => OF_ONE_RANK,
            _ => OF_RANKS,
        };
        let bar = bar(u64::from(ranks), template, target);
        bar.enable_steady_tick(TICK);
        CheckpointBar(bar)
    }

    /// Prints a line, which stays above the bar.
    pub fn beside(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Shows news of the job. Notes are printed on separate lines and stay.
    pub fn tell(&self, news: News) {
        match news {
            News::Note(note) => self.beside(|| launcher::message::say(note)),
            News::Progress(progress) => {
                self.0.set_length(u64::from(progress.ranks));
                self.0.set_position(u64::from(progress.done));
                self.0.set_message(words(&progress));
            }
        }
    }
}

impl Drop for CheckpointBar {
    /// Clears the bar, so that the result takes its place.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The late ranks come first: a narrow terminal cuts the end off.
fn words(progress: &Progress) -> String {
    let mut words = match progress.done < progress.ranks {
        true => format!("not yet {}; ", progress.missing),
        false => String::new(),
    };
    words += &progress.stage.to_string();
    if progress.bytes > 0 {
        words += &format!(", {} on disk", text::bytes(progress.bytes));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordinator::protocol::Stage;
    use indicatif::InMemoryTerm;

    fn terminal() -> (InMemoryTerm, ProgressDrawTarget) {
        let terminal = InMemoryTerm::new(4, 80);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        (terminal, target)
    }

    fn progress(stage: Stage, done: u32, missing: &str, bytes: u64) -> News {
        News::Progress(Progress {
            stage,
            done,
            ranks: 4,
            missing: missing.into(),
            bytes,
        })
    }

    #[test]
    fn the_bar_counts_ranks_and_names_late_ones() {
        let (terminal, target) = terminal();
        let ranks = CheckpointBar::draw(4, target);
        ranks.tell(progress(Stage::Asking, 3, "rank 2", 0));
        ranks.0.force_draw();
        let drawn = terminal.contents();
        assert!(
            drawn.ends_with("3/4 ranks: not yet rank 2; asking the ranks"),
            "{drawn}"
        );
        ranks.tell(progress(Stage::Saving, 2, "ranks 0 and 1", 3 << 20));
        ranks.0.force_draw();
        let drawn = terminal.contents();
        assert!(
            drawn.contains("[======>     ] 2/4 ranks: not yet ranks 0 and 1; writing images"),
            "{drawn}"
        );
        drop(ranks);
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn one_rank_is_no_ranks() {
        let (terminal, target) = terminal();
        let bar = CheckpointBar::draw(1, target);
        bar.0.force_draw();
        assert!(terminal.contents().contains("] 0/1 rank:"));
    }
}
