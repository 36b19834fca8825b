//! Captures the open files of the application without changing them.

use super::foreign_holders;
use super::kinds::eventfd_signalfd::{self, EventFd};
use super::kinds::local_listener::LocalListener;
use super::kinds::mapped::{self, MappedFile};
use super::kinds::pipe::Pipe;
use super::kinds::socketpair::{self, SocketPair};
use super::kinds::timerfd::TimerFd;
use super::kinds::{deleted_file, epoll, file_lock, regular, reopen_by_path, stdio};
use super::look::Look;
use super::{Descriptor, Files, Kind, OpenFile, Shared};
use crate::error::CaptureError;
use crate::interpose::descriptors::fd_owner;
use crate::interpose::descriptors::own_fd_table::on_copied_fd_table;
use crate::interpose::file_changes::journal;
use crate::sys::descriptor::{all_open, fcntl, same_open_file};
use crate::sys::file_system;

/// Captures all open files of the application, whose threads are stopped. `mapped` gives the files, by device and
/// inode, that are mapped shared.
pub fn capture(
    mapped: &(dyn Fn(u64, u64) -> Option<MappedFile> + Sync),
) -> Result<Files, CaptureError> {
    let looked = on_copied_fd_table(|| {
        let mut found = Found {
            files: Files::default(),
            looks: Vec::new(),
            objects: Vec::new(),
            numbers: numbers()?,
            mapped,
        };
        for fd in found.numbers.clone() {
            found.add(fd)?;
        }
        found.refuse_other_holders()?;
        Ok(found.files)
    });
    looked.unwrap_or_else(|source| {
        Err(CaptureError::System {
            what: "the open files".to_owned(),
            source,
        })
    })
}

/// Numbers of all descriptors of the application, in ascending order.
pub fn numbers() -> Result<Vec<i32>, CaptureError> {
    let mut numbers = all_open().map_err(|source| CaptureError::System {
        what: "/proc/thread-self/fd".to_owned(),
        source,
    })?;
    numbers.retain(|&fd| fd_owner::is_owned(fd));
    numbers.sort_unstable();
    Ok(numbers)
}

/// Open files and shared objects found so far.
struct Found<'a> {
    files: Files,
    /// First descriptor of each open file.
    looks: Vec<Look>,
    /// Device and inode of each shared object.
    objects: Vec<(u64, u64)>,
    /// Numbers of all descriptors of the application.
    numbers: Vec<i32>,
    mapped: &'a (dyn Fn(u64, u64) -> Option<MappedFile> + Sync),
}

