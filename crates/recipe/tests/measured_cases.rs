//! Runs the measured cases about names, files and roots.
//!
//! A case gives the measured result, or differs by a named rule; rules know requests and measured results, never ids.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pentad_recipe::{
    Body, Form, Imports, Place, RawFile, Recipe, Root, RootFormat, RootKind, Scanner, State, normalize,
};
use serde_json::{Map, Value, json};

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn form_of(path: &str) -> Form {
    Form::of_extension(path.rsplit('.').next().unwrap()).unwrap()
}

fn raw_recipe(request: &Value) -> Value {
    let content = text_of(&request["content"]);
    match RawFile::read(form_of(request["file"].as_str().unwrap()), content.as_bytes()) {
        Ok(raw) => json!({"ok": {"raw": raw.fields, "reason": null}}),
        Err(error) => json!({"ok": {"raw": null, "reason": error.to_string()}}),
    }
}

fn write_files(root: &Path, files: &Value) {
    for (name, content) in files.as_object().unwrap() {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text_of(content)).unwrap();
    }
}

/// Reads the entry by the rules of a shared root, where the measured system's rules hold.
fn resolved_recipe(request: &Value) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    write_files(&root, &request["files"]);
    let entry = request["entry"].as_str().unwrap();
    let path = root.join(entry);
    let place = Place {
        path: Some(path.clone()),
        format: RootFormat::PiActors,
    };
    let imports = Imports::default();
    let bytes = fs::read(&path).unwrap();
    let raw = match RawFile::read(form_of(entry), &bytes) {
        Ok(raw) => raw,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let fields = match imports.resolve(&place, raw.fields) {
        Ok(resolved) => resolved.fields,
        Err(error) => return json!({"error": error.to_string().replace(root.to_str().unwrap(), "<root>")}),
    };
    match Recipe::read(
        entry.rsplit_once('.').unwrap().0,
        place,
        form_of(entry),
        &bytes,
        &imports,
    ) {
        Err(_) => json!({"ok": null}),
        Ok(recipe) => {
            let mut told = Map::new();
            told.insert("name".to_owned(), json!(recipe.name));
            if let Some(description) = &recipe.fields.description {
                told.insert("description".to_owned(), json!(description));
            }
            for name in [
                "args",
                "defaults",
                "timeout",
                "artifacts",
                "mailbox",
                "async",
                "imports",
            ] {
                if let Some(value) = fields.get(name) {
                    told.insert(name.to_owned(), value.clone());
                }
            }
            let Body::Template { document, .. } = recipe.body else {
                panic!("no template")
            };
            told.insert("template".to_owned(), plain_node(document));
            let text = Value::Object(told)
                .to_string()
                .replace(root.to_str().unwrap(), "<root>");
            json!({"ok": serde_json::from_str::<Value>(&text).unwrap()})
        }
    }
}

/// Returns a template alone if its node says nothing else.
fn plain_node(document: Value) -> Value {
    match document {
        Value::Object(node) if node.len() == 1 => node["template"].clone(),
        other => other,
    }
}

fn discover(request: &Value) -> Value {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path(), &request["files"]);
    let kinds = [RootKind::User, RootKind::Packaged];
    let names = request["roots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap());
    let roots: Vec<Root> = names
        .zip(kinds)
        .map(|(name, kind)| Root::at(dir.path().join(name), kind))
        .collect();
    let discovery = Scanner::new(roots, Imports::default()).scan();
    let shown = |path: &PathBuf| format!("<root>/{}", path.strip_prefix(dir.path()).unwrap().display());
    let of = |wanted: State| -> Vec<Value> {
        let entries = discovery.entries.iter().filter(|entry| entry.state == wanted);
        entries
            .map(|entry| json!({"id": entry.id, "path": shown(&entry.path)}))
            .collect()
    };
    let shadowed: Vec<Value> = discovery
        .entries
        .iter()
        .filter_map(|entry| {
            let first = entry.shadowed_by.as_ref()?;
            Some(json!({"id": entry.id, "path": shown(&entry.path), "shadowedBy": shown(first)}))
        })
        .collect();
    let first = |entry: &&pentad_recipe::Entry| entry.state != State::Shadowed;
    let active: Vec<Value> = discovery
        .entries
        .iter()
        .filter(first)
        .map(|entry| {
            json!({
                "id": entry.id, "path": shown(&entry.path), "tool": entry.state == State::Active,
                "disabled": entry.state == State::Disabled, "invalid": entry.state == State::Invalid,
            })
        })
        .collect();
    json!({"ok": {"active": active, "shadowed": shadowed, "invalid": of(State::Invalid), "disabled": of(State::Disabled)}})
}

