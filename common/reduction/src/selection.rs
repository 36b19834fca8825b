//! The value of `--reduce`: terms separated by commas, of which the last that fits a call decides.
//!
//! | term | selects |
//! |---|---|
//! | `all` | every function |
//! | `Allreduce` | one function |
//! | `-Barrier` | all but that, if no term in front of it selects anything |
//! | `Bcast@solver` | over the communicators of that name (MPI_Comm_set_name) |
//! | `Bcast:10-20` | calls that are the 10th to the 20th collective call over their communicator; `10-` to the last |

use std::fmt;
use std::ops::RangeInclusive;

use crate::Function;

/// Which algorithms serve the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Messages to and from one process, in the order of ranks.
    #[default]
    Linear,
    /// Trees, rings and exchanges of growing distance.
    Tree,
}

/// A part of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Whether what it names is left to the library.
    pub excludes: bool,
    /// The function; all if there is none.
    pub function: Option<Function>,
    /// The name of the communicators; all if there is none.
    pub comm: Option<String>,
    /// The calls over each communicator, from 1; all if there are none.
    pub calls: Option<RangeInclusive<u64>>,
}

/// The operations that are reduced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Its terms.
    pub terms: Vec<Term>,
    /// How they are reduced.
    pub algorithm: Algorithm,
}

/// A selection that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unknown {}

/// Prefix of the selections of [`Algorithm::Tree`].
const TREE: &str = "tree:";

impl Term {
    /// All calls of a function.
    pub fn of(function: Function) -> Term {
        Term {
            excludes: false,
            function: Some(function),
            comm: None,
            calls: None,
        }
    }

    fn parse(text: &str) -> Result<Term, Unknown> {
        let (excludes, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (rest, calls) = match rest.rsplit_once(':') {
            Some((rest, calls)) => (rest, Some(range(calls)?)),
            None => (rest, None),
        };
        let (name, comm) = match rest.split_once('@') {
            Some((name, comm)) => (name, Some(comm.to_owned())),
            None => (rest, None),
        };
        let function = match name {
            "all" => None,
            name => Some(Function::named(name).ok_or_else(|| unknown(name))?),
        };
        Ok(Term {
            excludes,
            function,
            comm,
            calls,
        })
    }

    fn fits(&self, function: Function, comm: impl FnOnce(&str) -> bool, call: u64) -> bool {
        self.function.is_none_or(|its| its == function)
            && self.calls.as_ref().is_none_or(|its| its.contains(&call))
            && self.comm.as_deref().is_none_or(comm)
    }
}

fn unknown(name: &str) -> Unknown {
    Unknown(format!(
        "'{name}' is no collective function: write all, or a name such as Allreduce, which stands for \
         MPI_Iallreduce and MPI_Allreduce_init, too"
    ))
}

fn range(text: &str) -> Result<RangeInclusive<u64>, Unknown> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let range = match (number(from), to) {
        (Some(from), "") => Some(from..=u64::MAX),
        (Some(from), to) => number(to).map(|to| from..=to),
        (None, _) => None,
    };
    let range = range.filter(|range| !range.is_empty());
    range.ok_or_else(|| {
        Unknown(format!(
            "'{text}' is no range of calls: write 1000-2000, counted from 1"
        ))
    })
}

impl Selection {
    /// Reads a selection.
    ///
    /// # Errors
    /// [`Unknown`] if a name is no collective function, or a range of calls is none.
    ///
    /// # Examples
    /// ```
    /// use stasis_reduction::{Function, Selection};
    ///
    /// let first_two = Selection::parse("Bcast:1-2")?;
    /// let bcast = Function::named("Bcast").unwrap();
    /// assert!(first_two.selects(bcast, |_| false, 2));
    /// assert!(!first_two.selects(bcast, |_| false, 3));
    /// # Ok::<(), stasis_reduction::Unknown>(())
    /// ```
    pub fn parse(text: &str) -> Result<Selection, Unknown> {
        let (algorithm, text) = match text.strip_prefix(TREE) {
            Some(text) => (Algorithm::Tree, text),
            None => (Algorithm::Linear, text),
        };
        let words = text.split(',').map(str::trim);
        let terms: Vec<Term> = words.map(Term::parse).collect::<Result<_, _>>()?;
        Ok(Selection { terms, algorithm })
    }

    /// Whether it selects a call of a function: the `call`-th over a communicator, about which `comm` says whether it
    /// has a name.
    pub fn selects(&self, function: Function, comm: impl Fn(&str) -> bool, call: u64) -> bool {
        let mut last_first = self.terms.iter().rev();
        match last_first.find(|term| term.fits(function, &comm, call)) {
            Some(term) => !term.excludes,
            // "All but" needs no `all` in front of it.
            None => self.terms.first().is_some_and(|term| term.excludes),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.excludes {
            f.write_str("-")?;
        }
        f.write_str(self.function.map_or("all", Function::name))?;
        if let Some(comm) = &self.comm {
            write!(f, "@{comm}")?;
        }
        match &self.calls {
            Some(calls) if *calls.end() == u64::MAX => write!(f, ":{}-", calls.start()),
            Some(calls) => write!(f, ":{}-{}", calls.start(), calls.end()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.algorithm == Algorithm::Tree {
            f.write_str(TREE)?;
        }
        for (place, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(text: &str, function: Function, comm: &str, call: u64) -> bool {
        let selection = Selection::parse(text).unwrap();
        selection.selects(function, |name| name == comm, call)
    }

    #[test]
    fn the_last_term_that_fits_decides() {
        let barrier = |text| selects(text, Function::Barrier, "world", 1);
        assert!(barrier("all") && barrier("Bcast,Barrier") && barrier("all,-Bcast"));
        assert!(!barrier("Bcast") && !barrier("all,-Barrier") && !barrier("-Barrier"));
        assert!(barrier("-Bcast") && barrier("-Barrier,all"));
    }

    #[test]
    fn communicators_and_calls_narrow_a_term() {
        let bcast = |text, comm, call| selects(text, Function::Bcast, comm, call);
        assert!(bcast("Bcast@a:3-5", "a", 3) && bcast("MPI_Bcast@a:3-", "a", 99));
        assert!(!bcast("Bcast@a:3-5", "b", 3) && !bcast("Bcast@a:3-5", "a", 6));
        assert!(!bcast("all,-Bcast:2", "a", 2) && bcast("all,-Bcast:2", "a", 1));
    }

    #[test]
    fn a_selection_reads_as_it_is_written() {
        for text in ["all", "tree:all,-Barrier", "Bcast@my comm:3-5,Scan:7-"] {
            assert_eq!(Selection::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "all,",
            "Bcst",
            "Bcast:0-3",
            "Bcast:5-3",
            "Bcast:x",
            "Ibcast",
        ] {
            assert!(Selection::parse(text).is_err(), "{text}");
        }
    }
}