impl Found<'_> {
    fn add(&mut self, fd: i32) -> Result<(), CaptureError> {
        let look = Look::at(fd)?;
        let cloexec = fcntl(fd, libc::F_GETFD, 0).map_err(|e| look.failed(e))? & libc::FD_CLOEXEC;
        let standard = stdio::which(&look).map(Kind::Standard);
        let known = match &standard {
            Some(kind) => self.files.open.iter().position(|open| open.kind == *kind),
            None => self.looks.iter().position(|other| {
                other.identity() == look.identity() && same_open_file(other.fd, fd)
            }),
        };
        let open = match known {
            Some(open) => open,
            None => {
                let kind = match standard {
                    Some(kind) => kind,
                    None => self.classify(&look)?,
                };
                self.files.open.push(OpenFile {
                    kind,
                    flags: look.flags,
                    locks: file_lock::capture(&look)?,
                });
                self.looks.push(look);
                let index = self.looks.len() - 1;
                if !self.files.open[index].is_launchers() {
                    self.files.owners.add(index, fd);
                }
                index
            }
        };
        self.files.descriptors.push(Descriptor {
            fd,
            cloexec: cloexec != 0,
            open,
        });
        Ok(())
    }

    fn classify(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        match look.mode() {
            libc::S_IFREG => self.file(look),
            libc::S_IFDIR => reopen_by_path::capture_directory(look).map(Kind::ByPath),
            libc::S_IFCHR => reopen_by_path::capture_device(look).map(Kind::ByPath),
            libc::S_IFIFO => self.pipe_end(look),
            libc::S_IFSOCK => match LocalListener::capture(look)? {
                Some(listener) => Ok(Kind::Listener(listener)),
                None => self.pair_end(look),
            },
            _ => self.anonymous(look),
        }
    }

    fn file(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        if file_system::is_made_up(look.fd) {
            return reopen_by_path::capture_made_up(look).map(Kind::ByPath);
        }
        let (dev, ino) = look.identity();
        let mapped = (self.mapped)(dev, ino);
        if let Some(MappedFile::Object(object)) = mapped {
            return Ok(Kind::Mapped(mapped::capture(look, object)));
        }
        let hidden = deleted_file::is_hidden(look);
        if !hidden && regular::is_named(look) {
            return regular::capture(look, mapped.is_some()).map(Kind::Regular);
        }
        let link = look.link.display();
        if !look.link.is_absolute() || look.link.starts_with("/secretmem") {
            return look.refuse(link.to_string());
        }
        if file_system::is_message_queue(look.fd) {
            return look.refuse(format!("the message queue {link}"));
        }
        if look.facts.st_nlink > 0 && !hidden && look.facts.st_nlink > journal::kept_links(dev, ino)
        {
            return look.refuse(format!(
                "{link}, whose name was removed; it may have another name"
            ));
        }
        let object = self.object(look, || deleted_file::capture(look).map(Shared::Deleted))?;
        let offset = look.offset();
        Ok(Kind::Deleted { object, offset })
    }

    fn pipe_end(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        let object = self.object(look, || Pipe::capture(look).map(Shared::Pipe))?;
        if let Shared::Pipe(pipe) = &mut self.files.shared[object] {
            pipe.see_end(look)?;
        }
        Ok(Kind::PipeEnd { object })
    }

    fn pair_end(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        let other = (look.facts.st_dev, socketpair::other_end(look)?);
        let known = self.objects.iter().position(|object| *object == other);
        // An object is named after its first end.
        let (object, end) = match known {
            Some(object) => (object, 1),
            None => (
                self.object(look, || Ok(Shared::SocketPair(SocketPair::default())))?,
                0,
            ),
        };
        if let Shared::SocketPair(pair) = &mut self.files.shared[object] {
            pair.see_end(end, look)?;
        }
        Ok(Kind::PairEnd { object, end })
    }

    /// Index of the shared object of this descriptor, which is added if it is new.
    fn object(
        &mut self,
        look: &Look,
        capture: impl FnOnce() -> Result<Shared, CaptureError>,
    ) -> Result<usize, CaptureError> {
        let identity = look.identity();
        if let Some(known) = self.objects.iter().position(|object| *object == identity) {
            return Ok(known);
        }
        self.files.shared.push(capture()?);
        self.objects.push(identity);
        Ok(self.objects.len() - 1)
    }

    fn anonymous(&self, look: &Look) -> Result<Kind, CaptureError> {
        let name = look.link.to_str().unwrap_or_default();
        Ok(match name.strip_prefix("anon_inode:") {
            Some("[eventfd]") => Kind::EventFd(EventFd::capture(look)?),
            Some("[timerfd]") => Kind::TimerFd(TimerFd::capture(look)?),
            Some("[signalfd]") => Kind::SignalFd(eventfd_signalfd::signals(look)?),
            Some("[eventpoll]") => Kind::Epoll(epoll::capture(look, &self.numbers)?),
            Some("inotify") => {
                if !eventfd_signalfd::inotify_is_empty(look).map_err(|e| look.failed(e))? {
                    return look.refuse("an inotify instance that watches files");
                }
                Kind::Inotify
            }
            _ => return look.refuse(format!("{name} (a kernel object of that kind)")),
        })
    }

    fn refuse_other_holders(&self) -> Result<(), CaptureError> {
        let may_be_held = |kind: &Kind, look: &Look| match kind {
            Kind::Deleted { .. } => true,
            Kind::PipeEnd { .. } => fd_owner::may_be_shared() || look.link.is_absolute(),
            Kind::PairEnd { .. } => fd_owner::may_be_shared(),
            _ => false,
        };
        let open = self.files.open.iter().zip(&self.looks);
        let wanted: Vec<&Look> = open
            .filter(|(open, look)| may_be_held(&open.kind, look))
            .map(|(_, look)| look)
            .collect();
        foreign_holders::refuse_others(&wanted)
    }
}
