//! A mock of the lower half: one rank of a world of two, whose peer is the test. It matches messages as MPI does,
//! completes what the test says, and runs the test's next event whenever the upper half gives the processor away.
//!
//! # Safety
//! The gate and the clock table are mapped where the contract says, the thread gets a block at GS base whose lower FS
//! is its own, and the slots lead to the functions below, which have the types of the stubs. A reference there is a
//! pointer of the stub, whose caller promises a place that nothing else uses during the call. Tests hold a lock, so one
//! of them runs at a time.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use crate::crossing::call_guard::AT_STOP;
use crate::crossing::stubs;
use crate::crossing::stubs::service;
use crate::datatype::extent::learn_size;
use crate::object::comm::CommBody;
use crate::object::table::Body;
use crate::object::{init, Comm, Datatype, Message, Request};
use crate::quiesce;
use crate::quiesce::{bookmarks, drain, progress, restore_requests};
use crate::runtime::{lock, syscall};
use contract::abi::*;
use contract::service::Exchange;
use contract::{gate, MpiState, Phase, ThreadBlock, INTERRUPTED, TARGETS_ARE_KNOWN};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

const NULL_LOWER: usize = 7;
const WORLD_WORD: usize = 100;
const SELF_WORD: usize = 101;
const BYTE_WORD: usize = 200;

/// What a request of the lower half is.
#[derive(Clone)]
enum Operation {
    Send,
    Receive {
        buffer: usize,
        room: usize,
        comm: usize,
        source: i32,
        tag: i32,
    },
}

#[derive(Clone)]
struct Below {
    operation: Operation,
    persistent: bool,
    active: bool,
    done: Option<(Status, i32)>,
}

impl Below {
    /// Whether it is a persistent request that is not started.
    fn is_idle(&self) -> bool {
        self.persistent && !self.active
    }
}

struct Packet {
    comm: usize,
    source: i32,
    tag: i32,
    bytes: Vec<u8>,
}

type Event = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct MockLower {
    next: usize,
    requests: HashMap<usize, Below>,
    messages: HashMap<usize, Packet>,
    early: Vec<Packet>,
    /// Sends stay pending until the test completes them.
    pub(crate) rendezvous: bool,
    /// The peer has not begun its drain: operations of ours stay pending until it completes them.
    pub(crate) absent: bool,
    /// What the peers say they have sent to us.
    pub(crate) counts: Vec<u64>,
    events: VecDeque<Event>,
    inside: Option<Event>,
    /// Names of the functions called.
    pub(crate) calls: Vec<&'static str>,
    /// Tags of receives in the order in which they were posted.
    pub(crate) posted: Vec<i32>,
    /// The next stop is a restart.
    pub(crate) restart: bool,
    after_restart: Option<Event>,
}

static FAKE: Mutex<Option<MockLower>> = Mutex::new(None);
static ALONE: Mutex<()> = Mutex::new(());

/// The lower half's state.
pub(crate) fn mock<R>(f: impl FnOnce(&mut MockLower) -> R) -> R {
    let mut mock = FAKE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f(mock.get_or_insert_with(MockLower::default))
}

fn envelope_fits(want: (usize, i32, i32), packet: &Packet) -> bool {
    let (comm, source, tag) = want;
    comm == packet.comm
        && (source == ANY_SOURCE || source == packet.source)
        && (tag == ANY_TAG || tag == packet.tag)
}

fn status_of(packet: &Packet) -> Status {
    Status {
        source: packet.source,
        tag: packet.tag,
        error: SUCCESS,
        cancelled: 0,
        count: packet.bytes.len() as u64,
        reserved: 0,
    }
}

fn fill(buffer: usize, room: usize, packet: &Packet) -> (Status, i32) {
    let length = packet.bytes.len().min(room);
    // SAFETY: tests receive into buffers that live.
    unsafe {
        core::ptr::copy_nonoverlapping(packet.bytes.as_ptr(), buffer as *mut u8, length);
    }
    let mut status = status_of(packet);
    status.count = length as u64;
    let error = if length < packet.bytes.len() {
        ERR_TRUNCATE
    } else {
        SUCCESS
    };
    (status, error)
}

