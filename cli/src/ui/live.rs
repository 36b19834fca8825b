//! A text on standard output that is shown again and again.

use console::Term;

/// The output. A terminal shows the newest text alone, and as many lines of it as fit. Other outputs get one text after
/// the other.
pub struct Live {
    terminal: Term,
}

impl Live {
    /// Standard output.
    pub fn new() -> Live {
        Live {
            terminal: Term::stdout(),
        }
    }

    /// Shows a text of several lines.
    pub fn show(&self, text: &str) {
        if !self.terminal.is_term() {
            say!("{text}\n");
            return;
        }
        let (rows, columns) = self.terminal.size();
        let fits = usize::from(rows).saturating_sub(1);
        let lines: Vec<&str> = text.lines().collect();
        let kept = match lines.len() > fits {
            true => fits.saturating_sub(1),
            false => lines.len(),
        };
        let width = usize::from(columns);
        let mut shown: Vec<_> = lines[..kept]
            .iter()
            .map(|line| console::truncate_str(line, width, "…"))
            .collect();
        if kept < lines.len() {
            shown.push(format!("… and {} lines more", lines.len() - kept).into());
        }
        // A terminal that is gone ends the command by SIGHUP.
        let _ = self.terminal.clear_screen();
        let _ = self.terminal.write_line(&shown.join("\n"));
    }
}
