//! Metrics of a job for a monitoring system: a text in the format OpenMetrics, from the job's events.
//!
//! They count from the launch on, over all restarts. The text collector of Prometheus's `node_exporter` reads such
//! files. It refuses samples with a time, so there is none.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::event::{self, Checkpoint, Entry, Event, Start};

/// The counters of a job with these events.
pub fn of(entries: &[Entry]) -> Metrics {
    let mut metrics = Metrics::default();
    entries.iter().for_each(|entry| metrics.count(entry));
    metrics
}

/// Counters of a job.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    start: Start,
    restarts: u64,
    ended: bool,
    /// Time of the newest event.
    updated: f64,
    /// Time of the last sign of life.
    seen: f64,
    failed: u64,
    checkpoints: u64,
    bytes: u64,
    pause: f64,
    total: f64,
    last: Option<Checkpoint>,
}

impl Metrics {
    /// Counts an event.
    pub fn count(&mut self, entry: &Entry) {
        match &entry.event {
            Event::Launch(start) => {
                *self = Metrics {
                    start: start.clone(),
                    ..Metrics::default()
                }
            }
            Event::Restart { start, .. } => {
                self.start = start.clone();
                self.restarts += 1;
                self.ended = false;
            }
            Event::Checkpoint(taken) => {
                self.checkpoints += 1;
                self.bytes += taken.bytes;
                self.pause += taken.pause_seconds;
                self.total += taken.total_seconds;
                self.last = Some((**taken).clone());
            }
            Event::CheckpointFailed { .. } => self.failed += 1,
            other => self.ended |= other.ends_run(),
        }
        self.updated = entry.time;
        if entry.event.is_of_run() {
            self.seen = self.seen.max(entry.time);
        }
    }

    /// Counts a sign of life.
    pub fn lives(&mut self) {
        self.seen = event::now();
    }

    /// Writes the text in the place of `file`. A reader never sees a part of it.
    ///
    /// # Errors
    /// That of the file system.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let mut partial = file.as_os_str().to_owned();
        partial.push(".partial");
        fs::write(&partial, self.text())?;
        fs::rename(&partial, file)
    }

    /// The text.
    fn text(&self) -> String {
        let program = self.start.program.first().map_or("", String::as_str);
        let program = program.rsplit('/').next().unwrap_or(program);
        let labels = [("run", &*self.start.run), ("program", program)];
        let labels = labels.map(|(name, value)| (name.into(), escaped(value).into()));
        let mut registry = Registry::with_prefix_and_labels("stasis", labels.into_iter());
        // A gauge, since `node_exporter` knows no metrics of type info.
        let info = Family::<Vec<(String, String)>, Gauge>::default();
        let version = ("version".to_owned(), self.start.stasis_version.clone());
        info.get_or_create(&vec![version]).set(1);
        registry.register("job_info", "1, with the version of Stasis", info);
        for (name, unit, help, value) in self.gauges() {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(value);
            register(&mut registry, name, unit, help, gauge);
        }
        for (name, unit, help, value) in self.counters() {
            let counter = Counter::<f64, AtomicU64>::default();
            counter.inc_by(value);
            register(&mut registry, name, unit, help, counter);
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &registry);
        text
    }

    #[rustfmt::skip] // a table
    fn gauges(&self) -> Vec<Sample> {
        let mut gauges = vec![
            ("up", None, "1 while the job runs", f64::from(!self.ended)),
            ("ranks", None, "Ranks of the job", f64::from(self.start.ranks)),
            ("updated_timestamp", SECONDS, "Time of the newest event", self.updated),
            ("seen_timestamp", SECONDS, "Time at which the job was last seen to run", self.seen),
        ];
        if let Some(last) = &self.last {
            gauges.extend([
                ("checkpoint_last_size", BYTES, "Length of the newest checkpoint's images", last.bytes as f64),
                ("checkpoint_last_pause", SECONDS, "Pause of the newest checkpoint", last.pause_seconds),
                ("checkpoint_last_duration", SECONDS, "Duration of the newest checkpoint", last.total_seconds),
                ("checkpoint_last_cut_timestamp", SECONDS,
                 "Moment to which a restart from the newest checkpoint goes back", last.cut),
            ]);
        }
        gauges
    }

    #[rustfmt::skip] // a table
    fn counters(&self) -> [Sample; 6] {
        [
            ("restarts", None, "Restarts since the launch", self.restarts as f64),
            ("checkpoints_failed", None, "Checkpoints that were given up", self.failed as f64),
            ("checkpoints", None, "Checkpoints in files", self.checkpoints as f64),
            ("checkpoints_written", BYTES, "Length of all images", self.bytes as f64),
            ("checkpoints_pause", SECONDS, "Time for which the job stood still", self.pause),
            ("checkpoints_duration", SECONDS, "Time from the requests to the commits", self.total),
        ]
    }
}

/// Name, unit, description and value.
type Sample = (&'static str, Option<Unit>, &'static str, f64);

const SECONDS: Option<Unit> = Some(Unit::Seconds);
const BYTES: Option<Unit> = Some(Unit::Bytes);

fn register(
    registry: &mut Registry,
    name: &str,
    unit: Option<Unit>,
    help: &str,
    metric: impl Metric,
) {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric),
        None => registry.register(name, help, metric),
    }
}

/// A label's value as the format wants it. The library writes values as they are.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', r"\\");
    value.replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_over_restarts_and_anew_after_a_launch() {
        let start = Start {
            run: "ab".into(),
            ranks: 4,
            program: vec!["./a\"b".into(), "x".into()],
            ..Start::default()
        };
        let taken = Checkpoint {
            bytes: 10,
            pause_seconds: 0.5,
            cut: 20.0,
            ..Checkpoint::default()
        };
        let mut metrics = Metrics::default();
        let mut count = |event| {
            metrics.count(&Entry::at(2.0, event));
            metrics.text()
        };
        count(Event::Launch(start.clone()));
        count(Event::Checkpoint(Box::new(taken.clone())));
        count(Event::Restart {
            start: start.clone(),
            from: "ckpt-1".into(),
        });
        let text = count(Event::Checkpoint(Box::new(taken)));
        let labels = r#"{run="ab",program="a\"b"}"#;
        for line in [
            format!("stasis_up{labels} 1.0"),
            format!("stasis_ranks{labels} 4.0"),
            format!("stasis_restarts_total{labels} 1.0"),
            format!("stasis_checkpoints_total{labels} 2.0"),
            format!("stasis_checkpoints_written_bytes_total{labels} 20.0"),
            format!("stasis_checkpoints_pause_seconds_total{labels} 1.0"),
            format!("stasis_checkpoint_last_cut_timestamp_seconds{labels} 20.0"),
            "# TYPE stasis_checkpoints counter".to_owned(),
            "# TYPE stasis_job_info gauge".to_owned(),
        ] {
            assert!(text.lines().any(|its| its == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let text = count(Event::Gone);
        assert!(text.contains(&format!("stasis_up{labels} 0.0")), "{text}");
        let text = count(Event::Launch(start));
        let none = format!("stasis_checkpoints_total{labels} 0.0");
        assert!(text.contains(&none), "{text}");
    }
}
