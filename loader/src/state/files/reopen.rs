//! The two steps of bringing files back.

use super::cut::Cutter;
use super::descriptor::{duplicate, fcntl, open, open_again, seek, set_flags, writable};
use super::{epoll, event, lock, standard};
use super::{
    ChangedFiles, Checks, ClosedFiles, Cuts, Descriptor, Files, GrownFiles, Kind, Length, OpenFile,
    Shared,
};
use crate::error::RestoreError;
use crate::state::ProcessState;
use crate::{fds, vacant};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The first that is not a standard file.
const FIRST: i32 = 3;
/// Where descriptors that the launcher left at saved numbers are moved to.
const HIGH: i32 = 400;

/// Open files of an image, made anew but not in their places.
#[derive(Debug)]
pub struct OpenedFiles {
    /// In the order of `Files::open`; none for the launcher's and for memory.
    open: Vec<Option<OwnedFd>>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Numbers of descriptors that are kept from everybody until it is known which of them the image has.
#[derive(Debug)]
pub struct HeldNumbers(());

impl HeldNumbers {
    /// Takes all numbers that programs use, for a process that must initialise MPI before it can read its
    /// image. What the launcher left there is moved, as by [`open_files`].
    pub fn take() -> Result<HeldNumbers, RestoreError> {
        reserve(FIRST..HIGH)?;
        Ok(HeldNumbers(()))
    }

