use super::*;
use std::io::Read;
use std::io::Write;
use std::os::unix::thread::JoinHandleExt;
use std::sync::mpsc;

/// No frames but those with a table; or a search for one return address.
struct Sought(u64);

impl Bridge for Sought {
    fn caller(&mut self, _: &Registers) -> Option<Registers> {
        None
    }

    fn knows(&self, ip: u64) -> bool {
        ip == self.0
    }
}

/// The registers of a thread that waits in a system call.
fn registers_in_kernel(tid: i32) -> Registers {
    loop {
        let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
        // The call's number, six arguments, the stack pointer, the instruction pointer.
        if let ["0", .., sp, ip] = words.as_slice() {
            let (ip, sp, bp) = (hex(ip), hex(sp), 0);
            return Registers { ip, sp, bp };
        }
        std::thread::yield_now();
    }
}

#[inline(never)]
fn innermost_of_the_test(mut from: impl Read) -> usize {
    let mut bytes = [0; 8];
    let count = from.read(&mut bytes).unwrap();
    // Not a tail call.
    std::hint::black_box(count) + usize::from(bytes[0])
}

#[inline(never)]
fn outermost_of_the_test(from: impl Read) -> usize {
    std::hint::black_box(innermost_of_the_test(from)) + 1
}

/// A thread that waits in the kernel, below two functions, until the writer is dropped.
fn waiting() -> (impl Write, Registers, std::thread::JoinHandle<usize>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(nix::unistd::gettid().as_raw()).unwrap();
        outermost_of_the_test(reader)
    });
    assert_ne!(thread.as_pthread_t(), 0);
    let registers = registers_in_kernel(told.recv().unwrap());
    (writer, registers, thread)
}

#[test]
fn a_thread_in_the_kernel_has_its_functions() {
    let (writer, registers, thread) = waiting();
    let frames = Tracer::new().unwrap().trace(registers, &mut Sought(1));
    drop(writer);
    thread.join().unwrap();
    let text: Vec<String> = frames.iter().map(Frame::to_string).collect();
    let at = |name: &str| text.iter().position(|line| line.contains(name));
    let (inner, outer) = (at("innermost_of_the_test"), at("outermost_of_the_test"));
    assert!(inner.is_some() && inner < outer, "{text:#?}");
    assert!(text[0].contains("libc.so.6"), "{text:#?}");
}

#[test]
fn a_place_has_its_line_in_the_source() {
    let (writer, registers, thread) = waiting();
    let tracer = Tracer::new().unwrap();
    let places = tracer.places(registers, &mut Sought(1));
    drop(writer);
    thread.join().unwrap();
    let inner = places.iter().find(|place| {
        let frame = tracer.frame(**place);
        frame.to_string().contains("innermost_of_the_test")
    });
    let line = tracer.line(*inner.unwrap()).unwrap();
    let number = line.strip_prefix("tests.rs:").unwrap();
    // The call of `read`.
    let calls = include_str!("tests.rs")
        .lines()
        .nth(number.parse::<usize>().unwrap() - 1);
    assert!(calls.unwrap().contains("from.read("), "{line}");
}

#[test]
fn a_stack_that_cannot_be_unwound_is_searched() {
    let (writer, registers, thread) = waiting();
    let tracer = Tracer::new().unwrap();
    let whole = tracer.trace(registers, &mut Sought(1));
    let inner = whole
        .iter()
        .position(|frame| frame.to_string().contains("innermost_of_the_test"))
        .unwrap();
    let lost = Registers { ip: 1, ..registers };
    let found = tracer.trace(lost, &mut Sought(whole[inner].address));
    drop(writer);
    thread.join().unwrap();
    assert_eq!(found[0].file, None);
    assert_eq!(found[1..3], whole[inner..inner + 2]);
}

#[test]
fn a_damaged_stack_ends_the_trace() {
    let tracer = Tracer::new().unwrap();
    for (ip, sp, bp) in [(1, 8, 16), (u64::MAX, u64::MAX, u64::MAX), (0, 0, 0)] {
        let registers = Registers { ip, sp, bp };
        assert_eq!(tracer.trace(registers, &mut Sought(1)).len(), 1);
    }
    assert_eq!(read_word(16), None);
}

/// After a restart the objects have no file.
#[test]
fn names_come_from_memory_where_there_is_no_file() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let nameless: Vec<&str> = maps
        .lines()
        .map(|line| line.split('/').next().unwrap_or_default())
        .collect();
    let objects = elf::objects(nameless.join("\n").as_bytes());
    let address = nix::unistd::getpid as *const () as u64;
    assert!(objects.iter().any(|object| object.covers(address)));
    let c_library = objects
        .iter()
        .find(|object| names::file_name(object) == "libc.so.6")
        .unwrap();
    let begin = libc::qsort as *const () as u64;
    let found = names::function(c_library, begin + 4);
    assert_eq!(found, Some(("qsort".to_owned(), begin)));
    assert!(c_library.module().is_some());
}
