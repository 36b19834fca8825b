//! The state of MPI at the end of an epoch: communicators and groups by their indices, and the handles of the program's
//! handlers. It is small, and written as words of 8 bytes.

use super::handles::Kept;
use crate::object::comm::internal::sync_comm;
use crate::object::comm::topology::{Cart, DistGraph, Graph, Topology};
use crate::object::table::Body;
use crate::object::{Comm, CommBody, GroupBody};
use contract::abi::{comm, errhandler};
use core::sync::atomic::Ordering;
use std::ffi::CString;

/// First word of a record; the last digit is the version.
const MAGIC: u64 = u64::from_le_bytes(*b"STAGES\0\x01");

/// A communicator of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommRecord {
    pub(super) index: u32,
    pub(super) id: u64,
    pub(super) members: Vec<u32>,
    /// Of an inter-communicator.
    pub(super) remote: Option<Vec<u32>>,
    pub(super) topology: Option<Topology>,
    /// Standard value of its predefined error handler. Functions of the program are not kept: a rank that was started
    /// anew registers its own.
    pub(super) errhandler: u32,
    pub(super) name: CString,
}

/// A group of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRecord {
    pub(super) index: u32,
    pub(super) ranks: Vec<u32>,
}

/// The state of MPI in this rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The error handlers of MPI_COMM_WORLD and MPI_COMM_SELF.
    pub(super) errhandlers: [u32; 2],
    pub(super) communicators: Vec<CommRecord>,
    pub(super) groups: Vec<GroupRecord>,
    pub(super) kept: Vec<Kept>,
}

/// The predefined communicators of `Record::errhandlers`.
pub(super) fn predefined() -> [&'static Comm; 2] {
    [comm::COMM_WORLD, comm::COMM_SELF].map(|value| Comm::at(value as u32))
}

fn errhandler_of(comm: &Comm) -> u32 {
    let current = comm.body.errhandler().get();
    let index = match current.is_predefined() {
        true => current.index(),
        false => errhandler::ERRORS_RETURN as u32,
    };
    current.release();
    index
}

impl Record {
    /// The present state. No request is pending.
    pub(super) fn now(kept: Vec<Kept>) -> Record {
        let communicators = CommBody::table().dynamic().filter(|comm| {
            let own = comm.index() == sync_comm().index();
            !own && comm.is_below() && !comm.body.freed.load(Ordering::Relaxed)
        });
        let communicators = communicators.map(|comm| CommRecord {
            index: comm.index(),
            id: comm.body.id,
            members: comm.body.members().to_vec(),
            remote: comm.body.remote_members().map(|ranks| ranks.to_vec()),
            topology: comm.body.topology.clone(),
            errhandler: errhandler_of(comm),
            name: comm.body.name.lock().clone(),
        });
        let groups = GroupBody::table().dynamic().map(|group| GroupRecord {
            index: group.index(),
            ranks: group.body.ranks.to_vec(),
        });
        Record {
            errhandlers: predefined().map(errhandler_of),
            communicators: communicators.collect(),
            groups: groups.collect(),
            kept,
        }
    }

