//! `cargo xtask record`: runs the four lines at the top of the README in two shells, and draws these as terminals in
//! which line after line appears (`docs/session.svg`). Pauses are shortened to [`PATIENCE`].

use crate::build::setup;
use crate::harness::job::{self, Job};
use crate::harness::{paths, stasis};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The typed commands, which are those of the README, in order.
const LAUNCH: &str = "mpirun -n 2 stasis launch --ckpt-dir ck lmp -in in.lj";
const CHECKPOINT: &str = "stasis checkpoint ck";
const KILL: &str = r"kill -9 $(stasis status ck | grep -oP 'process \K\d+')";
const RESTART: &str = "mpirun.mpich -n 2 stasis restart ck";

/// Time steps of the melt, of which each 250th is printed, and the one after which the checkpoint is taken.
const STEPS: usize = 1500;
const CUT: &str = "500 ";
/// In the job's line about a checkpoint.
const COMMITTED: &str = " committed: ";
const LIMIT: Duration = Duration::from_secs(300);
/// Longest pause in the picture, in seconds.
const PATIENCE: f64 = 1.5;
/// Seconds per typed character.
const KEY: f64 = 0.03;
/// Seconds of the last picture, before the repetition.
const REST: f64 = 8.0;
/// Height of a line, in pixels.
const LINE: usize = 20;
/// Width of a terminal in characters, of which each has 8.5 pixels.
const WIDTH: usize = 112;

/// Options of `cargo xtask record`.
#[derive(clap::Args)]
pub struct Options {
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// The two shells, in the order in which they are drawn.
#[derive(Clone, Copy, PartialEq)]
enum Shell {
    Job,
    Other,
}

/// A line, its shell, and the second at which it appears.
struct Line {
    shell: Shell,
    at: f64,
    text: String,
    typed: bool,
}

/// Lines in the order of their appearance.
#[derive(Default)]
struct Screen {
    lines: Vec<Line>,
    now: f64,
}

impl Screen {
    fn type_in(&mut self, shell: Shell, command: &str) {
        self.now += PATIENCE + command.len() as f64 * KEY;
        self.add(shell, &format!("$ {command}"), true);
    }

    fn print<'a>(&mut self, shell: Shell, lines: impl IntoIterator<Item = &'a str>) {
        for line in lines {
            self.add(shell, line, false);
        }
    }

    fn add(&mut self, shell: Shell, text: &str, typed: bool) {
        let at = self.now;
        self.lines
            .extend(wrapped(text).into_iter().map(|text| Line {
                shell,
                at,
                text,
                typed,
            }));
    }

    fn wait_since(&mut self, begun: Instant) {
        self.now += begun.elapsed().as_secs_f64().min(PATIENCE);
    }
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
    let input = fs::read_to_string(paths::examples().join("lammps/in.lj"))?;
    let input = format!("variable steps index {STEPS}\n{input}");
    fs::write(dir.join("in.lj"), input)?;
    let screen = session(&dir)?;
    for line in &screen.lines {
        println!("{:5.1}  {}", line.at, line.text);
    }
    let picture = paths::root().join("docs/session.svg");
    fs::write(&picture, draw(&screen)).with_context(|| format!("writing {}", picture.display()))
}

fn session(dir: &Path) -> Result<Screen> {
    let mut screen = Screen::default();
    let deadline = Instant::now() + LIMIT;

    screen.type_in(Shell::Job, LAUNCH);
    let mut launched = Job::start(stasis::shell(LAUNCH, dir), dir, "launched")?;
    let output = launched.stdout.clone();
    launched.until("LAMMPS was under way", deadline, || {
        let text = job::read_text(&output);
        let mut lines = text.lines();
        lines.any(|line| line.trim_start().starts_with(CUT))
    })?;
    screen.now += PATIENCE;
    let before = job::read_text(&output);
    screen.print(Shell::Job, table(&before));

    screen.type_in(Shell::Other, CHECKPOINT);
    typed(&mut screen, CHECKPOINT, dir)?;
    let errors = launched.stderr.clone();
    let committed = || {
        let text = job::read_text(&errors);
        text.lines()
            .find(|line| line.contains(COMMITTED))
            .map(str::to_owned)
    };
    launched.until("the job told of its checkpoint", deadline, || {
        committed().is_some()
    })?;
    screen.print(Shell::Job, committed().as_deref());
    screen.type_in(Shell::Other, KILL);
    typed(&mut screen, KILL, dir)?;

    launched.wait(deadline)?;
    let after = job::read_text(&output);
    let shown = table(&before).count();
    screen.print(Shell::Job, table(&after).skip(shown));
    let errors = job::read_text(&launched.stderr);
    screen.print(
        Shell::Job,
        errors.lines().filter(|line| line.contains("Killed")),
    );

    screen.type_in(Shell::Job, RESTART);
    let begun = Instant::now();
    let restarted = job::run(stasis::shell(RESTART, dir), dir, "restarted", LIMIT)?;
    let restarted = restarted.expect_success(RESTART)?;
    screen.wait_since(begun);
    screen.print(Shell::Job, restarted.stderr.lines());
    screen.now += PATIENCE;
    screen.print(Shell::Job, until_loop_time(&restarted.stdout));
    Ok(screen)
}