/// Brings a measured result to the questions that are ours: no `recipe_dir` value, no texts of remarks.
fn normal(op: &str, measured: &Value) -> Value {
    let mut measured = measured.clone();
    match op {
        "resolved_recipe" => {
            if let Some(ok) = measured["ok"].as_object_mut() {
                ok.remove("recipe_dir");
                ok.remove("values");
                strip_recipe_dir(&mut ok["template"]);
            }
        }
        "discover" => {
            let order = |list: &mut Vec<Value>| {
                list.sort_by(|a, b| {
                    (
                        text_of(&a["id"]),
                        is_markdown(a),
                        text_of(&a["path"]).contains("/p/"),
                    )
                        .cmp(&(
                            text_of(&b["id"]),
                            is_markdown(b),
                            text_of(&b["path"]).contains("/p/"),
                        ))
                });
            };
            let ok = measured["ok"].as_object_mut().unwrap();
            ok.retain(|name, _| ["active", "shadowed", "invalid", "disabled"].contains(&name.as_str()));
            for list in ok.values_mut().filter_map(Value::as_array_mut) {
                for item in list.iter_mut().filter_map(Value::as_object_mut) {
                    for name in ["description", "shadows", "risk_labels", "diagnostics"] {
                        item.remove(name);
                    }
                }
                // Ours are in byte order, in which a capital precedes an underscore.
                order(list);
                list.sort_by_key(|item| text_of(&item["id"]));
            }
            let shadowed = ok["shadowed"].as_array_mut().unwrap();
            shadowed.sort_by_key(|item| (text_of(&item["id"]), text_of(&item["path"]).contains("/p/")));
        }
        _ => {}
    }
    measured
}

fn is_markdown(item: &Value) -> bool {
    text_of(&item["path"]).ends_with(".md")
}

fn strip_recipe_dir(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(defaults) = map.get_mut("defaults").and_then(Value::as_object_mut) {
                defaults.remove("recipe_dir");
                if defaults.is_empty() {
                    map.remove("defaults");
                }
            }
            map.values_mut().for_each(strip_recipe_dir);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_recipe_dir),
        _ => {}
    }
}

struct Rule {
    name: &'static str,
    explains: fn(&Value, &Value, Option<&Value>, &Value) -> bool,
}

const RULES: [Rule; 5] = [
    Rule {
        name: "refused as well, in our words, and nothing of a refused file is kept",
        explains: |_, measured, _, ours| {
            let refused = |answer: &Value| {
                answer.get("error").is_some() || answer["ok"].is_null() || answer["ok"]["reason"].is_string()
            };
            let (theirs, mine) = (measured["ok"]["reason"].as_str(), ours["ok"]["reason"].as_str());
            let told = theirs.zip(mine).is_none_or(|(theirs, mine)| {
                mine.starts_with(theirs) || theirs.contains("not valid JSON") || theirs.contains("JSON")
            });
            refused(measured) && refused(ours) && told
        },
    },
    Rule {
        name: "a byte order mark is skipped",
        explains: |request, _, _, ours| {
            text_of(&request["content"]).starts_with('\u{feff}') && ours["ok"]["reason"].is_null()
        },
    },
    Rule {
        name: "paths in imports count from the importing file",
        explains: |_, measured, newer, ours| {
            measured["error"]
                .as_str()
                .is_some_and(|text| text.starts_with("Recipe import not found"))
                && newer.is_some_and(|newer| normal("resolved_recipe", newer) == *ours)
        },
    },
    Rule {
        name: "an imported node's fields are the recipe's too",
        explains: |request, measured, _, ours| {
            request["files"].as_object().is_some_and(|files| files.len() > 1)
                && measured["ok"]["template"] == ours["ok"]["template"]
        },
    },
    Rule {
        name: "a mailbox is kept as written",
        explains: |_, measured, _, ours| {
            measured["ok"]["mailbox"].is_object() && measured["ok"]["template"] == ours["ok"]["template"]
        },
    },
];

#[test]
fn every_measured_case_is_the_same_or_differs_by_a_rule() {
    let document: Value =
        serde_json::from_str(include_str!("../../template/tests/cases/command-templates.json")).unwrap();
    let mut table: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = String::new();
    for case in document["cases"].as_array().unwrap() {
        let group = case["group"].as_str().unwrap();
        let request = &case["request"];
        let op = request["op"].as_str().unwrap();
        let ours = match op {
            "tool_name" => json!({"ok": normalize(request["name"].as_str().unwrap())}),
            "raw_recipe" => raw_recipe(request),
            "resolved_recipe" => resolved_recipe(request),
            "discover" => discover(request),
            _ if group == "lineage" => {
                *table
                    .entry(format!("{group}: not run (the launch ledger is not built)"))
                    .or_default() += 1;
                continue;
            }
            _ if group == "review" => {
                let reason = "drafts, their scan for secrets and their review are not built";
                *table.entry(format!("{group}: not run ({reason})")).or_default() += 1;
                continue;
            }
            _ if group == "recipe" => {
                *table.entry(format!("{group}: not run ({op})")).or_default() += 1;
                continue;
            }
            _ => continue,
        };
        let expected = normal(op, &case["result"]);
        let rule = RULES
            .iter()
            .find(|rule| (rule.explains)(request, &expected, case.get("result_0_50"), &ours));
        match (ours == expected, rule) {
            (true, _) => *table.entry(format!("{group}: same")).or_default() += 1,
            (false, Some(rule)) => *table.entry(format!("{group}: {}", rule.name)).or_default() += 1,
            (false, None) => writeln!(
                wrong,
                "{} {request}\n  measured {expected}\n  ours     {ours}",
                case["id"]
            )
            .unwrap(),
        }
    }
    assert!(wrong.is_empty(), "cases that differ without a rule:\n{wrong}");
    let table: String = table
        .iter()
        .map(|(line, count)| format!("{count:>4}  {line}\n"))
        .collect();
    insta::assert_snapshot!(table);
}
