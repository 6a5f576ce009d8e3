//! Changes fields of a Markdown tool file and leaves every other line as it is.

use serde_json::{Map, Value};

use crate::file::{Form, RawFile, end_of_front_matter, key_line, template_fence};

/// Returns the text with fields set; the result is read again, so a text that would mean something else is never returned.
pub(crate) fn set_fields(text: &str, changes: &Map<String, Value>) -> Result<String, String> {
    let before = RawFile::read(Form::Markdown, text.as_bytes()).map_err(|error| error.to_string())?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, value) in changes {
        if name == "template" && replace_fence(&mut lines, value) {
            continue;
        }
        set_front_matter(&mut lines, name, value)?;
    }
    let mut changed = lines.join(newline);
    changed.push_str(newline);
    let after = RawFile::read(Form::Markdown, changed.as_bytes()).map_err(|error| error.to_string())?;
    let mut wanted = before.fields;
    wanted.extend(changes.clone());
    match wanted
        .iter()
        .find(|(name, value)| after.fields.get(*name) != Some(value))
    {
        None => Ok(changed),
        Some((name, _)) => Err(format!(
            "{name} cannot be changed in this Markdown file without changing its meaning"
        )),
    }
}

fn replace_fence(lines: &mut Vec<String>, value: &Value) -> bool {
    let views: Vec<&str> = lines.iter().map(String::as_str).collect();
    let Some(end) = end_of_front_matter(&views) else {
        return false;
    };
    let body = views.get(end + 1..).unwrap_or_default().join("\n");
    let Some(fence) = template_fence(&body) else {
        return false;
    };
    let holds_fields = serde_json::from_str::<Value>(fence.text.trim())
        .ok()
        .and_then(|inner| inner.as_object().map(|inner| inner.contains_key("template")));
    let text = match (value, holds_fields, fence.is_json()) {
        // The fence has fields beside its template: keep them.
        (value, Some(true), _) => {
            let mut inner = serde_json::from_str::<Value>(fence.text.trim()).unwrap_or_default();
            if let Some(fields) = inner.as_object_mut() {
                fields.insert("template".to_owned(), value.clone());
            }
            pretty(&inner)
        }
        (Value::String(line), _, false) if !line.trim_start().starts_with(['{', '[', '"']) => line.clone(),
        (value, _, _) => pretty(value),
    };
    let (open, close) = (end + 1 + fence.open_line, end + 1 + fence.close_line);
    let text: Vec<String> = text.lines().map(str::to_owned).collect();
    drop(lines.splice(open + 1..close.min(lines.len()), text));
    true
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn set_front_matter(lines: &mut Vec<String>, name: &str, value: &Value) -> Result<(), String> {
    let views: Vec<&str> = lines.iter().map(String::as_str).collect();
    let end = end_of_front_matter(&views).ok_or("the front matter is not closed")?;
    let written = render(name, value);
    let at = views
        .iter()
        .take(end)
        .skip(1)
        .position(|line| key_line(line).is_some_and(|(key, _)| key == name));
    let (start, stop) = match at {
        None => (end, end),
        Some(at) => {
            let start = at + 1;
            let below = views.iter().take(end).skip(start + 1);
            let indented = |line: &&&str| line.starts_with([' ', '\t']) || line.starts_with("- ");
            (start, start + 1 + below.take_while(indented).count())
        }
    };
    drop(lines.splice(start..stop, written));
    Ok(())
}

/// Writes a field so that the line grammar and YAML read the same.
fn render(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::String(text)
            if text.contains('\n') && !text.ends_with('\n') && !text.starts_with([' ', '\n']) =>
        {
            let mut lines = vec![format!("{name}: |-")];
            lines.extend(text.lines().map(|line| {
                if line.is_empty() {
                    String::new()
                } else {
                    format!("  {line}")
                }
            }));
            lines
        }
        Value::String(text) => vec![format!("{name}: {}", render_text(text))],
        other => vec![format!("{name}: {other}")],
    }
}

fn render_text(text: &str) -> String {
    let plain_start = text
        .chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '/' || c == '~');
    let word = matches!(text, "true" | "false" | "null");
    let safe =
        plain_start && !word && !text.contains(": ") && !text.contains(" #") && !text.ends_with([':', ' ']);
    if safe {
        return text.to_owned();
    }
    // Quotes of the line grammar know no escapes: take the kind that the text does not have.
    let quote = if text.contains('"') || text.contains('\\') {
        '\''
    } else {
        '"'
    };
    format!("{quote}{text}{quote}")
}
