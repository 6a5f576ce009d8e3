//! YAML, as goose writes it: a map of extensions, each a block of lines.

use std::ops::Range;

use serde_json::Value;

use super::splice::line_end;
use super::{GONE, MapEdit, MapRestore, Splice, SyntaxError, line_break};

const FLOW: SyntaxError = SyntaxError::Shape(
    "its extensions are not one block of lines each, so they cannot be changed one by one",
);

pub fn read(text: &str) -> Result<Value, SyntaxError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options::<Value>(text, options).map_err(|error| SyntaxError::Invalid {
        form: "YAML",
        line: error
            .location()
            .and_then(|location| usize::try_from(location.line()).ok())
            .unwrap_or(1),
        // The parser's own message quotes the line, which may hold a key.
        reason: "it cannot be understood there".to_owned(),
    })
}

/// A key of a block map with all lines of its value.
struct Block {
    lines: Range<usize>,
    name: String,
    indent: usize,
}

/// Returns the entries of the map at the end of `path`.
fn entries(text: &str, path: &[String]) -> Result<Vec<Block>, SyntaxError> {
    let mut within = 0..text.len();
    let mut found = blocks(text, within.clone(), 0)?;
    for key in path {
        let block = found.iter().find(|block| block.name == *key).ok_or(GONE)?;
        within = line_end(text, block.lines.start)..block.lines.end;
        let indent = first_indent(text, within.clone()).ok_or(FLOW)?;
        if indent <= block.indent {
            return Err(FLOW);
        }
        found = blocks(text, within.clone(), indent)?;
    }
    Ok(found)
}

pub fn restore(now: &str, old: &str, change: &MapRestore) -> Result<String, SyntaxError> {
    let blocks = entries(now, &change.path)?;
    let place = blocks
        .iter()
        .find(|block| Some(&block.name) == change.entry.as_ref())
        .ok_or(GONE)?;
    let mut text = String::new();
    for block in entries(old, &change.path)?
        .iter()
        .filter(|block| change.removed.contains(&block.name))
    {
        let lines = old.get(block.lines.clone()).ok_or(GONE)?;
        text.push_str(lines.trim_end_matches(['\r', '\n']));
        text.push_str(line_break(now));
    }
    let mut splice = Splice::new(now);
    splice.replace(place.lines.clone(), text);
    splice.finish().ok_or(GONE)
}

pub fn edit(text: &str, edit: &MapEdit) -> Result<String, SyntaxError> {
    let blocks = entries(text, &edit.path)?;
    let mut splice = Splice::new(text);
    let mut insert = edit.insert.as_ref();
    for block in blocks.iter().filter(|block| edit.remove.contains(&block.name)) {
        match insert.take() {
            Some((name, value)) => {
                let new = entry(text, &blocks, block.indent, name, value).ok_or(GONE)?;
                splice.replace(block.lines.clone(), new);
            }
            None => splice.cut(block.lines.clone()),
        }
    }
    splice.finish().ok_or(GONE)
}

/// A line that says something: not blank, no comment, no document mark.
fn is_content(line: &str) -> bool {
    let bare = line.trim();
    !(bare.is_empty() || bare.starts_with('#') || line.starts_with("---") || line.starts_with('%'))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn lines(text: &str, within: Range<usize>) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut at = within.start;
    while at < within.end {
        let end = line_end(text, at).min(within.end);
        if let Some(line) = text.get(at..end) {
            found.push((at..end, line));
        }
        at = end.max(at + 1);
    }
    found
}

fn first_indent(text: &str, within: Range<usize>) -> Option<usize> {
    let lines = lines(text, within);
    let line = lines.iter().find(|(_, line)| is_content(line));
    line.map(|(_, line)| indent_of(line))
}

/// Returns the keys at `indent`. A block ends with its last line of content: what follows, comments before the next
/// key included, is not its own unless it is indented deeper than the key.
fn blocks(text: &str, within: Range<usize>, indent: usize) -> Result<Vec<Block>, SyntaxError> {
    let mut blocks: Vec<Block> = Vec::new();
    for (range, line) in lines(text, within) {
        if line.trim().is_empty() {
            continue;
        }
        let deeper = indent_of(line) > indent;
        match blocks.last_mut() {
            Some(block) if deeper => block.lines.end = range.end,
            // A list may stand at its key's own indentation.
            Some(block) if line.trim_start().starts_with("- ") && indent_of(line) == indent => {
                block.lines.end = range.end;
            }
            _ if !is_content(line) => {}
            _ if indent_of(line) == indent => blocks.push(Block {
                lines: range,
                name: key_of(line)?,
                indent,
            }),
            _ => return Err(FLOW),
        }
    }
    Ok(blocks)
}

/// Reads the key of a line by reading the line up to its colon as YAML.
fn key_of(line: &str) -> Result<String, SyntaxError> {
    let bare = line.trim();
    for (at, _) in bare.match_indices(':') {
        let rest = bare.get(at + 1..).unwrap_or_default();
        if !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
            continue;
        }
        let alone = format!("{}:\n", bare.get(..at).unwrap_or_default());
        if let Ok(Value::Object(map)) = read(&alone)
            && let (1, Some(name)) = (map.len(), map.keys().next())
        {
            return Ok(name.clone());
        }
    }
    Err(FLOW)
}

/// Writes an entry of scalars, lists of scalars and empty maps, the way goose does.
fn entry(text: &str, blocks: &[Block], indent: usize, name: &str, value: &Value) -> Option<String> {
    let end = line_break(text);
    let unit = blocks
        .iter()
        .find_map(|block| first_indent(text, line_end(text, block.lines.start)..block.lines.end))
        .and_then(|inner| inner.checked_sub(indent))
        .filter(|unit| *unit > 0)
        .unwrap_or(2);
    let (outer, inner) = (" ".repeat(indent), " ".repeat(indent + unit));
    let mut out = format!("{outer}{name}:{end}");
    for (key, value) in value.as_object()? {
        match value {
            Value::Array(items) if !items.is_empty() => {
                out.push_str(&format!("{inner}{key}:{end}"));
                for item in items {
                    out.push_str(&format!("{inner}- {}{end}", scalar(item)?));
                }
            }
            value => out.push_str(&format!("{inner}{key}: {}{end}", scalar(value)?)),
        }
    }
    Some(out)
}

/// Writes a scalar; a text that YAML could take for something else, or that holds a mark of YAML's, is quoted.
fn scalar(value: &Value) -> Option<String> {
    let Value::String(text) = value else {
        let plain = !matches!(value, Value::Array(items) if !items.is_empty());
        return plain.then(|| value.to_string());
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-' | ' ');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '-')
        && !text.ends_with(' ')
        && text.chars().all(legal)
        && matches!(read(&format!("k: {text}\n")), Ok(Value::Object(map)) if map.get("k") == Some(value));
    Some(if plain { text.clone() } else { value.to_string() })
}
