//! What commands print. A reader that goes away before the end (`stasis inspect ck | head`) ends the
//! command, without a word, as it ends others; that cannot be left to SIGPIPE, which Rust ignores, so that
//! a job that breaks its connection does not end the command as well.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// The code by which shells tell that a command was ended by SIGPIPE.
const NOBODY_READS: i32 = 128 + 13;

/// Prints a line, as `println!` does where somebody reads.
macro_rules! say {
    () => {
        $crate::output::line(format_args!(""))
    };
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}

/// Prints a line.
pub fn line(words: Arguments<'_>) {
    end_if_nobody_reads(writeln!(io::stdout(), "{words}"));
}

/// Prints bytes as they are.
pub fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout();
    end_if_nobody_reads(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

fn end_if_nobody_reads(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(why) if why.kind() == ErrorKind::BrokenPipe => std::process::exit(NOBODY_READS),
        Err(why) => {
            launcher::message::say(format_args!("standard output cannot be written to: {why}"));
            std::process::exit(crate::exit::Code::Directory as i32);
        }
    }
}
