//! A directory for people and models.

use pentad_model::Timestamp;
use serde_json::{Value, json};

use crate::handle::{Entry, Kind, Level};
use crate::show;

/// Renders a listing: one line an entry.
pub(super) fn markdown(address: &str, level: &Level) -> String {
    let directories = level.entries.iter().filter(|e| e.kind == Kind::Directory).count();
    let files = level.entries.iter().filter(|e| e.kind == Kind::File).count();
    let mut text = format!(
        "# {}\n\n{}, {}, {} in files of this level.\n\n",
        show::line(address, 600),
        counted(directories, "directory", "directories"),
        counted(files, "file", "files"),
        show::size(level.file_bytes)
    );
    for entry in &level.entries {
        text.push_str(&line(entry));
    }
    if level.left_out > 0 {
        text.push_str(&format!("\n{} more entries are not listed.\n", level.left_out));
    }
    text
}

fn line(entry: &Entry) -> String {
    let name = match entry.kind {
        Kind::Directory => show::code(&format!("{}/", entry.name)),
        Kind::File | Kind::Link | Kind::Special => show::code(&entry.name),
    };
    let facts = match (entry.kind, entry.entries) {
        (Kind::Directory, Some(1)) => "1 entry".to_owned(),
        (Kind::Directory, Some(entries)) => format!("{entries} entries"),
        (Kind::Directory, None) => "not readable".to_owned(),
        (Kind::File, _) => show::size(entry.size),
        (Kind::Link, _) => "symbolic link".to_owned(),
        (Kind::Special, _) => "special file, not readable".to_owned(),
    };
    format!("- {name} · {facts} · {}\n", show::time(entry.modified))
}

fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{count} {many}")
    }
}

/// Renders a listing as a value; `prefix` is what stands before an entry's name in its path.
pub(super) fn value(address: &str, prefix: &str, level: &Level) -> Value {
    let entries: Vec<Value> = level
        .entries
        .iter()
        .map(|entry| {
            let kind = match entry.kind {
                Kind::Directory => "dir",
                Kind::File => "file",
                Kind::Link => "link",
                Kind::Special => "special",
            };
            let mut one = json!({
                "path": format!("{prefix}{}", entry.name),
                "type": kind,
                "size": entry.size,
                "updatedAt": iso(entry.modified),
            });
            if let (Some(map), Some(count)) = (one.as_object_mut(), entry.entries) {
                map.remove("size");
                map.insert("entryCount".to_owned(), json!(count));
            }
            one
        })
        .collect();
    json!({
        "address": address,
        "entries": entries,
        "totalBytes": level.file_bytes,
        "leftOut": level.left_out,
    })
}

fn iso(at: Timestamp) -> String {
    at.to_string()
}
