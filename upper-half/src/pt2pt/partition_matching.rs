//! Receives of partitioned communication and the announcements that they wait for (see `partitioned.rs`).

use crate::crossing::mpi_result::check;
use crate::object::request::partitioned::{Announcement, Matching, ANNOUNCEMENT, MATCHING};
use crate::object::request::{Args, Kind, Mode, State};
use crate::object::Request;
use crate::pt2pt::hear::hear;
use crate::pt2pt::persistent_message;
use contract::abi::ERR_REQUEST;

impl Matching {
    /// Takes announcements that are there, as long as receives wait for some.
    fn listen(&mut self) -> Result<(), i32> {
        const BLANK: Announcement = Announcement {
            comm: 0,
            tag: 0,
            channel: 0,
        };
        while !self.waiting.is_empty() {
            let Some(announcement) = hear(&mut self.next, ANNOUNCEMENT, BLANK)? else {
                return Ok(());
            };
            self.heard.push(announcement);
            self.bring_together()?;
        }
        Ok(())
    }

    /// Gives each waiting receive the first announcement that is for it.
    pub(crate) fn bring_together(&mut self) -> Result<(), i32> {
        let mut i = 0;
        while let Some(&(request, comm, args)) = self.waiting.get(i) {
            let is_for_it = |&(from, announcement): &(u32, Announcement)| {
                let tag = i64::from(args.tag);
                (from as i32, announcement.comm, announcement.tag) == (args.peer, comm, tag)
            };
            let Some(found) = self.heard.iter().position(is_for_it) else {
                i += 1;
                continue;
            };
            let (_, announcement) = self.heard.remove(found);
            let (.., mut args) = self.waiting.remove(i);
            args.tag = announcement.channel as i32;
            let made = open(request, Kind::PersistentReceive, args);
            args.datatype.release();
            made?;
            if request.body.state.get() == State::Upper {
                start_whole(request)?;
            }
        }
        Ok(())
    }
}

/// Gives a request the one that moves all partitions.
pub(crate) fn open(request: &'static Request, kind: Kind, args: Args) -> Result<(), i32> {
    let whole = persistent_message::make(kind, Mode::Standard, args)?;
    if let Some(partitioned) = request.partitioned() {
        partitioned.whole.set(Some(whole));
    }
    Ok(())
}

/// Starts the request that moves all partitions.
pub(crate) fn start_whole(request: &'static Request) -> Result<(), i32> {
    let whole = request.partitioned().and_then(|held| held.whole.get());
    let whole = whole
        .filter(|whole| persistent_message::may_start(whole))
        .ok_or(ERR_REQUEST)?;
    check(persistent_message::start(whole))
}

/// Looks whether receives that wait for their announcement have got it.
pub(crate) fn match_announced() {
    let mut matching = MATCHING.lock();
    if !matching.waiting.is_empty() {
        // An announcement that cannot be received now is tried again at the next look.
        let _ = matching.listen();
    }
}