    /// Whether it has this communicator, under this handle.
    pub(super) fn has(&self, comm: &Comm) -> bool {
        let mut all = self.communicators.iter();
        all.any(|record| (record.index, record.id) == (comm.index(), comm.body.id))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut words = vec![MAGIC];
        words.extend(self.errhandlers.map(u64::from));
        words.push(self.communicators.len() as u64);
        for comm in &self.communicators {
            words.extend([u64::from(comm.index), comm.id, u64::from(comm.errhandler)]);
            put(&mut words, &comm.members);
            words.push(u64::from(comm.remote.is_some()));
            put(&mut words, comm.remote.as_deref().unwrap_or_default());
            put_topology(&mut words, comm.topology.as_ref());
            let name: Vec<u32> = comm
                .name
                .as_bytes()
                .iter()
                .copied()
                .map(u32::from)
                .collect();
            put(&mut words, &name);
        }
        words.push(self.groups.len() as u64);
        for group in &self.groups {
            words.push(u64::from(group.index));
            put(&mut words, &group.ranks);
        }
        words.push(self.kept.len() as u64);
        for kept in &self.kept {
            put(&mut words, &kept.communicators);
            put(&mut words, &kept.groups);
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The record, unless it was damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut words = Words(&words);
        if words.next()? != MAGIC {
            return None;
        }
        let errhandlers = [words.number()?, words.number()?];
        let communicators = words.times(|words| {
            let (index, id, errhandler) = (words.number()?, words.next()?, words.number()?);
            let members = words.list()?;
            let inter = words.next()? != 0;
            let remote = words.list()?;
            Some(CommRecord {
                index,
                id,
                members,
                remote: inter.then_some(remote),
                topology: words.topology()?,
                errhandler,
                name: words.name()?,
            })
        })?;
        let groups = words.times(|words| {
            Some(GroupRecord {
                index: words.number()?,
                ranks: words.list()?,
            })
        })?;
        let kept = words.times(|words| {
            Some(Kept {
                communicators: words.list()?,
                groups: words.list()?,
            })
        })?;
        words.0.is_empty().then_some(Record {
            errhandlers,
            communicators,
            groups,
            kept,
        })
    }
}

fn put(words: &mut Vec<u64>, numbers: &[u32]) {
    words.push(numbers.len() as u64);
    words.extend(numbers.iter().copied().map(u64::from));
}

fn put_signed(words: &mut Vec<u64>, numbers: &[i32]) {
    words.push(numbers.len() as u64);
    words.extend(
        numbers
            .iter()
            .map(|number| u64::from(number.cast_unsigned())),
    );
}

fn put_topology(words: &mut Vec<u64>, topology: Option<&Topology>) {
    match topology {
        None => words.push(0),
        Some(Topology::Cart(cart)) => {
            words.push(1);
            put_signed(words, &cart.dims);
            put_signed(words, &cart.periods);
        }
        Some(Topology::Graph(graph)) => {
            words.push(2);
            put_signed(words, &graph.index);
            put_signed(words, &graph.edges);
        }
        Some(Topology::DistGraph(graph)) => {
            words.push(3);
            put_signed(words, &graph.sources);
            put_signed(words, &graph.destinations);
            words.push(u64::from(graph.weights.is_some()));
            let (of_sources, of_destinations) = graph.weights.clone().unwrap_or_default();
            put_signed(words, &of_sources);
            put_signed(words, &of_destinations);
        }
    }
}

/// The words that are left.
struct Words<'a>(&'a [u64]);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        u32::try_from(self.next()?).ok()
    }

    fn times<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.next()?)
            .ok()
            .filter(|count| *count <= self.0.len())?;
        (0..count).map(|_| one(self)).collect()
    }

    fn list(&mut self) -> Option<Vec<u32>> {
        self.times(Self::number)
    }

    fn signed(&mut self) -> Option<Vec<i32>> {
        self.times(|words| words.number().map(u32::cast_signed))
    }

    fn name(&mut self) -> Option<CString> {
        CString::new(self.times(|words| u8::try_from(words.next()?).ok())?).ok()
    }

    fn topology(&mut self) -> Option<Option<Topology>> {
        Some(match self.next()? {
            0 => None,
            1 => Some(Topology::Cart(Cart {
                dims: self.signed()?,
                periods: self.signed()?,
            })),
            2 => Some(Topology::Graph(Graph {
                index: self.signed()?,
                edges: self.signed()?,
            })),
            3 => {
                let (sources, destinations) = (self.signed()?, self.signed()?);
                let weighted = self.next()? != 0;
                let weights = (self.signed()?, self.signed()?);
                Some(Topology::DistGraph(DistGraph {
                    sources,
                    destinations,
                    weights: weighted.then_some(weights),
                }))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let comm = |index, remote: Option<Vec<u32>>, topology| CommRecord {
            index,
            id: u64::MAX - u64::from(index),
            members: vec![2, 0, 1],
            remote,
            topology,
            errhandler: 3,
            name: c"grid".to_owned(),
        };
        let weights = Some((vec![1], vec![-2, 3]));
        Record {
            errhandlers: [1, 2],
            communicators: vec![
                comm(0x401, None, None),
                comm(0x402, Some(vec![7]), None),
                comm(
                    0x403,
                    None,
                    Some(Topology::Cart(Cart {
                        dims: vec![3],
                        periods: vec![1],
                    })),
                ),
                comm(
                    0x405,
                    None,
                    Some(Topology::DistGraph(DistGraph {
                        sources: vec![0],
                        destinations: vec![1, 2],
                        weights,
                    })),
                ),
            ],
            groups: vec![GroupRecord {
                index: 0x400,
                ranks: vec![1],
            }],
            kept: vec![
                Kept::default(),
                Kept {
                    communicators: vec![0x401, 0],
                    groups: vec![0x400],
                },
            ],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(Record::decode(&record().encode()), Some(record()));
    }

    #[test]
    fn no_part_of_a_record_is_taken_for_one() {
        let bytes = record().encode();
        for length in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..length]), None, "{length} bytes");
        }
        assert_eq!(Record::decode(&[&bytes[..], &[0; 8]].concat()), None);
        let mut other = bytes;
        other[7] ^= 0xff;
        assert_eq!(Record::decode(&other), None);
    }
}
