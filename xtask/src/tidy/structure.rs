//! `cargo xtask structure`: the code in numbers, crate by crate. A style case ensures that the numbers in [`MOST`] only
//! fall.
//!
//! Tests and generated code are not counted.

use crate::harness::paths;
use crate::tidy::crates;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Options of `cargo xtask structure`.
#[derive(clap::Args)]
pub struct Options {
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// Name the files of each largest cycle
    #[arg(long)]
    cycles: bool,
}

/// Per crate: unsafe blocks, and files in the largest import cycle. A commit that lowers a number lowers it here.
const MOST: &[(&str, usize, usize)] = &[
    ("stasis-ckpt-image", 1, 0),
    ("stasis-cli", 6, 0),
    ("stasis-contract", 3, 0),
    ("stasis-coordinator", 3, 0),
    ("stasis-dump", 23, 0),
    ("stasis-front-common", 10, 0),
    ("stasis-front-mpich", 7, 0),
    ("stasis-front-openmpi", 20, 0),
    ("stasis-front-standard", 6, 0),
    ("stasis-front-testing", 0, 0),
    ("stasis-history", 0, 0),
    ("stasis-job-spec", 0, 0),
    ("stasis-launcher", 0, 0),
    ("stasis-linked", 1, 0),
    ("stasis-loader", 128, 0),
    ("stasis-lower-half", 168, 0),
    ("stasis-mpi-abi", 3, 0),
    ("stasis-mpi-table", 0, 0),
    ("stasis-proc-maps", 0, 0),
    ("stasis-profile", 0, 0),
    ("stasis-processor", 0, 0),
    ("stasis-progress", 0, 0),
    ("stasis-record", 4, 0),
    ("stasis-reduction", 0, 0),
    ("stasis-restart", 14, 0),
    ("stasis-skip", 0, 0),
    ("stasis-stack-trace", 0, 0),
    ("stasis-supervisor", 4, 0),
    ("stasis-trace", 1, 0),
    ("stasis-undo", 1, 2),
    ("stasis-upper-half", 291, 2),
    ("xtask", 1, 3),
];

/// Path of a module within its crate; empty for the root.
type Module = Vec<String>;

/// Numbers of one crate.
#[derive(Debug, Default)]
struct Facts {
    files: usize,
    lines: usize,
    unsafe_blocks: usize,
    unsafe_functions: usize,
    /// Number of lines, and place.
    longest_function: (usize, String),
    longest_file: (usize, String),
    /// Imported modules of each module.
    imports: BTreeMap<Module, BTreeSet<Module>>,
}

/// Prints the numbers.
pub fn run(options: &Options) -> Result<()> {
    let all = all()?;
    if options.json {
        let rows = all.iter().map(|(name, facts)| {
            json!({
                "crate": name,
                "files": facts.files,
                "lines": facts.lines,
                "unsafe_blocks": facts.unsafe_blocks,
                "unsafe_functions": facts.unsafe_functions,
                "largest_cycle": facts.largest_cycle().len(),
                "longest_function": facts.longest_function,
                "longest_file": facts.longest_file,
            })
        });
        println!("{:#}", rows.collect::<serde_json::Value>());
        return Ok(());
    }
    println!(
        "{:<20} {:>5} {:>6} {:>6} {:>9} {:>5}  longest function, longest file",
        "crate", "files", "lines", "unsafe", "unsafe fn", "cycle"
    );
    for (name, facts) in &all {
        let cycle = facts.largest_cycle();
        let (function, file) = (&facts.longest_function, &facts.longest_file);
        println!(
            "{name:<20} {:>5} {:>6} {:>6} {:>9} {:>5}  {} ({}), {} ({})",
            facts.files,
            facts.lines,
            facts.unsafe_blocks,
            facts.unsafe_functions,
            cycle.len(),
            function.1,
            function.0,
            file.1,
            file.0,
        );
        if options.cycles && cycle.len() > 1 {
            let names: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            println!("{:<20} {}", "", names.join(" "));
        }
    }
    let sum = |of: fn(&Facts) -> usize| all.values().map(of).sum::<usize>();
    println!(
        "{:<20} {:>5} {:>6} {:>6} {:>9}",
        "in all",
        sum(|facts| facts.files),
        sum(|facts| facts.lines),
        sum(|facts| facts.unsafe_blocks),
        sum(|facts| facts.unsafe_functions),
    );
    Ok(())
}

