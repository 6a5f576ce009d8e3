//! The plan for a person, and as data. Neither has a secret value, nor any value that stood in `env` or `headers`.

use std::fmt::Write as _;

use pentad_keeper::Template;
use pentad_keeper::template::{Origin, Piece};
use pentad_model::text::{excerpt, visible};
use serde_json::{Value, json};

use crate::entry::Entry;
use crate::measure::{Payload, tokens_of};
use crate::plan::{Fate, Plan, Planned};

/// Longest line that shows a command.
const MAX_COMMAND_BYTES: usize = 160;

/// Keys by which clients limit the tools of a server.
const TOOL_LIMITS: [&str; 6] = [
    "enabled_tools",
    "disabled_tools",
    "disabledTools",
    "available_tools",
    "includeTools",
    "excludeTools",
];

/// Returns the plan as text.
#[must_use]
pub fn text(plan: &Plan, payload: &Payload) -> String {
    let mut out = String::new();
    let whose = plan.file.client.map_or("A client", crate::client::Client::title);
    let _ = writeln!(out, "{whose}: {}", plan.file.path.display());
    if plan.file.path != plan.file.target {
        let _ = writeln!(out, "  which is {}", plan.file.target.display());
    }
    if plan.file.scope == crate::client::Scope::Project {
        out.push_str("  which belongs to the folder: whoever shares it needs Pentad, too\n");
    }
    section(&mut out, "Servers that move", plan, |one| match &one.fate {
        Fate::Added {
            name,
            renamed,
            entry,
            left_out,
        } => Some(added(one, name, *renamed, entry, left_out)),
        Fate::Reused { name } => Some(vec![format!("{}: is the server {name} already", from(one))]),
        Fate::Stays { .. } | Fate::Pentad => None,
    });
    section(&mut out, "Stays in the client's file", plan, |one| {
        match &one.fate {
            Fate::Stays { reason } => Some(vec![format!("{}: {}", from(one), visible(reason))]),
            Fate::Pentad => Some(vec![format!("{}: is Pentad", from(one))]),
            Fate::Added { .. } | Fate::Reused { .. } => None,
        }
    });
    for (folder, count) in &plan.elsewhere {
        let servers = if *count == 1 { "server" } else { "servers" };
        let _ = writeln!(
            out,
            "Not taken: {count} {servers} for {}; run it there.",
            visible(folder)
        );
    }
    if plan.is_empty() {
        out.push_str("There is nothing to import.\n");
        return out;
    }
    secrets(&mut out, plan);
    consent(&mut out, plan);
    let _ = writeln!(
        out,
        "The client then starts: {}",
        visible(&plan.command.join(" "))
    );
    weigh(&mut out, payload);
    out
}

fn section(out: &mut String, title: &str, plan: &Plan, lines: impl Fn(&Planned) -> Option<Vec<String>>) {
    let found: Vec<Vec<String>> = plan.servers.iter().filter_map(lines).collect();
    if found.is_empty() {
        return;
    }
    let _ = writeln!(out, "{title}:");
    for entry in found {
        for (at, line) in entry.iter().enumerate() {
            let _ = writeln!(out, "  {}{line}", if at == 0 { "" } else { "    " });
        }
    }
}

fn from(one: &Planned) -> String {
    let name = visible(&excerpt(&one.from, 64));
    match &one.folder {
        Some(folder) => format!("{name} (of {})", visible(folder)),
        None => name,
    }
}

fn added(
    one: &Planned,
    name: &str,
    renamed: Option<&str>,
    entry: &Entry,
    left_out: &[String],
) -> Vec<String> {
    let off = if entry.disabled { ", switched off" } else { "" };
    let mut lines = vec![match renamed {
        Some(why) => format!("{}: becomes {name}, since {why}{off}", from(one)),
        None => format!("{}: becomes {name}{off}", from(one)),
    }];
    lines.push(launch(entry));
    for (what, pairs) in [("env", &entry.env), ("header", &entry.headers)] {
        for (name, value) in pairs {
            lines.push(format!("{what} {}{}", visible(name), shown(value)));
        }
    }
    if let Some(cwd) = &entry.cwd {
        lines.push(format!("folder {}", visible(cwd)));
    }
    let (limits, others): (Vec<String>, Vec<String>) = left_out
        .iter()
        .map(|key| visible(key))
        .partition(|key| TOOL_LIMITS.contains(&key.as_str()));
    if !limits.is_empty() {
        let limits = limits.join(", ");
        lines.push(format!(
            "its {limits} do not move: all its tools are found then; policy.toml may deny some of call:{name}/"
        ));
    }
    if !others.is_empty() {
        lines.push(format!("left out, having no counterpart: {}", others.join(", ")));
    }
    lines
}

fn launch(entry: &Entry) -> String {
    let line = match (&entry.command, &entry.url) {
        (Some(command), _) => {
            let words = std::iter::once(command).chain(&entry.args);
            words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
        (None, Some(url)) => without_query(url),
        (None, None) => String::new(),
    };
    excerpt(&visible(&line), MAX_COMMAND_BYTES)
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{}'", word.replace('\n', "\\n"))
    } else {
        word.to_owned()
    }
}

