//! Bars for people who wait before a terminal. Where standard error is none, nothing is drawn, so that
//! what goes to a file or a pipe are the plain lines that it has always been.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use coordinator::client::News;
use coordinator::protocol::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text;

/// How often a bar is drawn that nobody has moved.
const TICK: Duration = Duration::from_millis(200);

const OF_RANKS: &str = "{spinner} {elapsed} [{bar:24}] {pos} of {len} ranks: {wide_msg}";
const OF_BYTES: &str =
    "{spinner} {elapsed} [{bar:24}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}: {wide_msg}";

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
            News::Note(note) => self.0.suspend(|| eprintln!("stasis: {note}")),
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

/// Reading, as bytes are read.
pub struct Bytes {
    bar: ProgressBar,
    read: std::sync::Arc<AtomicU64>,
}

impl Bytes {
    /// Of so many bytes in all.
    pub fn new(bytes: u64) -> Bytes {
        Bytes::draw(bytes, ProgressDrawTarget::stderr())
    }

    fn draw(bytes: u64, target: ProgressDrawTarget) -> Bytes {
        Bytes {
            bar: bar(bytes, OF_BYTES, target),
            read: Default::default(),
        }
    }

    /// Where `work` counts what it has read.
    pub fn counter(&self) -> &std::sync::Arc<AtomicU64> {
        &self.read
    }

    /// Says what is being read.
    pub fn at(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Does `work`, and shows meanwhile what it counts.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let show = || self.bar.set_position(self.read.load(Ordering::Relaxed));
        thread::scope(|scope| {
            let (working, ended) = mpsc::channel::<()>();
            scope.spawn(move || {
                while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    show();
                }
            });
            let result = work();
            drop(working);
            result
        })
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(length: u64, template: &str, target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("both templates are drawn by tests");
    ProgressBar::with_draw_target(Some(length), target).with_style(style.progress_chars("=> "))
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

    #[test]
    fn reading_shows_bytes() {
        let (terminal, target) = terminal();
        let bytes = Bytes::draw(4 << 20, target);
        bytes.at("ckpt-7, rank 1 of 2".into());
        let counter = bytes.counter().clone();
        let result = bytes.during(|| counter.fetch_add(1 << 20, Ordering::Relaxed));
        assert_eq!(result, 0);
        bytes.bar.set_position(counter.load(Ordering::Relaxed));
        bytes.bar.force_draw();
        let drawn = terminal.contents();
        assert!(drawn.contains("1.00 MiB of 4.00 MiB"), "{drawn}");
        assert!(drawn.ends_with("ckpt-7, rank 1 of 2"), "{drawn}");
        drop(bytes);
        assert_eq!(terminal.contents(), "");
    }
}
