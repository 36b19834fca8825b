//! Restores open files in two steps: [`open_files`] opens and checks them, [`OpenedFiles::install`] puts them in place.

use super::kinds::{epoll, eventfd_signalfd, file_lock, stdio};
use super::truncate::Truncator;
use super::{
    Checks, ClosedFileList, ClosedFilePolicy, Descriptor, Files, Kind, Length, OpenFile, Shared,
    TruncateReport,
};
use crate::error::RestoreError;
use crate::interpose::descriptors::{closed_stdio, fd_owner, launcher_stdio};
use crate::process_state::ProcessState;
use crate::sys::descriptor::{self, duplicate, fcntl, open, open_again, seek, set_flags, writable};
use job_spec::ChangedFilePolicy;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// First number after the standard files.
const FIRST: i32 = 3;
/// Lowest number for launcher descriptors that are moved off saved numbers.
const HIGH: i32 = 400;

/// Open files of an image, created again but not yet at their numbers.
#[derive(Debug)]
pub struct OpenedFiles {
    /// Descriptors in the order of `Files::open`; none for the launcher's files and for memory.
    open: Vec<Option<OwnedFd>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Descriptor numbers reserved until the image with its numbers is read.
#[derive(Debug)]
pub struct HeldNumbers(());

impl HeldNumbers {
    /// Reserves all numbers that programs use, for a process that must initialise MPI before it can read its image.
    /// Descriptors that the launcher left there are moved, as by [`open_files`].
    ///
    /// # Errors
    /// [`RestoreError`] if the kernel gives no descriptor.
    pub fn take() -> Result<HeldNumbers, RestoreError> {
        reserve(FIRST..HIGH)?;
        Ok(HeldNumbers(()))
    }

