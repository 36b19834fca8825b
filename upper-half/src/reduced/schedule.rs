//! Schedules: how they are made, and how they are carried out.
//!
//! # Safety
//! MPI_Reduce_local gets data of one count and datatype: buffers of the application, which are valid until the
//! operation ends (see [`Buffer`]), and rooms, which are kept as long as their schedule.
#![allow(unsafe_code)]

use crate::argument::Buffer;
use crate::crossing::mpi_result::check;
use crate::crossing::namespace::{ForApplication, Namespace};
use crate::datatype::extent::{extents, span};
use crate::datatype::large_count::fold;
use crate::object::lower_handle::named;
use crate::object::request::schedule::{Data, Kept, Message, Round, Schedule, Step};
use crate::object::request::{Args, Mode, State};
use crate::object::table::ObjectRef;
use crate::object::{Comm, Datatype, Op, Request};
use crate::pt2pt::{local_copy, post, send};
use crate::request::{error_origin, wait};
use contract::abi::{Status, ERR_COMM, ERR_COUNT, ERR_NO_MEM, ERR_OP, ERR_TYPE, SUCCESS};
use std::collections::VecDeque;

impl Data {
    /// Elements in a buffer.
    pub(super) fn new(buffer: Buffer<'static>, count: i64, datatype: &'static Datatype) -> Data {
        Data {
            buffer,
            count,
            datatype,
        }
    }

    /// Elements `extents` extents behind the start of a buffer.
    pub(super) fn at(
        buffer: Buffer<'static>,
        extents: i64,
        count: i64,
        datatype: &'static Datatype,
    ) -> Result<Data, i32> {
        let bytes = extents.wrapping_mul(extent(datatype)? as i64);
        Ok(Data::new(buffer.at(bytes as isize), count, datatype))
    }

    /// No data: what is sent to say that one is there.
    pub(super) fn none() -> Data {
        let byte = Datatype::at(contract::abi::datatype::BYTE as u32);
        Data::new(Buffer::NONE, 0, byte)
    }

    fn args(
        self,
        comm: &'static Comm,
        peer: i32,
        tag: i32,
        run: impl FnOnce(Args) -> Result<Posted, i32>,
    ) -> Result<Posted, i32> {
        let folded = fold(self.count, self.datatype)?;
        let args = Args::new(
            self.buffer,
            folded.count(),
            folded.datatype(),
            peer,
            tag,
            comm,
        );
        run(args)
    }
}

/// The request of a message.
type Posted = &'static Request;

fn extent(datatype: &'static Datatype) -> Result<isize, i32> {
    match datatype.is_null() {
        true => Err(ERR_TYPE),
        false => Ok(extents(datatype)?.extent),
    }
}

impl Schedule {
    /// An operation over `comm` without rounds.
    pub(super) fn over(comm: &'static Comm) -> Result<Schedule, i32> {
        let channel = comm.body.channel().ok_or(ERR_COMM)?;
        let mut schedule = Schedule::alone();
        schedule.channel = channel.comm;
        schedule.tag = channel.next_tag();
        schedule.visible = Namespace::for_profilers();
        if let Some(namespace) = schedule.visible {
            channel.show(comm, namespace);
        }
        schedule.kept._comm = Some(ObjectRef::new(comm));
        Ok(schedule)
    }

    /// An operation without rounds that sends no messages.
    pub(super) fn alone() -> Schedule {
        Schedule {
            channel: None,
            tag: 0,
            rounds: VecDeque::new(),
            under_way: Vec::new(),
            steps: Vec::new(),
            kept: Kept::default(),
            visible: None,
            advance,
        }
    }

    /// Refuses wrong elements, and keeps their datatype.
    pub(super) fn keep(&mut self, count: i64, datatype: &'static Datatype) -> Result<(), i32> {
        if count < 0 {
            return Err(ERR_COUNT);
        }
        if datatype.is_null() {
            return Err(ERR_TYPE);
        }
        self.kept.datatypes.push(ObjectRef::new(datatype));
        Ok(())
    }

    /// Refuses a wrong operation, and keeps it.
    pub(super) fn keep_op(&mut self, op: &'static Op) -> Result<(), i32> {
        if op.is_null() {
            return Err(ERR_OP);
        }
        self.kept.op = Some(ObjectRef::new(op));
        Ok(())
    }

    /// Room for as many elements as of `like`.
    pub(super) fn room(&mut self, like: Data) -> Result<Data, i32> {
        const UNIT: usize = size_of::<u128>();
        let (below, bytes) = span(like.count, like.datatype)?;
        let units = bytes.div_ceil(UNIT);
        let mut room = Vec::new();
        room.try_reserve_exact(units).map_err(|_| ERR_NO_MEM)?;
        room.resize(units, 0);
        let mut room = room.into_boxed_slice();
        let start = room.as_mut_ptr().cast::<u8>().wrapping_offset(-below);
        self.kept.rooms.push(room);
        Ok(Data {
            buffer: Buffer::of_own(start),
            ..like
        })
    }

    fn round(&mut self) -> &mut Round {
        if self.rounds.is_empty() {
            self.rounds.push_back(Round::default());
        }
        let last = self.rounds.len() - 1;
        &mut self.rounds[last]
    }

    /// Sends data in the present round.
    pub(super) fn send(&mut self, data: Data, to: i32) {
        self.round().messages.push(Message::Send(data, to));
    }

    /// Receives data in the present round.
    pub(super) fn receive(&mut self, data: Data, from: i32) {
        self.round().messages.push(Message::Receive(data, from));
    }

