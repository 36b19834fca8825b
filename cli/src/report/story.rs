//! The runs of a job and their figures.

use history::event::{Checkpoint, Entry, Event, Start};
use serde_json::{json, Value};

use crate::ui::text;

/// Times are in seconds since 1970, durations in seconds.
pub type Seconds = f64;

/// How a run has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// No event tells its end.
    Open,
    /// It was killed, and no process was left to note that.
    Gone,
    /// It runs.
    Running,
    /// By `stasis stop`, without a checkpoint.
    Killed,
    /// In an orderly way.
    Ended,
    /// With a checkpoint, as requested.
    Stopped(String),
    /// By a failure.
    Failed(String),
}

/// A committed checkpoint.
pub struct Taken {
    /// Time of the commit.
    pub time: Seconds,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
}

/// A line about a failure or a warning.
pub struct Remark {
    /// Its time.
    pub time: Seconds,
    /// The text.
    pub text: String,
}

/// A run of the job: from a launch or a restart to its end.
pub struct Run {
    /// The ranks that were started.
    pub start: Start,
    /// The checkpoint from which it goes on.
    pub from: Option<String>,
    /// Time of its beginning.
    pub begin: Seconds,
    /// Time of its last event, or the present one of a run that goes on.
    pub end: Seconds,
    /// How it has ended.
    pub outcome: Outcome,
    /// Its checkpoints.
    pub taken: Vec<Taken>,
    /// Work that this restart has lost: from the checkpoint's cut to the last sign of life. What an earlier restart has
    /// lost is not lost again.
    pub lost: Option<Seconds>,
    /// Moment from which on its work is lost.
    lost_from: Option<Seconds>,
}

impl Run {
    fn new(time: Seconds, start: &Start, from: Option<String>) -> Run {
        Run {
            start: start.clone(),
            from,
            begin: time,
            end: time,
            outcome: Outcome::Open,
            taken: Vec::new(),
            lost: None,
            lost_from: None,
        }
    }

    /// Loses its work from this moment on, and returns how much of it was not lost before.
    fn lose(&mut self, from: Seconds) -> Seconds {
        let until = self.lost_from.unwrap_or(match &self.outcome {
            // The job stood still after that cut.
            Outcome::Stopped(set) => self.cut_of(set).unwrap_or(self.end),
            _ => self.end,
        });
        self.lost_from = Some(until.min(from));
        (until - from).max(0.0)
    }

    fn cut_of(&self, set: &str) -> Option<Seconds> {
        let mut its = self.taken.iter();
        let taken = its.rfind(|taken| taken.checkpoint.set == set);
        taken.map(|taken| taken.checkpoint.cut)
    }

    /// Its time.
    pub fn duration(&self) -> Seconds {
        (self.end - self.begin).max(0.0)
    }

