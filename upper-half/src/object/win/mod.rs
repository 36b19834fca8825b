//! The body of a window: its memory, its locks, and what its epochs need.

pub(crate) mod lock_words;
pub(crate) mod parts;
pub(crate) mod segments;

use crate::object::attributes::Attributes;
use crate::object::comm::Comm;
use crate::object::errhandler::{Current, Handler};
use crate::object::lower_handle::Slot;
use crate::object::table::Body;
use crate::object::table::Object;
use crate::object::win::lock_words::Held;
use crate::object::win::parts::{OwnPart, Part, Parts};
use crate::object::win::segments::Segments;
use crate::object_table;
use crate::runtime::lock::Lock;
use contract::abi::PROC_NULL;
use contract::abi::*;
use contract::HandleKind;
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;
use std::sync::Arc;

/// A window.
pub type Win = Object<WinBody>;

/// Body of a window.
pub struct WinBody {
    errhandler: Current,
    pub(crate) attributes: Attributes,
    pub(crate) name: Lock<CString>,
    pub(crate) info: Lock<Vec<(CString, CString)>>,
    /// A duplicate of the communicator that the application named, for what ranks tell each other
    /// about the window.
    pub(crate) comm: &'static Comm,
    /// Standard values of MPI_WIN_CREATE_FLAVOR and MPI_WIN_MODEL, whose addresses are given out as
    /// those of the next three are.
    pub(crate) flavor: i32,
    pub(crate) model: i32,
    /// Start, bytes, and unit of displacements.
    pub(crate) base: usize,
    pub(crate) bytes: isize,
    pub(crate) unit: i32,
    units: Units,
    pub(crate) memory: Memory,
    /// Regions of a dynamic window: start and bytes.
    pub(crate) attached: Lock<Vec<(usize, isize)>>,
    /// Lock words, and memory of MPI_Win_allocate. Only the null window has none.
    pub(crate) part: Option<OwnPart>,
    parts: Parts,
    /// Whether the memory of every member is reached by loads and stores here.
    direct: AtomicBool,
    /// Lower handle of the window below over the lock words.
    pub(crate) locks_below: Slot<WinBody>,
    pub(crate) held: Lock<Held>,
    /// Whether operations that must be atomic are done here: in a direct window they always are.
    pub(crate) accumulates_here: AtomicBool,
    /// Ranks between start and complete, and between post and wait.
    pub(crate) access: Lock<Option<Arc<[i32]>>>,
    pub(crate) exposure: Lock<Option<Vec<i32>>>,
    pub(crate) marks: Marks,
}

impl Body for WinBody {
    const KIND: HandleKind = HandleKind::Win;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = win::WIN_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = win::ALL;
    object_table!(WinBody);

    fn predefined(_index: u32) -> Self {
        let memory = Memory::Application;
        let unit = (1, Units::Same(1));
        let place = (0, 0);
        WinBody::new(
            Comm::null(),
            WIN_FLAVOR_CREATE,
            (memory, None),
            place,
            unit,
            vec![],
        )
    }
}

impl WinBody {
    pub(crate) fn new(
        comm: &'static Comm,
        flavor: i32,
        (memory, part): (Memory, Option<OwnPart>),
        (base, bytes): (usize, isize),
        (unit, units): (i32, Units),
        info: Vec<(CString, CString)>,
    ) -> WinBody {
        WinBody {
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            attributes: Attributes::new(),
            name: Lock::new(CString::default()),
            info: Lock::new(info),
            comm,
            flavor,
            // Ours: after any synchronisation, what was put is what a load finds.
            model: WIN_UNIFIED,
            base,
            bytes,
            unit,
            units,
            memory,
            attached: Lock::new(Vec::new()),
            part,
            parts: Parts::default(),
            direct: AtomicBool::new(false),
            locks_below: Slot::empty(),
            held: Lock::new(Held::default()),
            accumulates_here: AtomicBool::new(false),
            access: Lock::new(None),
            exposure: Lock::new(None),
            marks: Marks::default(),
        }
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }

    /// Whether the memory of every member is reached by loads and stores here. There is no window below then, see
    /// `rma/direct_window.rs`.
    #[inline(always)]
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// The parts of all members, if they are mapped here.
    #[inline(always)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Sets the parts of all members.
    pub(crate) fn set_parts(&self, all: Box<[Part]>) {
        self.parts.set(all);
        let reached = self.comm.body.size == 1 || !matches!(self.memory, Memory::Application);
        self.direct.store(reached, Ordering::Relaxed);
    }

    /// Forgets the parts of all members and returns them. No other thread uses the window.
    pub(crate) fn take_parts(&self) -> Box<[Part]> {
        self.direct.store(false, Ordering::Relaxed);
        self.parts.take(self.comm.body.size)
    }

    /// Whether what changes a target's memory atomically is done here (`rma/accumulate.rs`).
    #[inline(always)]
    pub fn accumulates_here(&self) -> bool {
        self.accumulates_here.load(Ordering::Relaxed)
    }

    /// A displacement at a rank in bytes, as the window below takes it.
    #[inline(always)]
    pub fn in_bytes(&self, displacement: isize, rank: i32) -> isize {
        displacement.wrapping_mul(self.units.of(rank))
    }

    /// World ranks of the window's group.
    pub(crate) fn members(&self) -> &Arc<[u32]> {
        self.comm.body.members()
    }
}

/// To whom a window's memory belongs.
pub(crate) enum Memory {
    /// The application, which keeps it.
    Application,
    /// The window: it lies in the window's part.
    Allocated,
    /// All members: from MPI_Win_allocate_shared.
    Shared(Segments),
}

/// The units of all members, in bytes.
pub(crate) enum Units {
    /// All have the same.
    Same(i32),
    /// By rank.
    Each(Box<[i32]>),
}

impl Units {
    /// That of a rank; of any number for who is none.
    #[inline(always)]
    pub(crate) fn of(&self, rank: i32) -> isize {
        match self {
            Units::Same(unit) => *unit as isize,
            Units::Each(_) if rank == PROC_NULL => 1,
            Units::Each(units) => units.get(rank as usize).map_or(1, |unit| *unit as isize),
        }
    }
}

/// What ranks tell each other: the tag of the message.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// From a target: its exposure epoch has begun.
    Posted,
    /// From an origin: its operations are complete.
    Completed,
}

/// What this rank has told itself and not yet heard, by [`Word`].
#[derive(Default)]
pub(crate) struct Marks([AtomicBool; 2]);

impl Marks {
    pub(crate) fn set(&self, word: Word) {
        self.0[word as usize].store(true, Ordering::Release);
    }

    pub(crate) fn take(&self, word: Word) -> bool {
        self.0[word as usize].swap(false, Ordering::AcqRel)
    }
}
