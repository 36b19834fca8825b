//! `docs/json.md`: the members of what `--json` prints. Their names are compared with the sources of the commands, and
//! with what the commands print in tests.

use crate::harness::paths;
use crate::tidy::structure;
use anyhow::{ensure, Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;
use syn::visit::{self, Visit};

const PAGE: &str = "docs/json.md";
/// Sources of the commands. All files there with `json!` belong to [`SOURCES`].
const COMMANDS: &str = "cli/src";
/// The member that every output has, and the file that adds it.
const VERSION: &str = "schema_version";
const OF_ALL: &str = "cli/src/ui/json.rs";
/// Name of the section before those of the commands: what each prints if it fails.
pub const FAILURE: &str = "failure";
/// Section about the lines of a job's history.
pub const HISTORY: &str = "events.jsonl";
/// Words on the page behind which it names a command whose members belong to another output as well.
const INCLUDED: &str = "the members of `stasis ";

/// Files that print the output of a command.
const SOURCES: [(&str, &[&str]); 20] = [
    ("checkpoint", &["cli/src/commands/checkpoint.rs"]),
    ("status", &["cli/src/commands/status.rs"]),
    ("profile", &["cli/src/commands/profile.rs"]),
    (
        "report",
        &["cli/src/commands/report.rs", "cli/src/report/story.rs"],
    ),
    // The history of a job is no output. Its types are below.
    (HISTORY, &[]),
    ("jobs", &["cli/src/commands/jobs.rs"]),
    ("stop", &["cli/src/commands/stop.rs"]),
    (
        "stacks",
        &["cli/src/commands/stacks.rs", "cli/src/explain/stacks.rs"],
    ),
    ("explain", &["cli/src/explain/json.rs"]),
    ("list", &["cli/src/commands/list.rs"]),
    ("verify", &["cli/src/commands/verify.rs"]),
    ("inspect", &["cli/src/commands/inspect.rs"]),
    (
        "restart",
        &[
            "cli/src/commands/restart.rs",
            "cli/src/check/file_preview.rs",
        ],
    ),
    ("diff", &["cli/src/commands/diff.rs"]),
    ("compact", &["cli/src/commands/compact.rs"]),
    ("drain", &["cli/src/commands/drain.rs"]),
    ("compare", &["cli/src/commands/compare.rs"]),
    ("record-info", &["cli/src/commands/record_info.rs"]),
    ("version", &["cli/src/commands/version.rs"]),
    ("doctor", &["cli/src/commands/doctor.rs"]),
];
/// Types that are serialised into the output of a command.
const TYPES: [(&str, &str, &[&str]); 6] = [
    ("inspect", "common/job-spec/src/lib.rs", &["ForCpu"]),
    (
        "profile",
        "common/profile/src/sum.rs",
        &["Job", "Sums", "FunctionSum"],
    ),
    (
        "profile",
        "common/profile/src/file.rs",
        &["Rank", "Function", "SizeClass", "Communicator", "Datatype"],
    ),
    (
        HISTORY,
        "common/history/src/event.rs",
        &[
            "Entry",
            "Event",
            "Start",
            "Checkpoint",
            "Slowest",
            "RankTime",
        ],
    ),
    (
        "restart",
        "loader/src/process_state/files/outlook.rs",
        &["Listed", "Fate"],
    ),
    ("restart", "undo/src/outlook.rs", &["Change", "Deed"]),
];

/// The members of a command's output, as paths such as `ranks[].host`.
type Members = BTreeSet<String>;

/// Fails with a line for each name that only the page or only the sources have.
pub fn check() -> Result<()> {
    let page = page()?;
    let printing = files_with_json()?;
    let known: BTreeSet<String> = SOURCES
        .iter()
        .flat_map(|(_, files)| files.iter().map(|file| (*file).to_owned()))
        .chain([OF_ALL.to_owned()])
        .collect();
    let mut wrong: Vec<String> = printing
        .difference(&known)
        .map(|file| format!("{file} prints JSON, and SOURCES does not have it"))
        .collect();
    for (command, files) in SOURCES {
        let mut written = BTreeSet::new();
        for file in files {
            written.extend(names_in(&read(file)?).with_context(|| file.to_owned())?);
        }
        for (_, file, types) in TYPES.iter().filter(|one| one.0 == command) {
            written.extend(fields_of(&read(file)?, types).with_context(|| file.to_owned())?);
        }
        let section = page.get(command).cloned().unwrap_or_default();
        let told = section.own.iter().flat_map(|path| words(path)).collect();
        let line = |name: &String, only: &str| format!("stasis {command}: only {only} has {name}");
        wrong.extend(
            written
                .difference(&told)
                .map(|name| line(name, "the source")),
        );
        wrong.extend(told.difference(&written).map(|name| line(name, PAGE)));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Fails if a command has printed a member that the page does not have.
pub fn check_printed(command: &str, printed: &Value) -> Result<()> {
    let known = all_members(page()?, command);
    let mut found = Members::new();
    paths_in(printed, "", &known, &mut found);
    let missing: Vec<&String> = found.difference(&known).collect();
    ensure!(
        missing.is_empty(),
        "stasis {command} has printed members that {PAGE} does not have: {missing:?}"
    );
    Ok(())
}

/// The sections of the page, which is read once: tests ask for some outputs again and again.
pub fn page() -> Result<&'static BTreeMap<String, Section>> {
    static SECTIONS: OnceLock<BTreeMap<String, Section>> = OnceLock::new();
    if let Some(sections) = SECTIONS.get() {
        return Ok(sections);
    }
    let text = read(PAGE)?;
    Ok(SECTIONS.get_or_init(|| sections(&text)))
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(paths::root().join(file)).with_context(|| file.to_owned())
}

/// The part of the page about one command.
#[derive(Clone, Default)]
pub struct Section {
    own: Members,
    /// The types of these, as on the page.
    pub types: BTreeMap<String, String>,
    /// Members, or the empty path, below which the output of another command is.
    pub included: Vec<(String, String)>,
}

fn sections(page: &str) -> BTreeMap<String, Section> {
    let mut sections = BTreeMap::new();
    for (index, part) in page.split("\n## ").enumerate() {
        let (head, text) = part.split_once('\n').unwrap_or((part, ""));
        let command = match index {
            0 => FAILURE,
            _ => head
                .trim_start_matches("stasis ")
                .split([' ', ','])
                .next()
                .unwrap_or(head),
        };
        let mut section = Section::default();
        for line in text.lines() {
            let row = line
                .strip_prefix("| `")
                .and_then(|rest| rest.split_once(" | "));
            let told: Vec<String> = match row {
                Some((names, _)) => names
                    .split(", ")
                    .map(|name| name.replace('`', ""))
                    .collect(),
                None => Vec::new(),
            };
            if let Some((_, other)) = line.split_once(INCLUDED) {
                let other = other.split(['`', ' ']).next().unwrap_or(other);
                let places = if told.is_empty() {
                    vec![String::new()]
                } else {
                    told.clone()
                };
                let places = places.into_iter().map(|place| (place, other.to_owned()));
                section.included.extend(places);
            }
            let types = row.and_then(|(_, rest)| rest.split(" |").next());
            for (path, its) in told
                .iter()
                .zip(types_of(types.unwrap_or_default(), told.len()))
            {
                section.types.insert(path.clone(), its);
            }
            section.own.extend(told);
        }
        sections.insert(command.to_owned(), section);
    }
    sections
}

/// The types of a row with this number of names: one for all, or one for each.
fn types_of(cell: &str, names: usize) -> Vec<String> {
    let each: Vec<String> = cell.split(", ").map(str::to_owned).collect();
    match names > 1 && each.len() == names {
        true => each,
        false => vec![cell.to_owned(); names],
    }
}

/// The members of a command's output, those from other commands and all objects and arrays on the way among them.
fn all_members(page: &BTreeMap<String, Section>, command: &str) -> Members {
    let mut all = Members::from([VERSION.to_owned()]);
    let Some(section) = page.get(command) else {
        return all;
    };
    let mut add = |path: &str| {
        let ends = path.match_indices(['.', '[', '{']).map(|(at, _)| at);
        all.extend(ends.chain([path.len()]).map(|end| path[..end].to_owned()));
    };
    section.own.iter().for_each(|path| add(path));
    for (place, other) in &section.included {
        let members = page.get(other).map(|section| &section.own);
        for path in members.into_iter().flatten() {
            add(join(place, path).as_str());
        }
    }
    all
}

fn join(place: &str, name: &str) -> String {
    match place.is_empty() {
        true => name.to_owned(),
        false => format!("{place}.{name}"),
    }
}

/// The paths of all members of a value. The names of an object that the page describes by `{}` are data.
fn paths_in(value: &Value, place: &str, known: &Members, found: &mut Members) {
    match value {
        Value::Array(elements) => {
            let place = format!("{place}[]");
            // A tree has the same members at each depth.
            let place = place.replace(".inner[].inner[]", ".inner[]");
            for element in elements {
                paths_in(element, &place, known, found);
            }
        }
        Value::Object(members) => {
            let of_data = format!("{place}{{}}");
            let is_data = known.iter().any(|path| path.starts_with(&of_data));
            for (name, member) in members {
                let path = match is_data {
                    true => of_data.clone(),
                    false => join(place, name),
                };
                if !is_data {
                    found.insert(path.clone());
                }
                paths_in(member, &path, known, found);
            }
        }
        _ => {}
    }
}

/// The names in a path.
fn words(path: &str) -> impl Iterator<Item = String> + '_ {
    let words = path.split('.');
    words.map(|word| {
        word.trim_end_matches("[]")
            .trim_end_matches("{}")
            .to_owned()
    })
}

/// The files below [`COMMANDS`] in which `json!` is used, as paths from the root.
fn files_with_json() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for file in paths::rust_files(&paths::root().join(COMMANDS))? {
        let text = fs::read_to_string(&file)?;
        if !names_in(&text)?.is_empty() {
            let path = file.strip_prefix(paths::root()).unwrap_or(&file);
            found.insert(path.display().to_string());
        }
    }
    Ok(found)
}

