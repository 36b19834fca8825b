//! The sums over the ranks of a job.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mpi_table::Class;
use serde::Serialize;

use crate::file::{Communicator, Datatype, Function, Rank, SizeClass};

/// The calls of all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// The ranks, in ascending order. There is one at least.
    pub ranks: Vec<Rank>,
    /// The sums.
    #[serde(flatten)]
    pub sums: Sums,
}

/// Sums over the ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    /// Number of ranks of the job.
    pub size: u32,
    /// Number of ranks whose numbers are known.
    pub known_ranks: usize,
    /// The longest time of a rank.
    pub elapsed_seconds: f64,
    /// Time in calls, of all ranks and threads.
    pub mpi_seconds: f64,
    /// Its share of the time of all threads that call MPI, from 0 to 1.
    pub mpi_share: f64,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that one rank makes in a second, on average.
    pub calls_per_second: f64,
    /// By function, that with the most time first.
    pub functions: Vec<FunctionSum>,
    /// Number of calls that send, by bytes. Collective operations send, too.
    pub message_sizes: Vec<SizeClass>,
    /// By communicator, that with the most time first.
    pub communicators: Vec<Communicator>,
    /// By datatype, that with the most bytes first.
    pub datatypes: Vec<Datatype>,
}

/// The calls of one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FunctionSum {
    /// The sum.
    #[serde(flatten)]
    pub all: Function,
    /// The shortest time of a rank in this function.
    pub least_seconds: f64,
    /// The longest one.
    pub most_seconds: f64,
    /// The rank that has it.
    pub slowest_rank: u32,
}

impl Job {
    /// Adds up the numbers of ranks. There is no job without a rank.
    pub fn of(ranks: Vec<Rank>) -> Option<Job> {
        let first = ranks.first()?;
        let calls: u64 = ranks.iter().map(Rank::calls).sum();
        let sum = |of: fn(&Rank) -> f64| ranks.iter().map(of).sum::<f64>();
        let (elapsed, in_mpi) = (sum(|r| r.elapsed_seconds), sum(|r| r.mpi_seconds));
        let of_threads = sum(|r| r.elapsed_seconds * f64::from(r.threads.max(1)));
        let sums = Sums {
            size: first.size,
            known_ranks: ranks.len(),
            elapsed_seconds: ranks
                .iter()
                .fold(0.0, |most, r| r.elapsed_seconds.max(most)),
            mpi_seconds: in_mpi,
            mpi_share: ratio(in_mpi, of_threads),
            calls,
            calls_per_second: ratio(calls as f64, elapsed),
            functions: functions(&ranks),
            message_sizes: message_sizes(&ranks),
            communicators: communicators(&ranks),
            datatypes: datatypes(&ranks),
        };
        Some(Job { ranks, sums })
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => part / whole,
        false => 0.0,
    }
}

fn functions(ranks: &[Rank]) -> Vec<FunctionSum> {
    let mut sums: BTreeMap<&str, (FunctionSum, usize)> = BTreeMap::new();
    for rank in ranks {
        for function in &rank.functions {
            let (sum, callers) = sums.entry(&function.function).or_default();
            let (all, seconds) = (&mut sum.all, function.seconds);
            all.function.clone_from(&function.function);
            all.calls += function.calls;
            all.bytes += function.bytes;
            all.seconds += seconds;
            add_sizes(&mut all.sizes, &function.sizes);
            if *callers == 0 || seconds < sum.least_seconds {
                sum.least_seconds = seconds;
            }
            if *callers == 0 || seconds > sum.most_seconds {
                (sum.most_seconds, sum.slowest_rank) = (seconds, rank.rank);
            }
            *callers += 1;
        }
    }
    let whole = sums.into_values().map(|(mut sum, callers)| {
        if callers < ranks.len() {
            sum.least_seconds = 0.0;
        }
        sum
    });
    let mut all: Vec<FunctionSum> = whole.collect();
    all.sort_by(|a, b| b.all.seconds.total_cmp(&a.all.seconds));
    all
}

fn add_sizes(to: &mut Vec<SizeClass>, sizes: &[SizeClass]) {
    for size in sizes {
        match to.binary_search_by_key(&size.from_bytes, |known| known.from_bytes) {
            Ok(at) => to[at].calls += size.calls,
            Err(at) => to.insert(at, size.clone()),
        }
    }
}

fn message_sizes(ranks: &[Rank]) -> Vec<SizeClass> {
    let sending = |function: &&mpi_table::Function| {
        matches!(
            function.class,
            Class::Send | Class::SendReceive | Class::Collective | Class::CollectiveNonblocking
        )
    };
    let sending = mpi_table::functions().iter().filter(sending);
    let sending: Vec<&str> = sending.map(|function| function.name.as_str()).collect();
    let mut all = Vec::new();
    for function in ranks.iter().flat_map(|rank| &rank.functions) {
        if sending.contains(&function.function.as_str()) {
            add_sizes(&mut all, &function.sizes);
        }
    }
    all
}