    /// Keeps these, and lets the others go.
    fn keep(self, numbers: impl Iterator<Item = i32>) -> Result<(), RestoreError> {
        let (low, high): (Vec<i32>, Vec<i32>) = numbers.partition(|&fd| fd < HIGH);
        // What is there is the MPI library's, or the launcher's.
        if let Some(&fd) = high.iter().find(|&&fd| is_open(fd)) {
            return Err(RestoreError::DescriptorTaken { fd });
        }
        reserve(high.into_iter())?;
        std::mem::forget(self);
        let others = (FIRST..HIGH).filter(|fd| !low.contains(fd));
        others.for_each(standard::close);
        Ok(())
    }
}

impl Drop for HeldNumbers {
    fn drop(&mut self) {
        (FIRST..HIGH).for_each(standard::close);
    }
}

/// Takes the numbers of the saved descriptors, so that nobody else gets them, and opens all files.
/// To be called first of all in a process that is going to restore: before MPI is initialised, or with the
/// numbers that were held meanwhile. No file is changed. Numbers at which the launcher left something are freed
/// by moving that, and the variable that names it with it.
pub fn open_files(
    state: &ProcessState,
    checks: &Checks<'_>,
    held: Option<HeldNumbers>,
) -> Result<OpenedFiles, RestoreError> {
    let files = &state.files;
    let numbers = files.descriptors.iter().map(|descriptor| descriptor.fd);
    let numbers = numbers.filter(|&fd| fd >= FIRST);
    match held {
        None => reserve(numbers)?,
        Some(held) => held.keep(numbers)?,
    }
    let shared = files.shared.iter().map(make);
    let shared = shared.collect::<Result<Vec<_>, _>>()?;
    let mut warnings = Vec::new();
    let mut opened = Vec::new();
    for (index, file) in files.open.iter().enumerate() {
        let fd = files.first_descriptor(index).ok_or(RestoreError::Table)?;
        opened.push(open_one(fd, file, &shared, checks, &mut warnings)?);
    }
    Ok(OpenedFiles {
        open: opened,
        warnings,
    })
}

/// A shared object made anew: what its ends, or the whole of it, can be reached by.
type Made = [Option<OwnedFd>; 2];

fn make(object: &Shared) -> Result<Made, RestoreError> {
    Ok(match object {
        Shared::Unnamed(file) => [Some(file.make()?), None],
        Shared::Pipe(pipe) => pipe.make()?.map(Some),
        Shared::Pair(pair) => pair.make()?,
    })
}

fn open_one(
    fd: i32,
    file: &OpenFile,
    shared: &[Made],
    checks: &Checks<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<OwnedFd>, RestoreError> {
    let flags = file.flags;
    let made = |object: usize, end: usize| {
        let made = shared.get(object).and_then(|made| made.get(end)?.as_ref());
        made.map(AsRawFd::as_raw_fd).ok_or(RestoreError::Table)
    };
    let what = format!("opening file descriptor {fd} again");
    let failed = || RestoreError::system(&what);
    let opened = match &file.kind {
        // The one is the launcher's, the other comes with the memory.
        Kind::Standard(_) | Kind::Mapped(_) => return Ok(None),
        Kind::Regular(regular) => match regular.open(fd, flags, checks, warnings)? {
            Some(opened) => opened,
            None => return Ok(None),
        },
        Kind::Place(place) => place.open(fd, flags, warnings)?,
        Kind::Unnamed { object, offset } => {
            let opened = open_again(made(*object, 0)?, flags).map_err(failed())?;
            seek(&opened, *offset);
            opened
        }
        // Packets cannot be asked for when a pipe is opened, but are set below.
        Kind::PipeEnd { object } => {
            open_again(made(*object, 0)?, flags & !libc::O_DIRECT).map_err(failed())?
        }
        Kind::PairEnd { object, end } => duplicate(made(*object, *end)?).map_err(failed())?,
        Kind::Event(event) => event.make()?,
        Kind::Timer(timer) => timer.make()?,
        Kind::Signals(mask) => event::make_signals(*mask)?,
        Kind::Epoll(_) => epoll::make()?,
        Kind::Inotify => event::make_inotify()?,
    };
    if !matches!(file.kind, Kind::Regular(_) | Kind::Place(_)) {
        set_flags(&opened, flags).map_err(failed())?;
    }
    take_locks(fd, file, &opened)?;
    Ok(Some(opened))
}

fn take_locks(fd: i32, file: &OpenFile, opened: &OwnedFd) -> Result<(), RestoreError> {
    for held in &file.locks {
        let taken = held.take(opened.as_raw_fd());
        taken.map_err(lock::not_taken(fd, opened.as_raw_fd()))?;
    }
    Ok(())
}

/// Holds the numbers.
fn reserve(numbers: impl Iterator<Item = i32> + Clone) -> Result<(), RestoreError> {
    standard::occupy().map_err(RestoreError::system("opening /dev/null"))?;
    let highest = numbers.clone().max().unwrap_or(0);
    let above = highest.max(HIGH) + 1;
    standard::raise_limit(above);
    let null = open(Path::new("/dev/null"), libc::O_RDONLY)
        .and_then(|null| fcntl(null.as_raw_fd(), libc::F_DUPFD_CLOEXEC, above))
        .map_err(RestoreError::system("opening /dev/null"))?;
    for fd in numbers {
        if is_open(fd) {
            let moved = fcntl(fd, libc::F_DUPFD, HIGH);
            let moved = moved.map_err(|_| RestoreError::DescriptorTaken { fd })?;
            tell_where(fd, moved);
        }
        standard::place_at(null, fd, true)
            .map_err(RestoreError::system("reserving a descriptor number"))?;
    }
    standard::close(null);
    Ok(())
}

fn is_open(fd: i32) -> bool {
    fcntl(fd, libc::F_GETFD, 0).is_ok()
}

/// Launchers name descriptors that they hand over in the environment (PMI_FD, HYDI_CONTROL_FD ...).
fn tell_where(fd: i32, moved: i32) {
    let number = fd.to_string();
    for (name, value) in std::env::vars_os() {
        let names_one = name.to_str().is_some_and(|name| name.ends_with("_FD"));
        if names_one && value.to_str() == Some(&number) {
            std::env::set_var(name, moved.to_string());
        }
    }
}

impl OpenedFiles {
    /// Opens the files whose names led to others until what the job has changed was undone. Gives what the user
    /// should know.
    pub fn open_undone(
        &mut self,
        state: &ProcessState,
        changed: ChangedFiles,
    ) -> Result<Vec<String>, RestoreError> {
        let mut warnings = Vec::new();
        let files = &state.files;
        for (index, (file, place)) in files.open.iter().zip(&mut self.open).enumerate() {
            if let (Kind::Regular(regular), None) = (&file.kind, &place) {
                let fd = files.first_descriptor(index).ok_or(RestoreError::Table)?;
                let opened = regular.open_now(fd, file.flags, changed, &mut warnings)?;
                take_locks(fd, file, &opened)?;
                *place = Some(opened);
            }
        }
        Ok(warnings)
    }

    /// How long output files were that processes of other machines may have too: those that are open and those
    /// that were `closed` at the checkpoint.
    pub fn lengths(state: &ProcessState, closed: &ClosedFiles) -> Vec<Length> {
        let open = state.files.open.iter().filter_map(|file| match &file.kind {
            Kind::Regular(regular) if writable(file.flags) => Some(regular.length()),
            _ => None,
        });
        let all = open.chain(closed.lengths());
        all.filter_map(|(path, size)| Length::of(path, size))
            .collect()
    }

    /// Cuts output files back, those that are open and those that were `closed` at the checkpoint. What is cut
    /// off is kept below the directory `kept`, whose list says which restart, `who`, has done what. Other ranks
    /// may have the same files, and have seen these `lengths`.
    pub fn cut_back(
        &self,
        state: &ProcessState,
        closed: &ClosedFiles,
        grown: GrownFiles,
        lengths: &BTreeMap<u64, u64>,
        (kept, who): (&Path, &str),
    ) -> Result<Cuts, RestoreError> {
        let files = &state.files;
        let mut cutter = Cutter::new(kept, who, lengths);
        for (index, (file, opened)) in files.open.iter().zip(&self.open).enumerate() {
            if let (Kind::Regular(regular), Some(opened)) = (&file.kind, opened) {
                let fd = files.first_descriptor(index).ok_or(RestoreError::Table)?;
                regular.cut(fd, file.flags, opened, &mut cutter)?;
            }
        }
        if grown == GrownFiles::Cut {
            closed.cut_back(&mut cutter);
        }
        closed.remember();
        Ok(cutter.done())
    }

    /// Puts everything in its place, and lets timers run.
    /// `objects` finds the descriptors of shared memory.
    pub(in crate::state) fn settle(
        mut self,
        files: &Files,
        objects: &dyn Fn(&str) -> Option<i32>,
    ) -> Result<(), RestoreError> {
        for (file, place) in files.open.iter().zip(&mut self.open) {
            if let Kind::Mapped(mapped) = &file.kind {
                *place = Some(mapped.open(file.flags, objects)?);
            }
        }
        standard::note();
        let given = standard::keep().map_err(RestoreError::system("keeping the standard files"))?;
        for descriptor in &files.descriptors {
            let what = format!("placing file descriptor {}", descriptor.fd);
            let file = files.open.get(descriptor.open);
            let from = match file.map(|file| &file.kind) {
                Some(Kind::Standard(n)) => usize::try_from(*n).ok().and_then(|n| given.get(n)),
                _ => self.open.get(descriptor.open).and_then(Option::as_ref),
            };
            let from = from.ok_or(RestoreError::Table)?.as_raw_fd();
            standard::place_at(from, descriptor.fd, descriptor.cloexec)
                .map_err(RestoreError::system(&what))?;
            fds::own(descriptor.fd);
        }
        vacant::prepare();
        for fd in (0..=2).filter(|fd| files.descriptor(*fd).is_none()) {
            vacant::vacate(fd);
        }
        drop((self, given));
        // Nothing is closed from here on: that would drop locks.
        for (index, file) in files.open.iter().enumerate() {
            if let Some(fd) = files.first_descriptor(index) {
                set_going(fd, file, files)?;
            }
        }
        Ok(())
    }
}

/// What can only be done to a file in its place.
fn set_going(fd: i32, file: &OpenFile, files: &Files) -> Result<(), RestoreError> {
    match &file.kind {
        Kind::Timer(timer) => timer.start(fd)?,
        Kind::Epoll(watches) => epoll::watch(fd, watches, |fd| files.is_standard(fd))?,
        _ => {}
    }
    for held in &file.locks {
        held.take_for_process(fd, writable(file.flags))
            .map_err(lock::not_taken(fd, fd))?;
    }
    Ok(())
}

impl Files {
    /// Makes sure that descriptors, open files and what these share refer to what is there.
    pub(in crate::state) fn check(&self) -> Result<(), RestoreError> {
        let object = |kind: &Kind| match kind {
            Kind::Unnamed { object, .. }
            | Kind::PipeEnd { object }
            | Kind::PairEnd { object, .. } => *object,
            _ => 0,
        };
        let sound = self.descriptors.iter().all(|d| d.open < self.open.len())
            && (0..self.open.len()).all(|open| self.first_descriptor(open).is_some())
            && self.open.iter().all(|file| match object(&file.kind) {
                0 => true,
                object => object < self.shared.len(),
            });
        sound.then_some(()).ok_or(RestoreError::Table)
    }

    fn first_descriptor(&self, open: usize) -> Option<i32> {
        let mut descriptors = self.descriptors.iter();
        descriptors.find(|d| d.open == open).map(|d| d.fd)
    }

    fn descriptor(&self, fd: i32) -> Option<&Descriptor> {
        self.descriptors.iter().find(|d| d.fd == fd)
    }

    fn is_standard(&self, fd: i32) -> bool {
        self.descriptor(fd)
            .and_then(|descriptor| self.open.get(descriptor.open))
            .is_some_and(|file| matches!(file.kind, Kind::Standard(_)))
    }
}
