//! `cargo xtask bench papers`: the tables and figures of the papers that Stasis implements, with ours beside theirs, in
//! `docs/papers.md` and pictures in `docs/papers/`.
//!
//! Each paper has a table of its items; an item has a function that measures its rows. Native runs and runs under
//! Stasis alternate, and a ratio is formed within one round.
//!
//! | file | holds |
//! |---|---|
//! | `measure.rs` | runs of a program in several ways |
//! | `gromacs.rs` | Debian's GROMACS and its input |
//! | `imports.rs` | the functions of MPI that Debian's programs import |
//! | `programs.rs` | Debian's LAMMPS and Quantum ESPRESSO |
//! | `profiles.rs` | the calls that programs make in a run |
//! | `page.rs` | the page and its pictures |
//! | `p000.rs` to `p004.rs` | the items of one paper each |

mod gromacs;
mod imports;
mod measure;
mod p000;
mod p001;
mod p002;
mod p003;
mod p004;
mod page;
mod profiles;
mod programs;

use super::{machine, prepare};
use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use measure::Lab;
use page::{rows_or_why, section, Filled, Paper};
use std::fs;
use std::path::Path;

const PAPERS: [&Paper; 5] = [
    &p000::PAPER,
    &p001::PAPER,
    &p002::PAPER,
    &p003::PAPER,
    &p004::PAPER,
];

const HEAD: &str = "# The papers' tables and figures, and ours

`cargo xtask bench papers` writes this page. Each table has the name that it has in its paper. Times are medians, with
the lowest and the highest of all rounds in brackets. Runs that are compared alternate within a round, and a ratio is
the median of the ratios of single rounds, so it need not be the ratio of the two medians. Rows with more ranks than the
machine has processors are marked *oversubscribed*: they show that it works, and their times mean little. A row that
could not be measured says why.

The papers measured on clusters with up to 2,048 ranks. So ratios and shares of time can be compared, and no times.
";

/// Options of `cargo xtask bench papers`.
#[derive(clap::Args)]
pub struct Options {
    /// Papers whose sections are written again: 000 to 004 [default: all]
    papers: Vec<String>,
    /// Runs of each kind
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One round of the smallest sizes; the page goes to target/bench
    #[arg(long)]
    quick: bool,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Measures the papers' items and writes the page.
pub fn run(options: &Options) -> Result<()> {
    for number in &options.papers {
        let is_known = PAPERS.iter().any(|paper| paper.number == *number);
        ensure!(is_known, "there is no paper {number}: 000 to 004 are there");
    }
    let dir = prepare(options.no_setup)?;
    let (folder, rounds) = match options.quick {
        true => (dir.clone(), 1),
        false => (paths::root().join("docs"), options.rounds),
    };
    let lab = Lab::new(options.quick, rounds, &dir);
    let failed = write(&lab, &folder, &options.papers)?;
    println!("written to {}", folder.join("papers.md").display());
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// One round of the smallest sizes: the page, and what has failed.
pub fn quickly(dir: &Path) -> Result<(String, Vec<String>)> {
    let failed = write(&Lab::new(true, 1, dir), dir, &[])?;
    let page = dir.join("papers.md");
    let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    Ok((page, failed))
}

/// Writes the sections of these papers, or of all, and keeps the others. Returns what has failed.
fn write(lab: &Lab, folder: &Path, chosen: &[String]) -> Result<Vec<String>> {
    let (page, pictures) = (folder.join("papers.md"), folder.join("papers"));
    fs::create_dir_all(&pictures).with_context(|| pictures.display().to_string())?;
    let before = fs::read_to_string(&page).unwrap_or_default();
    let machine = machine();
    let (mut text, mut failed) = (HEAD.to_owned(), Vec::new());
    for paper in PAPERS {
        let is_chosen = chosen.is_empty() || chosen.iter().any(|number| *number == paper.number);
        let section = match is_chosen {
            false => kept(&before, paper),
            true => {
                let filled = measure(paper, lab);
                failed.extend(filled.iter().flat_map(|filled| failures(paper, filled)));
                section(paper, &filled, &machine, &pictures)?
            }
        };
        text += "\n";
        text += &section;
    }
    fs::write(&page, text).with_context(|| page.display().to_string())?;
    Ok(failed)
}

fn measure(paper: &Paper, lab: &Lab) -> Vec<Filled> {
    let items = paper.items.iter().map(|item| {
        let rows = (item.measure)(lab);
        Filled {
            item,
            rows: rows_or_why("all", rows),
        }
    });
    items.collect()
}

fn failures(paper: &Paper, filled: &Filled) -> Vec<String> {
    let name = format!("{}, {}", paper.number, filled.item.name);
    let mut failed: Vec<String> = filled.rows.iter().filter_map(page::Row::failure).collect();
    if filled.rows.is_empty() {
        failed.push("no rows".into());
    }
    failed.iter().map(|why| format!("{name}: {why}")).collect()
}

/// The section of a paper on the page as it was.
fn kept(before: &str, paper: &Paper) -> String {
    let begins = format!("Paper {}: ", paper.number);
    let sections = before.split("\n## ").skip(1);
    let old = sections.into_iter().find(|text| text.starts_with(&begins));
    let old = old.map(str::trim_end);
    let none = format!("{begins}{}\n\nNot measured yet.", paper.title);
    format!("## {}\n", old.unwrap_or(&none))
}

#[cfg(test)]
mod tests {
    use super::{kept, p000, p002, PAPERS};
    use crate::harness::paths;
    use std::fs;

    #[test]
    fn keeps_the_sections_of_other_papers() {
        let title = p000::PAPER.title;
        let page =
            format!("# Head\n\n## Paper 000: {title}\n\nFigures.\n\n## Paper 001: x\n\nmore\n");
        let first = format!("## Paper 000: {title}\n\nFigures.\n");
        assert_eq!(kept(&page, &p000::PAPER), first);
        assert!(kept(&page, &p002::PAPER).ends_with("Not measured yet.\n"));
    }

    #[test]
    fn the_page_has_all_papers_and_its_pictures() {
        let docs = paths::root().join("docs");
        let page = fs::read_to_string(docs.join("papers.md")).unwrap();
        for paper in PAPERS {
            let title = format!("\n## Paper {}: {}\n", paper.number, paper.title);
            assert!(page.contains(&title), "{title}");
        }
        for link in page.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            assert!(docs.join(target).exists(), "{target}");
        }
    }
}
