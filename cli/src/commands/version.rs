//! `stasis version`: this version, those of its formats, and the lower halves that it finds.

use serde_json::json;

use crate::args::Version;
use crate::install::layout::Layout;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// Runs the command.
pub fn run(options: &Version) -> exit::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let (image, protocol) = (ckpt_image::FORMAT_VERSION, coordinator::protocol::PROTOCOL);
    let lowers = Layout::find().code(Code::CannotServe)?.lowers();
    if options.json {
        let rows: Vec<_> = lowers
            .iter()
            .map(|lower| {
                json!({
                    "name": lower.name,
                    "library": text::library(&lower.record.library),
                    "path": lower.path,
                    "usable": lower.check_version().is_ok(),
                })
            })
            .collect();
        json::print(json!({
            "version": version,
            "image_format": image,
            "protocol": protocol,
            "lower_halves": rows,
        }));
        return Ok(());
    }
    say!("stasis {version}");
    say!("images of format {image}, protocol {protocol}");
    if lowers.is_empty() {
        say!("no lower half: `stasis build-lower` makes one for an MPI library");
    }
    for lower in &lowers {
        let unusable = match lower.check_version() {
            Ok(()) => String::new(),
            Err(_) => format!(": {}", text::bad("of another version, build it again")),
        };
        say!(
            "lower half {}: {} ({}){unusable}",
            lower.name,
            text::library(&lower.record.library),
            lower.path.display()
        );
    }
    Ok(())
}