impl MockLower {
    fn lower_handle(&mut self) -> usize {
        self.next += 1;
        1000 + self.next
    }

    /// Matches a receive that became active with a message that is there.
    fn post(&mut self, lower_handle: usize) {
        let below = self.requests.get_mut(&lower_handle).expect("a request");
        below.active = true;
        below.done = None;
        if let Operation::Receive {
            buffer,
            room,
            comm,
            source,
            tag,
        } = below.operation
        {
            self.posted.push(tag);
            let found = self
                .early
                .iter()
                .position(|packet| envelope_fits((comm, source, tag), packet));
            if let Some(found) = found {
                let packet = self.early.remove(found);
                below.done = Some(fill(buffer, room, &packet));
            }
        }
    }

    /// A message arrives.
    fn arrive(&mut self, packet: Packet) {
        let mut lower_handles: Vec<usize> = self.requests.keys().copied().collect();
        lower_handles.sort_unstable();
        for lower_handle in lower_handles {
            let below = self.requests.get_mut(&lower_handle).expect("a request");
            if let Operation::Receive {
                buffer,
                room,
                comm,
                source,
                tag,
            } = below.operation
            {
                let open = below.active && below.done.is_none();
                if open && envelope_fits((comm, source, tag), &packet) {
                    below.done = Some(fill(buffer, room, &packet));
                    return;
                }
            }
        }
        self.early.push(packet);
    }

    /// Completes all pending sends.
    fn complete_sends(&mut self) {
        for below in self.requests.values_mut() {
            if matches!(below.operation, Operation::Send) && below.active {
                below.done = Some((Status::EMPTY, SUCCESS));
            }
        }
    }

    fn is_done(&self, lower_handle: usize) -> bool {
        lower_handle == NULL_LOWER || {
            let below = self
                .requests
                .get(&lower_handle)
                .expect("a handle of this lower half");
            below.done.is_some() || below.is_idle()
        }
    }

    fn take(&mut self, lower_handle: &mut usize) -> (Status, i32) {
        if *lower_handle == NULL_LOWER {
            return (Status::EMPTY, SUCCESS);
        }
        let below = self.requests.get_mut(lower_handle).expect("a request");
        if below.is_idle() {
            return (Status::EMPTY, SUCCESS);
        }
        let done = below.done.take().expect("a finished request");
        if below.persistent {
            below.active = false;
        } else {
            self.requests.remove(lower_handle);
            *lower_handle = NULL_LOWER;
        }
        done
    }

    fn add(&mut self, operation: Operation, persistent: bool) -> usize {
        let lower_handle = self.lower_handle();
        self.requests.insert(
            lower_handle,
            Below {
                operation,
                persistent,
                active: false,
                done: None,
            },
        );
        lower_handle
    }

    /// How many requests there are.
    pub(crate) fn live(&self) -> usize {
        self.requests.len()
    }
}

/// A message of `source` arrives on WORLD.
pub(crate) fn arrive(source: i32, tag: i32, bytes: &[u8]) {
    mock(|mock| {
        mock.arrive(Packet {
            comm: WORLD_WORD,
            source,
            tag,
            bytes: bytes.to_vec(),
        });
    });
}

/// The receivers took all that was sent.
pub(crate) fn complete_sends() {
    mock(MockLower::complete_sends);
}

/// Something that happens when the upper half gives the processor away next, in turn.
pub(crate) fn later(event: impl FnOnce() + Send + 'static) {
    mock(|mock| mock.events.push_back(Box::new(event)));
}

/// Something that happens before the next call that starts an operation returns.
pub(crate) fn inside(event: impl FnOnce() + Send + 'static) {
    mock(|mock| mock.inside = Some(Box::new(event)));
}

/// A call that starts an operation has written its lower handle.
fn starting() {
    if let Some(event) = mock(|mock| mock.inside.take()) {
        event();
    }
}

/// What the agent does.
pub(crate) fn set_phase(phase: Phase) {
    gate().phase.store(phase as u32, Ordering::SeqCst);
}

