//! History of inode numbers: which file a number identified at which time.
//!
//! A file that has lost its last name frees its number, and the next new file may get it. A file that an undo creates
//! again from the journal gets a new number: older segments use the one and later segments the other for the same file.
//! Overlayfs gives a file of the cut a new number when it copies it to its upper layer.

use crate::plan::{Key, Source};
use crate::record::{Identity, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Event of an inode number.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The number was given to a file that the job created, or is free.
    New,
    /// The number was given to the file that had the identity `was` at the time `seen`.
    Renewed { was: Identity, seen: u64 },
}

impl Event {
    /// Whether overlayfs has copied a file of the cut: its identity then is one that no file had.
    fn is_copy(&self) -> bool {
        matches!(self, Event::Renewed { seen: 0, .. })
    }
}

/// All events of inode numbers since a cut, in order of time.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: BTreeMap<Key, Vec<(u64, Event)>>,
    /// Numbers of files that the job has created.
    born: BTreeSet<Key>,
}

impl History {
    /// Builds the history from the segments and the records of undos.
    pub fn new(segments: &[Source], renewed: &[Source]) -> History {
        let mut history = History::default();
        let mut made = Vec::new();
        let mut copied = Vec::new();
        for source in segments {
            let mut known: BTreeMap<u32, Key> = BTreeMap::new();
            for (record, _) in &source.records {
                match record {
                    Record::File { file, identity, .. } => {
                        known.insert(*file, source.key(*identity));
                    }
                    Record::Gone { file, time } => {
                        if let Some(key) = known.get(file) {
                            history.add(key.clone(), *time, Event::New);
                        }
                    }
                    Record::Born {
                        identity,
                        time,
                        until,
                    } => {
                        history.born.insert(source.key(*identity));
                        made.push((source.key(*identity), *time..*until));
                    }
                    Record::Copied {
                        identity,
                        time,
                        until,
                    } => copied.push((source.key(*identity), *time..*until)),
                    _ => {}
                }
            }
        }
        for (key, times) in made {
            let since = history.freed(&key, &times).unwrap_or(times.start);
            history.add(key, since, Event::New);
        }
        // Copied files get numbers that no file had at the cut.
        let mut unused = (0..u64::MAX).rev();
        for (key, times) in copied {
            // At the moment in which the number was freed it was still the former file's.
            let since = history.freed(&key, &times);
            let since = since.map_or(times.start, |time| time + 1);
            let was = Identity {
                inode: unused.next().unwrap_or_default(),
                ..key.1
            };
            history.add(key, since, Event::Renewed { was, seen: 0 });
        }
        // An undo from a later set than this one is older than all records here, whose numbers are those after it.
        let times = segments.iter().flat_map(|source| &source.records);
        let Some(first) = times.filter_map(|(record, _)| record.time()).min() else {
            return history;
        };
        for source in renewed {
            for (record, _) in &source.records {
                if let Record::Renewed {
                    was,
                    seen,
                    became,
                    time,
                    ..
                } = record
                {
                    if *time > first {
                        let event = Event::Renewed {
                            was: *was,
                            seen: *seen,
                        };
                        history.add(source.key(*became), *time, event);
                    }
                }
            }
        }
        for events in history.events.values_mut() {
            events.sort_by_key(|(time, _)| *time);
            // Two ranks may have had the same file copied.
            events.dedup_by(|(_, later), (_, event)| event.is_copy() && later.is_copy());
        }
        let new = history.renewals().filter(|(_, _, file)| file.is_none());
        let new: Vec<Key> = new.map(|(became, ..)| became.clone()).collect();
        history.born.extend(new);
        history
    }

    /// Time at which another rank has freed the number while a file was getting it.
    fn freed(&self, key: &Key, times: &Range<u64>) -> Option<u64> {
        let events = self.events.get(key).into_iter().flatten();
        let freed =
            events.filter(|(time, event)| matches!(event, Event::New) && times.contains(time));
        freed.map(|(time, _)| *time).max()
    }

    fn add(&mut self, key: Key, time: u64, event: Event) {
        self.events.entry(key).or_default().push((time, event));
    }

    /// Number as of the cut of the file that had the number `key` at a time; none if the file is newer.
    pub fn at_cut(&self, key: &Key, mut time: u64) -> Option<Key> {
        let mut key = key.clone();
        loop {
            let events = self.events.get(&key).into_iter().flatten();
            match events.rev().find(|(since, _)| *since < time) {
                None => return Some(key),
                Some((_, Event::New)) => return None,
                // `seen` is before `since`, so the loop ends.
                Some((since, Event::Renewed { was, seen })) => {
                    time = *seen.min(since);
                    key.1 = *was;
                }
            }
        }
    }

    /// Numbers given by undos: the new number, the time, and the number at the cut.
    fn renewals(&self) -> impl Iterator<Item = (&Key, u64, Option<Key>)> {
        let events = self.events.iter();
        let all = events.flat_map(|(key, events)| events.iter().map(move |event| (key, event)));
        all.filter_map(|(became, (time, event))| match event {
            Event::Renewed { was, seen } => {
                let was = (became.0.clone(), *was);
                Some((became, *time, self.at_cut(&was, *seen)))
            }
            Event::New => None,
        })
    }

    /// Files created again by undos: the number of each as of the cut, the time and the last new identity.
    pub fn renewed(&self) -> BTreeMap<Key, (u64, Identity)> {
        let mut last = BTreeMap::new();
        for (became, time, file) in self.renewals() {
            let Some(file) = file else { continue };
            let known = last.entry(file).or_insert((time, became.1));
            if known.0 < time {
                *known = (time, became.1);
            }
        }
        last
    }

    /// Whether the file that had the number at a time no longer exists.
    pub fn is_gone(&self, key: &Key, since: u64) -> bool {
        let mut events = self.events.get(key).into_iter().flatten();
        events.any(|(time, event)| *time >= since && matches!(event, Event::New))
    }

    /// Numbers of files that the job has created.
    pub fn into_born(self) -> BTreeSet<Key> {
        self.born
    }
}
