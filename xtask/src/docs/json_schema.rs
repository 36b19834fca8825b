//! `docs/json.schema.json`, a JSON Schema (draft 2020-12) of what `--json` prints: the tables of `docs/json.md` for
//! programs. What commands print in tests is held to it.
//! The page marks members that may be missing, and the others are required.

use crate::docs::json_page::{self, Section};
use anyhow::{ensure, Context, Result};
use serde_json::{json, Map, Value};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
const VERSION: &str = "schema_version";
/// Mark of the type of a member that may be missing.
const OPTIONAL: char = '*';

/// The file's text.
pub fn text() -> Result<String> {
    Ok(format!("{:#}\n", schema()?))
}

/// Fails if what a command has printed is not of its schema.
pub fn check_printed(command: &str, printed: &Value) -> Result<()> {
    let schema = schema()?;
    let own = &schema["$defs"][command];
    ensure!(
        own.is_object(),
        "docs/json.md has nothing of stasis {command}"
    );
    let wrong = differences(&schema, own, printed, "");
    ensure!(
        wrong.is_empty() && !printed[VERSION].is_null(),
        "stasis {command} has printed what docs/json.md does not allow: {wrong:?}"
    );
    Ok(())
}

fn schema() -> Result<Value> {
    let mut commands = Map::new();
    for (command, section) in json_page::page()? {
        let own = of_section(section).with_context(|| format!("docs/json.md about {command}"))?;
        commands.insert(command.clone(), own);
    }
    let names = commands.keys();
    let any: Vec<Value> = names
        .map(|name| json!({ "$ref": reference(name) }))
        .collect();
    Ok(json!({
        "$schema": DRAFT,
        "title": "What the commands of Stasis print with --json",
        "type": "object",
        "required": [VERSION],
        "properties": { VERSION: only_version() },
        "anyOf": any,
        "$defs": commands,
    }))
}

fn reference(command: &str) -> String {
    format!("#/$defs/{command}")
}

fn of_section(section: &Section) -> Result<Value> {
    let mut own = json!({ "type": "object", "properties": {} });
    for (path, types) in &section.types {
        let is_required = !types.ends_with(OPTIONAL);
        let types = match path.as_str() {
            VERSION => only_version(),
            _ => of_types(types.trim_end_matches(OPTIONAL)).with_context(|| path.clone())?,
        };
        at(&mut own, path, is_required).extend(types);
    }
    for (place, other) in &section.included {
        let included = json!([{ "$ref": reference(other) }]);
        match place.is_empty() {
            true => own["allOf"] = included,
            // It may be null, which is no output of that command.
            false => {
                let place = at(&mut own, place, false);
                place.remove("type");
                place.insert(
                    "anyOf".into(),
                    json!([{ "$ref": reference(other) }, { "type": "null" }]),
                );
            }
        }
    }
    Ok(own)
}

fn only_version() -> Map<String, Value> {
    Map::from_iter([("const".to_owned(), json!(1))])
}

/// The place of a member, such as `ranks[].host`, which is made with the arrays and objects on the way to it. If the
/// member is required, these are, too.
fn at<'a>(schema: &'a mut Value, path: &str, is_required: bool) -> &'a mut Map<String, Value> {
    let mut place = schema;
    for segment in path.split('.') {
        let end = segment.find(['[', '{']).unwrap_or(segment.len());
        let (name, containers) = segment.split_at(end);
        if is_required {
            require(place, name);
        }
        place = &mut kind(place, "object")["properties"][name];
        for container in containers.as_bytes().chunks(2) {
            place = match container {
                b"[]" => &mut kind(place, "array")["items"],
                _ => &mut kind(place, "object")["additionalProperties"],
            };
        }
    }
    if place.is_null() {
        *place = json!({});
    }
    place.as_object_mut().expect("every place is an object")
}

fn require(object: &mut Value, name: &str) {
    if object["required"].is_null() {
        object["required"] = json!([]);
    }
    let known = object["required"].as_array_mut();
    let known = known.expect("it has just been made");
    if !known.iter().any(|other| other == name) {
        known.push(name.into());
    }
}

/// Says what a place is, unless a row of its own says it.
fn kind<'a>(place: &'a mut Value, kind: &str) -> &'a mut Value {
    if place["type"].is_null() {
        place["type"] = kind.into();
    }
    place
}

/// The schema of a type on the page, such as `number or `any`` or `string?`.
fn of_types(cell: &str) -> Result<Map<String, Value>> {
    let cell = cell.replace(", or ", ", ").replace(" or ", ", ");
    let (mut types, mut words) = (Vec::new(), Vec::new());
    for one in cell.split(", ") {
        let (name, or_null) = one
            .strip_suffix('?')
            .map_or((one, false), |name| (name, true));
        match name {
            "string" | "number" | "boolean" | "object" | "array" | "null" => types.push(name),
            word => {
                let word = word
                    .strip_prefix('`')
                    .and_then(|word| word.strip_suffix('`'));
                words.push(
                    word.with_context(|| format!("{one:?} is no type"))?
                        .to_owned(),
                );
            }
        }
        types.extend(or_null.then_some("null"));
    }
    let types = match types[..] {
        [one] => json!(one),
        _ => json!(types),
    };
    let schema = match (&types, &words[..]) {
        (_, []) => json!({ "type": types }),
        (Value::Array(none), _) if none.is_empty() => json!({ "enum": words }),
        _ => json!({ "anyOf": [{ "type": types }, { "enum": words }] }),
    };
    match schema {
        Value::Object(schema) => Ok(schema),
        _ => Ok(Map::new()),
    }
}