/// The stop: drain, perhaps a restart into an empty lower half, and on.
pub(crate) fn stopped() {
    assert_eq!(drain::drain(), SUCCESS);
    if mock(|mock| core::mem::take(&mut mock.restart)) {
        mock(|mock| {
            mock.requests.clear();
            assert!(mock.early.is_empty() && mock.messages.is_empty());
            mock.posted.clear();
        });
        assert_eq!(restore_requests::restore_requests(), SUCCESS);
        if let Some(event) = mock(|mock| mock.after_restart.take()) {
            event();
        }
    }
    set_phase(Phase::Run);
}

/// Something that happens right after the next restart.
pub(crate) fn after_restart(event: impl FnOnce() + Send + 'static) {
    mock(|mock| mock.after_restart = Some(Box::new(event)));
}

fn called(name: &'static str) {
    mock(|mock| mock.calls.push(name));
}

extern "C" fn yield_now() {
    let event = mock(|mock| mock.events.pop_front());
    match event {
        Some(event) => event(),
        None => {
            static IDLE: AtomicUsize = AtomicUsize::new(0);
            assert!(
                IDLE.fetch_add(1, Ordering::Relaxed) < 100_000,
                "the upper half waits for ever"
            );
        }
    }
}

extern "C" fn notify() {
    called("notify");
}

extern "C" fn clock_target(id: u64) -> u64 {
    u64::from(id == TARGETS_ARE_KNOWN)
}

extern "C" fn recv(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    status: &mut Status,
    request: &mut usize,
) -> i32 {
    called("recv");
    MPI_Irecv(buf.cast(), count, datatype, source, tag, comm, request);
    wait_one(request, status)
}

extern "C" fn send_receive(messages: &mut Exchange, status: &mut Status) -> i32 {
    called("send_receive");
    let Exchange { sent, received, .. } = messages;
    let (buffer, count, datatype) = (received.buffer.cast(), received.count, received.datatype);
    MPI_Irecv(
        buffer,
        count,
        datatype,
        received.peer,
        received.tag,
        messages.comm,
        &mut messages.request,
    );
    let (buffer, count, datatype) = (sent.buffer.cast(), sent.count, sent.datatype);
    messages.send_error = MPI_Send(buffer, count, datatype, sent.peer, sent.tag, messages.comm);
    if messages.send_error != SUCCESS {
        return INTERRUPTED;
    }
    wait_one(&mut messages.request, status)
}

extern "C" fn probe(source: i32, tag: i32, comm: usize, status: &mut Status) -> i32 {
    let mut flag = 0;
    MPI_Iprobe(source, tag, comm, &mut flag, status);
    if flag == 0 {
        return INTERRUPTED;
    }
    SUCCESS
}

extern "C" fn mprobe(
    source: i32,
    tag: i32,
    comm: usize,
    message: &mut usize,
    status: &mut Status,
) -> i32 {
    let mut flag = 0;
    MPI_Improbe(source, tag, comm, &mut flag, message, status);
    if flag == 0 {
        return INTERRUPTED;
    }
    SUCCESS
}

extern "C" fn wait_one(request: &mut usize, status: &mut Status) -> i32 {
    called("wait_one");
    mock(|mock| {
        if !mock.is_done(*request) {
            assert!(progress::phase() != Phase::Run, "waits for ever");
            return INTERRUPTED;
        }
        let (found, error) = mock.take(request);
        *status = found;
        error
    })
}

/// An array that a stub is given.
///
/// # Safety
/// There are `count` entries, which nothing else uses for as long.
unsafe fn many<'a, T>(first: *mut T, count: i32) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(first, count as usize) }
}

unsafe extern "C" fn wait_all(count: i32, requests: *mut usize, statuses: *mut Status) -> i32 {
    called("wait_all");
    // SAFETY: as the stub's caller promises.
    let (lower_handles, statuses) = unsafe { (many(requests, count), many(statuses, count)) };
    mock(|mock| {
        if !lower_handles
            .iter()
            .all(|lower_handle| mock.is_done(*lower_handle))
        {
            assert!(progress::phase() != Phase::Run, "waits for ever");
            return INTERRUPTED;
        }
        let mut result = SUCCESS;
        for (lower_handle, place) in lower_handles.iter_mut().zip(statuses) {
            let (mut status, error) = mock.take(lower_handle);
            status.error = error;
            *place = status;
            if error != SUCCESS {
                result = ERR_IN_STATUS;
            }
        }
        result
    })
}