    /// Keeps these numbers reserved and releases the others.
    fn keep(self, numbers: impl Iterator<Item = i32>) -> Result<(), RestoreError> {
        let (low, high): (Vec<i32>, Vec<i32>) = numbers.partition(|&fd| fd < HIGH);
        // A descriptor here belongs to the MPI library or to the launcher.
        if let Some(&fd) = high.iter().find(|&&fd| is_open(fd)) {
            return Err(RestoreError::DescriptorTaken { fd });
        }
        reserve(high.into_iter())?;
        std::mem::forget(self);
        let others = (FIRST..HIGH).filter(|fd| !low.contains(fd));
        others.for_each(descriptor::close);
        Ok(())
    }
}

impl Drop for HeldNumbers {
    fn drop(&mut self) {
        (FIRST..HIGH).for_each(descriptor::close);
    }
}

/// Reserves the numbers of the saved descriptors and opens all files, without changing a file. Call it first in a
/// process that will restore: before MPI is initialised, or with the numbers that were held meanwhile. A descriptor of
/// the launcher at a saved number is moved, and the variable that names it is updated.
///
/// # Errors
/// [`RestoreError`] if a number is taken, or a file is gone, is another one, or cannot be opened.
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

/// Descriptors of a shared object that was created again: one for each end, or one for all of it.
type Made = [Option<OwnedFd>; 2];

fn make(object: &Shared) -> Result<Made, RestoreError> {
    Ok(match object {
        Shared::Deleted(file) => [Some(file.make()?), None],
        Shared::Pipe(pipe) => pipe.make()?.map(Some),
        Shared::SocketPair(pair) => pair.make()?,
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
        // The former is the launcher's, the latter is restored with the memory.
        Kind::Standard(_) | Kind::Mapped(_) => return Ok(None),
        Kind::Regular(regular) => match regular.open(fd, flags, checks, warnings)? {
            Some(opened) => opened,
            None => return Ok(None),
        },
        Kind::ByPath(place) => place.open(fd, flags, warnings)?,
        Kind::Deleted { object, offset } => {
            let opened = open_again(made(*object, 0)?, flags).map_err(failed())?;
            seek(&opened, *offset);
            opened
        }
        // Packet mode is not possible at the open of a pipe, so it is set below.
        Kind::PipeEnd { object } => {
            open_again(made(*object, 0)?, flags & !libc::O_DIRECT).map_err(failed())?
        }
        Kind::PairEnd { object, end } => duplicate(made(*object, *end)?).map_err(failed())?,
        Kind::EventFd(event) => event.make()?,
        Kind::TimerFd(timer) => timer.make()?,
        Kind::SignalFd(mask) => eventfd_signalfd::make_signals(*mask)?,
        Kind::Epoll(_) => epoll::make()?,
        Kind::Inotify => eventfd_signalfd::make_inotify()?,
        Kind::Listener(listener) => listener.open(fd, warnings)?,
    };
    if !matches!(file.kind, Kind::Regular(_) | Kind::ByPath(_)) {
        set_flags(&opened, flags).map_err(failed())?;
    }
    take_locks(fd, file, &opened)?;
    Ok(Some(opened))
}

fn take_locks(fd: i32, file: &OpenFile, opened: &OwnedFd) -> Result<(), RestoreError> {
    for held in &file.locks {
        let taken = held.take(opened.as_raw_fd());
        taken.map_err(file_lock::not_taken(fd, opened.as_raw_fd()))?;
    }
    Ok(())
}

/// Reserves the numbers.
fn reserve(numbers: impl Iterator<Item = i32> + Clone) -> Result<(), RestoreError> {
    stdio::occupy().map_err(RestoreError::system("opening /dev/null"))?;
    let highest = numbers.clone().max().unwrap_or(0);
    let above = highest.max(HIGH) + 1;
    stdio::raise_limit(above);
    let null = open(Path::new("/dev/null"), libc::O_RDONLY)
        .and_then(|null| fcntl(null.as_raw_fd(), libc::F_DUPFD_CLOEXEC, above))
        .map_err(RestoreError::system("opening /dev/null"))?;
    for fd in numbers {
        if is_open(fd) {
            let moved = fcntl(fd, libc::F_DUPFD, HIGH);
            let moved = moved.map_err(|_| RestoreError::DescriptorTaken { fd })?;
            tell_where(fd, moved);
        }
        descriptor::place_at(null, fd, true)
            .map_err(RestoreError::system("reserving a descriptor number"))?;
    }
    descriptor::close(null);
    Ok(())
}

fn is_open(fd: i32) -> bool {
    fcntl(fd, libc::F_GETFD, 0).is_ok()
}

/// Updates the environment: launchers name the descriptors that they hand over in it (PMI_FD, HYDI_CONTROL_FD ...).
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
    /// Opens the files whose names led to other files until the undo was done. Returns warnings for the user.
    ///
    /// # Errors
    /// [`RestoreError`] if a file is not the one of the checkpoint, or cannot be opened or locked.
    pub fn open_undone(
        &mut self,
        state: &ProcessState,
        changed: ChangedFilePolicy,
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

    /// Lengths of output files that processes on other machines may share: open files, and those that were `closed` at
    /// the checkpoint.
    pub fn lengths(state: &ProcessState, closed: &ClosedFileList) -> Vec<Length> {
        let open = state.files.open.iter().filter_map(|file| match &file.kind {
            Kind::Regular(regular) if writable(file.flags) => Some(regular.length()),
            _ => None,
        });
        let all = open.chain(closed.lengths());
        all.filter_map(|(path, size)| Length::of(path, size))
            .collect()
    }

    /// Truncates output files, open ones and those that were `closed` at the checkpoint, to their lengths then. The
    /// removed tails are kept in the directory `kept`, whose list names the restart `who`. Other ranks may share the
    /// files; `lengths` are their observations.
    ///
    /// # Errors
    /// [`RestoreError`] if a file that was open cannot be truncated. What goes wrong with others is in the report.
    pub fn truncate(
        &self,
        state: &ProcessState,
        closed: &ClosedFileList,
        grown: ClosedFilePolicy,
        lengths: &BTreeMap<u64, u64>,
        (kept, who): (&Path, &str),
    ) -> Result<TruncateReport, RestoreError> {
        let files = &state.files;
        let mut truncator = Truncator::new(kept, who, lengths);
        for (index, (file, opened)) in files.open.iter().zip(&self.open).enumerate() {
            if let (Kind::Regular(regular), Some(opened)) = (&file.kind, opened) {
                let fd = files.first_descriptor(index).ok_or(RestoreError::Table)?;
                regular.cut(fd, file.flags, opened, &mut truncator)?;
            }
        }
        if grown == ClosedFilePolicy::Truncate {
            closed.truncate(&mut truncator);
        }
        closed.remember();
        Ok(truncator.done())
    }

    /// Moves everything to its number and arms timers. `objects` finds the descriptors of shared memory.
    pub(in crate::process_state) fn install(
        mut self,
        files: &Files,
        objects: &dyn Fn(&str) -> Option<i32>,
    ) -> Result<(), RestoreError> {
        for (file, place) in files.open.iter().zip(&mut self.open) {
            if let Kind::Mapped(mapped) = &file.kind {
                *place = Some(mapped.open(file.flags, objects)?);
            }
        }
        launcher_stdio::note();
        let given = stdio::keep().map_err(RestoreError::system("keeping the standard files"))?;
        for descriptor in &files.descriptors {
            let what = format!("placing file descriptor {}", descriptor.fd);
            let file = files.open.get(descriptor.open);
            let from = match file.map(|file| &file.kind) {
                Some(Kind::Standard(n)) => usize::try_from(*n).ok().and_then(|n| given.get(n)),
                _ => self.open.get(descriptor.open).and_then(Option::as_ref),
            };
            let from = from.ok_or(RestoreError::Table)?.as_raw_fd();
            descriptor::place_at(from, descriptor.fd, descriptor.cloexec)
                .map_err(RestoreError::system(&what))?;
            fd_owner::own(descriptor.fd);
        }
        closed_stdio::prepare();
        for fd in (0..=2).filter(|fd| files.descriptor(*fd).is_none()) {
            closed_stdio::vacate(fd);
        }
        drop((self, given));
        // From here on nothing is closed: a close would release locks.
        for (index, file) in files.open.iter().enumerate() {
            if let Some(fd) = files.first_descriptor(index) {
                set_going(fd, file, files)?;
            }
        }
        Ok(())
    }
}

/// Restores the state that a file can only have at its number.
fn set_going(fd: i32, file: &OpenFile, files: &Files) -> Result<(), RestoreError> {
    match &file.kind {
        Kind::TimerFd(timer) => timer.start(fd)?,
        Kind::Epoll(watches) => epoll::watch(fd, watches, |fd| files.is_standard(fd))?,
        _ => {}
    }
    for held in &file.locks {
        held.take_for_process(fd, writable(file.flags))
            .map_err(file_lock::not_taken(fd, fd))?;
    }
    Ok(())
}

impl Files {
    /// Checks that the indices of descriptors, open files and objects are valid.
    pub(in crate::process_state) fn check(&self) -> Result<(), RestoreError> {
        let object = |kind: &Kind| match kind {
            Kind::Deleted { object, .. }
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
        let sound = sound && self.owners.fit(self.open.len());
        sound.then_some(()).ok_or(RestoreError::Table)
    }

    pub(super) fn first_descriptor(&self, open: usize) -> Option<i32> {
        let mut descriptors = self.descriptors.iter();
        descriptors.find(|d| d.open == open).map(|d| d.fd)
    }

    fn descriptor(&self, fd: i32) -> Option<&Descriptor> {
        self.descriptors.iter().find(|d| d.fd == fd)
    }

    fn is_standard(&self, fd: i32) -> bool {
        self.descriptor(fd)
            .and_then(|descriptor| self.open.get(descriptor.open))
            .is_some_and(OpenFile::is_launchers)
    }
}