/// Where a value is not of a schema, as far as [`schema`] uses the language.
fn differences(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(other) = schema["$ref"].as_str() {
        let other = root.pointer(&other[1..]).unwrap_or(&Value::Null);
        wrong.extend(differences(root, other, value, place));
    }
    if let (Some(names), Value::Object(members)) = (schema["required"].as_array(), value) {
        let names = names.iter().filter_map(Value::as_str);
        let missing = names.filter(|name| !members.contains_key(*name));
        wrong.extend(missing.map(|name| format!("{place}.{name} is missing")));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        wrong.push(format!("{place} is {value}"));
    }
    if !is_of_type(&schema["type"], value)
        || schema["enum"]
            .as_array()
            .is_some_and(|all| !all.contains(value))
    {
        wrong.push(format!("{place} is {value}"));
    }
    let all = schema["allOf"].as_array().into_iter().flatten();
    wrong.extend(all.flat_map(|one| differences(root, one, value, place)));
    if let Some(any) = schema["anyOf"].as_array() {
        let mut each = any.iter().map(|one| differences(root, one, value, place));
        let first = each.next().unwrap_or_default();
        if !first.is_empty() && each.all(|one| !one.is_empty()) {
            wrong.extend(first);
        }
    }
    match value {
        Value::Array(elements) if schema["items"].is_object() => {
            let of = |element| differences(root, &schema["items"], element, &format!("{place}[]"));
            wrong.extend(elements.iter().flat_map(of));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let own = &schema["properties"][name];
                let own = if own.is_null() {
                    &schema["additionalProperties"]
                } else {
                    own
                };
                wrong.extend(differences(root, own, member, &format!("{place}.{name}")));
            }
        }
        _ => {}
    }
    wrong
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match types {
        Value::String(one) => one == own,
        Value::Array(several) => several.iter().any(|one| one == own),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(rows: &[(&str, &str)]) -> Value {
        let rows = rows
            .iter()
            .map(|(path, types)| ((*path).to_owned(), (*types).to_owned()));
        let mut section = Section::default();
        section.types.extend(rows);
        of_section(&section).unwrap()
    }

    #[test]
    fn values_are_held_to_the_types_of_the_page() {
        let schema = section(&[
            ("a", "string?*"),
            ("b[].c", "number or `any`*"),
            ("d{}.e", "boolean*"),
            ("f", "number, `any`, or null*"),
        ]);
        let wrong = |value: Value| differences(&schema, &schema, &value, "");
        let good = json!({ "a": null, "b": [{ "c": 1 }, { "c": "any" }], "d": { "x": { "e": true } }, "f": null, "more": 1 });
        assert_eq!(wrong(good), [""; 0]);
        assert_eq!(wrong(json!({ "a": 1 })), [".a is 1"]);
        assert_eq!(wrong(json!({ "b": [{ "c": "x" }] })), [".b[].c is \"x\""]);
        assert_eq!(wrong(json!({ "b": null })), [".b is null"]);
        assert_eq!(wrong(json!({ "d": { "x": { "e": 1 } } })), [".d.x.e is 1"]);
        assert_eq!(wrong(json!({ "f": "no" })), [".f is \"no\""]);
    }

    #[test]
    fn members_are_required_and_words_are_listed() {
        let schema = section(&[
            ("schema_version", "number"),
            ("a[].b", "`x` or `y`"),
            ("c", "number?"),
            ("d.e", "string*"),
        ]);
        let wrong = |value: Value| differences(&schema, &schema, &value, "");
        let good = json!({ "schema_version": 1, "a": [{ "b": "x" }], "c": null });
        assert_eq!(wrong(good), [""; 0]);
        let bad = json!({ "schema_version": 2, "a": [{}, { "b": "z" }] });
        let expected = [
            ".c is missing",
            ".a[].b is missing",
            ".a[].b is \"z\"",
            ".schema_version is 2",
        ];
        assert_eq!(wrong(bad), expected);
    }

    #[test]
    fn what_is_nothing_of_any_command_is_refused() {
        let schema = schema().unwrap();
        for value in [
            json!({ "schema_version": 1 }),
            json!({ "schema_version": 1, "jobs": "nonsense" }),
            json!({ "schema_version": 1, "time": 1, "event": "nonsense" }),
            json!({ "schema_version": 2, "time": 1, "event": "end" }),
        ] {
            assert_ne!(
                differences(&schema, &schema, &value, ""),
                [""; 0],
                "{value}"
            );
        }
    }

    #[test]
    fn an_unknown_type_is_refused() {
        assert!(of_types("text").is_err());
    }

    #[test]
    fn the_schema_is_held_by_its_own_failures() {
        let failure = json!({ "schema_version": 1, "error": "no", "exit_code": 5 });
        check_printed(json_page::FAILURE, &failure).unwrap();
        assert!(check_printed(json_page::FAILURE, &json!({ "error": "no" })).is_err());
        let wrong = json!({ "schema_version": 1, "error": 7 });
        assert!(check_printed(json_page::FAILURE, &wrong).is_err());
    }
}