    /// Copies data when the messages of the present round are complete.
    pub(super) fn copy(&mut self, from: Data, into: Data) {
        self.round().steps.push(Step::Copy { from, into });
    }

    /// Makes `into` the result of `from` OP `into` when the messages of the present round are complete.
    pub(super) fn combine(&mut self, from: Data, into: Data, op: &'static Op) {
        self.round().steps.push(Step::Combine { from, into, op });
    }

    /// Begins another round.
    pub(super) fn then(&mut self) {
        self.rounds.push_back(Round::default());
    }

    /// Starts the messages of the next round; false if there is no round.
    fn begin(&mut self) -> Result<bool, i32> {
        let Some(round) = self.rounds.pop_front() else {
            return Ok(false);
        };
        self.steps = round.steps;
        for message in round.messages {
            let comm = self.channel.ok_or(ERR_COMM)?;
            let (data, peer, sends) = match message {
                Message::Send(data, to) => (data, to, true),
                Message::Receive(data, from) => (data, from, false),
            };
            let begun = data.args(comm, peer, self.tag, |args| match (self.visible, sends) {
                (Some(namespace), _) => start_visibly(namespace, sends, args),
                (None, true) => send::starting(Mode::Standard, args),
                (None, false) => post::post_as_is(args),
            });
            self.under_way.push(begun?);
        }
        Ok(true)
    }

    /// Does what follows the messages of a round.
    fn follow(&mut self) -> Result<(), i32> {
        let steps = core::mem::take(&mut self.steps);
        steps.into_iter().try_for_each(Step::run)
    }

    /// Runs the operation to its end.
    pub(super) fn run(mut self) -> Result<(), i32> {
        while self.begin()? {
            self.wait()?;
            self.follow()?;
        }
        Ok(())
    }

    /// Waits for the messages under way.
    fn wait(&mut self) -> Result<(), i32> {
        let mut requests = core::mem::take(&mut self.under_way);
        if let Some(namespace) = self.visible.filter(|_| !requests.is_empty()) {
            return namespace.wait(requests.iter().map(|request| request.handle()));
        }
        let mut statuses = vec![Status::EMPTY; requests.len()];
        let count = requests.len() as i32;
        if wait::waitall(count, &mut requests, Some(&mut statuses)) == SUCCESS {
            return Ok(());
        }
        // The error handler is that of the application's communicator.
        error_origin::take();
        let failed = |status: &&Status| status.error != SUCCESS;
        Err(statuses.iter().find(failed).map_or(SUCCESS, |s| s.error))
    }

    /// Begins the operation of a request. The result is the error code of one that is over.
    pub(super) fn first(&mut self) -> Option<i32> {
        match self.begin() {
            Ok(true) => advance(self),
            Ok(false) => Some(SUCCESS),
            Err(code) => Some(code),
        }
    }

    /// Collects the messages under way, if all are complete.
    fn collect(&mut self) -> Option<Result<(), i32>> {
        let is_done = |request: &&'static Request| request.body.state.get() == State::Done;
        if !self.under_way.iter().all(is_done) {
            return None;
        }
        if let Some(namespace) = self.visible.filter(|_| !self.under_way.is_empty()) {
            let result = namespace.test(self.under_way.iter().map(|request| request.handle()))?;
            self.under_way.clear();
            return Some(result);
        }
        let mut result = Ok(());
        for request in self.under_way.drain(..) {
            let error = request.result(&mut Status { ..Status::EMPTY });
            result = result.and(check(error.unwrap_or(SUCCESS)));
            let mut handle = request;
            request.collect(&mut handle);
        }
        Some(result)
    }
}

/// Starts a message as a program would.
fn start_visibly(namespace: &Namespace, sends: bool, args: Args) -> Result<Posted, i32> {
    let message = ForApplication {
        buffer: args.buffer,
        count: args.count,
        datatype: args.datatype.handle(),
        peer: args.peer,
        tag: args.tag,
        comm: args.comm.handle(),
    };
    namespace.start(sends, &message).map(Request::at)
}

/// See [`Schedule::advance`].
fn advance(schedule: &mut Schedule) -> Option<i32> {
    loop {
        let went = schedule
            .collect()?
            .and_then(|()| schedule.follow())
            .and_then(|()| schedule.begin());
        match went {
            Ok(true) => {}
            Ok(false) => return Some(SUCCESS),
            Err(code) => return Some(code),
        }
    }
}

impl Step {
    fn run(self) -> Result<(), i32> {
        match self {
            Step::Copy { from, into } => copy(from, into),
            Step::Combine { from, into, op } => combine(from, into, op),
        }
    }
}

fn copy(from: Data, into: Data) -> Result<(), i32> {
    let world = Comm::at(contract::abi::comm::COMM_WORLD as u32);
    let (source, place) = (
        fold(from.count, from.datatype)?,
        fold(into.count, into.datatype)?,
    );
    local_copy::copy(
        (from.buffer, source.count(), source.datatype()),
        (into.buffer, place.count(), place.datatype()),
        world,
    )
}

/// In parts, since the library below tells a user-defined operation how many elements there are by an int.
fn combine(from: Data, into: Data, op: &'static Op) -> Result<(), i32> {
    let (mut done, extent) = (0, extent(into.datatype)?);
    while done < into.count {
        let part = (into.count - done).min(i64::from(i32::MAX));
        let offset = (done as isize).wrapping_mul(extent);
        // SAFETY: as many elements of the datatype in both.
        check(unsafe {
            named::MPI_Reduce_local(
                from.buffer.at(offset).as_ptr(),
                into.buffer.at(offset).as_ptr(),
                part as i32,
                into.datatype,
                op,
            )
        })?;
        done += part;
    }
    Ok(())
}
