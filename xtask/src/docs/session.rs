//! `cargo xtask record`: runs the session of the README and draws it as a terminal in which line after line appears
//! (`docs/session.svg`). Pauses are shortened to [`PATIENCE`].

use crate::build::setup;
use crate::harness::job::Job;
use crate::harness::mpi::Mpi;
use crate::harness::{job, paths, stasis};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Typed commands, in order. The first runs in the background.
const SESSION: [&str; 5] = [
    "mpirun.openmpi -n 2 stasis launch --ckpt-dir ck lmp -in in.lj -var steps 1000 > log &",
    "stasis status ck",
    "stasis checkpoint ck --stop",
    "stasis list ck",
    "mpirun.mpich -n 2 stasis restart ck | grep -B 4 Loop",
];
const LIMIT: Duration = Duration::from_secs(300);
/// Longest pause in the picture, in seconds.
const PATIENCE: f64 = 2.0;
/// Seconds per typed character.
const KEY: f64 = 0.03;
/// Seconds of the last picture, before the repetition.
const REST: f64 = 8.0;
/// Size of the terminal, in pixels and characters.
const LINE: usize = 20;
const WIDTH: usize = 124;

/// Options of `cargo xtask record`.
#[derive(clap::Args)]
pub struct Options {
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// A line, and the second at which it appears.
struct Line {
    at: f64,
    text: String,
    typed: bool,
}

/// Runs the session and draws it.
pub fn run(options: &Options) -> Result<()> {
    setup::unless(options.no_setup)?;
    setup::require("lammps")?;
    let dir = paths::target().join("record");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    fs::copy(paths::examples().join("lammps/in.lj"), dir.join("in.lj"))?;
    let lines = session(&dir)?;
    for line in &lines {
        println!("{:5.1}  {}", line.at, line.text);
    }
    let picture = paths::root().join("docs/session.svg");
    fs::write(&picture, draw(&lines)).with_context(|| format!("writing {}", picture.display()))
}

fn session(dir: &Path) -> Result<Vec<Line>> {
    let (mut lines, mut at) = (Vec::new(), 0.5);
    let mut background = None;
    for typed in SESSION {
        at += typed.len() as f64 * KEY;
        lines.push(Line {
            at,
            text: format!("$ {typed}"),
            typed: true,
        });
        let Some(command) = typed.strip_suffix(" &") else {
            let begun = Instant::now();
            let finished = job::run(shell(typed, dir), dir, "typed", LIMIT)?;
            let finished = finished.expect_success(typed)?;
            at += begun.elapsed().as_secs_f64().min(PATIENCE);
            // Messages first, because they announce the output.
            let told = finished.stderr.lines().chain(finished.stdout.lines());
            lines.extend(told.flat_map(wrapped).map(|text| Line {
                at,
                text,
                typed: false,
            }));
            at += PATIENCE;
            continue;
        };
        let mut job = Job::start(shell(command, dir), dir, "launched")?;
        let deadline = Instant::now() + LIMIT;
        stasis::until_reached(&mut job, &dir.join("ck"), "", deadline)?;
        let log = dir.join("log");
        job.until("LAMMPS was under way", deadline, || {
            job::read_text(&log)
                .lines()
                .any(|line| line.trim().starts_with("250 "))
        })?;
        at += PATIENCE;
        background = Some(job);
    }
    drop(background);
    Ok(lines)
}

/// A shell with `stasis` in its PATH.
fn shell(command: &str, dir: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(dir);
    Mpi::OpenMpi.set_environment(&mut shell);
    let bin = paths::stasis();
    let bin = bin.parent().unwrap_or(Path::new("")).display();
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{bin}:{path}"));
    shell
}

/// Lines of the terminal after wrapping one.
fn wrapped(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let columns = characters.chunks(WIDTH - 4);
    columns.map(|line| line.iter().collect()).collect()
}

/// A terminal as SVG, with a repeated animation.
fn draw(lines: &[Line]) -> String {
    let height = (lines.len() + 2) * LINE;
    let width = WIDTH * 17 / 2;
    let end = lines.last().map_or(0.0, |line| line.at) + REST;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"monospace\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1d2430\"/>\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let y = (number + 1) * LINE + LINE / 2;
        let color = if line.typed { "#9fd3ff" } else { "#d7dbe0" };
        // Only opacity is animated, so that a viewer without animation shows all lines.
        let from = line.at / end;
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"{y}\" fill=\"{color}\" xml:space=\"preserve\">{}\
             <animate attributeName=\"opacity\" dur=\"{end:.1}s\" repeatCount=\"indefinite\" \
             calcMode=\"discrete\" values=\"0;1\" keyTimes=\"0;{from:.4}\"/></text>",
            escaped(&line.text)
        );
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{escaped, SESSION};
    use crate::harness::paths;

    #[test]
    fn the_picture_is_of_this_session() {
        let picture = std::fs::read_to_string(paths::root().join("docs/session.svg")).unwrap();
        let typed: Vec<&str> = picture
            .lines()
            .filter_map(|line| line.split_once(">$ ")?.1.split_once("<animate"))
            .map(|(typed, _)| typed)
            .collect();
        assert_eq!(typed, SESSION.map(escaped));
    }
}
