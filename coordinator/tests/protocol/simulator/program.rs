//! Programs for the simulator, and random programs that are correct by construction. All events happen in
//! one global order that would be right even if every operation synchronised. Only operations that MPI
//! permits to be reordered are reordered.

/// One operation of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Compute,
    /// A computation without an end.
    Never,
    Send {
        to: u32,
        tag: u32,
        rendezvous: bool,
    },
    /// A send that completes when it is matched with its receive.
    Isend {
        to: u32,
        tag: u32,
        request: usize,
    },
    Recv {
        from: Option<u32>,
        tag: u32,
    },
    Irecv {
        from: Option<u32>,
        tag: u32,
        request: usize,
    },
    Wait {
        request: usize,
    },
    /// A blocking collective; `early` leaves without waiting for the other ranks, as a root may.
    Collective {
        comm: usize,
        early: bool,
    },
    /// A non-blocking collective.
    Initiate {
        comm: usize,
        request: usize,
    },
    /// A constructor, collective over `parent`.
    Create {
        parent: usize,
        made: usize,
    },
    /// A constructor that is collective over the new communicator's members only, when they have met by messages.
    CreateGroup {
        key: usize,
        made: usize,
    },
}

impl Op {
    /// Whether a clock counts the operation.
    pub fn is_collective(&self) -> bool {
        matches!(
            self,
            Op::Collective { .. }
                | Op::Initiate { .. }
                | Op::Create { .. }
                | Op::CreateGroup { .. }
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm {
    pub members: Vec<u32>,
    pub from_start: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Program {
    pub comms: Vec<Comm>,
    pub ops: Vec<Vec<Op>>,
}

impl Program {
    /// Whether a rank computes for ever.
    pub fn is_endless(&self) -> bool {
        self.ops.iter().flatten().any(|op| *op == Op::Never)
    }

    /// A program whose communicators all exist from the start.
    pub fn new(comms: &[&[u32]], ops: Vec<Vec<Op>>) -> Program {
        let comm = |m: &&[u32]| Comm {
            members: m.to_vec(),
            from_start: true,
        };
        Program {
            comms: comms.iter().map(comm).collect(),
            ops,
        }
    }
}

/// Splitmix64: small, seedable, and good enough here.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
    fn members(&mut self, of: &[u32]) -> Vec<u32> {
        let mut some: Vec<u32> = of.iter().copied().filter(|_| self.chance(60)).collect();
        if some.is_empty() {
            some.push(of[self.below(of.len())]);
        }
        some
    }
}

/// A random correct program for `size` ranks with about `events` operations in all.
pub fn random(size: u32, events: usize, random: &mut Random) -> Program {
    let world: Vec<u32> = (0..size).collect();
    let mut made = Maker {
        program: Program {
            comms: vec![Comm {
                members: world.clone(),
                from_start: true,
            }],
            ops: vec![vec![]; size as usize],
        },
        usable: vec![0],
        requests: 0,
        open: vec![],
        random,
    };
    for _ in 0..made.random.below(4) {
        let members = made.random.members(&world);
        made.usable.push(made.program.comms.len());
        made.program.comms.push(Comm {
            members,
            from_start: true,
        });
    }
    for _ in 0..events {
        made.event(size);
    }
    while !made.open.is_empty() {
        made.close(0);
    }
    // MPI_Finalize.
    for ops in &mut made.program.ops {
        ops.push(Op::Collective {
            comm: 0,
            early: false,
        });
    }
    made.program
}

/// Tags of meetings, which other messages do not have.
const MEETINGS: u32 = 100;

struct Maker<'a> {
    program: Program,
    usable: Vec<usize>,
    requests: usize,
    /// Requests whose Wait is not placed yet: rank, request.
    open: Vec<(u32, usize)>,
    random: &'a mut Random,
}

impl Maker<'_> {
    fn push(&mut self, rank: u32, op: Op) {
        self.program.ops[rank as usize].push(op);
    }

    fn close(&mut self, i: usize) {
        let (rank, request) = self.open.remove(i);
        self.push(rank, Op::Wait { request });
    }

    fn request(&mut self, rank: u32) -> usize {
        self.requests += 1;
        self.open.push((rank, self.requests));
        self.requests
    }

    fn event(&mut self, size: u32) {
        let comm = self.usable[self.random.below(self.usable.len())];
        let members = self.program.comms[comm].members.clone();
        match self.random.below(100) {
            0..=9 => {
                let rank = self.random.below(size as usize) as u32;
                self.push(rank, Op::Compute);
            }
            10..=49 => self.message(size),
            50..=69 => {
                let root = members[self.random.below(members.len())];
                let rooted = self.random.chance(30);
                for &rank in &members {
                    self.push(
                        rank,
                        Op::Collective {
                            comm,
                            early: rooted && rank == root,
                        },
                    );
                }
            }
            70..=84 => {
                for &rank in &members {
                    let request = self.request(rank);
                    self.push(rank, Op::Initiate { comm, request });
                    self.reorder(rank);
                }
            }
            85..=91 => {
                let child = self.random.members(&members);
                let made = self.new_comm(child.clone());
                for &rank in &members {
                    let op = match child.contains(&rank) {
                        true => Op::Create { parent: comm, made },
                        false => Op::Collective { comm, early: false },
                    };
                    self.push(rank, op);
                }
                self.usable.push(made);
            }
            92..=94 => {
                let child = self.random.members(&members);
                let key = self.new_comm(child.clone());
                let made = self.new_comm(child.clone());
                self.meeting(&child, MEETINGS + made as u32);
                for &rank in &child {
                    self.push(rank, Op::CreateGroup { key, made });
                }
                self.usable.push(made);
            }
            _ => {
                if !self.open.is_empty() {
                    let i = self.random.below(self.open.len());
                    self.close(i);
                }
            }
        }
    }

    fn new_comm(&mut self, members: Vec<u32>) -> usize {
        self.program.comms.push(Comm {
            members,
            from_start: false,
        });
        self.program.comms.len() - 1
    }

    /// All of these ranks wait for each other by messages.
    fn meeting(&mut self, ranks: &[u32], tag: u32) {
        let Some((&first, rest)) = ranks.split_first() else {
            return;
        };
        let tell = |to| Op::Send {
            to,
            tag,
            rendezvous: false,
        };
        let hear = |from| Op::Recv {
            from: Some(from),
            tag,
        };
        for &rank in rest {
            self.push(rank, tell(first));
            self.push(rank, hear(first));
            self.push(first, hear(rank));
        }
        for &rank in rest {
            self.push(first, tell(rank));
        }
    }

    fn message(&mut self, size: u32) {
        if size < 2 {
            return;
        }
        let from = self.random.below(size as usize) as u32;
        let to = (from + 1 + self.random.below(size as usize - 1) as u32) % size;
        // Messages with tags below 4 are received from a named rank, the others from any source.
        let tag = self.random.below(6) as u32;
        // (A later one of these may take the place of an earlier one, so none may block.)
        let source = (tag < 4).then_some(from);
        let rendezvous = tag < 4 && self.random.chance(50);
        let send = Op::Send {
            to,
            tag,
            rendezvous,
        };
        if self.random.chance(40) {
            let request = self.request(to);
            let receive = Op::Irecv {
                from: source,
                tag,
                request,
            };
            self.push(to, receive);
            self.push(from, send);
        } else {
            self.push(from, send);
            self.push(to, Op::Recv { from: source, tag });
        }
    }

    /// Initiations on different communicators may be made in any order (the hole of group clocks).
    fn reorder(&mut self, rank: u32) {
        let swap = self.random.chance(50);
        let ops = &mut self.program.ops[rank as usize];
        if let [.., Op::Initiate { comm: a, .. }, Op::Initiate { comm: b, .. }] = ops[..] {
            if a != b && swap {
                let n = ops.len();
                ops.swap(n - 1, n - 2);
            }
        }
    }
}
