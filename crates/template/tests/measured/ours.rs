//! Asks our implementation what a case asks, and brings both answers into one shape.

use std::path::PathBuf;

use pentad_template::{
    ArgType, Declaration, Executor, Input, Interface, Interpreters, Limits, Repeat, Site, Template, Values,
    When, command_warnings, explain, inherit_defaults, normalize_values, read_declarations, repeat_values,
    risks, split_words, substitute,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::Case;
use crate::scripted::{Scripted, StillClock};

/// Removes from a measured answer what is presentation of its host: capture sizes, the tool's name, empty lists.
pub fn normal(case: &Case, answer: &Value) -> Value {
    let mut answer = answer.clone();
    match case.op() {
        "exec" => {
            clean(&mut answer);
            if let Some(ok) = answer["ok"].as_object_mut() {
                for name in ["text", "error"] {
                    if let Some(text) = ok.get(name).and_then(Value::as_str) {
                        let text = text.trim_start().to_owned();
                        ok.insert(name.to_owned(), json!(text));
                    }
                }
            }
        }
        "stored_args" => {
            if let Some(ok) = answer["ok"].as_object_mut() {
                ok.remove("changed");
                ok.remove("provided");
            }
        }
        _ => {}
    }
    answer
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for name in [
                "stdoutCapturedBytes",
                "stderrCapturedBytes",
                "tool",
                "truncated",
                "launch_kind",
                "evidence",
            ] {
                map.remove(name);
            }
            map.retain(|name, value| {
                name != "branches" || value.as_array().is_none_or(|list| !list.is_empty())
            });
            map.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

fn outcome<T: Into<Value>, E: ToString>(result: Result<T, E>) -> Value {
    match result {
        Ok(value) => json!({"ok": value.into()}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

fn map(value: &Value) -> Values {
    value.as_object().cloned().unwrap_or_default()
}

fn site(cwd: Option<&str>) -> Site {
    Site {
        cwd: PathBuf::from(cwd.unwrap_or("/srv/dir")),
        home: Some(PathBuf::from("/home/oracle")),
        recipe_dir: None,
        interpreters: Interpreters {
            javascript: Some(vec!["<node>".to_owned()]),
            shell: Some(vec!["<bash>".to_owned()]),
        },
    }
}

fn kind_value(kind: &ArgType) -> Value {
    match kind {
        ArgType::Enum(values) => json!({"kind": "enum", "values": values}),
        other => json!({"kind": other.word()}),
    }
}

fn kind_of(value: &Value) -> ArgType {
    let text = match value["values"].as_array() {
        Some(values) => {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            format!("x:enum({})", values.join(","))
        }
        None => format!("x:{}", value["kind"].as_str().unwrap()),
    };
    Declaration::read(&text).kind
}

pub fn answer(case: &Case) -> Value {
    let request = &case.request;
    let text = |name: &str| request[name].as_str().unwrap_or_default();
    let values = map(&request["values"]);
    match case.op() {
        "split" => {
            let words: Vec<String> = split_words(text("template"))
                .into_iter()
                .map(|w| w.text)
                .collect();
            json!({"ok": words})
        }
        "substitute" => outcome(substitute(text("token"), &values)),
        "invoke" => invoke(request, &values),
        "when" => match When::read(&request["when"]) {
            Some(when) => outcome(when.holds(&values)),
            None => json!({"error": "not a condition"}),
        },
        "repeat" => outcome(
            Repeat::read(&request["repeat"])
                .and_then(|repeat| repeat.resolve(&values))
                .map(|count| count.map_or(Value::Null, Value::from)),
        ),
        "repeat_values" => {
            let number = |name: &str| u32::try_from(request[name].as_u64().unwrap()).unwrap();
            json!({"ok": repeat_values(number("index"), number("repeat"))})
        }
        "inherit" => {
            let own = map(&request["own"]);
            let mut merged = inherit_defaults(&own, &map(&request["inherited"]));
            merged.retain(|name, _| own.contains_key(name));
            json!({"ok": merged})
        }
        "leaves" => leaves(request, &case.result),
        "arg_token" => arg_token(text("token")),
        "arg_decls" => arg_decls(text("args")),
        "stored_args" => stored_args(request),
        "arg_names" => {
            let names: Vec<String> = interface(request)
                .parameters
                .into_iter()
                .map(|p| p.name)
                .collect();
            json!({"ok": names})
        }
        "arg_types" => {
            // The measured operation looks at placeholders alone, without declarations.
            let used = interface(request).parameters.into_iter().filter(|p| !p.declared);
            let typed = used.filter(|p| p.kind != ArgType::String);
            let types: Map<String, Value> = typed.map(|p| (p.name, kind_value(&p.kind))).collect();
            json!({"ok": types})
        }
        "values" => {
            let types: Vec<(String, ArgType)> = map(&request["types"])
                .iter()
                .map(|(name, kind)| (name.clone(), kind_of(kind)))
                .collect();
            let found = |name: &str| {
                types
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, kind)| kind)
            };
            outcome(normalize_values(&values, found).map(Value::Object))
        }
        "risks" => {
            let template = Template::parse(&request["config"]).template.unwrap();
            let labels: Vec<&str> = risks(&template).into_iter().map(|risk| risk.label()).collect();
            json!({"ok": labels})
        }
        "warnings" => {
            let template = Template::parse(&request["config"]).template.unwrap();
            json!({"ok": command_warnings(&template)})
        }
        "exec" => tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(exec(request, &values)),
        other => panic!("nobody asks {other}"),
    }
}

fn invoke(request: &Value, values: &Values) -> Value {
    let parsed = Template::parse(&request["config"]);
    let Some(template) = parsed.template else {
        return json!({"error": parsed.diagnostics[0].message});
    };
    let commands = explain(&template, values, &site(request["cwd"].as_str()));
    match commands.as_slice() {
        [one] => outcome(
            one.argv
                .clone()
                .map(|argv| json!({"command": argv[0], "args": argv[1..]})),
        ),
        several => json!({"error": format!("{} commands, not one", several.len())}),
    }
}

/// Compares leaves by what they run: each measured leaf, taken alone, must run the same as ours in its place.
fn leaves(request: &Value, measured: &Value) -> Value {
    let parsed = Template::parse(&request["config"]);
    let Some(template) = parsed.template else {
        return json!({"error": parsed.diagnostics[0].message});
    };
    let run = |template: &Template| -> Vec<_> {
        explain(template, &Values::new(), &site(None))
            .into_iter()
            .map(|leaf| leaf.argv)
            .collect()
    };
    let ours = run(&template);
    let alone: Vec<_> = measured["ok"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|leaf| {
            let mut leaf = leaf.clone();
            leaf.as_object_mut().unwrap().remove("recover");
            run(&Template::parse(&leaf).template.unwrap()).remove(0)
        })
        .collect();
    if ours == alone {
        measured.clone()
    } else {
        json!({"ok": format!("{ours:?}")})
    }
}

fn interface(request: &Value) -> Interface {
    Interface::derive(&Template::parse(&request["config"]).template.unwrap())
}

fn arg_token(token: &str) -> Value {
    let declaration = Declaration::read(token);
    let mut answer = json!({"arg": declaration.name});
    if let Some(default) = &declaration.default {
        answer["defaultValue"] = json!(default);
    }
    answer["declaration"] = json!(declaration.text());
    answer["type"] = kind_value(&declaration.kind);
    json!({"ok": answer})
}

fn declared(declarations: &[Declaration]) -> Value {
    let names: Vec<&str> = declarations.iter().map(|d| d.name.as_str()).collect();
    let texts: Vec<String> = declarations.iter().map(Declaration::text).collect();
    let typed = declarations.iter().filter(|d| d.kind != ArgType::String);
    let types: Map<String, Value> = typed.map(|d| (d.name.clone(), kind_value(&d.kind))).collect();
    let defaults: Map<String, Value> = declarations
        .iter()
        .filter_map(|d| Some((d.name.clone(), json!(d.default.clone()?))))
        .collect();
    json!({"args": names, "argTypes": types, "declarations": texts, "defaults": defaults})
}

fn arg_decls(text: &str) -> Value {
    match read_declarations(text) {
        Ok(declarations) => json!({"ok": declared(&declarations)}),
        Err(error) => {
            let mut answer = declared(&[]);
            answer["error"] = json!(error.to_string());
            json!({"ok": answer})
        }
    }
}

fn stored_args(request: &Value) -> Value {
    let mut node = json!({"template": "x"});
    for field in ["args", "defaults"] {
        if let Some(value) = request.get(field) {
            node[field] = value.clone();
        }
    }
    let Some(Template::Node(node)) = Template::parse(&node).template else {
        panic!("not a node")
    };
    let mut answer = declared(&node.args.unwrap_or_default());
    for (name, value) in &node.defaults {
        answer["defaults"][name] = value.clone();
    }
    json!({"ok": answer})
}

async fn exec(request: &Value, values: &Values) -> Value {
    let launcher = Scripted::new(map(&request["script"]));
    let ended = run(request, values, &launcher).await;
    let mut answer = match ended {
        Ok(report) if report.is_success() => {
            json!({"ok": true, "text": report.text(), "details": report.details()})
        }
        Ok(report) => json!({"ok": false, "error": report.text(), "details": report.details()}),
        Err(error) => json!({"ok": false, "error": error, "details": {}}),
    };
    answer["calls"] = json!(launcher.calls());
    answer["peak"] = json!(launcher.peak());
    json!({"ok": answer})
}

async fn run(
    request: &Value,
    values: &Values,
    launcher: &Scripted,
) -> Result<pentad_template::Report, String> {
    let types = map(&request["types"]);
    let types: Vec<(String, ArgType)> = types
        .iter()
        .map(|(name, kind)| (name.clone(), kind_of(kind)))
        .collect();
    let found = |name: &str| {
        types
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, kind)| kind)
    };
    let values = normalize_values(values, found).map_err(|error| error.to_string())?;
    let parsed = Template::parse(&request["template"]);
    let Some(template) = parsed.template else {
        return Err(parsed.diagnostics[0].message.clone());
    };
    let site = site(None);
    let executor = Executor {
        launcher,
        clock: &StillClock,
        site: &site,
        limits: Limits::default(),
    };
    let cancel = CancellationToken::new();
    executor
        .run(&template, &values, Input::None, &cancel)
        .await
        .map_err(|error| error.to_string())
}