unsafe extern "C" fn wait_any(
    count: i32,
    requests: *mut usize,
    index: &mut i32,
    status: &mut Status,
) -> i32 {
    called("wait_any");
    // SAFETY: as the stub's caller promises.
    let lower_handles = unsafe { many(requests, count) };
    mock(|mock| {
        let found = lower_handles
            .iter()
            .position(|lower_handle| *lower_handle != NULL_LOWER && mock.is_done(*lower_handle));
        let Some(found) = found else {
            assert!(progress::phase() != Phase::Run, "waits for ever");
            return INTERRUPTED;
        };
        let (seen, error) = mock.take(&mut lower_handles[found]);
        (*index, *status) = (found as i32, seen);
        error
    })
}

unsafe extern "C" fn wait_some(
    count: i32,
    requests: *mut usize,
    outcount: &mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    called("wait_some");
    // SAFETY: as the stub's caller promises.
    let (lower_handles, indices, statuses) = unsafe {
        (
            many(requests, count),
            many(indices, count),
            many(statuses, count),
        )
    };
    mock(|mock| {
        let mut n = 0;
        for (i, lower_handle) in lower_handles.iter_mut().enumerate() {
            if *lower_handle != NULL_LOWER && mock.is_done(*lower_handle) {
                statuses[n] = mock.take(lower_handle).0;
                indices[n] = i as i32;
                n += 1;
            }
        }
        *outcount = n as i32;
        if n == 0 {
            INTERRUPTED
        } else {
            SUCCESS
        }
    })
}

extern "C" fn MPI_Irecv(
    buf: *mut c_void,
    count: i32,
    _datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    request: &mut usize,
) -> i32 {
    called("irecv");
    mock(|mock| {
        let operation = Operation::Receive {
            buffer: buf as usize,
            room: count as usize,
            comm,
            source,
            tag,
        };
        let lower_handle = mock.add(operation, false);
        mock.post(lower_handle);
        *request = lower_handle;
    });
    starting();
    SUCCESS
}

extern "C" fn MPI_Recv_init(
    buf: *mut c_void,
    count: i32,
    _datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    request: &mut usize,
) -> i32 {
    mock(|mock| {
        let operation = Operation::Receive {
            buffer: buf as usize,
            room: count as usize,
            comm,
            source,
            tag,
        };
        *request = mock.add(operation, true);
    });
    starting();
    SUCCESS
}

extern "C" fn MPI_Start(request: &mut usize) -> i32 {
    mock(|mock| mock.post(*request));
    SUCCESS
}

extern "C" fn MPI_Send(
    _buf: *const c_void,
    _count: i32,
    _datatype: usize,
    dest: i32,
    _tag: i32,
    _comm: usize,
) -> i32 {
    if dest > 1 {
        ERR_RANK
    } else {
        SUCCESS
    }
}

extern "C" fn MPI_Isend(
    _buf: *const c_void,
    _count: i32,
    _datatype: usize,
    _dest: i32,
    _tag: i32,
    _comm: usize,
    request: &mut usize,
) -> i32 {
    mock(|mock| {
        let lower_handle = mock.add(Operation::Send, false);
        mock.post(lower_handle);
        if !mock.rendezvous {
            mock.complete_sends();
        }
        *request = lower_handle;
    });
    SUCCESS
}

extern "C" fn MPI_Test(request: &mut usize, flag: &mut i32, status: &mut Status) -> i32 {
    called("test");
    mock(|mock| {
        *flag = i32::from(mock.is_done(*request));
        if *flag == 0 {
            return SUCCESS;
        }
        let (found, error) = mock.take(request);
        *status = found;
        error
    })
}

extern "C" fn MPI_Cancel(request: &mut usize) -> i32 {
    mock(|mock| {
        let below = mock.requests.get_mut(request).expect("a request");
        if below.done.is_none() {
            let mut status = Status::EMPTY;
            status.cancelled = 1;
            below.done = Some((status, SUCCESS));
        }
    });
    SUCCESS
}

