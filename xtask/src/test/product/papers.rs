//! `cargo xtask bench papers` in one round of the smallest sizes.

use crate::bench::papers;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::path::Path;

/// The tables and figures with results, in each paper.
const ITEMS: [(&str, &[&str]); 5] = [
    (
        "000",
        &["Figure 3", "Figure 4", "Figure 5", "Table 1", "Figure 6"],
    ),
    (
        "001",
        &[
            "Figure 3.1",
            "Table 3.1",
            "Figure 3.2",
            "Table 3.2",
            "Table 3.3",
            "Figure 3.3",
            "Figures 3.4 and 3.5",
            "Figures 3.6 and 3.7",
            "Figures 3.8 and 3.9",
            "Figure 3.10",
            "Table 3.4",
            "Table 3.5",
            "3.11",
            "3.12",
            "Figure 6.2",
            "Figure 6.4",
            "Figure 6.5",
            "Figure 6.6",
            "Figure 6.7",
            "Figure 6.8",
            "Figure 6.9",
            "Section 6.3.4",
        ],
    ),
    (
        "002",
        &[
            "Figure 2", "Table 1", "Figure 3", "Table 2", "Table 3", "Table 4", "Table 5",
            "Figure 4", "Table 6", "Table 7",
        ],
    ),
    ("003", &["Figure 4", "Figure 5"]),
    ("004", &["Figure 2", "Figure 3"]),
];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![Case::new("papers/quick", |_, dir| quick(dir).into())]
}

fn quick(dir: &Path) -> Result<()> {
    let (page, failed) = papers::quickly(dir)?;
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    for (paper, items) in ITEMS {
        let is_its = |text: &&&str| text.starts_with(&format!("Paper {paper}: "));
        let section = sections.iter().find(is_its).copied().unwrap_or_default();
        for item in items {
            ensure!(
                section.contains(item),
                "the section of paper {paper} does not name {item}"
            );
        }
        for table in section.split("\n### ").skip(1) {
            check_table(table)?;
        }
    }
    Ok(())
}

/// Fails unless each row of an item has a figure with its spread and rounds, or says why not, and its picture is there.
fn check_table(table: &str) -> Result<()> {
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut any = false;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, label, _, _, ours, ratio, ranks, rounds, _] = cells[..] else {
            anyhow::bail!("a row with other columns: {row}");
        };
        let spread = if ratio.is_empty() { ours } else { ratio };
        let has_figure = spread.contains(" to ") && !ranks.is_empty() && rounds == "1";
        let says_why = rounds.is_empty() && !ours.is_empty() && !ours.contains("NaN");
        ensure!(
            !label.is_empty() && (has_figure || says_why),
            "a row without a figure: {row}"
        );
        any = true;
    }
    ensure!(any, "a table without rows: {table}");
    ensure!(
        table.contains("*Machine*: ") && table.contains("*The paper*: "),
        "what is missing: {table}"
    );
    Ok(())
}
