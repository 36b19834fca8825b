//! `stasis diff`: the differences between two checkpoints of a job, page by page.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;

use anyhow::bail;
use ckpt_image::{Image, ImageError, Set, PAGE};
use serde_json::json;

use crate::args::Diff;
use crate::commands::inspect::{open, what};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// Bytes of pages by their change between two checkpoints.
#[derive(Clone, Copy, Default)]
struct Change {
    same: u64,
    changed: u64,
    only_first: u64,
    only_second: u64,
}

impl Change {
    fn add(&mut self, other: Change) {
        self.same += other.same;
        self.changed += other.changed;
        self.only_first += other.only_first;
        self.only_second += other.only_second;
    }

    fn to_json(self) -> serde_json::Value {
        json!({ "same_bytes": self.same, "changed_bytes": self.changed,
                "only_first_bytes": self.only_first, "only_second_bytes": self.only_second })
    }
}

/// Runs `stasis diff`.
pub fn run(options: &Diff) -> exit::Result<()> {
    let key = options.key.read().code(Code::Usage)?;
    let sets = [&options.first, &options.second];
    let sets = sets.map(|path| open(path, key.as_ref()).code(Code::Image));
    let [first, second] = sets;
    let (first, second) = (first?, second?);
    comparable(&first, &second).code(Code::Image)?;
    let mut parts: BTreeMap<Rc<str>, Change> = BTreeMap::new();
    let mut ranks = Vec::new();
    for rank in 0..first.manifest().world_size {
        let images = [&first, &second].map(|set| set.image(rank, None));
        let [a, b] = images;
        let changes = changes(&a.code(Code::Image)?, &b.code(Code::Image)?).code(Code::Image)?;
        let mut sum = Change::default();
        for (what, change) in changes {
            sum.add(change);
            parts.entry(what).or_default().add(change);
        }
        ranks.push(sum);
    }
    let mut all = Change::default();
    ranks.iter().for_each(|change| all.add(*change));
    if options.json {
        let parts: BTreeMap<_, _> = parts
            .iter()
            .map(|(what, c)| (&**what, c.to_json()))
            .collect();
        let ranks: Vec<_> = ranks.iter().map(|change| change.to_json()).collect();
        json::print(
            json!({ "first": first.name(), "second": second.name(), "all": all.to_json(),
                    "ranks": ranks, "parts": parts }),
        );
        return Ok(());
    }
    say!("{} -> {}", first.name(), second.name());
    let head = ["same", "changed", "gone", "new"];
    say!(
        "{:>10} {:>10} {:>10} {:>10}",
        head[0],
        head[1],
        head[2],
        head[3]
    );
    let line = |change: &Change, what: &str| {
        let [a, b, c, d] = [
            change.same,
            change.changed,
            change.only_first,
            change.only_second,
        ]
        .map(text::bytes);
        say!("{a:>10} {b:>10} {c:>10} {d:>10}  {what}");
    };
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by_key(|(_, c)| std::cmp::Reverse(c.changed + c.only_first + c.only_second));
    for (what, change) in &parts {
        line(change, what);
    }
    say!();
    for (rank, change) in ranks.iter().enumerate() {
        line(change, &format!("rank {rank}"));
    }
    line(&all, "all");
    Ok(())
}

fn comparable(first: &Set, second: &Set) -> anyhow::Result<()> {
    let ranks = [first, second].map(|set| set.manifest().world_size);
    if ranks[0] != ranks[1] {
        bail!(
            "{} has {} and {} has {}: they are not of one job",
            first.path().display(),
            text::ranks(ranks[0]),
            second.path().display(),
            ranks[1]
        );
    }
    Ok(())
}

/// Changes of a rank's pages, by the role of the memory.
fn changes(first: &Image, second: &Image) -> Result<BTreeMap<Rc<str>, Change>, ImageError> {
    let before = pages(first)?;
    let mut after = pages(second)?;
    let mut changes: BTreeMap<Rc<str>, Change> = BTreeMap::new();
    for (address, (what, hash)) in before {
        let change = changes.entry(what).or_default();
        match after.remove(&address) {
            Some((_, now)) if now == hash => change.same += PAGE,
            Some(_) => change.changed += PAGE,
            None => change.only_first += PAGE,
        }
    }
    for (what, _) in after.into_values() {
        changes.entry(what).or_default().only_second += PAGE;
    }
    Ok(changes)
}

/// Role and content hash of each page in an image, by address. Zero pages of anonymous memory are not stored and not
/// listed.
fn pages(image: &Image) -> Result<HashMap<u64, (Rc<str>, u64)>, ImageError> {
    let mut pages = HashMap::new();
    let mut memory = image.memory()?;
    let mut content = Vec::new();
    for (index, region) in image.regions().iter().enumerate() {
        let what: Rc<str> = what(image, region).into();
        for piece in memory.pieces_of(index) {
            content.resize(piece.len as usize, 0);
            memory.load(piece, &mut content)?;
            let addresses = (piece.address..).step_by(PAGE as usize);
            for (page, address) in content.chunks_exact(PAGE as usize).zip(addresses) {
                let mut hasher = DefaultHasher::new();
                hasher.write(page);
                pages.insert(address, (what.clone(), hasher.finish()));
            }
        }
    }
    Ok(pages)
}