/// Names of members that a source writes by `json!` or by an assignment to `object["name"]`.
fn names_in(source: &str) -> Result<BTreeSet<String>> {
    let mut found = Written::default();
    found.visit_file(&syn::parse_file(source)?);
    Ok(found.0)
}

#[derive(Default)]
struct Written(BTreeSet<String>);

impl Written {
    fn tokens(&mut self, tokens: TokenStream, inside: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    self.tokens(group.stream(), group.delimiter() == Delimiter::Brace);
                }
                TokenTree::Literal(literal) if inside => {
                    let next = tokens.get(at + 1);
                    let is_name =
                        matches!(next, Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
                    if let (true, Ok(name)) =
                        (is_name, syn::parse_str::<syn::LitStr>(&literal.to_string()))
                    {
                        self.0.insert(name.value());
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Written {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !structure::is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        if call
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "json")
        {
            self.tokens(call.tokens.clone(), false);
        }
    }

    fn visit_expr_assign(&mut self, assignment: &'a syn::ExprAssign) {
        if let syn::Expr::Index(place) = &*assignment.left {
            if let syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(name),
                ..
            }) = &*place.index
            {
                self.0.insert(name.value());
            }
        }
        visit::visit_expr_assign(self, assignment);
    }
}

/// Names of the serialised members of these types.
fn fields_of(source: &str, types: &[&str]) -> Result<BTreeSet<String>> {
    let file = syn::parse_file(source)?;
    let mut found = BTreeSet::new();
    for name in types {
        let mut items = file.items.iter();
        let fields = items.find_map(|item| match item {
            syn::Item::Struct(one) if one.ident == name => Some(names_of(&one.fields)),
            syn::Item::Enum(one) if one.ident == name => {
                let fields = one
                    .variants
                    .iter()
                    .flat_map(|variant| names_of(&variant.fields));
                Some(tag(&one.attrs).into_iter().chain(fields).collect())
            }
            _ => None,
        });
        found.extend(fields.with_context(|| format!("there is no {name}"))?);
    }
    Ok(found)
}

