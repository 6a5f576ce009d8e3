//! `key=value` arguments as the JSON that a tool's contract asks for.

use std::str::FromStr;

use pentad_model::options::{Kind, OptionSpec};
use serde_json::{Map, Value};

use crate::failure::usage;

/// One `key=value` or `key:=JSON`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The key.
    pub key: String,
    /// The value as it was written.
    pub value: Written,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// Text whose type the contract decides.
    Text(String),
    /// JSON that is taken as it is.
    Json(Value),
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is neither key=value nor key:=JSON"))?;
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => {
                let json = serde_json::from_str(value).map_err(|error| {
                    format!("the value of '{key}' is no JSON: {error}; key=value takes plain text")
                })?;
                (key, Written::Json(json))
            }
            None => (key, Written::Text(value.to_owned())),
        };
        if key.is_empty() {
            return Err(format!("'{text}' has no key before the '='"));
        }
        Ok(Self {
            key: key.to_owned(),
            value,
        })
    }
}

/// Builds a tool's input: `base` first, pairs over it, typed by `schema` where it is known. A key that is given
/// several times is a list.
///
/// # Errors
/// Says which value does not fit the type that the contract asks for.
pub fn input(
    base: Option<&str>,
    pairs: &[Pair],
    schema: Option<&Value>,
) -> anyhow::Result<Map<String, Value>> {
    let mut input = match base {
        None => Map::new(),
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(map)) => map,
            Ok(_) => return Err(usage("--input must be a JSON object such as {\"key\": 1}")),
            Err(error) => return Err(usage(format!("--input is no JSON: {error}"))),
        },
    };
    for pair in pairs {
        if pairs.iter().find(|other| other.key == pair.key) != Some(pair) {
            continue;
        }
        let types = Types::of_property(schema, &pair.key);
        let all: Vec<&Written> = pairs
            .iter()
            .filter(|p| p.key == pair.key)
            .map(|p| &p.value)
            .collect();
        input.insert(pair.key.clone(), typed(&pair.key, &all, &types)?);
    }
    Ok(input)
}

fn typed(key: &str, all: &[&Written], types: &Types) -> anyhow::Result<Value> {
    let list = types.allows("array");
    match all {
        [Written::Json(json)] => Ok(json.clone()),
        [Written::Text(text)] => {
            if let Some(parsed) = types.structured(text) {
                Ok(parsed)
            } else if list && !types.allows("string") {
                Ok(Value::Array(vec![one(key, text, &types.items())?]))
            } else {
                one(key, text, types)
            }
        }
        several => {
            if !list && !types.is_unknown() {
                return Err(usage(format!(
                    "'{key}' is given several times, but it is no list"
                )));
            }
            let items = types.items();
            let values = several.iter().map(|written| match written {
                Written::Json(json) => Ok(json.clone()),
                Written::Text(text) => one(key, text, &items),
            });
            Ok(Value::Array(values.collect::<anyhow::Result<_>>()?))
        }
    }
}

fn one(key: &str, text: &str, types: &Types) -> anyhow::Result<Value> {
    if types.is_unknown() || types.allows("string") {
        return Ok(Value::String(text.to_owned()));
    }
    let parsed: Option<Value> = serde_json::from_str(text.trim()).ok();
    let fits = parsed.filter(|value| match value {
        Value::Null => types.allows("null"),
        Value::Bool(_) => types.allows("boolean"),
        Value::Number(number) => {
            types.allows("number")
                || (types.allows("integer")
                    && (number.is_i64()
                        || number.is_u64()
                        || number.as_f64().is_some_and(|n| n.fract() == 0.0)))
        }
        Value::Array(_) => types.allows("array"),
        Value::Object(_) => types.allows("object"),
        Value::String(_) => false,
    });
    fits.ok_or_else(|| {
        let expected = types.names.join(" or ");
        usage(format!("'{key}' must be of type {expected}; '{text}' is not"))
    })
}

/// The JSON types that a schema allows, as far as a shell needs to know them.
#[derive(Debug, Clone, Default)]
struct Types {
    names: Vec<String>,
    items: Option<Value>,
}

impl Types {
    fn of_property(schema: Option<&Value>, key: &str) -> Self {
        let Some(root) = schema else {
            return Self::default();
        };
        let property = root.get("properties").and_then(|p| p.get(key));
        let mut types = Self::default();
        if let Some(property) = property {
            types.collect(root, property, 0);
        }
        types
    }

