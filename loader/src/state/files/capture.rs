//! Looks at everything that the application has open, and changes nothing of it.

use super::descriptor::{all_open, apart, fcntl, same_open_file, Look};
use super::event::{self, Event};
use super::mapped::{self, MappedFile};
use super::pair::{self, Pair};
use super::pipe::Pipe;
use super::timer::Timer;
use super::{epoll, holders, lock, place, regular, standard, unnamed};
use super::{Descriptor, Files, Kind, OpenFile, Shared};
use crate::error::CaptureError;
use crate::fds;

/// Everything that the application has open. All its threads stand still. `mapped` tells which
/// files, by device and inode, are mapped shared.
pub fn capture(
    mapped: &(dyn Fn(u64, u64) -> Option<MappedFile> + Sync),
) -> Result<Files, CaptureError> {
    let looked = apart(|| {
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

/// Of all descriptors of the application, in ascending order.
pub fn numbers() -> Result<Vec<i32>, CaptureError> {
    let mut numbers = all_open().map_err(|source| CaptureError::System {
        what: "/proc/thread-self/fd".to_owned(),
        source,
    })?;
    numbers.retain(|&fd| fds::is_owned(fd));
    numbers.sort_unstable();
    Ok(numbers)
}

/// What was found so far.
struct Found<'a> {
    files: Files,
    /// The first descriptor of each open file.
    looks: Vec<Look>,
    /// Device and inode of each shared object.
    objects: Vec<(u64, u64)>,
    /// All descriptors of the application.
    numbers: Vec<i32>,
    mapped: &'a (dyn Fn(u64, u64) -> Option<MappedFile> + Sync),
}

impl Found<'_> {
    fn add(&mut self, fd: i32) -> Result<(), CaptureError> {
        let look = Look::at(fd)?;
        let cloexec = fcntl(fd, libc::F_GETFD, 0).map_err(|e| look.failed(e))? & libc::FD_CLOEXEC;
        let standard = standard::which(&look).map(Kind::Standard);
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
                    locks: lock::capture(&look)?,
                });
                self.looks.push(look);
                self.looks.len() - 1
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
        if look.flags & libc::O_ASYNC != 0 {
            return look.refuse(format!(
                "{} with signal-driven input and output (O_ASYNC)",
                look.link.display()
            ));
        }
        match look.mode() {
            libc::S_IFREG => self.file(look),
            libc::S_IFDIR => place::capture_directory(look).map(Kind::Place),
            libc::S_IFCHR => place::capture_device(look).map(Kind::Place),
            libc::S_IFIFO => self.pipe_end(look),
            libc::S_IFSOCK => self.pair_end(look),
            _ => self.anonymous(look),
        }
    }

    fn file(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        if place::is_made_up(look.fd) {
            return place::capture_made_up(look).map(Kind::Place);
        }
        let (dev, ino) = look.identity();
        let mapped = (self.mapped)(dev, ino);
        if let Some(MappedFile::Object(object)) = mapped {
            return Ok(Kind::Mapped(mapped::capture(look, object)));
        }
        if regular::is_named(look) {
            return regular::capture(look, mapped.is_some()).map(Kind::Regular);
        }
        let link = look.link.display();
        if !look.link.is_absolute() || look.link.starts_with("/secretmem") {
            return look.refuse(link.to_string());
        }
        if place::is_message_queue(look.fd) {
            return look.refuse(format!("the message queue {link}"));
        }
        if look.facts.st_nlink > 0 {
            return look.refuse(format!(
                "{link}: the name it was opened by is gone, another may lead to it"
            ));
        }
        let object = self.object(look, || unnamed::capture(look).map(Shared::Unnamed))?;
        let offset = look.offset();
        Ok(Kind::Unnamed { object, offset })
    }

    fn pipe_end(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        let object = self.object(look, || Pipe::capture(look).map(Shared::Pipe))?;
        if let Shared::Pipe(pipe) = &mut self.files.shared[object] {
            pipe.see_end(look)?;
        }
        Ok(Kind::PipeEnd { object })
    }

    fn pair_end(&mut self, look: &Look) -> Result<Kind, CaptureError> {
        let other = (look.facts.st_dev, pair::other_end(look)?);
        let known = self.objects.iter().position(|object| *object == other);
        // An object goes by its first end's name.
        let (object, end) = match known {
            Some(object) => (object, 1),
            None => (self.object(look, || Ok(Shared::Pair(Pair::default())))?, 0),
        };
        if let Shared::Pair(pair) = &mut self.files.shared[object] {
            pair.see_end(end, look)?;
        }
        Ok(Kind::PairEnd { object, end })
    }

    /// The index of the shared object that this is.
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
            Some("[eventfd]") => Kind::Event(Event::capture(look)?),
            Some("[timerfd]") => Kind::Timer(Timer::capture(look)?),
            Some("[signalfd]") => Kind::Signals(event::signals(look)?),
            Some("[eventpoll]") => Kind::Epoll(epoll::capture(look, &self.numbers)?),
            Some("inotify") => {
                if !event::inotify_is_empty(look).map_err(|e| look.failed(e))? {
                    return look.refuse("an inotify instance that watches files");
                }
                Kind::Inotify
            }
            _ => return look.refuse(format!("{name} (a kernel object of that kind)")),
        })
    }

    fn refuse_other_holders(&self) -> Result<(), CaptureError> {
        let may_be_held = |kind: &Kind, look: &Look| match kind {
            Kind::Unnamed { .. } => true,
            Kind::PipeEnd { .. } => fds::may_be_shared() || look.link.is_absolute(),
            Kind::PairEnd { .. } => fds::may_be_shared(),
            _ => false,
        };
        let open = self.files.open.iter().zip(&self.looks);
        let wanted: Vec<&Look> = open
            .filter(|(open, look)| may_be_held(&open.kind, look))
            .map(|(_, look)| look)
            .collect();
        holders::refuse_others(&wanted)
    }
}
