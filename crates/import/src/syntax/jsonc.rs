//! JSON with comments, as editors and desktop applications write it.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, ParseResult};
use serde::Serialize;
use serde_json::Value;

use super::splice::{is_blank, line_end, line_start};
use super::{GONE, MapEdit, MapRestore, Splice, SyntaxError, line_break};

/// JSON with comments and trailing commas; the further liberties of JSON5 are no client's.
const fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parse(text: &str) -> Result<ParseResult<'_>, SyntaxError> {
    let collect = CollectOptions {
        comments: CommentCollectionStrategy::Off,
        tokens: true,
    };
    jsonc_parser::parse_to_ast(text, &collect, &options()).map_err(|error| SyntaxError::Invalid {
        form: "JSON",
        line: pentad_keeper::config::line_at(text, error.range().start),
        reason: error.kind().to_string(),
    })
}

pub fn read(text: &str) -> Result<Value, SyntaxError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match parse(text)?.value {
        Some(node) => Ok(node.into()),
        None => Ok(Value::Object(serde_json::Map::new())),
    }
}

/// A property, and the comma after it.
struct Entry {
    prop: Range<usize>,
    comma: Option<Range<usize>>,
    gone: bool,
}

pub fn edit(text: &str, edit: &MapEdit) -> Result<String, SyntaxError> {
    let parsed = parse(text)?;
    let commas: Vec<Range<usize>> = parsed
        .tokens
        .unwrap_or_default()
        .into_iter()
        .filter(|found| found.token == Token::Comma)
        .map(|found| found.range.start..found.range.end)
        .collect();
    let map = map_of(parsed.value.as_ref(), &edit.path).ok_or(GONE)?;
    let entries = entries(map, &commas, &edit.remove);
    let mut splice = Splice::new(text);
    let mut insert = edit.insert.as_ref();
    for entry in entries.iter().filter(|entry| entry.gone) {
        if let Some((name, value)) = insert.take() {
            let new = property(text, map, entry, name, value).ok_or(GONE)?;
            splice.replace(entry.prop.clone(), new);
            continue;
        }
        for cut in cuts(text, entry) {
            splice.cut(cut);
        }
    }
    if let Some(comma) = dangling(&entries, edit.insert.is_some()) {
        splice.cut(comma);
    }
    splice.finish().ok_or(GONE)
}

fn map_of<'v, 'a>(value: Option<&'v Node<'a>>, path: &[String]) -> Option<&'v Object<'a>> {
    let Some(Node::Object(root)) = value else {
        return None;
    };
    path.iter().try_fold(root, |object, key| child(object, key))
}

pub fn restore(now: &str, old: &str, change: &MapRestore) -> Result<String, SyntaxError> {
    let (parsed, before) = (parse(now)?, parse(old)?);
    let map = map_of(parsed.value.as_ref(), &change.path).ok_or(GONE)?;
    let old_map = map_of(before.value.as_ref(), &change.path).ok_or(GONE)?;
    let mut splice = Splice::new(now);
    let place = match &change.entry {
        Some(entry) => Some(property_named(map, entry).ok_or(GONE)?),
        None => map.properties.first(),
    };
    let Some(place) = place else {
        let whole = old.get(old_map.range.start..old_map.range.end).ok_or(GONE)?;
        splice.replace(map.range.start..map.range.end, whole.to_owned());
        return splice.finish().ok_or(GONE);
    };
    let start = line_start(now, place.range.start);
    let indent = now
        .get(start..place.range.start)
        .filter(|indent| indent.trim().is_empty());
    let separator = match indent {
        Some(indent) => format!(",{}{indent}", line_break(now)),
        None => ", ".to_owned(),
    };
    let gone = |prop: &&ObjectProp<'_>| change.removed.iter().any(|name| name == prop.name.as_str());
    let texts: Option<Vec<&str>> = old_map
        .properties
        .iter()
        .filter(gone)
        .map(|prop| old.get(prop.range.start..prop.range.end))
        .collect();
    let mut text = texts.ok_or(GONE)?.join(&separator);
    let mut range = place.range.start..place.range.end;
    if change.entry.is_none() {
        text.push_str(&separator);
        range.end = range.start;
    }
    splice.replace(range, text);
    splice.finish().ok_or(GONE)
}