    /// Begin and end of the stretches between moments to which a restart goes back: the beginning, and each cut. The
    /// last one reaches to the end. A failure loses at most a whole stretch, and half of it on average.
    pub fn stretches(&self) -> Vec<(Seconds, Seconds)> {
        let cuts = self.taken.iter().map(|taken| taken.checkpoint.cut);
        let mut at = vec![self.begin];
        at.extend(cuts.chain([self.end]));
        at.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

/// The runs of a job, its failures and its warnings.
#[derive(Default)]
pub struct Story {
    /// Its runs, the first one first.
    pub runs: Vec<Run>,
    /// Failures, warnings and refusals.
    pub remarks: Vec<Remark>,
    /// Events that are missing because the file had reached its limit.
    pub shortened: bool,
}

impl Story {
    /// The story that the events tell. Events before the first known beginning of a run belong to no run.
    pub fn of(entries: &[Entry]) -> Story {
        let mut story = Story::default();
        for entry in entries {
            story.event(entry);
        }
        story
    }

    /// Ends the last run with this entry, unless an event has ended it.
    pub fn ends(&mut self, gone: Option<Entry>) {
        if let Some(gone) = gone {
            self.event(&gone);
        }
    }

    /// Lets the last run go on until `now`: the job is running.
    pub fn goes_on(&mut self, now: Seconds) {
        if let Some(run) = self.runs.last_mut() {
            run.end = run.end.max(now);
            if run.outcome == Outcome::Open {
                run.outcome = Outcome::Running;
            }
        }
    }

    fn event(&mut self, entry: &Entry) {
        let time = entry.time;
        match &entry.event {
            Event::Launch(start) => self.runs.push(Run::new(time, start, None)),
            Event::Restart { start, from } => {
                let mut run = Run::new(time, start, Some(from.clone()));
                run.lost = self.lost(from);
                self.runs.push(run);
            }
            Event::Shortened { .. } => self.shortened = true,
            // The run before has not gone on until then.
            Event::RestartRefused { rank, why } => {
                let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
                let text = format!("A restart was refused: {rank}{why}");
                self.remarks.push(Remark { time, text });
            }
            Event::Unknown => {}
            other => self.in_run(time, other),
        }
    }

    fn in_run(&mut self, time: Seconds, event: &Event) {
        let mut remark = |text: String| self.remarks.push(Remark { time, text });
        match event {
            Event::Warning { rank, text } => remark(format!("rank {rank}: {text}")),
            Event::CheckpointFailed { why } => remark(format!("A checkpoint was given up: {why}")),
            Event::RanksLost { lost_ranks, count } => {
                let named: Vec<String> = lost_ranks.iter().map(u32::to_string).collect();
                let more = if *count > lost_ranks.len() {
                    ", …"
                } else {
                    ""
                };
                remark(format!(
                    "Connections to {} broke: {}{more}",
                    text::counted(*count, "rank"),
                    named.join(", ")
                ));
            }
            Event::Failure {
                what,
                failures,
                refusals,
            } => remark(format!(
                "{what}{}; the job was started again (failure {failures} without a new checkpoint)",
                reasons(refusals)
            )),
            Event::GivenUp {
                what,
                why,
                refusals,
            } => remark(format!(
                "{what}{}; the job was not started again, because {why}",
                reasons(refusals)
            )),
            Event::Checkpoint(taken) => taken
                .warnings
                .iter()
                .for_each(|text| remark(format!("{}: {text}", taken.set))),
            _ => {}
        }
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        run.end = run.end.max(time);
        match event {
            Event::Checkpoint(checkpoint) => run.taken.push(Taken {
                time,
                checkpoint: (**checkpoint).clone(),
            }),
            Event::Gone => run.outcome = Outcome::Gone,
            Event::End {
                exit_code: Some(code),
                ..
            } => run.outcome = Outcome::Failed(format!("ended with exit code {code}")),
            Event::End { set: None, .. } => run.outcome = Outcome::Ended,
            Event::End { set: Some(set), .. } => run.outcome = Outcome::Stopped(set.clone()),
            Event::Stopped => run.outcome = Outcome::Killed,
            Event::Failure { what, .. } | Event::GivenUp { what, .. } => {
                run.outcome = Outcome::Failed(what.clone());
            }
            Event::RanksLost { count, .. } => {
                let lost = text::counted(*count, "rank");
                run.outcome = Outcome::Failed(format!("{lost} lost"));
            }
            _ => {}
        }
    }

    /// Work that a restart from this set loses: that of the run with the set after its cut, and of all runs since.
    fn lost(&mut self, set: &str) -> Option<Seconds> {
        let its = self
            .runs
            .iter()
            .rposition(|run| run.cut_of(set).is_some())?;
        let runs = self.runs[its..].iter_mut();
        Some(sum(runs.map(|run| {
            let from = run.cut_of(set).unwrap_or(run.begin);
            run.lose(from)
        })))
    }

    /// All checkpoints.
    pub fn taken(&self) -> impl Iterator<Item = &Taken> {
        self.runs.iter().flat_map(|run| &run.taken)
    }

    /// Figures of the whole story.
    pub fn figures(&self) -> Figures {
        let stretches: Vec<_> = self.runs.iter().flat_map(Run::stretches).collect();
        let gaps = || stretches.iter().map(|(begin, end)| (end - begin).max(0.0));
        let all: Seconds = gaps().sum();
        let squares: Seconds = gaps().map(|gap| gap * gap).sum();
        Figures {
            runs: self.runs.len(),
            restarts: self.runs.iter().filter(|run| run.from.is_some()).count(),
            running: sum(self.runs.iter().map(Run::duration)),
            checkpoints: self.taken().count(),
            bytes: self.taken().map(|taken| taken.checkpoint.bytes).sum(),
            pause: sum(self.taken().map(|taken| taken.checkpoint.pause_seconds)),
            lost: sum(self.runs.iter().filter_map(|run| run.lost)),
            most_at_risk: gaps().fold(0.0, Seconds::max),
            mean_at_risk: if all > 0.0 { squares / all / 2.0 } else { 0.0 },
        }
    }
}

/// The sum; 0 of nothing, for which [`Iterator::sum`] has -0.
fn sum(of: impl Iterator<Item = Seconds>) -> Seconds {
    of.fold(0.0, |sum, one| sum + one)
}

/// Figures of a job.
#[derive(Debug, PartialEq)]
pub struct Figures {
    /// Number of launches and restarts.
    pub runs: usize,
    /// Number of restarts.
    pub restarts: usize,
    /// Time of all runs.
    pub running: Seconds,
    /// Number of checkpoints.
    pub checkpoints: usize,
    /// Length of all images.
    pub bytes: u64,
    /// Time for which the job stood still.
    pub pause: Seconds,
    /// Work that restarts have lost.
    pub lost: Seconds,
    /// The most work that a failure could have lost.
    pub most_at_risk: Seconds,
    /// Work that a failure at a random moment would have lost on average.
    pub mean_at_risk: Seconds,
}

impl Figures {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "runs": self.runs,
            "restarts": self.restarts,
            "running_seconds": self.running,
            "checkpoints": self.checkpoints,
            "bytes": self.bytes,
            "pause_seconds": self.pause,
            "lost_seconds": self.lost,
            "most_at_risk_seconds": self.most_at_risk,
            "mean_at_risk_seconds": self.mean_at_risk,
        })
    }
}

