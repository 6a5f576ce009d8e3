//! Printing foreign schemas within a limit, without ever cutting their structure.

use pentad_model::text::visible;
use serde_json::{Map, Value, json};

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Pretty,
    Compact,
}

/// A printed schema.
pub(super) struct Printed {
    pub(super) text: String,
    /// What was left out.
    pub(super) note: Option<String>,
}

/// Keywords whose value maps names to schemas.
const MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// Keywords whose value is a schema or a list of schemas.
const SCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "additionalProperties",
    "additionalItems",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Prints JSON with every character that does not show escaped; the value stays exactly the same.
pub(super) fn json(value: &Value, layout: Layout) -> String {
    let text = match layout {
        Layout::Pretty => serde_json::to_string_pretty(value),
        Layout::Compact => serde_json::to_string(value),
    }
    .unwrap_or_default();
    if visible(&text) == text {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 32);
    for c in text.chars() {
        let mut buffer = [0_u8; 4];
        let alone: &str = c.encode_utf8(&mut buffer);
        if c == '\n' || visible(alone) == alone {
            out.push(c);
        } else {
            let mut units = [0_u16; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Prints a schema in at most `limit` bytes: first it loses white space, then nested descriptions (deepest first),
/// then `examples`, then `default`s. What decides about validity is kept byte for byte; where that alone is too long,
/// an outline is printed in its place.
pub(super) fn print_within(schema: &Value, limit: usize) -> Printed {
    for layout in [Layout::Pretty, Layout::Compact] {
        let text = json(schema, layout);
        if text.len() <= limit {
            return Printed { text, note: None };
        }
    }
    let mut bare = schema.clone();
    for key in ["description", "examples", "default"] {
        strip(&mut bare, key, 0, 0);
    }
    if json(&bare, Layout::Compact).len() > limit {
        return outline(schema, limit);
    }
    without_annotations(schema, limit).unwrap_or_else(|| outline(schema, limit))
}

fn without_annotations(schema: &Value, limit: usize) -> Option<Printed> {
    let mut lean = schema.clone();
    for level in (0..=depth(schema)).rev() {
        strip(&mut lean, "description", level, 0);
        let text = json(&lean, Layout::Compact);
        if text.len() <= limit {
            let note = if level == 0 {
                "All descriptions are left out.".to_owned()
            } else {
                format!("Descriptions nested {level} or more levels deep are left out.")
            };
            return Some(Printed {
                text,
                note: Some(note),
            });
        }
    }
    let mut gone = "All descriptions".to_owned();
    for (key, words) in [("examples", " and examples"), ("default", " and defaults")] {
        strip(&mut lean, key, 0, 0);
        gone.push_str(words);
        let text = json(&lean, Layout::Compact);
        if text.len() <= limit {
            return Some(Printed {
                text,
                note: Some(format!("{gone} are left out.")),
            });
        }
    }
    None
}

/// Visits the direct subschemas of a schema.
fn subschemas<'a>(schema: &'a Map<String, Value>) -> impl Iterator<Item = &'a Value> {
    let named = MAPS
        .into_iter()
        .filter_map(|key| schema.get(key)?.as_object())
        .flat_map(Map::values);
    let direct = SCHEMAS
        .into_iter()
        .filter_map(|key| schema.get(key))
        .flat_map(|value| {
            let list: Box<dyn Iterator<Item = &'a Value>> = match value {
                Value::Array(list) => Box::new(list.iter()),
                one => Box::new(std::iter::once(one)),
            };
            list
        });
    named.chain(direct)
}

fn depth(schema: &Value) -> usize {
    schema.as_object().map_or(0, |map| {
        subschemas(map).map(|inner| 1 + depth(inner)).max().unwrap_or(0)
    })
}

/// Removes an annotation from every subschema at `from` levels or deeper. Properties of that name are no annotations.
fn strip(schema: &mut Value, key: &str, from: usize, level: usize) {
    let Some(map) = schema.as_object_mut() else { return };
    if level >= from {
        map.shift_remove(key);
    }
    for name in MAPS {
        for inner in map
            .get_mut(name)
            .and_then(Value::as_object_mut)
            .into_iter()
            .flat_map(Map::values_mut)
        {
            strip(inner, key, from, level + 1);
        }
    }
    for name in SCHEMAS {
        match map.get_mut(name) {
            Some(Value::Array(list)) => list
                .iter_mut()
                .for_each(|inner| strip(inner, key, from, level + 1)),
            Some(one) => strip(one, key, from, level + 1),
            None => {}
        }
    }
}

/// Returns names and types of the first level, as many as fit.
fn outline(schema: &Value, limit: usize) -> Printed {
    let whole = json(schema, Layout::Compact).len();
    let empty = Map::new();
    let all = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut names: Vec<&String> = all.keys().collect();
    names.sort_by_key(|name| !required.contains(&name.as_str()));
    let mut properties = Map::new();
    let mut used = 200;
    for name in names {
        let kind = all
            .get(name)
            .and_then(|p| p.get("type"))
            .cloned()
            .unwrap_or_else(|| json!("any"));
        used += json(&json!({ name.as_str(): kind }), Layout::Compact).len() + name.len() + 8;
        if used > limit {
            break;
        }
        properties.insert(name.clone(), json!({ "type": kind }));
    }
    let shown = properties.len();
    let needed: Vec<&str> = required
        .into_iter()
        .filter(|name| properties.contains_key(*name))
        .collect();
    let text = json(
        &json!({"type": "object", "properties": properties, "required": needed}),
        Layout::Compact,
    );
    Printed {
        text,
        note: Some(format!(
            "This is only an outline: {shown} of {} first-level properties of a schema of {whole} bytes.",
            all.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_go_deepest_first_and_properties_of_that_name_stay() {
        let schema = json!({
            "description": "root",
            "properties": {
                "description": {"type": "string", "description": "one deep"},
                "nested": {"properties": {"x": {"description": "two deep", "default": {"description": "data"}}}}
            }
        });
        let size = json(&schema, Layout::Compact).len();
        let printed = print_within(&schema, size - 1);
        let lean: Value = serde_json::from_str(&printed.text).unwrap();
        assert_eq!(lean["properties"]["description"]["description"], "one deep");
        assert_eq!(
            lean["properties"]["nested"]["properties"]["x"],
            json!({"default": {"description": "data"}})
        );
        assert_eq!(
            printed.note.unwrap(),
            "Descriptions nested 2 or more levels deep are left out."
        );
    }

    #[test]
    fn s15_hidden_characters_are_escaped_and_the_value_is_the_same() {
        let schema = json!({"description": "a\u{200b}b\u{e0041}\u{7f}\u{0}\n", "type": "object"});
        for layout in [Layout::Pretty, Layout::Compact] {
            let text = json(&schema, layout);
            assert_eq!(visible(&text), text);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema);
        }
    }
}
