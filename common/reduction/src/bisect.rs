//! The search for the collective operations that a failure needs: the smallest selection for which it goes away.
//!
//! Functions are found by delta debugging (Zeller & Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
//! 2002, algorithm ddmin), the range of calls of each by halving. Halving takes it that a range for which the failure
//! goes away may grow without its coming back.

use std::fmt;

use crate::{Function, Selection, Term};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// With the failure.
    Failed,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The failure goes away for this selection, and for none with a function or a call less.
    Smallest(Selection),
    /// The program passes with the library's own operations.
    NoFailure,
    /// The program fails although all operations are reduced: the failure is not in them.
    Elsewhere,
}

/// Finds the smallest part of `all` for which `run` passes. `run` gets nothing, or a selection.
///
/// # Errors
/// The first error of `run`.
pub fn smallest<E>(
    all: &Selection,
    mut run: impl FnMut(Option<&Selection>) -> Result<Outcome, E>,
) -> Result<Found, E> {
    if run(None)? == Outcome::Passed {
        return Ok(Found::NoFailure);
    }
    if run(Some(all))? == Outcome::Failed {
        return Ok(Found::Elsewhere);
    }
    let of = |terms: Vec<Term>| Selection {
        terms,
        algorithm: all.algorithm,
    };
    let functions: Vec<Function> = Function::all()
        .filter(|function| all.selects(*function, |_| true, 1))
        .collect();
    let mut passes = |terms: &[Term]| Ok(run(Some(&of(terms.to_vec())))? == Outcome::Passed);
    let terms: Vec<Term> = functions.into_iter().map(Term::of).collect();
    let mut terms = minimal(terms, &mut passes)?;
    for place in 0..terms.len() {
        narrow(&mut terms, place, &mut passes)?;
    }
    Ok(Found::Smallest(of(terms)))
}

/// A part of `all`, which passes, of which no element can be left out (ddmin).
fn minimal<T: Clone, E>(
    mut all: Vec<T>,
    passes: &mut impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Vec<T>, E> {
    let mut parts = 2;
    while all.len() >= 2 {
        let size = all.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..all.len()).step_by(size) {
            let end = (start + size).min(all.len());
            let part = all[start..end].to_vec();
            if passes(&part)? {
                smaller = Some((part, 2));
                break;
            }
            // Of two parts each is the rest of the other.
            let rest = [&all[..start], &all[end..]].concat();
            if parts > 2 && passes(&rest)? {
                smaller = Some((rest, (parts - 1).max(2)));
                break;
            }
        }
        match smaller {
            Some((fewer, next)) => (all, parts) = (fewer, next),
            None if size == 1 => break,
            None => parts = (2 * parts).min(all.len()),
        }
    }
    Ok(all)
}

/// Narrows the calls of a term to the smallest range that passes.
fn narrow<E>(
    terms: &mut [Term],
    place: usize,
    passes: &mut impl FnMut(&[Term]) -> Result<bool, E>,
) -> Result<(), E> {
    let mut with = |from: u64, to: u64| {
        terms[place].calls = Some(from..=to);
        passes(terms)
    };
    let mut to = 1;
    while !with(1, to)? {
        if to >= MOST_CALLS {
            terms[place].calls = None;
            return Ok(());
        }
        to *= 2;
    }
    let to = first(to / 2 + 1, to, |to| with(1, to))?;
    let from = first(1, to, |from| Ok(!with(from + 1, to)?))?;
    terms[place].calls = Some(from..=to);
    Ok(())
}

/// A function that is called more often is not narrowed: the failure needs calls all over the run.
const MOST_CALLS: u64 = 1 << 32;

/// The first number of the range for which `holds`, which then holds for all later ones, the last among them.
fn first<E>(
    mut low: u64,
    mut high: u64,
    mut holds: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Passed => "passes",
            Outcome::Failed => "fails",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Searches for faults: the failure goes away if each of these calls is reduced. Also the number of runs.
    fn search(faults: &[(Function, u64)]) -> (Found, u32) {
        let all = Selection::parse("all").unwrap();
        let mut runs = 0;
        let found = smallest(&all, |selection| {
            runs += 1;
            let healed = |&(function, call): &(Function, u64)| {
                selection.is_some_and(|selection| selection.selects(function, |_| true, call))
            };
            Ok::<_, Infallible>(match faults.iter().all(healed) {
                true => Outcome::Passed,
                false => Outcome::Failed,
            })
        });
        (found.unwrap(), runs)
    }

    fn found(text: &str) -> Found {
        Found::Smallest(Selection::parse(text).unwrap())
    }

    #[test]
    fn one_call_is_found_in_few_runs() {
        let (one, runs) = search(&[(Function::Allreduce, 777)]);
        assert_eq!(one, found("Allreduce:777-777"));
        assert!(runs < 50, "{runs} runs");
        assert_eq!(search(&[(Function::Barrier, 1)]).0, found("Barrier:1-1"));
    }

    #[test]
    fn several_calls_of_several_functions_are_found() {
        let faults = [
            (Function::Bcast, 5),
            (Function::Scan, 100),
            (Function::Bcast, 12),
        ];
        assert_eq!(search(&faults).0, found("Bcast:5-12,Scan:100-100"));
    }

    #[test]
    fn a_failure_that_is_not_there_is_not_found() {
        assert_eq!(search(&[]).0, Found::NoFailure);
        let all = Selection::parse("all").unwrap();
        let never = smallest(&all, |_| Ok::<_, Infallible>(Outcome::Failed)).unwrap();
        assert_eq!(never, Found::Elsewhere);
    }

    #[test]
    fn what_passes_only_together_stays_together() {
        for wanted in [vec![1, 8], vec![3], vec![0, 4, 9], (0..10).collect()] {
            let mut passes = |part: &[i32]| {
                Ok::<_, Infallible>(wanted.iter().all(|element| part.contains(element)))
            };
            assert_eq!(minimal((0..10).collect(), &mut passes).unwrap(), wanted);
        }
    }
}