/// What a query says is nobody's business but the server's.
fn without_query(url: &str) -> String {
    match url.split_once('?') {
        Some((address, _)) => format!("{address}?…"),
        None => url.to_owned(),
    }
}

/// Shows the references of a value, never its literals.
fn shown(value: &str) -> String {
    let Ok(template) = Template::parse(value, Origin::Foreign) else {
        return String::new();
    };
    let references: Vec<String> = template
        .pieces()
        .iter()
        .filter_map(|piece| match piece {
            Piece::Secret(name) => Some(format!("${{secret:{name}}}")),
            Piece::Env(name) => Some(format!("${{env:{name}}}")),
            Piece::Literal(_) | Piece::Command(_) => None,
        })
        .collect();
    if references.is_empty() {
        String::new()
    } else {
        format!(" with {}", references.join(" "))
    }
}

fn secrets(out: &mut String, plan: &Plan) {
    let stored: Vec<&str> = plan.stored().map(pentad_keeper::SecretName::as_str).collect();
    if !stored.is_empty() {
        let _ = writeln!(
            out,
            "Values that move into the secret store: {}",
            stored.join(", ")
        );
    }
    for asked in plan.asked() {
        let _ = writeln!(
            out,
            "The client does not have the value of {}: {} It is asked for, or set by: pentad secret set {}",
            asked.name,
            sentence(&visible(&asked.question)),
            asked.name
        );
    }
}

fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '?', '!', ':']) {
        ""
    } else {
        "."
    };
    format!("{text}{end}")
}

fn consent(out: &mut String, plan: &Plan) {
    if plan.grants.is_empty() {
        out.push_str("Each tool of these servers asks a person before its first call.\n");
    } else {
        let who = plan.file.client.map_or("", crate::client::Client::word);
        let _ = writeln!(
            out,
            "Standing grants of {who}, which then asks nobody: {}",
            plan.grants.join(", ")
        );
    }
}

fn weigh(out: &mut String, payload: &Payload) {
    let after = payload.after_bytes;
    let after = format!("5 tools, {after} bytes (about {} tokens)", tokens_of(after));
    let before = payload.known.map(|size| {
        let tools = if size.tools == 1 { "tool" } else { "tools" };
        format!(
            "{} {tools}, {} bytes (about {} tokens)",
            size.tools,
            size.bytes,
            tokens_of(size.bytes)
        )
    });
    let unknown = payload.unknown.join(", ");
    let before = match (before, unknown.is_empty()) {
        (Some(before), true) => before,
        (Some(before), false) => format!("{before} and those of {unknown}, which are not known"),
        (None, _) => format!("not known for {unknown}; --measure starts each once"),
    };
    let _ = writeln!(out, "Tool schemas before: {before}\nTool schemas after: {after}");
}

/// Returns the plan as data.
#[must_use]
pub fn value(plan: &Plan, payload: &Payload) -> Value {
    let servers: Vec<Value> = plan.servers.iter().map(planned).collect();
    let asked: Vec<Value> = plan
        .asked()
        .iter()
        .map(|asked| json!({"secret": asked.name.as_str(), "question": asked.question}))
        .collect();
    let before = payload.known.map(
        |size| json!({"tools": size.tools, "bytes": size.bytes, "estimated_tokens": tokens_of(size.bytes)}),
    );
    json!({
        "client": plan.file.client.map(crate::client::Client::word),
        "file": plan.file.path,
        "target": plan.file.target,
        "servers": servers,
        "elsewhere": plan.elsewhere.iter().map(|(folder, count)| json!({"folder": folder, "servers": count})).collect::<Vec<_>>(),
        "secrets": plan.stored().map(pentad_keeper::SecretName::as_str).collect::<Vec<_>>(),
        "asked": asked,
        "grants": plan.grants,
        "command": plan.command,
        "payload": {
            "before": before,
            "unknown": payload.unknown,
            "after": {"tools": 5, "bytes": payload.after_bytes, "estimated_tokens": tokens_of(payload.after_bytes)},
        },
    })
}

fn planned(one: &Planned) -> Value {
    let mut value = match &one.fate {
        Fate::Added {
            name,
            renamed,
            entry,
            left_out,
        } => json!({
            "from": one.from,
            "fate": "added",
            "server": name,
            "renamed": renamed,
            "launch": launch(entry),
            "env": entry.env.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "headers": entry.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "disabled": entry.disabled,
            "left_out": left_out,
        }),
        Fate::Reused { name } => json!({"from": one.from, "fate": "reused", "server": name}),
        Fate::Stays { reason } => json!({"from": one.from, "fate": "stays", "reason": reason}),
        Fate::Pentad => json!({"from": one.from, "fate": "pentad"}),
    };
    if let (Some(folder), Some(map)) = (&one.folder, value.as_object_mut()) {
        map.insert("folder".to_owned(), folder.as_str().into());
    }
    value
}