extern "C" fn MPI_Request_free(request: &mut usize) -> i32 {
    mock(|mock| {
        mock.requests.remove(request);
        *request = NULL_LOWER;
    });
    SUCCESS
}

extern "C" fn MPI_Improbe(
    source: i32,
    tag: i32,
    comm: usize,
    flag: &mut i32,
    message: &mut usize,
    status: &mut Status,
) -> i32 {
    called("improbe");
    mock(|mock| {
        let found = mock
            .early
            .iter()
            .position(|packet| envelope_fits((comm, source, tag), packet));
        *flag = i32::from(found.is_some());
        if let Some(found) = found {
            let packet = mock.early.remove(found);
            *status = status_of(&packet);
            *message = mock.lower_handle();
            mock.messages.insert(*message, packet);
        }
    });
    SUCCESS
}

extern "C" fn MPI_Imrecv(
    buf: *mut c_void,
    count: i32,
    _datatype: usize,
    message: &mut usize,
    request: &mut usize,
) -> i32 {
    mock(|mock| {
        let packet = mock.messages.remove(message).expect("a message");
        let lower_handle = mock.add(Operation::Send, false);
        let below = mock.requests.get_mut(&lower_handle).expect("just added");
        below.active = true;
        below.done = Some(fill(buf as usize, count as usize, &packet));
        (*request, *message) = (lower_handle, 0);
    });
    SUCCESS
}

