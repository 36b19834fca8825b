//! Examples of the manual pages, and the commands to which each page refers.
//!
//! To add a command: a [`Page`] of it. The tests parse every example.

/// The parts of a page that the table of flags does not give.
pub struct Page {
    /// Name of the command.
    pub command: &'static str,
    /// Command lines, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    /// Related commands.
    pub see_also: &'static [&'static str],
}

/// The pages of all commands.
pub const PAGES: &[Page] = &[
    Page {
        command: "launch",
        examples: &[
            (
                "mpirun -n 4 stasis launch --ckpt-dir ck ./app input",
                "runs a program so that it can be checkpointed",
            ),
            (
                "mpirun -n 4 stasis launch --resume -i 1800 --ckpt-dir ck ./app input",
                "takes a checkpoint each half hour, and goes on from the newest one if there is one: for batch scripts \
                 that are submitted again",
            ),
            (
                "mpirun -n 4 stasis launch --record rec ./app",
                "records the order of the messages",
            ),
        ],
        see_also: &["checkpoint", "restart", "run", "status"],
    },
    Page {
        command: "checkpoint",
        examples: &[
            ("stasis checkpoint ck", "takes a checkpoint; the job goes on"),
            ("stasis checkpoint --stop ck", "takes one, and ends the job"),
        ],
        see_also: &["launch", "list", "restart", "status"],
    },
    Page {
        command: "restart",
        examples: &[
            (
                "mpirun -n 4 stasis restart ck",
                "continues from the newest whole checkpoint, under any MPI library",
            ),
            ("mpirun -n 4 stasis restart ck/ckpt-3", "from this one"),
            (
                "stasis restart --dry-run ck",
                "tells what a restart would do to the job's files",
            ),
        ],
        see_also: &["launch", "list", "verify"],
    },
    Page {
        command: "run",
        examples: &[(
            "stasis run -- mpirun -n 4 stasis launch -i 600 --ckpt-dir ck ./app input",
            "starts the job again from its newest checkpoint when a part of it has died",
        )],
        see_also: &["launch", "drain", "status"],
    },
    Page {
        command: "bisect",
        examples: &[(
            "stasis bisect --check 'cmp - expected' -- mpirun -n 4 stasis launch ./app",
            "finds the collective operations with which the output is wrong",
        )],
        see_also: &["hunt", "launch"],
    },
    Page {
        command: "hunt",
        examples: &[(
            "stasis hunt -n 200 --check 'cmp - expected' -- mpirun -n 4 stasis launch ./app",
            "runs a program up to 200 times, and records the run that fails",
        )],
        see_also: &["bisect", "compare", "record-info"],
    },
    Page {
        command: "jobs",
        examples: &[
            ("stasis jobs", "lists the jobs with a rank on this machine"),
            ("stasis jobs /scratch/me", "lists those in the directories there"),
        ],
        see_also: &["list", "status"],
    },
    Page {
        command: "status",
        examples: &[
            ("stasis status ck", "tells what each rank does"),
            ("stasis status --json ck", "the same for a program"),
            ("stasis status --watch ck", "tells it again and again, until the job ends"),
        ],
        see_also: &["explain", "jobs", "stacks"],
    },
    Page {
        command: "profile",
        examples: &[
            ("stasis profile ck", "shows the MPI calls of a job that was started with `launch --profile`"),
            (
                "stasis profile --html profile.html ck",
                "writes all of it as a page, for a browser",
            ),
        ],
        see_also: &["launch", "report", "status"],
    },
    Page {
        command: "report",
        examples: &[
            ("stasis report ck", "writes ck/report.html, for a browser"),
            (
                "stasis report --json -o page.html ck",
                "writes it elsewhere, and prints its figures",
            ),
        ],
        see_also: &["jobs", "list", "status"],
    },
    Page {
        command: "stop",
        examples: &[(
            "stasis stop ck",
            "ends the job; `stasis restart` continues it from its newest checkpoint",
        )],
        see_also: &["checkpoint", "jobs", "restart", "run"],
    },
    Page {
        command: "stacks",
        examples: &[
            ("stasis stacks ck", "prints the functions in which all threads are"),
            ("stasis stacks --lines ck", "prints the lines of the source, too"),
        ],
        see_also: &["explain", "gdb", "status"],
    },
    Page {
        command: "explain",
        examples: &[(
            "stasis explain --svg wait.svg ck",
            "tells who waits for whom, and draws it",
        )],
        see_also: &["gdb", "stacks", "status"],
    },
    Page {
        command: "gdb",
        examples: &[
            ("stasis gdb ck 3", "looks at rank 3"),
            (
                "stasis gdb ck 3 -- -batch -ex backtrace",
                "prints where it is, and returns",
            ),
        ],
        see_also: &["explain", "stacks"],
    },
    Page {
        command: "list",
        examples: &[
            ("stasis list ck", "lists the checkpoints"),
            ("stasis list --long ck", "also where their images are"),
        ],
        see_also: &["inspect", "verify"],
    },
    Page {
        command: "verify",
        examples: &[("stasis verify ck/ckpt-3", "reads every byte of a checkpoint")],
        see_also: &["inspect", "list"],
    },
    Page {
        command: "inspect",
        examples: &[("stasis inspect ck/ckpt-3", "tells what is in a checkpoint")],
        see_also: &["diff", "list", "verify"],
    },
    Page {
        command: "diff",
        examples: &[(
            "stasis diff ck/ckpt-2 ck/ckpt-3",
            "tells which memory has changed between two checkpoints",
        )],
        see_also: &["inspect"],
    },
    Page {
        command: "compare",
        examples: &[(
            "stasis compare rec-good rec-bad",
            "finds the first difference of two recorded runs",
        )],
        see_also: &["hunt", "record-info"],
    },
    Page {
        command: "record-info",
        examples: &[("stasis record-info rec", "tells what is in the record of a run")],
        see_also: &["compare", "hunt", "solo"],
    },
    Page {
        command: "solo",
        examples: &[
            (
                "stasis solo rec --rank 317",
                "runs rank 317 of a run that was recorded with --contents, alone",
            ),
            (
                "stasis solo rec --rank 317 --stop-at 1200 -- gdb",
                "looks at it with gdb, from its 1200th MPI call on",
            ),
        ],
        see_also: &["gdb", "record-info"],
    },
    Page {
        command: "compact",
        examples: &[(
            "stasis compact --keep 1 ck",
            "makes a full checkpoint of the newest one, and removes the others",
        )],
        see_also: &["list"],
    },
    Page {
        command: "drain",
        examples: &[(
            "stasis drain ck",
            "copies the images on this node to the checkpoint directory",
        )],
        see_also: &["list", "run"],
    },
    Page {
        command: "doctor",
        examples: &[
            ("stasis doctor", "tells whether Stasis can work here"),
            ("stasis doctor ./app", "and with this program"),
        ],
        see_also: &["build-lower", "version"],
    },
    Page {
        command: "build-lower",
        examples: &[(
            "stasis build-lower --mpicc /opt/openmpi-5/bin/mpicc",
            "makes jobs possible over that MPI library",
        )],
        see_also: &["doctor", "version"],
    },
    Page {
        command: "completions",
        examples: &[(
            "stasis completions bash > ~/.local/share/bash-completion/completions/stasis",
            "completes commands and flags in new shells",
        )],
        see_also: &["man"],
    },
    Page {
        command: "man",
        examples: &[
            ("stasis man launch | man -l -", "shows a page"),
            (
                "stasis man --directory ~/.local/share/man/man1",
                "installs all pages for this user",
            ),
        ],
        see_also: &["completions"],
    },
    Page {
        command: "version",
        examples: &[("stasis version --json", "prints the versions for a program")],
        see_also: &["build-lower", "doctor"],
    },
];

