//! `search`: memory, threads and runs at once.

use std::path::{Path, PathBuf};

use pentad_model::ToolDocument;
use pentad_model::text::{excerpt, visible};
use pentad_program::{Content, RunFilter, ThreadFilter, ToolCall, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::BuiltinParts;

/// Memory files larger than this are searched by name only.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Memory files that are looked at, at most.
const MAX_FILES: usize = 10_000;

pub(super) fn document() -> ToolDocument {
    super::read_only_document(
        "search",
        "Searches memory, threads and runs for words.",
        "Searches this agent's memory files, all of its threads and all runs for words; every word must occur, in any case. \
         Each hit has the address to read.",
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": "Words that must all occur"},
                "in": {"type": "array", "items": {"type": "string", "enum": ["memory", "threads", "runs"]},
                       "description": "Where to search; everywhere without it"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Most hits of each kind; 10 without it"}
            },
            "required": ["query"],
            "additionalProperties": false
        }),
    )
}

#[derive(Debug)]
struct Hit {
    address: String,
    title: String,
    snippet: String,
}

pub(super) async fn run(parts: &BuiltinParts, call: &ToolCall) -> Result<ToolOutput, ToolFailure> {
    let query = call
        .input
        .get("query")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let limit = call
        .input
        .get("limit")
        .and_then(Value::as_u64)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(10);
    let wanted = |kind: &str| {
        call.input
            .get("in")
            .and_then(Value::as_array)
            .is_none_or(|list| list.iter().any(|k| k.as_str() == Some(kind)))
    };
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut hits = Vec::new();
    if wanted("memory") {
        hits.extend(memory_hits(parts, call, &words, limit).await?);
    }
    if wanted("threads") {
        hits.extend(thread_hits(parts, &query, limit).await?);
    }
    if wanted("runs") {
        hits.extend(run_hits(parts, &query, limit).await?);
    }
    Ok(output(&query, &hits))
}

fn output(query: &str, hits: &[Hit]) -> ToolOutput {
    let mut text = if hits.is_empty() {
        format!(
            "Nothing in memory, threads or runs has all the words of \"{}\".\n",
            visible(query)
        )
    } else {
        format!("{} hits for \"{}\":\n", hits.len(), visible(query))
    };
    for hit in hits {
        text.push_str(&format!("- `{}` {}\n", hit.address, visible(&hit.title)));
        if !hit.snippet.is_empty() {
            text.push_str(&format!("  > {}\n", visible(&hit.snippet).replace('\n', " ")));
        }
    }
    let list: Vec<Value> = hits
        .iter()
        .map(|hit| json!({"address": hit.address, "title": hit.title, "snippet": hit.snippet}))
        .collect();
    ToolOutput {
        content: vec![Content::Text(text)],
        structured: Some(json!({"query": query, "hits": list})),
        ..ToolOutput::default()
    }
}

async fn thread_hits(parts: &BuiltinParts, query: &str, limit: usize) -> Result<Vec<Hit>, ToolFailure> {
    let filter = ThreadFilter {
        query: Some(query.to_owned()),
        limit,
        ..ThreadFilter::default()
    };
    let threads = parts
        .store
        .threads(filter)
        .await
        .map_err(|e| ToolFailure::Failed(e.to_string()))?;
    Ok(threads
        .into_iter()
        .map(|hit| Hit {
            address: format!("thread:{}", hit.thread.id),
            title: hit
                .thread
                .title
                .unwrap_or_else(|| format!("{} of {}", hit.thread.opened_by, hit.thread.created_at)),
            snippet: hit.snippet.unwrap_or_default(),
        })
        .collect())
}

async fn run_hits(parts: &BuiltinParts, query: &str, limit: usize) -> Result<Vec<Hit>, ToolFailure> {
    let filter = RunFilter {
        query: Some(query.to_owned()),
        limit,
        ..RunFilter::default()
    };
    let runs = parts
        .store
        .runs(filter)
        .await
        .map_err(|e| ToolFailure::Failed(e.to_string()))?;
    Ok(runs
        .into_iter()
        .map(|run| Hit {
            address: format!("run:{}", run.id),
            title: format!("{} ({})", run.title, run.status.word()),
            snippet: excerpt(&run.input.to_string(), 200),
        })
        .collect())
}

async fn memory_hits(
    parts: &BuiltinParts,
    call: &ToolCall,
    words: &[String],
    limit: usize,
) -> Result<Vec<Hit>, ToolFailure> {
    let root = parts.memory_dir.join(call.agent.as_str());
    let words = words.to_vec();
    let cancel = call.attendance.cancel.clone();
    tokio::task::spawn_blocking(move || {
        let mut hits = Vec::new();
        let mut seen = 0;
        walk(&root, &root, &mut |path, relative| {
            seen += 1;
            if let Some(hit) = memory_hit(path, relative, &words) {
                hits.push(hit);
            }
            hits.len() < limit && seen < MAX_FILES && !cancel.is_cancelled()
        });
        hits
    })
    .await
    .map_err(|e| ToolFailure::Failed(e.to_string()))
}

/// Visits regular files below `dir` in byte order, symbolic links left out, until `visit` says stop.
fn walk(root: &Path, dir: &Path, visit: &mut impl FnMut(&Path, &str) -> bool) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return true;
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        let go_on = if meta.is_dir() {
            walk(root, &path, visit)
        } else if meta.is_file() {
            let relative = path
                .strip_prefix(root)
                .map(|p| p.display().to_string())
                .unwrap_or_default();
            visit(&path, &relative)
        } else {
            true
        };
        if !go_on {
            return false;
        }
    }
    true
}

fn memory_hit(path: &Path, relative: &str, words: &[String]) -> Option<Hit> {
    let small = path.metadata().is_ok_and(|meta| meta.len() <= MAX_FILE_BYTES);
    let text = if small {
        std::fs::read_to_string(path).unwrap_or_default()
    } else {
        String::new()
    };
    let haystack = format!("{relative}\n{text}").to_lowercase();
    if !words.iter().all(|word| haystack.contains(word)) {
        return None;
    }
    let line = text.lines().find(|line| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word))
    });
    Some(Hit {
        address: format!("~/memory/{relative}"),
        title: relative.to_owned(),
        snippet: excerpt(line.unwrap_or_default().trim(), 200),
    })
}
