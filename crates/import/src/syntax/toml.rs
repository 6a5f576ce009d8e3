//! TOML, as Codex writes it.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, TableLike};

use super::splice::{is_blank, line_end, line_start};
use super::{GONE, MapEdit, MapRestore, Splice, SyntaxError, line_break};

fn invalid(text: &str, error: &toml_edit::TomlError) -> SyntaxError {
    SyntaxError::Invalid {
        form: "TOML",
        line: pentad_keeper::config::line_at(text, error.span().map_or(0, |span| span.start)),
        reason: "it is not a table, or a key and its value".to_owned(),
    }
}

pub fn read(text: &str) -> Result<Value, SyntaxError> {
    Document::parse(text).map_err(|error| invalid(text, &error))?;
    toml_edit::de::from_str(text).map_err(|error| SyntaxError::Invalid {
        form: "TOML",
        line: pentad_keeper::config::line_at(text, error.span().map_or(0, |span| span.start)),
        reason: "a value is of no kind that is known".to_owned(),
    })
}

pub fn edit(text: &str, edit: &MapEdit) -> Result<String, SyntaxError> {
    let document = Document::parse(text).map_err(|error| invalid(text, &error))?;
    let item = edit
        .path
        .iter()
        .try_fold(document.as_item(), |item, key| item.get(key))
        .ok_or(GONE)?;
    if item.is_inline_table() {
        return edit_inline(text, edit);
    }
    let pieces = pieces(text, &edit.path, &edit.remove)?;
    let mut splice = Splice::new(text);
    let mut insert = edit.insert.as_ref();
    for piece in &pieces {
        let lines = line_start(text, piece.range.start)..line_end(text, piece.range.end);
        match insert.take() {
            Some((name, value)) => {
                let new = entry(text, &edit.path, piece, name, value).ok_or(GONE)?;
                splice.replace(lines, new);
            }
            None => splice.cut(with_blank_lines(text, lines)),
        }
    }
    splice.finish().ok_or(GONE)
}

/// Returns the parts of entries in their order.
fn pieces(text: &str, path: &[String], names: &[String]) -> Result<Vec<Piece>, SyntaxError> {
    let document = Document::parse(text).map_err(|error| invalid(text, &error))?;
    let map = path
        .iter()
        .try_fold(document.as_item(), |item, key| item.get(key))
        .and_then(Item::as_table_like)
        .ok_or(GONE)?;
    let mut pieces = Vec::new();
    for name in names {
        let (key, item) = map.get_key_value(name).ok_or(GONE)?;
        collect(key, item, &mut pieces).ok_or(GONE)?;
    }
    pieces.sort_by_key(|piece: &Piece| piece.range.start);
    Ok(pieces)
}

pub fn restore(now: &str, old: &str, change: &MapRestore) -> Result<String, SyntaxError> {
    let entry = change.entry.clone().ok_or(GONE)?;
    let mut text = String::new();
    let mut end = None;
    for piece in pieces(old, &change.path, &change.removed)? {
        let lines = line_start(old, piece.range.start)..line_end(old, piece.range.end);
        if end.is_some_and(|end| end < lines.start) {
            text.push_str(line_break(now));
        }
        end = Some(lines.end);
        let piece = old.get(lines).ok_or(GONE)?;
        text.push_str(piece.trim_end_matches(['\r', '\n']));
        text.push_str(line_break(now));
    }
    let mut splice = Splice::new(now);
    for piece in pieces(now, &change.path, &[entry])? {
        let lines = line_start(now, piece.range.start)..line_end(now, piece.range.end);
        splice.replace(lines, std::mem::take(&mut text));
    }
    splice.finish().ok_or(GONE)
}

/// A part of an entry: a section with its header, or one key with its value.
struct Piece {
    range: Range<usize>,
    /// Where the entry's own name stands when there is no header.
    key: Option<usize>,
}

fn collect(key: &toml_edit::Key, item: &Item, pieces: &mut Vec<Piece>) -> Option<()> {
    let named = key.span()?.start;
    match item {
        Item::None => {}
        Item::Value(value) => pieces.push(Piece {
            range: named..value.span()?.end,
            key: Some(named),
        }),
        Item::Table(table) if table.is_implicit() || table.is_dotted() => {
            for (name, _) in table.iter() {
                let (inner, item) = table.get_key_value(name)?;
                let before = pieces.len();
                collect(inner, item, pieces)?;
                for piece in pieces.iter_mut().skip(before).filter(|piece| piece.key.is_some()) {
                    piece.key = Some(named);
                }
            }
        }
        Item::Table(table) => section(table, table.span()?, pieces)?,
        Item::ArrayOfTables(tables) => {
            for table in tables {
                section(table, table.span()?, pieces)?;
            }
        }
    }
    Some(())
}

fn section(table: &toml_edit::Table, header: Range<usize>, pieces: &mut Vec<Piece>) -> Option<()> {
    let mut end = header.end;
    let mut below = Vec::new();
    for (name, _) in table.iter() {
        let (key, item) = table.get_key_value(name)?;
        collect(key, item, &mut below)?;
    }
    for piece in below {
        match piece.key {
            Some(_) => end = end.max(piece.range.end),
            None => pieces.push(piece),
        }
    }
    pieces.push(Piece {
        range: header.start..end,
        key: None,
    });
    Some(())
}

/// Takes the blank lines after a section with it, so that none pile up.
fn with_blank_lines(text: &str, mut lines: Range<usize>) -> Range<usize> {
    while lines.end < text.len() {
        let end = line_end(text, lines.end);
        if !is_blank(text, lines.end..end) {
            break;
        }
        lines.end = end;
    }
    lines
}

fn entry(text: &str, path: &[String], first: &Piece, name: &str, value: &Value) -> Option<String> {
    let end = line_break(text);
    let table = value.as_object()?;
    if let Some(key) = first.key {
        let before = text.get(line_start(text, first.range.start)..key)?;
        return Some(format!("{before}{} = {}{end}", bare(name), inline(value)?));
    }
    let keys: Vec<String> = path.iter().map(|key| bare(key)).collect();
    let mut out = format!("[{}.{}]{end}", keys.join("."), bare(name));
    for (key, value) in table {
        out.push_str(&format!("{} = {}{end}", bare(key), inline(value)?));
    }
    Some(out)
}

fn bare(key: &str) -> String {
    toml_edit::Key::new(key).to_string()
}

fn inline(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => number.as_i64()?.into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => {
            let items = items.iter().map(inline).collect::<Option<Vec<_>>>()?;
            toml_edit::Value::Array(items.into_iter().collect::<Array>())
        }
        Value::Object(map) => {
            let mut table = InlineTable::new();
            for (key, value) in map {
                table.insert(key, inline(value)?);
            }
            toml_edit::Value::InlineTable(table)
        }
    })
}

/// Changes `mcp_servers = { … }`, where entries are no lines of their own.
fn edit_inline(text: &str, edit: &MapEdit) -> Result<String, SyntaxError> {
    let mut document: DocumentMut = text.parse().map_err(|error| invalid(text, &error))?;
    let map: &mut dyn TableLike = edit
        .path
        .iter()
        .try_fold(document.as_item_mut(), |item, key| item.get_mut(key))
        .and_then(Item::as_table_like_mut)
        .ok_or(GONE)?;
    for name in &edit.remove {
        map.remove(name).ok_or(GONE)?;
    }
    if let Some((name, value)) = &edit.insert {
        let value = inline(value).ok_or(GONE)?;
        map.insert(name, Item::Value(value));
    }
    Ok(document.to_string())
}