/// Runs a command of the other shell, and prints what it says.
fn typed(screen: &mut Screen, command: &str, dir: &Path) -> Result<()> {
    let begun = Instant::now();
    let finished = job::run(stasis::shell(command, dir), dir, "typed", LIMIT)?;
    let finished = finished.expect_success(command)?;
    screen.wait_since(begun);
    screen.print(Shell::Other, finished.stderr.lines());
    screen.print(Shell::Other, finished.stdout.lines());
    Ok(())
}

/// The table of LAMMPS in its output, from its heading on.
fn table(output: &str) -> impl Iterator<Item = &str> {
    let is_before = |line: &&str| !line.trim_start().starts_with("Step ");
    output.lines().skip_while(is_before)
}

/// The rest of the table, without the statistics below it.
fn until_loop_time(output: &str) -> impl Iterator<Item = &str> {
    let mut ended = false;
    output.lines().take_while(move |line| {
        let shown = !ended;
        ended = line.starts_with("Loop time");
        shown
    })
}

/// Lines of the terminal after wrapping one between words.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    // With the spaces before each word.
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let word = rest.len() - rest.trim_start().len();
        let end = rest[word..].find(' ').map_or(rest.len(), |end| word + end);
        let (next, after) = rest.split_at(end);
        let line = lines.last_mut().expect("there is a first line");
        match line.chars().count() + next.chars().count() > WIDTH && !line.is_empty() {
            true => lines.push(format!("    {}", next.trim_start())),
            false => line.push_str(next),
        }
        rest = after;
    }
    lines
}

/// Two terminals as SVG, with a repeated animation.
fn draw(screen: &Screen) -> String {
    let width = (WIDTH + 4) * 17 / 2;
    let end = screen.now + REST;
    let of = |shell| screen.lines.iter().filter(move |line| line.shell == shell);
    let heights = [Shell::Job, Shell::Other].map(|shell| (of(shell).count() + 1) * LINE);
    let height = heights[0] + heights[1] + LINE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"monospace\" font-size=\"14\">\n"
    );
    let mut top = 0;
    for (shell, height) in [Shell::Job, Shell::Other].into_iter().zip(heights) {
        let _ = writeln!(
            svg,
            "<rect y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1d2430\"/>"
        );
        for (number, line) in of(shell).enumerate() {
            let y = top + (number + 1) * LINE + 1;
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
        top += height + LINE;
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
    use super::*;

    const TYPED: [&str; 4] = [LAUNCH, CHECKPOINT, KILL, RESTART];

    fn read(name: &str) -> String {
        fs::read_to_string(paths::root().join(name)).unwrap()
    }

    #[test]
    fn the_session_is_that_of_the_readme() {
        let readme = read("README.md");
        let block = readme.split("\n```").nth(1).unwrap();
        let lines = block.lines().skip(1);
        let commands: Vec<&str> = lines
            .map(|line| line.split(" # ").next().unwrap_or(line).trim_end())
            .collect();
        assert_eq!(commands, TYPED);
    }

    #[test]
    fn the_picture_is_of_this_session() {
        let picture = read("docs/session.svg");
        let typed = picture
            .lines()
            .filter_map(|line| Some(line.split_once(">$ ")?.1.split_once("<animate")?.0));
        // The first shell is drawn above the second.
        let mut drawn: Vec<&str> = typed.collect();
        let mut wanted = TYPED.map(escaped);
        drawn.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(drawn, wanted);
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = format!("  {} {} end", "a".repeat(WIDTH - 10), "b".repeat(20));
        let lines = wrapped(&text);
        assert_eq!(lines[0], format!("  {}", "a".repeat(WIDTH - 10)));
        assert_eq!(lines[1], format!("    {} end", "b".repeat(20)));
        assert_eq!(wrapped("  short  "), ["  short"]);
    }
}
