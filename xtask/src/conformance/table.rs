//! Results of a conformance run, by folder and by name.

use super::trial::{Cut, Verdict};
use std::collections::BTreeMap;
use std::fmt;

/// Counts of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries of its list.
    pub tests: usize,
    /// Entries that were not run, or have no verdict.
    pub skipped: usize,
    /// Successes natively.
    pub native: usize,
    /// Of these, successes under Stasis.
    pub stasis: usize,
    /// Cuts in entries that succeed natively and make enough calls.
    pub cuts: usize,
    /// Of these, successes after the restart.
    pub restarted: usize,
}

/// All results.
#[derive(Debug, Default)]
pub struct Table {
    /// Counts by folder.
    pub folders: BTreeMap<String, Counts>,
    /// Entries that succeed natively and not under Stasis, with reasons.
    pub differences: Vec<String>,
    /// Entries that fail natively, with reasons.
    pub natively: Vec<String>,
    /// Number of skipped entries for each reason.
    pub skipped: BTreeMap<String, usize>,
}

impl Table {
    /// Counts an entry.
    pub fn count(&mut self, folder: &str, name: &str, verdict: &Verdict) {
        let counts = self.folders.entry(folder.to_owned()).or_default();
        counts.tests += 1;
        match verdict {
            Verdict::Skipped(why) => {
                counts.skipped += 1;
                *self.skipped.entry(why.clone()).or_default() += 1;
            }
            Verdict::FailsNatively(why) => self.natively.push(format!("{name}: {why}")),
            Verdict::Judged { stasis, cuts } => {
                counts.native += 1;
                match stasis {
                    Ok(()) => counts.stasis += 1,
                    Err(why) => self.differences.push(format!("{name}: {why}")),
                }
                for (call, cut) in cuts {
                    counts.cuts += usize::from(*cut != Cut::NotReached);
                    counts.restarted += usize::from(*cut == Cut::Passed);
                    if let Cut::Differs(why) = cut {
                        let difference = format!("{name}, cut at call {call}: {why}");
                        self.differences.push(difference);
                    }
                }
            }
        }
    }

    fn sum(&self) -> Counts {
        let add = |a: Counts, b: &Counts| Counts {
            tests: a.tests + b.tests,
            skipped: a.skipped + b.skipped,
            native: a.native + b.native,
            stasis: a.stasis + b.stasis,
            cuts: a.cuts + b.cuts,
            restarted: a.restarted + b.restarted,
        };
        self.folders.values().fold(Counts::default(), add)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self
            .folders
            .keys()
            .map(String::len)
            .max()
            .unwrap_or(0)
            .max(8);
        writeln!(
            f,
            "{:wide$}  tests  skipped  native  stasis   cuts  restarted",
            "folder"
        )?;
        let sum = ("in all".to_owned(), self.sum());
        let rows = self.folders.iter();
        for (name, c) in rows.chain([(&sum.0, &sum.1)]) {
            writeln!(
                f,
                "{name:wide$}  {:5}  {:7}  {:6}  {:6}  {:5}  {:9}",
                c.tests, c.skipped, c.native, c.stasis, c.cuts, c.restarted
            )?;
        }
        for (why, n) in &self.skipped {
            writeln!(f, "skipped {n}: {why}")?;
        }
        for (title, lines) in [
            ("fail natively", &self.natively),
            ("differ", &self.differences),
        ] {
            writeln!(f, "\n{} {title}", lines.len())?;
            for line in lines {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_that_were_not_reached_count_for_nothing() {
        let mut table = Table::default();
        let verdict = Verdict::Judged {
            stasis: Err("it hangs".into()),
            cuts: vec![
                (1, Cut::Passed),
                (5, Cut::Differs("it crashes".into())),
                (9, Cut::NotReached),
            ],
        };
        table.count("coll", "coll/a", &verdict);
        table.count(
            "coll",
            "coll/b",
            &Verdict::Skipped("it is not built".into()),
        );
        let expected = Counts {
            tests: 2,
            skipped: 1,
            native: 1,
            stasis: 0,
            cuts: 2,
            restarted: 1,
        };
        assert_eq!(table.sum(), expected);
        assert_eq!(
            table.differences,
            ["coll/a: it hangs", "coll/a, cut at call 5: it crashes"]
        );
    }
}