extern "C" fn MPI_Iprobe(
    source: i32,
    tag: i32,
    comm: usize,
    flag: &mut i32,
    status: &mut Status,
) -> i32 {
    mock(|mock| {
        let found = mock
            .early
            .iter()
            .find(|packet| envelope_fits((comm, source, tag), packet));
        *flag = i32::from(found.is_some());
        if let Some(found) = found {
            *status = status_of(found);
        }
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Unpack(
    inbuf: *const c_void,
    insize: i32,
    position: &mut i32,
    outbuf: *mut c_void,
    _outcount: i32,
    _datatype: usize,
    comm: usize,
) -> i32 {
    // The communicator of Stasis has no lower handle here, unlike the application's.
    assert_eq!(comm, 0);
    // SAFETY: as the stub's caller promises.
    unsafe {
        core::ptr::copy_nonoverlapping(inbuf.cast::<u8>(), outbuf.cast::<u8>(), insize as usize);
    }
    *position = insize;
    SUCCESS
}

extern "C" fn MPI_Type_size_x(_datatype: usize, size: &mut i64) -> i32 {
    // The mock has one datatype.
    *size = 1;
    SUCCESS
}

unsafe extern "C" fn MPI_Ialltoall(
    _sendbuf: *const c_void,
    _sendcount: i32,
    _sendtype: usize,
    recvbuf: *mut c_void,
    _recvcount: i32,
    _recvtype: usize,
    _comm: usize,
    request: &mut usize,
) -> i32 {
    mock(|mock| {
        mock.calls.push("exchange");
        // No rank has questions.
        let told: Vec<[u64; 2]> = mock.counts.iter().map(|count| [*count, 0]).collect();
        // SAFETY: there is room for two numbers of each rank.
        unsafe { many(recvbuf.cast(), told.len() as i32) }.copy_from_slice(&told);
    });
    ours(request);
    SUCCESS
}

extern "C" fn MPI_Ibarrier(_comm: usize, request: &mut usize) -> i32 {
    mock(|mock| mock.calls.push("barrier"));
    ours(request);
    SUCCESS
}

/// An operation of a drain.
fn ours(request: &mut usize) {
    mock(|mock| {
        let lower_handle = mock.add(Operation::Send, false);
        let below = mock.requests.get_mut(&lower_handle).expect("just added");
        below.active = true;
        below.done = (!mock.absent).then_some((Status::EMPTY, SUCCESS));
        *request = lower_handle;
    });
}

/// The slot from which a stub takes its function: the stub begins with `movabs rax, [slot]`.
fn slot(stub: usize) -> &'static AtomicUsize {
    // SAFETY: the stub's own code, and the address of a slot of the gate.
    unsafe {
        let code = core::slice::from_raw_parts(stub as *const u8, 10);
        assert_eq!(code[..2], [0x48, 0xa1]);
        let address = u64::from_le_bytes(code[2..].try_into().expect("8 bytes"));
        &*(address as *const AtomicUsize)
    }
}

fn fill_slots() {
    macro_rules! fill {
        ($($module:ident::$name:ident),* $(,)?) => {
            $(slot($module::$name as *const () as usize)
                .store($name as *const () as usize, Ordering::Relaxed);)*
        };
    }
    fill!(
        service::recv,
        service::send_receive,
        service::probe,
        service::mprobe,
        service::wait_one,
        service::wait_all,
        service::wait_any,
        service::wait_some,
        service::notify,
        service::yield_now,
        service::clock_target,
        stubs::MPI_Irecv,
        stubs::MPI_Recv_init,
        stubs::MPI_Start,
        stubs::MPI_Send,
        stubs::MPI_Isend,
        stubs::MPI_Test,
        stubs::MPI_Cancel,
        stubs::MPI_Request_free,
        stubs::MPI_Improbe,
        stubs::MPI_Imrecv,
        stubs::MPI_Iprobe,
        stubs::MPI_Unpack,
        stubs::MPI_Type_size_x,
        stubs::MPI_Ialltoall,
        stubs::MPI_Ibarrier,
    );
}

/// Gives the thread a block at GS base. It is leaked: threads of tests are few.
pub(crate) fn thread_block() {
    let fs: usize;
    // SAFETY: reads FS base, which is its own address's content with glibc.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) fs, options(nostack, readonly)) };
    let block = Box::leak(Box::new(ThreadBlock {
        this: 0,
        lower_fs: fs,
        upper_fs: fs,
        side_top: 0,
        in_wrapper: 1,
        on_leaving: 0,
        fsgsbase: 1,
        tid: 1,
        vdso_sp: 0,
        side: [0; contract::SIDE_STACK_DEPTH],
        inside: 0,
        crossings: 0,
        number: 0,
        births: 0,
    }));
    block.this = core::ptr::from_ref(block) as usize;
    block.side_top = block.side.as_ptr() as usize;
    // SAFETY: the block lives for ever.
    assert!(unsafe { syscall::set_gs(core::ptr::from_ref(block) as usize) });
}

/// A fresh lower half and an initialised upper half, for one test at a time.
pub(crate) fn start() -> MutexGuard<'static, ()> {
    let alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    static ONCE: std::sync::Once = std::sync::Once::new();
    thread_block();
    ONCE.call_once(|| {
        syscall::map_at(contract::GATE_ADDRESS, contract::GATE_BYTES);
        syscall::map_at(contract::CLOCKS_ADDRESS, contract::CLOCKS_BYTES);
        lock::set_multiple(false);
        gate().lower.size.store(2, Ordering::Relaxed);
        fill_slots();
        init();
        let world = CommBody::initial(1, Arc::from([0, 1]), c"MPI_COMM_WORLD");
        let alone = CommBody::initial(2, Arc::from([0]), c"MPI_COMM_SELF");
        // SAFETY: nobody uses the communicators yet.
        unsafe {
            let table = CommBody::table();
            table.replace(comm::COMM_WORLD as u32, world.expect("a clock"));
            table.replace(comm::COMM_SELF as u32, alone.expect("a clock"));
        }
        Comm::at(comm::COMM_WORLD as u32).set_lower(WORLD_WORD);
        Comm::at(comm::COMM_SELF as u32).set_lower(SELF_WORD);
        let byte = Datatype::at(datatype::BYTE as u32);
        byte.set_lower(BYTE_WORD);
        learn_size(byte);
        Request::null().set_lower(NULL_LOWER);
        Message::null().set_lower(NULL_LOWER);
        quiesce::init(2).expect("a clock");
        *AT_STOP.lock().expect("a hook") = Some(stopped);
    });
    gate().set_mpi(MpiState::Initialised);
    set_phase(Phase::Run);
    let (sent, received) = bookmarks::totals();
    for count in sent.iter().chain(received) {
        count.store(0, Ordering::Relaxed);
    }
    mock(|mock| {
        *mock = MockLower {
            counts: vec![0, 0],
            ..MockLower::default()
        };
    });
    alone
}
