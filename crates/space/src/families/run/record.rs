//! A run's record and the list of its artifacts.

use pentad_model::outcome::Product;
use pentad_model::run::{Run, Stored};
use serde_json::{Value, json};

use crate::families::events::{error_of, status_of};
use crate::show;

/// Names of streams; everything else that is stored is an artifact.
pub(super) const STREAMS: [&str; 3] = ["output", "stdout", "stderr"];

pub(super) fn record(run: &Run) -> Product {
    let address = format!("run:{}", run.id);
    let mut text = format!(
        "# {}\n\n{address} · {}{}\n\n",
        show::line(&run.title, 200),
        status_of(run.status),
        error_of(run.error.as_ref())
    );
    let mut fact = |name: &str, value: &str| text.push_str(&format!("- {name}: {value}\n"));
    if let Some(name) = &run.name {
        fact("name", name.as_str());
    }
    if let Some(tool) = &run.tool {
        let version = run.tool_cid.as_deref().unwrap_or("unknown version");
        fact("tool", &format!("{} ({version})", show::code(tool)));
    }
    fact("thread", &format!("thread:{}", run.thread));
    if let Some(parent) = run.parent {
        fact("parent", &format!("run:{parent}"));
    }
    let caller = match &run.caller.on_behalf_of {
        Some(other) => format!("{} for {other}", run.caller.actor),
        None => run.caller.actor.to_string(),
    };
    fact("started by", &format!("{caller}, {}", show::time(run.created_at)));
    fact("changed", &show::time(run.updated_at));
    let grants: Vec<String> = run.grants.iter().map(ToString::to_string).collect();
    fact(
        "grants",
        &if grants.is_empty() {
            "none".to_owned()
        } else {
            grants.join(", ")
        },
    );
    text.push_str("\nInput:\n");
    text.push_str(&json_block(&run.input));
    if let Some(output) = &run.output {
        text.push_str("\nResult:\n");
        text.push_str(&json_block(output));
    }
    let streams: Vec<String> = run
        .stored
        .iter()
        .map(|(name, stored)| line(&address, name, stored))
        .collect();
    if !streams.is_empty() {
        text.push_str("\nKept:\n");
        text.push_str(&streams.concat());
    }
    text.push_str(&format!(
        "\nNext: read {address}/journal shows what it did, step by step.\n"
    ));
    let value = serde_json::to_value(run).unwrap_or(Value::Null);
    Product::text(text, address).value(value)
}

fn json_block(value: &Value) -> String {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    show::fenced(&json, "json")
}

fn line(address: &str, name: &str, stored: &Stored) -> String {
    let at = match name {
        "output" => format!("{address}/output"),
        "stdout" | "stderr" => format!("{address}/output, options.stream \"{name}\""),
        _ => format!("{address}/artifacts/{name}"),
    };
    let cut = if stored.truncated {
        ", cut at the capture limit"
    } else {
        ""
    };
    format!(
        "- {name}: {}, {}{cut} · {at}\n",
        stored.mime,
        show::size(stored.bytes)
    )
}

pub(super) fn artifacts(run: &Run) -> Product {
    let address = format!("run:{}", run.id);
    let kept: Vec<(&String, &Stored)> = run
        .stored
        .iter()
        .filter(|(name, _)| !STREAMS.contains(&name.as_str()))
        .collect();
    let mut text = format!("# Artifacts of {address}\n\n");
    for (name, stored) in &kept {
        text.push_str(&line(&address, name, stored));
    }
    if kept.is_empty() {
        text.push_str(&format!(
            "None. Next: read {address}/output shows what it printed.\n"
        ));
    }
    let list: Vec<Value> = kept
        .iter()
        .map(|(name, stored)| {
            json!({
                "name": name,
                "address": format!("{address}/artifacts/{name}"),
                "size": stored.bytes,
                "mimeType": stored.mime,
                "truncated": stored.truncated,
            })
        })
        .collect();
    let at = format!("{address}/artifacts");
    let value = json!({"run": run.id, "artifacts": list});
    Product::text(text, at).value(value)
}
