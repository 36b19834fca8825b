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
use page::{rows_or_why, section, Filled, Item, Paper, Written};
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
the lowest and the highest of all rounds in brackets. Runs that are compared alternate within a round. A ratio is the
median of the ratios of single rounds, and the time beside it is the one that has this ratio to the median of the other
way: the speed of a shared machine changes from round to round. Rows with more ranks than the machine has processors are
marked *oversubscribed*: they show that it works, and their times mean little. A row that could not be measured says why.

The papers measured on clusters with up to 2,048 ranks. So ratios and shares of time can be compared, and no times.
";

/// Options of `cargo xtask bench papers`.
#[derive(clap::Args)]
pub struct Options {
    /// Papers whose sections are measured again, 000 to 004, or single items of them, as 003/figure-5 [default: all]
    papers: Vec<String>,
    /// Measure nothing: write the texts of the page again, and keep its figures
    #[arg(long, conflicts_with_all = ["papers", "quick"])]
    texts: bool,
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
    for chosen in &options.papers {
        let mut items = PAPERS
            .iter()
            .flat_map(|paper| paper.items.iter().map(move |item| (paper, item)));
        let is_known = items.any(|(paper, item)| names(chosen, paper, item));
        ensure!(
            is_known,
            "there is no {chosen}: the papers are 000 to 004, and an item is named as 003/figure-5"
        );
    }
    if options.texts {
        let docs = paths::root().join("docs");
        let page = docs.join("papers.md");
        let before = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        return Ok(fs::write(
            &page,
            with_texts(&before, &docs.join("papers"))?,
        )?);
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
    let machine = setting(lab)?;
    let mut failed = Vec::new();
    let text = page_of(&pictures, |paper, item| {
        let is_chosen = chosen.is_empty() || chosen.iter().any(|chosen| names(chosen, paper, item));
        if !is_chosen {
            return Ok(Written::kept(kept(&before, paper), item));
        }
        let filled = measure(item, lab);
        failed.extend(failures(paper, &filled));
        Ok(filled.write(&machine))
    })?;
    fs::write(&page, text).with_context(|| page.display().to_string())?;
    Ok(failed)
}

/// Whether an argument names the item, or its whole paper.
fn names(argument: &str, paper: &Paper, item: &Item) -> bool {
    match argument.split_once('/') {
        None => argument == paper.number,
        Some((number, name)) => number == paper.number && name == item.slug(),
    }
}

/// The page with the items that the function returns, and their pictures.
fn page_of(
    pictures: &Path,
    mut item: impl FnMut(&'static Paper, &'static Item) -> Result<Written>,
) -> Result<String> {
    let mut text = HEAD.to_owned();
    for paper in PAPERS {
        let items: Result<Vec<Written>> = paper
            .items
            .iter()
            .map(|of_paper| item(paper, of_paper))
            .collect();
        text += "\n";
        text += &section(paper, &items?, pictures)?;
    }
    Ok(text)
}

/// The page with its figures and the texts of the items, and the pictures of the figures.
fn with_texts(before: &str, pictures: &Path) -> Result<String> {
    page_of(pictures, |paper, item| {
        Ok(Written::kept(kept(before, paper), item))
    })
}

/// The machine, the MPI library and the day.
fn setting(lab: &Lab) -> Result<String> {
    let record = format!("lib/stasis/lower-{}.json", lab.mpi());
    let record = paths::product().join(record);
    let text = fs::read(&record).with_context(|| record.display().to_string())?;
    let record: serde_json::Value = serde_json::from_slice(&text)?;
    let library = record["library"].as_str().unwrap_or_default();
    let library = library.split(',').next().unwrap_or_default();
    let library = library.replace(" Version:", "");
    let day = jiff::Zoned::now().date();
    Ok(format!("{}, {library}, on {day}", machine()))
}

fn measure(item: &'static Item, lab: &Lab) -> Filled {
    let rows = (item.measure)(lab);
    Filled {
        item,
        rows: rows_or_why("all", rows),
    }
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
fn kept<'a>(before: &'a str, paper: &Paper) -> &'a str {
    let begins = format!("Paper {}: ", paper.number);
    let mut sections = before.split("\n## ").skip(1);
    let old = sections.find(|text| text.starts_with(&begins));
    old.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{kept, p003, with_texts, Written};
    use crate::harness::paths;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_page_and_its_pictures_are_those_of_the_sources() {
        let docs = paths::root().join("docs");
        let page = fs::read_to_string(docs.join("papers.md")).unwrap();
        let drawn = tempfile::tempdir().unwrap();
        let hint = "`cargo xtask bench papers --texts` writes them again";
        assert_eq!(with_texts(&page, drawn.path()).unwrap(), page, "{hint}");
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(names(drawn.path()), names(&docs.join("papers")), "{hint}");
        for name in names(drawn.path()) {
            let [ours, there] = [drawn.path(), &docs.join("papers")]
                .map(|folder| fs::read(folder.join(&name)).unwrap());
            assert!(ours == there, "{}: {hint}", name.display());
        }
    }

    #[test]
    fn what_the_page_does_not_have_is_not_measured_yet() {
        let none = Written::kept(kept("", &p003::PAPER), &p003::PAPER.items[0]);
        let section = super::section(&p003::PAPER, &[none], Path::new("")).unwrap();
        assert!(section.contains("*not measured yet*"), "{section}");
    }
}
