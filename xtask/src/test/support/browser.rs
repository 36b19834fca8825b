//! A page in a real browser.

use crate::harness::job;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Opens the page: it needs nothing else, and has visible marks of these names in these colours.
pub fn shows(page: &Path, dir: &Path, marks: &[(&str, [u8; 3])]) -> Result<()> {
    // A picture's own parts have such addresses, too.
    let text = fs::read_to_string(page)?.replace("url(#", "");
    for other in ["src=", "href=", "url(", "@import", "<script"] {
        ensure!(!text.contains(other), "the page refers to others: {other}");
    }
    let shot = dir.join("page.png");
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu"]);
    browser.args(["--hide-scrollbars", "--window-size=1200,2000"]);
    browser.arg(format!("--user-data-dir={}", dir.join("browser").display()));
    browser.arg(format!("--screenshot={}", shot.display()));
    browser.arg(format!("file://{}", page.display()));
    job::run(browser, dir, "browser", LIMIT)?.expect_success("chromium")?;
    let mut picture =
        png::Decoder::new(std::io::BufReader::new(fs::File::open(&shot)?)).read_info()?;
    let size = picture
        .output_buffer_size()
        .context("the picture is too large")?;
    let mut pixels = vec![0; size];
    let frame = picture.next_frame(&mut pixels)?;
    let channels = frame.color_type.samples();
    for (what, colour) in marks {
        let seen = pixels
            .chunks(channels)
            .filter(|pixel| pixel[..3] == *colour);
        ensure!(seen.count() > 10, "the page shows no {what}");
    }
    Ok(())
}