/// Names of fields, without those whose own fields take their place.
fn names_of(fields: &syn::Fields) -> Vec<String> {
    let is_flat = |field: &&syn::Field| {
        let attributes = field
            .attrs
            .iter()
            .filter(|one| one.path().is_ident("serde"));
        let mut lists = attributes.filter_map(|one| one.meta.require_list().ok());
        lists.any(|list| list.tokens.to_string() == "flatten")
    };
    let named = fields.iter().filter(|field| !is_flat(field));
    named
        .filter_map(|field| Some(field.ident.as_ref()?.to_string()))
        .collect()
}

/// The member that names the variant: of `#[serde(tag = "what")]`.
fn tag(attributes: &[syn::Attribute]) -> Option<String> {
    let serde = attributes.iter().filter(|one| one.path().is_ident("serde"));
    let mut lists = serde.filter_map(|one| one.meta.require_list().ok());
    lists.find_map(|list| {
        let text = list.tokens.to_string();
        let (_, rest) = text.split_once("tag = \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PAGE: &str = "\
# Page

## stasis one

| member | type | |
|---|---|---|
| `a`, `b[].c` | number, string | |
| `of{}.d` | number | |
| `last` | object? | with the members of `stasis two` |

## stasis two --flag

| member | type | |
|---|---|---|
| `e` | number | such as `x` |
| `tree.inner[].f` | number | |

It has the members of `stasis one`, too.
";

    fn missing(command: &str, printed: &Value) -> Vec<String> {
        let page = sections(PAGE);
        let known = all_members(&page, command);
        let mut found = Members::new();
        paths_in(printed, "", &known, &mut found);
        found.difference(&known).cloned().collect()
    }

    #[test]
    fn printed_members_are_looked_up() {
        let good = json!({ "schema_version": 1, "a": 1, "b": [{ "c": 2 }], "of": { "x": { "d": 1 } }, "last": { "e": 1 } });
        assert_eq!(missing("one", &good), [""; 0]);
        let bad = json!({ "b": [{ "x": 2 }], "of": { "x": { "y": 1 } }, "last": { "a": 1 } });
        assert_eq!(missing("one", &bad), ["b[].x", "last.a", "of{}.y"]);
        let tree = json!({ "a": 1, "tree": { "inner": [{ "f": 1, "inner": [{ "f": 1, "inner": [] }] }] } });
        assert_eq!(missing("two", &tree), ["tree.inner[].inner"]);
    }

    #[test]
    fn names_are_found_in_sources() {
        let source = "
            fn f() { json!({ \"a\": x.map(|y| json!({ \"b\": \"c\", })), \"d\": \"e\" }); object[\"f\"] = 1; }
            #[cfg(test)]
            mod tests { fn g() { json!({ \"h\": 1 }); } }";
        let names: Vec<String> = names_in(source).unwrap().into_iter().collect();
        assert_eq!(names, ["a", "b", "d", "f"]);
        let source = "
            #[serde(tag = \"what\", rename_all = \"kebab-case\")] enum E { A, B { c: u8 } }
            struct S { d: u8, #[serde(flatten)] e: E }";
        let names: Vec<String> = fields_of(source, &["E", "S"])
            .unwrap()
            .into_iter()
            .collect();
        assert_eq!(names, ["c", "d", "what"]);
        assert!(fields_of(source, &["T"]).is_err());
    }
}