fn child<'o, 'a>(object: &'o Object<'a>, key: &str) -> Option<&'o Object<'a>> {
    match &property_named(object, key)?.value {
        Node::Object(found) => Some(found),
        _ => None,
    }
}

fn property_named<'o, 'a>(object: &'o Object<'a>, key: &str) -> Option<&'o ObjectProp<'a>> {
    object.properties.iter().find(|prop| prop.name.as_str() == key)
}

fn entries(map: &Object<'_>, commas: &[Range<usize>], remove: &[String]) -> Vec<Entry> {
    let ends = map
        .properties
        .iter()
        .skip(1)
        .map(Ranged::start)
        .chain(std::iter::once(map.range.end));
    map.properties
        .iter()
        .zip(ends)
        .map(|(prop, end)| Entry {
            prop: prop.range.start..prop.range.end,
            comma: commas
                .iter()
                .find(|comma| comma.start >= prop.range.end && comma.end <= end)
                .cloned(),
            gone: remove.iter().any(|name| name == prop.name.as_str()),
        })
        .collect()
}

/// Returns the comma that would stand before the closing brace although the file had none there.
fn dangling(entries: &[Entry], inserted: bool) -> Option<Range<usize>> {
    let last = entries.last()?;
    if last.comma.is_some() || !last.gone {
        return None;
    }
    let first_gone = entries.iter().position(|entry| entry.gone);
    entries
        .iter()
        .enumerate()
        .rev()
        .find(|(place, entry)| !entry.gone || (inserted && Some(*place) == first_gone))
        .and_then(|(_, entry)| entry.comma.clone())
}

/// Returns what goes with an entry: itself, its comma, and its lines when nothing else stands on them.
fn cuts(text: &str, entry: &Entry) -> Vec<Range<usize>> {
    let mut cuts = vec![entry.prop.clone()];
    if let Some(comma) = &entry.comma {
        match cuts.first_mut() {
            Some(prop) if is_blank(text, prop.end..comma.start) => prop.end = comma.end,
            _ => cuts.push(comma.clone()),
        }
    }
    cuts.into_iter().map(|cut| with_line(text, cut)).collect()
}

fn with_line(text: &str, cut: Range<usize>) -> Range<usize> {
    let (start, end) = (line_start(text, cut.start), line_end(text, cut.end));
    let alone_before = is_blank(text, start..cut.start);
    if alone_before && is_blank(text, cut.end..end) {
        return start..end;
    }
    let spaces = text
        .get(cut.end..end)
        .map_or(0, |rest| rest.len() - rest.trim_start_matches([' ', '\t']).len());
    if alone_before {
        cut
    } else {
        cut.start..cut.end + spaces
    }
}

/// Writes the new property as its neighbours are written.
fn property(text: &str, map: &Object<'_>, entry: &Entry, name: &str, value: &Value) -> Option<String> {
    let key = Value::from(name).to_string();
    let start = line_start(text, entry.prop.start);
    let own_line = is_blank(text, start..entry.prop.start) && start > map.range.start;
    if !own_line {
        return Some(format!("{key}: {value}"));
    }
    let indent = text.get(start..entry.prop.start)?;
    let outer = line_start(text, map.range.start);
    let outer_text = text.get(outer..map.range.start)?;
    let outer_indent = outer_text.len() - outer_text.trim_start().len();
    let unit = indent
        .get(outer_indent..)
        .filter(|unit| !unit.is_empty())
        .unwrap_or("  ");
    let mut pretty = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut pretty, form))
        .ok()?;
    let pretty = String::from_utf8(pretty).ok()?;
    let lines: Vec<&str> = pretty.lines().collect();
    Some(format!(
        "{key}: {}",
        lines.join(&format!("{}{indent}", line_break(text)))
    ))
}
