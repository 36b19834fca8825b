//! `docs/json.schema.json`, a JSON Schema (draft 2020-12) of what `--json` prints: the tables of `docs/json.md` for
//! programs. What commands print in tests is held to it.
//!
//! No member is required but the version, since the page says of many when they are there.

use crate::docs::json_page::{self, Section};
use anyhow::{ensure, Context, Result};
use serde_json::{json, Map, Value};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
const VERSION: &str = "schema_version";

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
        "properties": { VERSION: { "const": 1 } },
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
        let types = of_types(types).with_context(|| path.clone())?;
        at(&mut own, path).extend(types);
    }
    for (place, other) in &section.included {
        let included = json!([{ "$ref": reference(other) }]);
        match place.is_empty() {
            true => own["allOf"] = included,
            // It may be null, which is no output of that command.
            false => {
                let place = at(&mut own, place);
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

/// The place of a member, such as `ranks[].host`, which is made with the arrays and objects on the way to it.
fn at<'a>(schema: &'a mut Value, path: &str) -> &'a mut Map<String, Value> {
    let mut place = schema;
    for segment in path.split('.') {
        let end = segment.find(['[', '{']).unwrap_or(segment.len());
        let (name, containers) = segment.split_at(end);
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
    let schema = match words[..] {
        [] => json!({ "type": types }),
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
            ("a", "string?"),
            ("b[].c", "number or `any`"),
            ("d{}.e", "boolean"),
            ("f", "number, `any`, or null"),
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
