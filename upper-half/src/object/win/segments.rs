//! Memory of MPI_Win_allocate_shared: the parts of all members, one behind the other.

use crate::runtime::syscall::Mapping;

/// One member's part.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    /// Where it is mapped in this process; 0 if it is nowhere.
    pub(crate) start: usize,
    pub(crate) bytes: isize,
    pub(crate) unit: i32,
}

/// The parts of all members, by rank.
pub(crate) struct Segments {
    _memory: Mapping,
    parts: Box<[Segment]>,
}

impl Segments {
    pub(crate) fn lay_out(memory: Mapping, sizes: &[[i64; 2]], apart: bool) -> Segments {
        Segments {
            parts: parts(memory.start() as usize, sizes, apart),
            _memory: memory,
        }
    }

    /// The part of a rank that exists.
    pub(crate) fn of(&self, rank: i32) -> Segment {
        self.parts[rank as usize]
    }

    /// The part of the lowest rank that has memory: what MPI_PROC_NULL asks for.
    pub(crate) fn first_used(&self) -> Segment {
        let used = self.parts.iter().find(|part| part.bytes > 0);
        *used.unwrap_or(&Segment {
            start: 0,
            bytes: 0,
            unit: 1,
        })
    }
}

fn parts(start: usize, sizes: &[[i64; 2]], apart: bool) -> Box<[Segment]> {
    let mut next = start;
    let part = |&[bytes, unit]: &[i64; 2]| {
        let start = if apart && bytes == 0 { 0 } else { next };
        next += bytes as usize;
        Segment {
            start,
            bytes: bytes as isize,
            unit: unit as i32,
        }
    };
    sizes.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        for apart in [false, true] {
            let memory = Mapping::anonymous(4096).expect("memory");
            let base = memory.start() as usize;
            let segments = Segments::lay_out(memory, &[[0, 1], [24, 8], [8, 4]], apart);
            let starts: Vec<_> = (0..3).map(|rank| segments.of(rank).start).collect();
            let first = if apart { 0 } else { base };
            assert_eq!(starts, [first, base, base + 24]);
            assert_eq!(segments.first_used().start, base);
            assert_eq!(segments.first_used().bytes, 24);
        }
    }
}