/// Reasons why ranks could not be started, as the end of a clause.
fn reasons(refusals: &[String]) -> String {
    match refusals {
        [] => String::new(),
        _ => format!(" ({})", refusals.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(set: &str, cut: Seconds) -> Event {
        Event::Checkpoint(Box::new(Checkpoint {
            set: set.into(),
            cut,
            bytes: 100,
            pause_seconds: 0.5,
            ..Checkpoint::default()
        }))
    }

    fn ended() -> Event {
        Event::End {
            set: None,
            exit_code: None,
        }
    }

    /// A run of 100 s with cuts at 40 and 60, a failure at 100; a restart at 110 from the first cut, its end at 150.
    fn story() -> Story {
        let start = Start::default();
        let failure = Event::Failure {
            what: "rank 1 was killed".into(),
            failures: 1,
            refusals: Vec::new(),
        };
        let restart = Event::Restart {
            start: start.clone(),
            from: "ckpt-1".into(),
        };
        let events = [
            (0.0, Event::Launch(start)),
            (41.0, checkpoint("ckpt-1", 40.0)),
            (61.0, checkpoint("ckpt-2", 60.0)),
            (100.0, failure),
            (110.0, restart),
            (150.0, ended()),
        ];
        let entries: Vec<Entry> = events.map(|(time, event)| Entry::at(time, event)).into();
        Story::of(&entries)
    }

    #[test]
    fn runs_end_with_their_last_event_and_restarts_lose_what_came_after_the_cut() {
        let story = story();
        let [first, second] = &story.runs[..] else {
            panic!("{} runs", story.runs.len());
        };
        assert_eq!(first.outcome, Outcome::Failed("rank 1 was killed".into()));
        assert_eq!((first.duration(), second.duration()), (100.0, 40.0));
        assert_eq!(second.outcome, Outcome::Ended);
        assert_eq!(second.lost, Some(60.0));
        assert_eq!(story.remarks.len(), 1);
    }

    /// Two restarts from one set: the work of the first run is lost once, and that of the second one, too.
    #[test]
    fn work_is_lost_once() {
        let start = Start::default;
        let restart = || Event::Restart {
            start: start(),
            from: "ckpt-1".into(),
        };
        let events = [
            (0.0, Event::Launch(start())),
            (41.0, checkpoint("ckpt-1", 40.0)),
            (100.0, Event::Gone),
            (110.0, restart()),
            (115.0, Event::Gone),
            (120.0, restart()),
            (151.0, checkpoint("ckpt-2", 150.0)),
            (
                152.0,
                Event::End {
                    set: Some("ckpt-2".into()),
                    exit_code: None,
                },
            ),
            // It stood still since the cut.
            (
                200.0,
                Event::Restart {
                    start: start(),
                    from: "ckpt-2".into(),
                },
            ),
        ];
        let entries = events.map(|(time, event)| Entry::at(time, event));
        let story = Story::of(&entries);
        let lost: Vec<_> = story.runs.iter().map(|run| run.lost).collect();
        assert_eq!(lost, [None, Some(60.0), Some(5.0), Some(0.0)]);
        assert_eq!(story.figures().lost, 65.0);
        assert_eq!(story.runs[0].outcome, Outcome::Gone);
    }

    #[test]
    fn a_run_goes_on_until_now_or_was_stopped() {
        let launch = Entry::at(5.0, Event::Launch(Start::default()));
        let mut running = Story::of(std::slice::from_ref(&launch));
        running.goes_on(30.0);
        assert_eq!(running.runs[0].outcome, Outcome::Running);
        let figures = running.figures();
        assert_eq!((figures.running, figures.most_at_risk), (25.0, 25.0));
        assert!(figures.lost.is_sign_positive() && figures.pause.is_sign_positive());
        let stopped = Story::of(&[launch, Entry::at(9.0, Event::Stopped)]);
        assert_eq!(stopped.runs[0].outcome, Outcome::Killed);
        assert_eq!(stopped.runs[0].duration(), 4.0);
    }

    /// Gaps of 40, 20, 40 and 40 s: a random moment falls into a gap of length g with probability g / 140.
    #[test]
    fn figures_are_those_of_the_whole_job() {
        let figures = story().figures();
        let wanted = Figures {
            runs: 2,
            restarts: 1,
            running: 140.0,
            checkpoints: 2,
            bytes: 200,
            pause: 1.0,
            lost: 60.0,
            most_at_risk: 40.0,
            mean_at_risk: (3.0 * 1600.0 + 400.0) / 140.0 / 2.0,
        };
        assert_eq!(figures, wanted);
    }
}