    /// Gathers types through the keywords that schemas of tools use; what it does not know adds nothing.
    fn collect(&mut self, root: &Value, schema: &Value, depth: usize) {
        const DEEPEST: usize = 8;
        if depth > DEEPEST {
            return;
        }
        let pointed = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| target.strip_prefix('#'))
            .and_then(|pointer| root.pointer(pointer));
        if let Some(target) = pointed {
            self.collect(root, target, depth + 1);
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.add(name),
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(Value::as_str)
                .for_each(|name| self.add(name)),
            _ => {}
        }
        let constants = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        if schema.get("type").is_none() {
            for constant in constants.chain(schema.get("const")) {
                self.add(json_type(constant));
            }
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for branch in schema
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.collect(root, branch, depth + 1);
            }
        }
        if let Some(items) = schema.get("items") {
            self.items = Some(
                serde_json::json!({"properties": {"item": items}, "$defs": root.get("$defs"), "definitions": root.get("definitions")}),
            );
        }
    }

    fn add(&mut self, name: &str) {
        if !self.allows(name) {
            self.names.push(name.to_owned());
        }
    }

    fn allows(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    fn is_unknown(&self) -> bool {
        self.names.is_empty()
    }

    fn items(&self) -> Self {
        Self::of_property(self.items.as_ref(), "item")
    }

    /// A list or object written as JSON, where one is asked for.
    fn structured(&self, text: &str) -> Option<Value> {
        let value: Value = serde_json::from_str(text.trim()).ok()?;
        match &value {
            Value::Array(_) if self.allows("array") => Some(value),
            Value::Object(_) if self.allows("object") => Some(value),
            _ => None,
        }
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Builds the options of a `read` or `write` from pairs, typed by the address family's table.
///
/// What the table does not know stays a text: the refusal that follows lists what is supported.
///
/// # Errors
/// Says which value is no number, flag or object.
pub fn options(pairs: &[Pair], known: &[&[OptionSpec]]) -> anyhow::Result<Map<String, Value>> {
    let mut options = Map::new();
    for pair in pairs {
        let spec = known
            .iter()
            .flat_map(|table| table.iter())
            .find(|spec| spec.key == pair.key);
        let value = match (&pair.value, spec.map(|spec| spec.kind)) {
            (Written::Json(json), _) => json.clone(),
            (Written::Text(text), Some(Kind::Number { .. } | Kind::Flag | Kind::Object)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            (Written::Text(text), _) => Value::String(text.clone()),
        };
        if options.insert(pair.key.clone(), value).is_some() {
            return Err(usage(format!("the option '{}' is given twice", pair.key)));
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn built(words: &[&str], schema: Option<&Value>) -> anyhow::Result<Value> {
        let pairs: Vec<Pair> = words.iter().map(|word| word.parse().unwrap()).collect();
        input(None, &pairs, schema).map(Value::Object)
    }

    #[test]
    fn the_contract_decides_the_types() {
        let schema = json!({
            "properties": {
                "n": {"type": "integer"}, "x": {"type": ["number", "null"]}, "on": {"type": "boolean"},
                "s": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
                "ids": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/id"}}, {"type": "null"}]},
                "o": {"type": "object"}, "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "size": {"enum": [1, 2]}, "ref": {"$ref": "#/$defs/id"}
            },
            "$defs": {"id": {"type": "integer"}}
        });
        let words = [
            "n=5",
            "x=null",
            "on=true",
            "s=5",
            "tags=a",
            "tags=b",
            "ids=[1,2]",
            "o={\"a\":1}",
            "either=5",
            "size=2",
            "ref=7",
            "other=5",
            "raw:=[1]",
            "s2=a=b",
        ];
        assert_eq!(
            built(&words, Some(&schema)).unwrap(),
            json!({"n": 5, "x": null, "on": true, "s": "5", "tags": ["a", "b"], "ids": [1, 2], "o": {"a": 1},
                "either": "5", "size": 2, "ref": 7, "other": "5", "raw": [1], "s2": "a=b"})
        );
        assert_eq!(built(&["ids=3"], Some(&schema)).unwrap(), json!({"ids": [3]}));
        assert_eq!(built(&["tags=x"], Some(&schema)).unwrap(), json!({"tags": ["x"]}));
        assert_eq!(built(&["n=2.0"], Some(&schema)).unwrap(), json!({"n": 2.0}));
        let wrong = built(&["n=five"], Some(&schema)).unwrap_err();
        assert_eq!(wrong.to_string(), "'n' must be of type integer; 'five' is not");
        assert!(built(&["n=1.5"], Some(&schema)).is_err());
        assert!(built(&["n=1", "n=2"], Some(&schema)).is_err());
        assert!(built(&["on=yes"], Some(&schema)).is_err());
    }

    #[test]
    fn without_a_contract_values_are_texts() {
        assert_eq!(
            built(&["a=1", "b:=1", "c="], None).unwrap(),
            json!({"a": "1", "b": 1, "c": ""})
        );
        assert_eq!(built(&["a=1", "a=2"], None).unwrap(), json!({"a": ["1", "2"]}));
    }

    #[test]
    fn pairs_stand_over_the_input() {
        let pairs = ["a=2".parse().unwrap()];
        let merged = input(Some("{\"a\": 1, \"b\": 3}"), &pairs, None).unwrap();
        assert_eq!(Value::Object(merged), json!({"a": "2", "b": 3}));
        assert!(input(Some("[1]"), &[], None).is_err());
        assert!(input(Some("{"), &[], None).is_err());
    }

    #[test]
    fn malformed_pairs_say_what_is_expected() {
        for text in ["x", "=1", ":=1"] {
            assert!(text.parse::<Pair>().is_err(), "{text}");
        }
        let error = "a:=x".parse::<Pair>().unwrap_err();
        assert!(
            error.contains("is no JSON") && error.contains("key=value"),
            "{error}"
        );
    }

    #[test]
    fn options_are_typed_by_their_table() {
        let table: &[OptionSpec] =
            pentad_model::options::read_options(pentad_model::address::Family::ToolList);
        let pairs: Vec<Pair> = ["limit=5", "query=7", "odd=1"]
            .iter()
            .map(|w| w.parse().unwrap())
            .collect();
        let built = options(&pairs, &[table, pentad_model::options::VIEW]).unwrap();
        assert_eq!(
            Value::Object(built),
            json!({"limit": 5, "query": "7", "odd": "1"})
        );
        let twice: Vec<Pair> = ["limit=5", "limit=6"]
            .iter()
            .map(|w| w.parse().unwrap())
            .collect();
        assert!(options(&twice, &[table]).is_err());
    }
}
