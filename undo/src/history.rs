//! Which file an inode's number meant at which time.
//!
//! A file that has lost its last name frees the number, and the next file that is made may get it. And a file that an
//! undo makes of what is in the journal gets another number than it had: what older segments tell of the one, and those
//! that follow of the other, is of the same file.

use crate::plan::{Key, Source};
use crate::record::{Identity, Record};
use std::collections::{BTreeMap, BTreeSet};

/// What has happened to a number.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It is that of a file which the job makes, or of none.
    New,
    /// It is that of the file which had this one at a time.
    Renewed { was: Identity, seen: u64 },
}

/// All that has happened to numbers since a cut, in the order in which it happened.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: BTreeMap<Key, Vec<(u64, Event)>>,
    /// Numbers of files that the job has made.
    born: BTreeSet<Key>,
}

impl History {
    /// As the segments tell, and the notes of what undos have made anew.
    pub fn new(segments: &[Source], renewed: &[Source]) -> History {
        let mut history = History::default();
        let mut made = Vec::new();
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
                    _ => {}
                }
            }
        }
        // Another rank may have given the number free while the file was about to be made.
        for (key, times) in made {
            let freed = history.events.get(&key).into_iter().flatten();
            let freed =
                freed.filter(|(time, event)| matches!(event, Event::New) && times.contains(time));
            let since = freed.map(|(time, _)| *time).max();
            history.add(key, since.unwrap_or(times.start), Event::New);
        }
        // An undo from a later set than this one is older than all that is told here: numbers are those after it.
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
        }
        let new = history.renewals().filter(|(_, _, file)| file.is_none());
        let new: Vec<Key> = new.map(|(became, ..)| became.clone()).collect();
        history.born.extend(new);
        history
    }

    fn add(&mut self, key: Key, time: u64, event: Event) {
        self.events.entry(key).or_default().push((time, event));
    }

    /// What was there at the cut, of what had this number at a time: that number, as of the cut. None of a file that
    /// is newer.
    pub fn at_cut(&self, key: &Key, mut time: u64) -> Option<Key> {
        let mut key = key.clone();
        loop {
            let events = self.events.get(&key).into_iter().flatten();
            match events.rev().find(|(since, _)| *since < time) {
                None => return Some(key),
                Some((_, Event::New)) => return None,
                // It was seen before it was made anew, so this comes to an end.
                Some((since, Event::Renewed { was, seen })) => {
                    time = *seen.min(since);
                    key.1 = *was;
                }
            }
        }
    }

    /// Numbers that undos have given: when, and to what was there at the cut.
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

    /// The files that undos have made anew: the number of each as of the cut, and when it has got which one last.
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

    /// Whether what has had the number since a time has it no more.
    pub fn is_gone(&self, key: &Key, since: u64) -> bool {
        let mut events = self.events.get(key).into_iter().flatten();
        events.any(|(time, event)| *time >= since && matches!(event, Event::New))
    }

    /// Numbers of files that the job has made.
    pub fn into_born(self) -> BTreeSet<Key> {
        self.born
    }
}