/// Files of a job, for the pages of commands that use a checkpoint directory.
pub const FILES: &[(&str, &str)] = &[
    (
        "DIR/ckpt-N",
        "a checkpoint: an image for each rank, and the manifest",
    ),
    ("DIR/job.json", "where the running job is found"),
    ("DIR/run.json", "where the `stasis run` of the job is found"),
    (
        "DIR/events.jsonl",
        "the history of the job, of which `stasis report` makes DIR/report.html",
    ),
    (
        "DIR/events.jsonl.old",
        "the older part of a history that has become long",
    ),
    (
        "DIR/last-seen",
        "when the running job was last seen to run, for the case that it is killed whole",
    ),
    (
        "DIR/profile",
        "numbers of the job's MPI calls, with `launch --profile`",
    ),
    ("DIR/log", "logs, with STASIS_LOG"),
    (
        "DIR/undo",
        "what the job has changed in its files since the last checkpoint",
    ),
    (
        "DIR/cut-off",
        "what restarts have taken out of the job's files",
    ),
    BUILT,
];

/// Files of a recorded run, for the pages of commands that read one.
pub const RECORD_FILES: &[(&str, &str)] = &[
    ("REC/rank-N.record", "what rank N has recorded"),
    (
        "REC/rank-N.clocks",
        "the clocks that it has read, with `launch --record REC --time`",
    ),
    (
        "REC/rank-N.contents",
        "all that it has received, with `launch --record REC --contents`",
    ),
];

/// The files of `build-lower`.
pub const BUILT_FILES: &[(&str, &str)] = &[BUILT];

const BUILT: (&str, &str) = (
    "~/.local/share/stasis",
    "lower halves that were built where the installation cannot be written to",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::{CommandFactory, Parser};

    /// The words of an example from `stasis` on, as the shell splits them, up to a pipe or another file.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (vec![String::new()], false);
        for c in line[line.find("stasis").unwrap()..].chars() {
            match c {
                '\'' => quoted = !quoted,
                '|' | '>' if !quoted => break,
                ' ' if !quoted => words.push(String::new()),
                c => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_has_examples_that_it_understands() {
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            let page = PAGES.iter().find(|page| page.command == name);
            let page = page.unwrap_or_else(|| panic!("{name} has no examples"));
            for (line, _) in page.examples {
                let words = words(line);
                assert_eq!(words[1], name, "{line}");
                if let Err(why) = Arguments::try_parse_from(&words) {
                    panic!("{line}: {why}");
                }
            }
            for other in page.see_also {
                assert!(PAGES.iter().any(|page| page.command == *other), "{other}");
            }
        }
    }
}