/// Fails unless the numbers of the code are those of [`MOST`].
pub fn check() -> Result<()> {
    let all = all()?;
    for (name, facts) in &all {
        let (_, blocks, files) = MOST
            .iter()
            .find(|(known, ..)| known == name)
            .with_context(|| format!("{name} is not listed in xtask/src/tidy/structure.rs"))?;
        let now = (facts.unsafe_blocks, facts.largest_cycle().len());
        ensure!(
            now.0 <= *blocks && now.1 <= *files,
            "{name} has {} unsafe blocks and a circle of {} files that import each other; it had {blocks} and {files}: \
             do without the new ones (cargo xtask structure --cycles)",
            now.0,
            now.1
        );
        ensure!(
            now == (*blocks, *files),
            "{name} has {} unsafe blocks and a circle of {} files now: write these numbers into xtask/src/tidy/structure.rs",
            now.0,
            now.1
        );
    }
    Ok(())
}

/// Of all crates of the workspace.
fn all() -> Result<BTreeMap<String, Facts>> {
    let own = crates::read()?.all.into_iter().filter(|one| one.ours);
    own.map(|one| Ok((one.name, Facts::of(&one.folder.join("src"))?)))
        .collect()
}

impl Facts {
    fn of(source: &Path) -> Result<Facts> {
        let mut facts = Facts::default();
        let files = paths::rust_files(source)?;
        let modules: BTreeSet<Module> = files.iter().map(|file| module_of(source, file)).collect();
        for path in &files {
            let text = fs::read_to_string(path)?;
            let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
            let name = path.strip_prefix(source).unwrap_or(path);
            let mut seen = Seen {
                module: module_of(source, path),
                modules: &modules,
                facts: &mut facts,
                tests: 0,
            };
            seen.visit_file(&parsed);
            let lines = text.lines().count() - seen.tests;
            facts.files += 1;
            facts.lines += lines;
            if lines > facts.longest_file.0 {
                facts.longest_file = (lines, name.display().to_string());
            }
        }
        Ok(facts)
    }

    /// Largest strongly connected component of the import graph.
    fn largest_cycle(&self) -> BTreeSet<Module> {
        let reach = |from: &Module| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(module) = next.pop() {
                for to in self.imports.get(module).into_iter().flatten() {
                    if reached.insert(to.clone()) {
                        next.push(to);
                    }
                }
            }
            reached
        };
        let all: BTreeMap<&Module, BTreeSet<Module>> = self
            .imports
            .keys()
            .map(|from| (from, reach(from)))
            .collect();
        let cycles = all.iter().map(|(from, reached)| {
            let back = |to: &&Module| all.get(to).is_some_and(|reached| reached.contains(*from));
            reached
                .iter()
                .filter(back)
                .cloned()
                .collect::<BTreeSet<Module>>()
        });
        cycles.max_by_key(BTreeSet::len).unwrap_or_default()
    }
}

fn module_of(source: &Path, file: &Path) -> Module {
    let inside = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let mut module: Module = inside
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        module.pop();
    }
    module
}

/// Visitor of one file.
struct Seen<'a> {
    module: Module,
    modules: &'a BTreeSet<Module>,
    facts: &'a mut Facts,
    /// Number of lines in tests.
    tests: usize,
}

impl Seen<'_> {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        self.facts.unsafe_functions += usize::from(signature.unsafety.is_some());
        let lines = lines(body.span());
        if lines > self.facts.longest_function.0 {
            let path = [&self.module[..], &[signature.ident.to_string()]].concat();
            self.facts.longest_function = (lines, path.join("::"));
        }
    }

    /// A path that begins with `crate`, `super` or `self`.
    fn path(&mut self, words: &[String]) {
        let mut module = match words.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super" | "self") => self.module.clone(),
            _ => return,
        };
        for word in words {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => drop(module.pop()),
                _ => {
                    module.push(word.clone());
                    if !self.modules.contains(&module) {
                        module.pop();
                        break;
                    }
                }
            }
        }
        // Imports between a module and its submodules are not counted.
        let related = module.starts_with(&self.module) || self.module.starts_with(&module);
        if !related {
            let from = self.facts.imports.entry(self.module.clone());
            from.or_default().insert(module);
        }
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |word: String| [before, &[word]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(path.ident.to_string()), &path.tree),
            syn::UseTree::Name(name) => self.path(&with(name.ident.to_string())),
            syn::UseTree::Rename(name) => self.path(&with(name.ident.to_string())),
            syn::UseTree::Glob(_) => self.path(before),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(before, tree));
            }
        }
    }
}

fn lines(span: proc_macro2::Span) -> usize {
    span.end().line - span.start().line + 1
}

/// Whether an item exists for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let only = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(only)
    })
}

impl<'a> Visit<'a> for Seen<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        match is_test(&module.attrs) {
            true => self.tests += lines(module.span()),
            false => visit::visit_item_mod(self, module),
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let words: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        self.path(&words);
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_expr_unsafe(&mut self, block: &'a syn::ExprUnsafe) {
        self.facts.unsafe_blocks += 1;
        visit::visit_expr_unsafe(self, block);
    }
}
