//! Standard output of the commands.
//!
//! If the reader ends early (`stasis inspect ck | head`), the command ends without a message, as other programs do.
//! SIGPIPE cannot do that: Rust ignores it, so that a broken connection to a job does not end the command as well.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Exit code that shells report for a command killed by SIGPIPE.
const NOBODY_READS: i32 = 128 + 13;

/// Prints a line as `println!` does, but ends the command if the reader is gone.
macro_rules! say {
    () => {
        $crate::ui::output::line(format_args!(""))
    };
    ($($words:tt)*) => {
        $crate::ui::output::line(format_args!($($words)*))
    };
}

/// Prints a line.
pub fn line(words: Arguments<'_>) {
    end_if_nobody_reads(writeln!(io::stdout(), "{words}"));
}

/// Prints raw bytes.
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
            std::process::exit(crate::ui::exit::Code::Directory.number());
        }
    }
}