/// Communicators of the same name and size are added up, such as MPI_COMM_SELF of all ranks.
fn communicators(ranks: &[Rank]) -> Vec<Communicator> {
    let mut sums: BTreeMap<(&str, Option<&str>, u32), Communicator> = BTreeMap::new();
    for comm in ranks.iter().flat_map(|rank| &rank.communicators) {
        let id = comm.id.as_deref().filter(|_| comm.name.is_empty());
        let sum = sums.entry((&comm.name, id, comm.processes));
        let sum = sum.or_insert_with(|| Communicator {
            id: comm.id.clone(),
            name: comm.name.clone(),
            processes: comm.processes,
            ..Communicator::default()
        });
        if sum.id != comm.id {
            sum.id = None;
        }
        sum.calls += comm.calls;
        sum.bytes += comm.bytes;
        sum.seconds += comm.seconds;
    }
    let mut all: Vec<Communicator> = sums.into_values().collect();
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all
}

fn datatypes(ranks: &[Rank]) -> Vec<Datatype> {
    let mut sums: BTreeMap<&str, Datatype> = BTreeMap::new();
    for datatype in ranks.iter().flat_map(|rank| &rank.datatypes) {
        let sum = sums.entry(&datatype.datatype).or_default();
        sum.datatype.clone_from(&datatype.datatype);
        sum.calls += datatype.calls;
        sum.bytes += datatype.bytes;
    }
    let mut all: Vec<Datatype> = sums.into_values().collect();
    all.sort_by_key(|datatype| Reverse(datatype.bytes));
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn job() -> Job {
        let class = |from_bytes, calls| SizeClass { from_bytes, calls };
        let function = |name: &str, calls, seconds, sizes: &[SizeClass]| Function {
            function: name.into(),
            calls,
            bytes: calls * 10,
            seconds,
            sizes: sizes.to_vec(),
        };
        let comm = |name: &str, id: u32, processes| Communicator {
            id: Some(format!("{id:x}")),
            name: name.into(),
            processes,
            calls: 1,
            bytes: 10,
            seconds: 0.25,
        };
        let rank = |number, functions| Rank {
            rank: number,
            size: 2,
            elapsed_seconds: 4.0,
            mpi_seconds: 1.0,
            threads: 1,
            functions,
            communicators: vec![comm("MPI_COMM_SELF", number, 1), comm("", 7, 2)],
            datatypes: vec![Datatype {
                datatype: "MPI_INT".into(),
                calls: 2,
                bytes: 20,
            }],
        };
        let ranks = vec![
            rank(0, vec![function("MPI_Send", 3, 0.5, &[class(8, 3)])]),
            rank(
                1,
                vec![
                    function("MPI_Recv", 3, 0.75, &[class(8, 3)]),
                    function("MPI_Send", 2, 0.25, &[class(0, 1), class(8, 1)]),
                ],
            ),
        ];
        Job::of(ranks).unwrap()
    }

    #[test]
    fn ranks_are_added_up() {
        let sums = job().sums;
        assert_eq!((sums.calls, sums.known_ranks), (8, 2));
        assert_eq!((sums.mpi_share, sums.calls_per_second), (0.25, 1.0));
        let shown = |sum: &FunctionSum| (sum.all.function.clone(), sum.all.calls, sum.slowest_rank);
        let functions: Vec<_> = sums.functions.iter().map(shown).collect();
        let expected = [("MPI_Recv".to_owned(), 3, 1), ("MPI_Send".to_owned(), 5, 0)];
        assert!(
            expected.iter().all(|one| functions.contains(one)),
            "{functions:?}"
        );
        let recv = sums.functions.iter().find(|sum| sum.all.calls == 3);
        // Rank 0 has not called it.
        assert_eq!(recv.map(|sum| sum.least_seconds), Some(0.0));
        let sizes: Vec<_> = sums.message_sizes.iter().map(|c| c.calls).collect();
        assert_eq!(sizes, [1, 4], "a receive is no message sent");
        let comms = sums.communicators.iter();
        let comms: Vec<_> = comms.map(|c| (c.id.as_deref(), c.calls)).collect();
        assert!(
            comms.contains(&(None, 2)) && comms.contains(&(Some("7"), 2)),
            "{comms:?}"
        );
        assert_eq!(sums.datatypes[0].bytes, 40);
        assert!(Job::of(vec![]).is_none());
    }
}
