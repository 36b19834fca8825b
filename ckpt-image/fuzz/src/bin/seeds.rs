//! Writes the seeds of the targets into the given directory (`ckpt-image/fuzz/corpus`): images and
//! manifests of the golden sets, and states of processes in which every list has none, one or two entries.
//! `altered` needs no seeds.

use std::fs;
use std::path::Path;

use loader::ProcessState;
use stasis_fuzz::disassemble;
use stasis_fuzz::golden::{IMAGES, MANIFESTS};

fn main() {
    let corpus = std::env::args_os().nth(1).expect("a directory is named");
    let seed = |target: &str, number: usize, bytes: &[u8]| {
        let dir = Path::new(&corpus).join(target);
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(format!("seed-{number}")), bytes).expect("a seed");
    };
    for (number, image) in IMAGES.into_iter().enumerate() {
        seed("image", number, image);
        seed("tables", number, &disassemble(image).expect("an image"));
    }
    for (number, manifest) in MANIFESTS.into_iter().enumerate() {
        seed("manifest", number, manifest);
    }
    for entries in 0..3 {
        // Lengths, variants and values all have this number.
        let all = [entries; 1 << 16];
        if let Ok((_, rest)) = postcard::take_from_bytes::<ProcessState>(&all) {
            let used = all.len() - rest.len();
            seed("process", usize::from(entries), &all[..used]);
        }
    }
    fs::create_dir_all(Path::new(&corpus).join("altered")).expect("a directory");
}
